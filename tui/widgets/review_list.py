"""All that waits for a verdict as one list: files, directories of them where there are many, and bulks on a line each.

Rows are plain data, drawn when they are seen: ten thousand files cost no more than a screenful.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final, Literal, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from core.protocol.moves import directories
from core.protocol.review import Bulk, Change
from tui.keymap import bindings
from tui.text import named
from tui.widgets.code_view import CodeView, cells
from tui.widgets.review_words import MUTED, SIGNS, Part, badges, bulk_badges, bulk_line
from tui.widgets.side import KeysChanged

GROUPED_FROM: Final = 25  # files from which they are grouped by directory
GONE_FROM: Final = 3  # deleted files of one directory that are summed up in a line


class ListRow(NamedTuple):
    """`name`: the path of a file or a directory, the root of a bulk. `members` are indices of changes."""

    kind: Literal["file", "directory", "bulk"]
    name: str
    members: tuple[int, ...] = ()
    is_gone: bool = False
    is_open: bool = True
    depth: int = 0


def list_rows(
    changes: Sequence[Change], bulks: Sequence[Bulk], *, pattern: str = "", toggled: Collection[str] = ()
) -> list[ListRow]:
    """The rows, in order of path, bulks last. `pattern`: words that have to be in the path or in the command that made
    it. `toggled`: directories that are not as they are at first (deleted ones closed, others open)."""
    words = pattern.lower().split()
    chosen = [index for index, each in enumerate(changes) if not words or _has(_searched(each), words)]
    gone = {} if words else _gone(changes, chosen)
    is_long = len(chosen) >= GROUPED_FROM
    rows: list[ListRow] = []
    groups: dict[tuple[str, bool], list[int]] = {}
    for index in chosen:
        path = changes[index].path
        above = gone.get(index) or (path.rpartition("/")[0] if is_long else "")
        groups.setdefault((above, index in gone), []).append(index)
    for (above, is_gone), members in groups.items():
        depth = 0
        if is_gone or (is_long and above):
            is_open = (above in toggled) if is_gone else (above not in toggled)
            rows.append(ListRow("directory", above, tuple(members), is_gone, is_open))
            depth = 1
            if not is_open:
                continue
        rows += [ListRow("file", changes[index].path, (index,), depth=depth) for index in members]
    rows += [ListRow("bulk", each.root) for each in bulks if not words or _has(each.root.lower(), words)]
    return rows


def _searched(change: Change) -> str:
    return f"{change.renamed_from} {change.path} {change.origin.command if change.origin else ''}".lower()


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _gone(changes: Sequence[Change], chosen: Sequence[int]) -> dict[int, str]:
    """For deleted files the topmost directory in which nothing but deletions waits, if these are several."""
    total: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for index in chosen:
        for above in _parents(changes[index].path):
            total[above] = total.get(above, 0) + 1
            deleted[above] = deleted.get(above, 0) + (changes[index].operation == "delete")
    found = {}
    for index in chosen:
        wholly = (each for each in _parents(changes[index].path) if total[each] == deleted[each] >= GONE_FROM)
        if changes[index].operation == "delete" and (top := next(wholly, "")):
            found[index] = top
    return found


def _parents(path: str) -> list[str]:
    """The directories above a path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


class ReviewList(CodeView):
    """A list with a cursor. What a verdict on a row means is decided above."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("changes", "code")

    @dataclass
    class Opened(Message):
        """A file was chosen."""

        index: int

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(clock=clock, id=id)
        self._generation = 0
        self._changes: tuple[Change, ...] = ()
        self._bulks: tuple[Bulk, ...] = ()
        self._rows: list[ListRow] = []
        self._toggled: set[str] = set()
        self._cursor = 0
        self.pattern = ""
        self.sent: Collection[str] = ()

    @property
    def row(self) -> ListRow | None:
        """The row under the cursor."""
        return self._rows[self._cursor] if self._cursor < len(self._rows) else None

    @property
    def keys_of(self) -> str:
        """Which keys the footer names: a bulk has nothing to open."""
        return "bulk" if self.row is not None and self.row.kind == "bulk" else ""

    def show(self, changes: tuple[Change, ...], bulks: tuple[Bulk, ...], sent: Collection[str] = ()) -> None:
        """What waits now; the cursor stays on its row, or where that was."""
        self.sent = sent
        self._generation += (self._changes, self._bulks) != (changes, bulks)
        self._changes, self._bulks = changes, bulks
        self._lay_out()

    def meant(self, row: ListRow) -> Hashable:
        """What a verdict on a row is about: the hunks of a file; a directory or a bulk as it is now."""
        if row.kind != "file":
            return row.kind, row.name, len(row.members), self._generation
        return row.kind, row.name, tuple(hunk.id for hunk in self._changes[row.members[0]].hunks)

    def things_on_screen(self, top: int, height: int) -> list[Hashable]:
        return [self.meant(row) for row in self._rows[top : top + height]]

    def reveal(self) -> None:
        """Bring the cursor into view."""
        self._move_to(self._cursor)

    def filter(self, pattern: str) -> None:
        """Only rows with these words."""
        self.pattern = pattern
        self._lay_out()

    def find(self, index: int) -> None:
        """Put the cursor on a change."""
        places = [at for at, row in enumerate(self._rows) if index in row.members]
        self._move_to(places[-1] if places else self._cursor)

    def _lay_out(self) -> None:
        before = self.row
        self._rows = list_rows(self._changes, self._bulks, pattern=self.pattern, toggled=self._toggled)
        names = {(row.kind, row.name): at for at, row in enumerate(self._rows)}
        at = names.get((before.kind, before.name), self._cursor) if before else self._cursor
        self.virtual_size = Size(0, len(self._rows))
        self._move_to(at)

    def _move_to(self, at: int) -> None:
        before = self.keys_of
        self._cursor = max(min(at, len(self._rows) - 1), 0)
        if self.keys_of != before:
            self.post_message(KeysChanged())
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if not top <= self._cursor < top + height:
            self.scroll_to(y=self._cursor - (0 if self._cursor < top else height - 1), animate=False, force=True)
        self.redraw()

    def move(self, step: int) -> None:
        """The row below, or above."""
        self._move_to(self._cursor + step)

    def row_count(self) -> int:
        return max(len(self._rows), self.size.height if not self._rows else 0)

    def row_text(self, row: int) -> str:
        return self._rows[row].name if row < len(self._rows) else ""

    def draw(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            text = "Nothing here has these words\n\nEscape shows all of it again." if self.pattern else ""
            return self.draw_message(text, row, width)
        shown, is_current = self._rows[row], row == self._cursor
        base = self.ink("on $primary 16%" if is_current else "")
        left, right = self._parts(shown)
        parse = self.app.stylesheet.parse_style
        tail = [(text, base + parse(style)) for text, style in right]
        room = width - sum(cells(text) for text, _ in tail) - 1
        head = [("▌" if is_current else " ", base + parse("$primary"))]
        head += [(text, base + (parse(style) if style else base)) for text, style in left]
        strip = Strip([Segment(text, style.rich_style) for text, style in head if text])
        if strip.cell_length > room > 0:
            strip = Strip.join([strip.crop(0, room - 1), Strip([Segment("…", (base + parse(MUTED)).rich_style)])])
        strip = strip.adjust_cell_length(max(room, 0), base.rich_style)
        end = Strip([Segment(text, style.rich_style) for text, style in tail])
        return Strip.join([strip, end, Strip([Segment(" ", base.rich_style)])]).adjust_cell_length(
            width, base.rich_style
        )

    def _parts(self, row: ListRow) -> tuple[list[Part], list[Part]]:
        match row.kind:
            case "bulk":
                bulk = next(each for each in self._bulks if each.root == row.name)
                waits = [(" … ", "$text-warning")] if row.name in self.sent else []
                return [("▒ ", "$text-primary"), *bulk_line(bulk)], [*waits, *bulk_badges(bulk)]
            case "directory":
                return self._directory(row)
            case "file":
                return self._file(row)

    def _directory(self, row: ListRow) -> tuple[list[Part], list[Part]]:
        found = [self._changes[index] for index in row.members]
        sign = "▾ " if row.is_open else "▸ "
        name = named(row.name, 400) + "/"
        if row.is_gone:
            words = f"{len(found):,} files deleted"
            return [(sign, MUTED), ("- ", "$text-error"), (name, "bold"), (f"  {words}", "$text-error")], []
        if all(each.renamed_from for each in found):
            came = directories(found)
            whole = len(came) == 1 and len(came[0].files) == len(found)
            name = f"{named(came[0].old, 400)}/ → {named(came[0].new, 400)}/" if whole else name
            return [(sign, MUTED), (name, "bold"), (f"  {len(found):,} files renamed", "$text-primary")], _counts(found)
        return [(sign, MUTED), (name, "bold"), (f"  {len(found):,} files", MUTED)], _counts(found)

    def _file(self, row: ListRow) -> tuple[list[Part], list[Part]]:
        change = self._changes[row.members[0]]
        path = change.path.rpartition("/")[2] if row.depth and not self._is_gone(change) else change.path
        sign, colour = SIGNS[change.operation]
        name = f"{named(change.renamed_from, 400)} → {named(path, 400)}" if change.renamed_from else named(path, 400)
        left: list[Part] = [("  " * row.depth, ""), (f"{sign} ", colour), (name, "")]
        if change.path in self.sent:
            left.append((" …", "$text-warning"))
        return left, [*badges(change), *_counts([change])]

    def _is_gone(self, change: Change) -> bool:
        return change.operation == "delete"

    # Keys and the mouse

    def action_open(self) -> None:
        """Show the file under the cursor; a directory is opened or closed."""
        row = self.row
        if row is None or row.kind == "bulk":
            return
        if row.kind == "directory":
            self.action_fold()
        else:
            self.post_message(self.Opened(row.members[0]))

    def action_fold(self) -> None:
        """Open or close the directory under the cursor, or the one of the file."""
        row = self.row
        if row is not None and row.kind == "directory":
            self._toggled ^= {row.name}
            self._lay_out()

    def action_move(self, step: int) -> None:
        """The row below, or above."""
        self.move(step)

    def action_top(self) -> None:
        self._move_to(0)

    def action_bottom(self) -> None:
        self._move_to(len(self._rows) - 1)

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        if row < len(self._rows):
            was_here = row == self._cursor
            self._move_to(row)
            if was_here:
                self.action_open()


def _counts(changes: Sequence[Change]) -> list[Part]:
    added, removed = sum(each.added for each in changes), sum(each.removed for each in changes)
    return [
        (f" {f'+{added:,}' if added else '':>5}", "$text-success"),
        (f" {f'−{removed:,}' if removed else '':>5}", "$text-error"),
    ]
