"""Everything pending as one list: files, grouped by directory where there are many, and one row per bulk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from time import monotonic
from typing import Final, Literal, NamedTuple

from textual import events
from textual.geometry import Size
from textual.strip import Strip

from core.protocol.paths import list_parents
from core.protocol.renames import group_renames
from core.protocol.review import Bulk, Change
from tui.keymap import get_bindings
from tui.review.descriptions import MUTED, SIGNS, Part, build_badges, build_bulk_badges, describe_bulk
from tui.review.messages import ChangeOpened
from tui.text import format_path
from tui.widgets.diagnostics import NO_REPORTS, DiagnosticReports
from tui.widgets.key_hints import Hint, HintsChanged
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import measure_pieces

GROUPED_FROM: Final = 25  # files from which they are grouped by directory
HEADED_FROM: Final = 4  # number of files from which a grouped list shows a row for their directory
DELETED_GROUP_FROM: Final = 3  # number of deleted files in a directory that are summed up in a row


FILE_HINTS: Final[tuple[Hint, ...]] = (
    ("review.accept", "accept row"),
    ("review.reject", "reject row"),
    ("changes.open", "open"),
    ("review.filter", "find"),
    ("review.list", "hunks"),
)
BULK_HINTS: Final = tuple(each for each in FILE_HINTS if each[0] != "changes.open")


class ChangeRow(NamedTuple):
    """A row of the list. `name`: the path of a file or directory, or the root of a bulk; `members`: indices of
    changes; `below`: the directory of the row above that the name is relative to."""

    kind: Literal["file", "directory", "bulk"]
    name: str
    members: tuple[int, ...] = ()
    is_deleted: bool = False
    is_open: bool = True
    depth: int = 0
    below: str = ""


def build_rows(
    changes: Sequence[Change], bulks: Sequence[Bulk], *, pattern: str = "", toggled_names: Collection[str] = ()
) -> list[ChangeRow]:
    """Return the rows in order of path, bulks last. A directory's row covers everything below it.

    `pattern`: words of the path, or of the command behind the change. `toggled_names`: directories that are not in
    their default state (deleted ones closed, others open).
    """
    words = pattern.lower().split()
    indices = [index for index, change in enumerate(changes) if not words or _has_words(_search_text(change), words)]
    indices.sort(key=lambda index: changes[index].path)
    groups = {} if words else _group_deleted(changes, indices)
    ungrouped = {index: changes[index].path for index in indices if index not in groups}
    heads = _find_heads(ungrouped.values()) if len(indices) >= GROUPED_FROM else set()
    rows: list[ChangeRow] = []
    listed: set[str] = set()
    for index in indices:
        path = changes[index].path
        above = [groups[index]] if index in groups else [parent for parent in list_parents(path) if parent in heads]
        is_open = True
        for depth, name in enumerate(above):
            is_open = (name in toggled_names) == (index in groups)
            if name not in listed:
                listed.add(name)
                members = [member for member, top in groups.items() if top == name] if index in groups else []
                members = members or [
                    member for member, file_path in ungrouped.items() if file_path.startswith(f"{name}/")
                ]
                rows.append(ChangeRow("directory", name, tuple(sorted(members)), index in groups, is_open, depth))
            if not is_open:
                break
        if is_open:
            rows.append(ChangeRow("file", path, (index,), depth=len(above), below=above[-1] if above else ""))
    rows += [ChangeRow("bulk", bulk.root) for bulk in bulks if not words or _has_words(bulk.root.lower(), words)]
    return rows


def _find_heads(paths: Iterable[str]) -> set[str]:
    """Return the directories that get a row: those with enough files that no directory below them has."""
    direct = Counter(path.rpartition("/")[0] for path in paths)
    heads = set()
    for name in sorted({above for path in direct for above in list_parents(f"{path}/")}, key=len, reverse=True):
        if name and direct[name] >= HEADED_FROM:
            heads.add(name)
        elif name:
            direct[name.rpartition("/")[0]] += direct[name]
    return heads


def _search_text(change: Change) -> str:
    return f"{change.renamed_from} {change.path} {change.origin.command if change.origin else ''}".lower()


def _has_words(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _group_deleted(changes: Sequence[Change], indices: Sequence[int]) -> dict[int, str]:
    """Map deleted files to the topmost directory with nothing but deletions, if there are several."""
    total = Counter(above for index in indices for above in list_parents(changes[index].path))
    deleted_indices = [index for index in indices if changes[index].operation == "delete"]
    deletion_counts = Counter(above for index in deleted_indices for above in list_parents(changes[index].path))
    wholly = {above for above, files in deletion_counts.items() if files == total[above] >= DELETED_GROUP_FROM}
    tops = {
        index: next((parent for parent in list_parents(changes[index].path) if parent in wholly), "")
        for index in deleted_indices
    }
    return {index: top for index, top in tops.items() if top}


class ChangeList(CursorView):
    """The list with a cursor; the pane gives the verdicts."""

    BINDINGS = get_bindings("changes", "code")

    def __init__(self, *, clock: Callable[[], float] = monotonic, id: str | None = None) -> None:  # noqa: A002
        super().__init__(clock=clock, id=id)
        self._generation = 0
        self._changes: tuple[Change, ...] = ()
        self._bulks: tuple[Bulk, ...] = ()
        self._rows: list[ChangeRow] = []
        self._toggled: set[str] = set()
        self.pattern = ""
        self.sent: Collection[str] = ()
        self._diagnostics: DiagnosticReports = NO_REPORTS

    @property
    def current_row(self) -> ChangeRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def hints(self) -> tuple[Hint, ...]:
        return BULK_HINTS if self.current_row is not None and self.current_row.kind == "bulk" else FILE_HINTS

    def show(
        self,
        changes: tuple[Change, ...],
        bulks: tuple[Bulk, ...],
        sent_paths: Collection[str] = (),
        diagnostics: DiagnosticReports = NO_REPORTS,
    ) -> None:
        """Show pending changes; the cursor keeps its row or its index. `sent_paths`: paths with a verdict under way."""
        self.sent, self._diagnostics = sent_paths, diagnostics
        self._generation += (self._changes, self._bulks) != (changes, bulks)
        self._changes, self._bulks = changes, bulks
        self._lay_out()

    def get_target(self, row: ChangeRow) -> Hashable:
        """Return the target of a verdict on a row: the hunks of a file, or a directory or bulk in its present state."""
        if row.kind != "file":
            return row.kind, row.name, len(row.members), self._generation
        return row.kind, row.name, tuple(hunk.id for hunk in self._changes[row.members[0]].hunks)

    def list_visible_targets(self, top: int, height: int) -> list[Hashable]:
        return [self.get_target(row) for row in self._rows[top : top + height]]

    def reveal_current(self) -> None:
        self.move_to(self.cursor)

    def set_filter(self, pattern: str) -> None:
        self.pattern = pattern
        self._lay_out()

    def select_change(self, index: int) -> None:
        places = [row_index for row_index, row in enumerate(self._rows) if index in row.members]
        self.move_to(places[-1] if places else self.cursor)

    def _lay_out(self) -> None:
        before = self.current_row
        self._rows = build_rows(self._changes, self._bulks, pattern=self.pattern, toggled_names=self._toggled)
        names = {(row.kind, row.name): index for index, row in enumerate(self._rows)}
        position = names.get((before.kind, before.name), self.cursor) if before else self.cursor
        self.virtual_size = Size(0, len(self._rows))
        self.move_to(position)

    def move_to(self, index: int) -> None:
        before = self.hints
        self.cursor = max(min(index, len(self._rows) - 1), 0)
        if self.hints != before:
            self.post_message(HintsChanged())
        is_below = self.cursor > 0 and self._rows[self.cursor - 1].kind == "directory"
        self.reveal_rows(self.cursor - is_below, self.cursor)
        self.redraw()

    def count_rows(self) -> int:
        return max(len(self._rows), self.size.height if not self._rows else 0)

    def get_row_text(self, row: int) -> str:
        return self._rows[row].name if row < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            text = "No matches\n\nEsc to show all." if self.pattern else ""
            return self.render_message(text, row, width)
        change_row, is_current = self._rows[row], row == self.cursor
        lit = "on $primary 16%" if self.has_focus else "on $foreground 9%"
        base = self.resolve_style(lit if is_current else "")
        left, right = self._render_parts(change_row)
        room = width - measure_pieces(right) - 1
        left = [("▌" if is_current else " ", "$primary" if self.has_focus else "$foreground 35%"), *left]
        strip = self.render_styled(_cut_names(left, room), base).adjust_cell_length(max(room, 0), base.rich_style)
        tail = self.render_styled([*right, (" ", "")], base)
        return Strip.join([strip, tail]).adjust_cell_length(width, base.rich_style)

    def _render_parts(self, row: ChangeRow) -> tuple[list[Part], list[Part]]:
        match row.kind:
            case "bulk":
                bulk = next(candidate for candidate in self._bulks if candidate.root == row.name)
                status_parts = [(" … ", "$text-warning")] if row.name in self.sent else []
                return [("▒ ", "$text-primary"), *describe_bulk(bulk)], [*status_parts, *build_bulk_badges(bulk)]
            case "directory":
                return self._render_directory(row)
            case "file":
                return self._render_file(row)

    def _render_directory(self, row: ChangeRow) -> tuple[list[Part], list[Part]]:
        changes = [self._changes[index] for index in row.members]
        sign = f"{'  ' * row.depth}{'▾' if row.is_open else '▸'} "
        name = format_path(row.name, 400) + "/"
        if row.is_deleted:
            words = f"{len(changes):,} files deleted"
            return [(sign, MUTED), ("- ", "$text-error"), (name, "bold"), (f"  {words}", "$text-error")], []
        if all(change.renamed_from for change in changes):
            renames = group_renames(changes)
            is_single_rename = len(renames) == 1 and len(renames[0].files) == len(changes)
            name = (
                f"{format_path(renames[0].old, 400)}/ → {format_path(renames[0].new, 400)}/"
                if is_single_rename
                else name
            )
            words = f"  {len(changes):,} files renamed"
            return [(sign, MUTED), (name, "bold"), (words, "$text-primary")], _format_counts(changes)
        return [(sign, MUTED), (name, "bold"), (f"  {len(changes):,} files", MUTED)], _format_counts(changes)

    def _render_file(self, row: ChangeRow) -> tuple[list[Part], list[Part]]:
        change = self._changes[row.members[0]]
        path = change.path.removeprefix(f"{row.below}/")
        sign, colour = SIGNS[change.operation]
        origin = f"{format_path(change.renamed_from, 400)} → " if change.renamed_from else ""
        name = f"{origin}{format_path(path, 400)}"
        parts: list[Part] = [("  " * row.depth, ""), (f"{sign} ", colour), (name, "")]
        if change.path in self.sent:
            parts.append((" …", "$text-warning"))
        return parts, [*build_badges(change, self._diagnostics.get(change.path))[:1], *_format_counts([change])]

    # Keys and the mouse

    def action_open_row(self) -> None:
        row = self.current_row
        if row is None or row.kind == "bulk":
            return
        if row.kind == "directory":
            self.action_fold()
        else:
            self.post_message(ChangeOpened(row.members[0]))

    def action_fold(self) -> None:
        row = self.current_row
        if row is not None and row.kind == "directory":
            self._toggled ^= {row.name}
            self._lay_out()

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        if row < len(self._rows):
            was_here = row == self.cursor
            self.move_to(row)
            if was_here:
                self.action_open_row()


def _cut_names(parts: Sequence[Part], room: int) -> list[Part]:
    """Return the parts that fit: the details are cut from their end first, then the name from its beginning."""
    remaining = list(parts)
    name = next((index for index, (text, _) in enumerate(remaining) if len(text.strip()) > 1), len(remaining) - 1)
    while measure_pieces(remaining) > room:
        text, style = remaining[-1]
        fits = len(text) - (measure_pieces(remaining) - room) - 1
        if fits <= 0 and len(remaining) - 1 > name:
            remaining.pop()
            continue
        fits = max(fits, 0)
        is_name = len(remaining) - 1 == name
        remaining[-1] = (f"…{text[len(text) - fits :]}" if is_name else f"{text[:fits]}…", style)
        break
    return remaining


def _format_counts(changes: Sequence[Change]) -> list[Part]:
    additions, deletions = sum(change.added for change in changes), sum(change.removed for change in changes)
    return [
        (f" {f'+{additions:,}' if additions else '':>5}", "$text-success"),
        (f" {f'−{deletions:,}' if deletions else '':>5}", "$text-error"),
    ]
