"""Markdown to rows: headings, lists, quotes, tables, emphasis and code, with visible link addresses.

The parser is rich's (CommonMark), the layout is not, so that a row knows its logical text, and a link displays its real
address. All imports are lazy, because the first paint needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from rich.cells import cell_len
from rich.markdown import Markdown

from core.patterns import compile_lazily
from tui.widgets.text_rows import Piece, TextRow, find_line_breaks, measure_pieces, slice_pieces, wrap_pieces

Highlight = Callable[[str, str], list[list[Piece]]]

_EMPHASIS: Final = {"strong": "strong", "em": "em", "s": "struck"}
_STYLES: Final = {
    "heading": "bold $text-primary",
    "strong": "bold",
    "em": "italic",
    "code": "$text-accent",
    "muted": "$foreground 60%",
    "accent": "$primary",
}
_TASK: Final = compile_lazily(r"\[([ xX])\] +")
_TASK_SIGNS: Final = {" ": "☐ ", "x": "☑ "}
_MIN_COLUMN_WIDTH: Final = 4
_MAX_WORD_WIDTH: Final = 24  # preferred minimum width of a column
_BREAKS: Final = frozenset({"<br>", "<br/>", "<br />"})


class _MarkdownLayout:
    """One pass over the tokens of one text."""

    def __init__(self, width: int, highlight: Highlight) -> None:
        self.width, self.highlight = width, highlight
        self.rows: list[TextRow] = []
        self.first: list[Piece] = []  # decoration of the next row
        self.rest: list[Piece] = []  # decoration of the rows after it
        self.lists: list[int | None] = []
        self.role = ""
        self.is_tight = False
        self.is_fresh = False  # right after the mark of a list item or a quote: no gap
        self.source = (0, 0)  # the lines of the text that are laid out now, [first, last)

    def add_gap(self) -> None:
        """Add an empty row between two blocks, none at the start and none in a tight list."""
        if self.rows and not self.is_tight:
            self.rows.append(TextRow([*self.rest], lead=_count_characters(self.rest)))

    def add_line(self, pieces: Sequence[Piece]) -> None:
        rows = wrap_pieces(pieces, self.width, first=self.first, rest=self.rest)
        if self.first is not self.rest and self.lists:
            rows[0].lead -= len(self.first[-1][0])  # the mark of an item is copied, its indentation is not
        self.add_rows(rows, self.source)
        self.first, self.is_fresh = self.rest, False

    def add_rows(self, rows: Sequence[TextRow], lines: tuple[int, int]) -> None:
        for row in rows:
            row.lines = lines
        self.rows += rows

    def add_inline(self, token: Any) -> None:
        pieces = list(_render_inline(token.children or (), self.role))
        if self.is_fresh and self.lists and pieces and (task := _TASK.match(pieces[0][0])):
            pieces[0] = (pieces[0][0][task.end() :], pieces[0][1])
            sign: Piece = (_TASK_SIGNS[task[1].lower()], "accent")
            self.first = [*self.first[:-1], sign] if self.lists[-1] is None else self.first
            pieces = pieces if self.lists[-1] is None else [sign, *pieces]
        for line in _split_lines(pieces):
            self.add_line(line)

    def add_code(self, text: str, language: str, *, is_fenced: bool) -> None:
        self.add_gap()
        room = self.width - _count_characters(self.rest) - 2
        start, end = self.source
        for line_number, line in enumerate(self.highlight(text.rstrip("\n"), language), start + is_fenced):
            rows = wrap_pieces(line, room + 2, first=[*self.first, ("  ", "")], rest=[*self.rest, ("  ", "")])
            self.add_rows(rows, (min(line_number, end - 1), min(line_number + 1, end)))
            self.first = self.rest

    def open_list(self, start: int | None, tight: bool) -> None:
        if not self.lists:
            self.add_gap()
        self.lists.append(start)
        self.is_tight = tight or len(self.lists) > 1

    def close_list(self) -> None:
        self.lists.pop()
        self.is_tight = bool(self.lists)

    def open_item(self) -> None:
        number = self.lists[-1]
        mark = "• " if number is None else f"{number}. "
        if number is not None:
            self.lists[-1] = number + 1
        self.first = [*self.rest, (mark, "accent")]
        self.rest = [*self.rest, (" " * len(mark), "")]
        self.is_fresh = True

    def close_item(self) -> None:
        self.rest = self.rest[:-1]
        self.first = self.rest


def _count_characters(pieces: Sequence[Piece]) -> int:
    return sum(len(piece[0]) for piece in pieces)


def _render_inline(tokens: Sequence[Any], role: str) -> Iterator[Piece]:
    roles, addresses = [role], [""]
    for token in tokens:
        kind = token.type
        if kind.endswith("_open"):
            addresses.append(str(token.attrs.get("href", "")))
            roles.append("link" if kind == "link_open" else _EMPHASIS.get(kind.removesuffix("_open"), roles[-1]))
        elif kind.endswith("_close"):
            roles.pop()
            if address := addresses.pop():
                yield f" ({address})", "muted"
        else:
            yield _render_leaf(token, roles[-1])


def _render_leaf(token: Any, role: str) -> Piece:
    match token.type:
        case "code_inline":
            return token.content, "code"
        case "softbreak":
            return " ", role
        case "hardbreak":
            return "\n", role
        case "html_inline" if token.content.lower() in _BREAKS:
            return "\n", role
        case "image":
            return f"{token.content} ({token.attrs.get('src', '')})", "link"
        case _:
            return token.content, role


def _split_lines(pieces: Iterable[Piece]) -> list[list[Piece]]:
    lines: list[list[Piece]] = [[]]
    for text, role in pieces:
        for index, line in enumerate(text.split("\n")):
            if index:
                lines.append([])
            lines[-1].append((line, role))
    return lines


TableCell = list[list[Piece]]  # its lines


def _render_table(layout: _MarkdownLayout, tokens: Sequence[Any]) -> None:
    """Render a table: columns as wide as they need to be while they fit, else the widest ones wrap."""
    table: list[list[TableCell]] = []
    sources: list[tuple[int, int]] = []
    alignments: list[str] = []
    for token in tokens:
        if token.type == "tr_open":
            table.append([])
            first, last = token.map or layout.source
            sources.append((first, last))
        elif token.type == "th_open":
            alignments.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
        elif token.type == "inline":
            table[-1].append(_split_lines(_render_inline(token.children or (), "strong" if len(table) == 1 else "")))
    columns = max((len(row) for row in table), default=0)
    if not columns:
        return
    layout.add_gap()
    room = layout.width - _count_characters(layout.rest) - 3 * (columns - 1)
    if room < columns * _MIN_COLUMN_WIDTH:
        _render_records(layout, table, sources)
        return
    sizes = _fit_columns(table, columns, room)
    rendered_rows = [_render_table_row(row, sizes, alignments) for row in table]
    is_ruled = any(len(lines) > 1 for lines in rendered_rows[1:])
    rule = ("─┼─".join("─" * size for size in sizes), "muted")
    lead = _count_characters(layout.rest)
    for index, (lines, source) in enumerate(zip(rendered_rows, sources, strict=True)):
        layout.add_rows([TextRow([*layout.rest, *pieces], lead=lead) for pieces in lines], source)
        if index == 0 or (is_ruled and index < len(rendered_rows) - 1):
            layout.add_rows([TextRow([*layout.rest, rule])], source)


def _fit_columns(table: Sequence[Sequence[TableCell]], columns: int, room: int) -> list[int]:
    """Return the widths of the columns. Words are not divided if all columns have room."""
    full, words = [1] * columns, [1] * columns
    for row in table:
        for column, cell in enumerate(row):
            for line in cell:
                full[column] = max(full[column], measure_pieces(line))
                longest = max(map(cell_len, "".join(text for text, _ in line).split()), default=1)
                words[column] = max(words[column], min(longest, _MAX_WORD_WIDTH))
    if sum(words) > room:
        words = [min(size, room // columns) for size in words]
    level = min(max(full), room)
    while sum(sizes := [max(low, min(size, level)) for size, low in zip(full, words, strict=True)]) > room:
        level -= 1
    return sizes


def _render_table_row(row: Sequence[TableCell], sizes: Sequence[int], alignments: Sequence[str]) -> list[list[Piece]]:
    columns = [list(_wrap_cell(cell, size)) for cell, size in zip(row, sizes, strict=False)]
    rendered_lines: list[list[Piece]] = []
    for lines in zip_longest(*columns, fillvalue=[]):
        pieces: list[Piece] = []
        for line, size, alignment in zip(lines, sizes, alignments, strict=False):
            free = size - measure_pieces(line)
            before = {"right": free, "center": free // 2}.get(alignment, 0)
            pieces += [(" " * before, ""), *line, (" " * (free - before), ""), (" │ ", "muted")]
        rendered_lines.append(pieces[:-2])  # no padding after the last column
    return rendered_lines


def _wrap_cell(cell: TableCell, width: int) -> Iterator[list[Piece]]:
    for line in cell:
        for span in find_line_breaks("".join(text for text, _ in line), width):
            yield slice_pieces(line, *span)


def _render_records(
    layout: _MarkdownLayout, table: Sequence[Sequence[TableCell]], sources: Sequence[tuple[int, int]]
) -> None:
    """Render a table that is too wide as records: its cells below one another, with their headings."""
    if len(table) == 1:
        table, sources = [[], *table], [*sources, *sources]
    head, *rest = table
    for index, (row, source) in enumerate(zip(rest, sources[1:], strict=True)):
        if index:
            layout.add_gap()
        layout.source = source
        for column, cell in enumerate(row):
            name = [*head[column][0], (": ", "muted")] if column < len(head) else []
            for number, line in enumerate(cell):
                layout.add_line([*(name if number == 0 else []), *line])


def _render_token(layout: _MarkdownLayout, token: Any) -> None:
    match token.type:
        case "heading_open":
            layout.add_gap()
            layout.role = "heading"
        case "heading_close":
            layout.role = ""
        case "paragraph_open":
            if not layout.is_fresh:
                layout.add_gap()
        case "inline":
            layout.add_inline(token)
        case "fence" | "code_block":
            language = token.info.split()[0] if token.info.strip() else ""
            layout.add_code(token.content, language, is_fenced=token.type == "fence")
        case "html_block":
            layout.add_gap()
            for line in token.content.rstrip("\n").split("\n"):
                layout.add_line([(line, "")])
        case "hr":
            layout.add_gap()
            layout.add_line([("─" * min(layout.width, 24), "muted")])
        case _:
            _render_nesting(layout, token)


def _render_nesting(layout: _MarkdownLayout, token: Any) -> None:
    match token.type:
        case "bullet_list_open" | "ordered_list_open":
            start = token.attrs.get("start", 1) if token.type.startswith("ordered") else None
            layout.open_list(start if start is None else int(start), tight=True)
        case "bullet_list_close" | "ordered_list_close":
            layout.close_list()
        case "list_item_open":
            layout.open_item()
        case "list_item_close":
            layout.close_item()
        case "blockquote_open":
            layout.add_gap()
            layout.first = layout.rest = [*layout.rest, ("▎ ", "muted")]
            layout.is_fresh = True
        case "blockquote_close":
            layout.first = layout.rest = layout.rest[:-1]


class MarkdownUnit(NamedTuple):
    """A position before which a text may be cut: a block or a list item. `is_next`: it follows another item;
    `number`: its displayed number, 0 = none."""

    line: int
    kind: str
    is_next: bool = False
    number: int = 0


def find_units(text: str) -> list[MarkdownUnit]:
    """Return top-level blocks and the items of their lists, by first line."""
    units: list[MarkdownUnit] = []
    index, start = 0, 0
    for token in Markdown(text).parsed:
        if token.nesting < 0 or token.map is None:
            continue
        kind = token.type.removesuffix("_open")
        if token.level == 0 and kind in {"bullet_list", "ordered_list"}:
            index, start = 0, int(token.attrs.get("start", kind == "ordered_list"))
        elif token.level == 0:
            units.append(MarkdownUnit(token.map[0], kind))
        elif token.level == 1 and kind == "list_item":
            units.append(MarkdownUnit(token.map[0], kind, is_next=index > 0, number=start and start + index))
            index += 1
    return units


def render_styled_markdown(text: str, width: int) -> list[Piece]:
    """Return a text as pieces with styles instead of roles, rows with their line ends, and code in one colour."""
    rows = render_markdown(text, width, lambda code, _: [[(line, "code")] for line in code.split("\n")])
    return [(piece, _STYLES.get(role, "")) for row in rows for piece, role in (*row.pieces, ("\n", ""))]


def render_markdown(text: str, width: int, highlight: Highlight) -> list[TextRow]:
    """Render clean Markdown as rows of at most `width` cells; `highlight(code, language)` gives lines."""
    layout = _MarkdownLayout(max(width, 8), highlight)
    table: list[Any] | None = None
    for token in Markdown(text).parsed:
        if token.type == "table_open":
            table = []
        elif token.type == "table_close" and table is not None:
            _render_table(layout, table)
            table = None
        elif table is not None:
            table.append(token)
        else:
            first, last = token.map or layout.source
            layout.source = (first, last)
            _render_token(layout, token)
    return layout.rows
