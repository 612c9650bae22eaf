"""Everything pending as one list: hunks in the order in which they are worth reading, or files below their directories,
and one row per bulk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from time import monotonic
from typing import Final, Literal

from textual import events
from textual.geometry import Size
from textual.strip import Strip

from core.protocol.renames import group_renames
from core.protocol.review import Bulk, Change, Hunk
from tui.keymap import get_bindings, get_keymap, insert_keys
from tui.review.descriptions import MUTED, SIGNS, Part, build_badges, build_bulk_badges, describe_bulk
from tui.review.hunk_rows import HunkOrder, HunkPainter, build_hunk_rows
from tui.review.list_rows import ChangeRow, build_rows
from tui.review.messages import ChangeOpened, RowSelected
from tui.review.proof_view import HunkPlace, ReviewProof
from tui.text import fit_line, format_path
from tui.widgets.diagnostics import NO_REPORTS, DiagnosticReports
from tui.widgets.key_hints import Hint, HintsChanged
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import measure_pieces

FILE_HINTS: Final[tuple[Hint, ...]] = (
    ("review.accept", "accept row"),
    ("review.reject", "reject row"),
    ("changes.open", "open"),
    ("review.filter", "find"),
    ("review.arrange", "by hunk"),
    ("review.list", "diff"),
)
BULK_HINTS: Final = tuple(each for each in FILE_HINTS if each[0] != "changes.open")
DIRECTORY_HINTS: Final = tuple(("changes.open", "fold") if each[0] == "changes.open" else each for each in FILE_HINTS)
HUNK_HINTS: Final[tuple[Hint, ...]] = (
    ("review.accept", "accept row"),
    ("review.reject", "reject row"),
    ("changes.open", "open"),
    ("review.accept_proven", "accept proven"),
    ("review.news", "what is new"),
    ("review.arrange", "by file"),
    ("review.list", "diff"),
)
FOLD_HINTS: Final = tuple(("changes.open", "unfold") if each[0] == "changes.open" else each for each in HUNK_HINTS)
UNFILTER_HINT: Final[Hint] = ("review.unfilter", "show all")
FILTERED_HINTS: Final[tuple[Hint, ...]] = (
    UNFILTER_HINT,
    ("review.accept_file", "accept shown"),
    ("review.reject_file", "reject shown"),
    *HUNK_HINTS[:3],
    *HUNK_HINTS[-2:],
)
Arrangement = Literal["files", "hunks"]


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
        self.only: Collection[HunkPlace] | None = None
        self.sent: Collection[Hashable] = ()
        self._diagnostics: DiagnosticReports = NO_REPORTS
        self._arrangement: Arrangement | None = None  # the user's choice
        self._order, self._proof = HunkOrder(), ReviewProof()
        self._intents: Mapping[str, str] = {}
        self._hunks: Mapping[HunkPlace, Hunk] = {}
        self._painter = HunkPainter((), {}, self._proof)
        self._selected: ChangeRow | None = None

    @property
    def arrangement(self) -> Arrangement:
        """The one that the user chose, else by hunk where there is evidence to order them by."""
        if self.only is not None:
            return "hunks"
        return self._arrangement or ("hunks" if self._proof.judgements else "files")

    @property
    def current_row(self) -> ChangeRow | None:
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    @property
    def hints(self) -> tuple[Hint, ...]:
        kind = self.current_row.kind if self.current_row is not None else ""
        if self.is_filtered:
            return FILTERED_HINTS if self._rows else (UNFILTER_HINT,)
        if self.arrangement == "hunks":
            return FOLD_HINTS if kind == "fold" else HUNK_HINTS
        return {"bulk": BULK_HINTS, "directory": DIRECTORY_HINTS}.get(kind, FILE_HINTS)

    @property
    def is_filtered(self) -> bool:
        """True if some of what is pending is not listed."""
        return bool(self.pattern) or self.only is not None

    def list_shown(self) -> list[tuple[Change, tuple[str, ...]]]:
        """Return the listed changes, each with the ids of its listed hunks: in a list of files all of them."""
        members = sorted({index for row in self._rows for index in row.members})
        if self.arrangement == "files":
            return [
                (change, tuple(hunk.id for hunk in change.hunks)) for change in map(self._changes.__getitem__, members)
            ]
        places = {place for row in self._rows for place in row.hunks}
        changes = (self._changes[index] for index in members)
        return [
            (change, tuple(hunk.id for hunk in change.hunks if (change.path, hunk.id) in places)) for change in changes
        ]

    def show(
        self,
        changes: tuple[Change, ...],
        bulks: tuple[Bulk, ...],
        sent: Collection[Hashable] = (),
        diagnostics: DiagnosticReports = NO_REPORTS,
    ) -> None:
        """Show pending changes; the cursor keeps its row or its index. `sent`: paths, and places of hunks, with a
        verdict under way."""
        self.sent, self._diagnostics = sent, diagnostics
        self._generation += (self._changes, self._bulks) != (changes, bulks)
        self._changes, self._bulks = changes, bulks
        self._hunks = {(change.path, hunk.id): hunk for change in changes for hunk in change.hunks}
        self._lay_out()

    def set_proof(self, proof: ReviewProof, intents: Mapping[str, str]) -> None:
        """Set the evidence and the intent of each path; `show` follows."""
        self._proof, self._intents = proof, intents

    def order_hunks(self, changes: Sequence[Change]) -> None:
        """Order the hunks by what is known of them now; `show` follows."""
        self._order.arrange(changes, self._intents, self._proof)

    def switch_arrangement(self) -> None:
        """Show files instead of hunks, or hunks instead of files."""
        self._arrangement = "files" if self.arrangement == "hunks" else "hunks"

    def set_only(self, places: Collection[HunkPlace] | None) -> None:
        """Show these hunks alone, None = all; `show` follows."""
        self.only = places

    def get_target(self, row: ChangeRow) -> Hashable:
        """Return the target of a verdict on a row: the hunks of a file, or a directory or bulk in its present state."""
        if row.kind == "hunk":
            return row.kind, *row.hunks[0]
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

    def select_change(self, index: int, hunk: str = "") -> None:
        """Move to the row of a change; in a list of hunks to that of `hunk`, or to the first one if that is folded."""
        places = [row_index for row_index, row in enumerate(self._rows) if index in row.members]
        if self.arrangement == "hunks":
            places = [place for place in places if hunk in [id_ for _, id_ in self._rows[place].hunks]]
            places = [place for place in places if self._rows[place].kind == "hunk"] or [0]
        self.move_to(places[-1] if places else self.cursor)

    def _lay_out(self) -> None:
        before = self.current_row
        if self.arrangement == "hunks":
            self._order.follow(self._changes, self._intents, self._proof)
            self._rows = build_hunk_rows(
                self._order,
                self._changes,
                self._bulks,
                pattern=self.pattern,
                toggled_names=self._toggled,
                only=self.only,
            )
        else:
            self._rows = build_rows(self._changes, self._bulks, pattern=self.pattern, toggled_names=self._toggled)
        self._painter = HunkPainter(self._rows, self._hunks, self._proof)
        names = {_identify(row): index for index, row in enumerate(self._rows)}
        position = names.get(_identify(before), self.cursor) if before else self.cursor
        self.virtual_size = Size(0, len(self._rows))
        self.move_to(position)

    def move_to(self, index: int) -> None:
        before, is_upwards = self.hints, index < self.cursor
        self.cursor = max(min(index, len(self._rows) - 1), 0)
        if self._rows and self._rows[self.cursor].kind == "group":  # a heading, which nothing can be done with
            self.cursor += -1 if is_upwards and self.cursor else 1
        if self.hints != before:
            self.post_message(HintsChanged())
        if self.current_row != self._selected:
            self._selected = self.current_row
            self.post_message(RowSelected())
        is_below = self.cursor > 0 and self._rows[self.cursor - 1].kind in {"directory", "group"}
        self.reveal_rows(self.cursor - is_below, self.cursor)
        self.redraw()

    def count_rows(self) -> int:
        return max(len(self._rows), self.size.height if not self._rows else 0)

    def get_row_text(self, row: int) -> str:
        return self._rows[row].name if row < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            text = insert_keys("No matches\n\n{review.unfilter} to show all", get_keymap(self.app))
            text = text if self.is_filtered else ""
            return self.render_message(text, row, width)
        change_row, is_current = self._rows[row], row == self.cursor
        lit = "on $primary 16%" if self.has_focus else "on $foreground 9%"
        base = self.resolve_style(lit if is_current else "")
        if change_row.kind == "group":
            pieces = [(f" {fit_line(change_row.name, max(width - 2, 8))}", "bold $foreground 75%")]
            return self.render_styled(pieces, self.resolve_style("")).adjust_cell_length(width, base.rich_style)
        left, right = self._render_parts(change_row, width)
        room = width - measure_pieces(right) - 1
        left = [("▌" if is_current else " ", "$primary" if self.has_focus else "$foreground 35%"), *left]
        strip = self.render_styled(_cut_names(left, room), base).adjust_cell_length(max(room, 0), base.rich_style)
        tail = self.render_styled([*right, (" ", "")], base)
        return Strip.join([strip, tail]).adjust_cell_length(width, base.rich_style)

    def _render_parts(self, row: ChangeRow, width: int) -> tuple[list[Part], list[Part]]:
        match row.kind:
            case "hunk":
                status_parts = [(" … ", "$text-warning")] if row.hunks[0] in self.sent else []
                is_current = self.current_row is row
                room = width - 2 - measure_pieces(status_parts)
                return self._painter.describe_hunk(row, room, is_current=is_current), status_parts
            case "fold":
                return self._painter.describe_fold(row), []
            case "bulk":
                bulk = next(candidate for candidate in self._bulks if candidate.root == row.name)
                status_parts = [(" … ", "$text-warning")] if row.name in self.sent else []
                return [("▒ ", "$text-primary"), *describe_bulk(bulk)], [*status_parts, *build_bulk_badges(bulk)]
            case "directory":
                return self._render_directory(row)
            case _:
                return self._render_file(row)

    def _render_directory(self, row: ChangeRow) -> tuple[list[Part], list[Part]]:
        changes = [self._changes[index] for index in row.members]
        sign = f"{'  ' * row.depth}{'▾' if row.is_open else '▸'} "
        name = format_path(row.name.removeprefix(f"{row.below}/"), 400) + "/"
        waiting: list[Part] = [(" …", "$text-warning")] if self._is_sent(changes) else []
        if row.is_deleted:
            words = f"{len(changes):,} files deleted"
            return [(sign, MUTED), ("- ", "$text-error"), (name, "bold"), (f"  {words}", "$text-error"), *waiting], []
        if all(change.renamed_from for change in changes):
            renames = group_renames(changes)
            is_single_rename = len(renames) == 1 and len(renames[0].files) == len(changes)
            name = (
                f"{format_path(renames[0].old, 400)}/ → {format_path(renames[0].new, 400)}/"
                if is_single_rename
                else name
            )
            words = f"  {len(changes):,} files renamed"
            return [(sign, MUTED), (name, "bold"), (words, "$text-primary"), *waiting], _format_counts(changes)
        numbers = [(f"  {len(changes):,} files", MUTED), *_describe_separate(changes)]
        return [(sign, MUTED), (name, "bold"), *numbers, *waiting], _format_counts(changes)

    def _is_sent(self, changes: Sequence[Change]) -> bool:
        """True if all of a directory that can be judged with it has a verdict under way."""
        open_paths = {change.path for change in changes if not change.protected and not change.conflict}
        return bool(open_paths) and open_paths <= set(self.sent)

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
        if row.kind in {"directory", "fold"}:
            self.action_fold()
        elif row.members:
            self.post_message(ChangeOpened(row.members[0], row.hunks[0][1] if row.hunks else ""))

    def action_fold(self) -> None:
        row = self.current_row
        if row is not None and row.kind in {"directory", "fold"}:
            self._toggled ^= {row.name}
            self._lay_out()

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        if row < len(self._rows):
            was_here = row == self.cursor
            self.move_to(row)
            if was_here:
                self.action_open_row()


def _identify(row: ChangeRow) -> Hashable:
    return row.kind, row.name, row.hunks if row.kind == "hunk" else ()


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


def _describe_separate(changes: Sequence[Change]) -> list[Part]:
    """Return how many changes of a directory are confirmed, or left out, when it is accepted as a whole."""
    numbers = (
        (sum(bool(change.conflict) for change in changes), "in conflict", "$text-warning"),
        (sum(change.protected for change in changes), "protected", "$text-error"),
        (sum(change.operation == "delete" for change in changes), "deleted", "$text-error"),
    )
    return [(f" · {number:,} {word}", style) for number, word, style in numbers if number]


def _format_counts(changes: Sequence[Change]) -> list[Part]:
    additions, deletions = sum(change.added for change in changes), sum(change.removed for change in changes)
    return [
        (f" {f'+{additions:,}' if additions else '':>5}", "$text-success"),
        (f" {f'−{deletions:,}' if deletions else '':>5}", "$text-error"),
    ]
