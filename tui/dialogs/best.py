"""The dialog that compares the candidates of a task: a card per candidate, and the hunks of the current one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Static

from core.protocol.commands import CandidatePick
from core.protocol.queries import CandidatesAnswer, TriedCandidate
from core.text.counting import count
from tui.dialogs.dialog import Dialog
from tui.keymap import get_bindings, get_keymap
from tui.quantities import format_duration
from tui.text import expose_text, fit_line, format_path
from tui.widgets.key_hints import Hint, format_hints
from tui.widgets.row_view import CursorView
from tui.widgets.text_rows import Piece

CARD_ROWS: Final = 5
NARROWEST: Final = 18  # columns of a card
WIDEST: Final = 44
HunkKey = tuple[str, str, str]  # of a candidate, a path, and the hunk's id
_LINES: Final = {
    "added": ("+", "on $added-line"),
    "removed": ("-", "on $removed-line"),
    "context": (" ", "$foreground 60%"),
    "gap": ("⋯", "$foreground 45%"),
}
KEY_HINTS: Final[tuple[Hint, ...]] = (
    ("best.next", "next"),
    ("best.choose", "hunk"),
    ("best.choose_all", "all"),
    ("best.take", "take"),
    ("best.leave", "back"),
)


class ComparedRow(NamedTuple):
    """One row of a candidate's changes. `hunk`: its hunk; None = the head of a file, or context."""

    text: str
    style: str
    hunk: HunkKey | None = None
    is_head: bool = False


def list_hunks(candidate: TriedCandidate) -> list[HunkKey]:
    """List the hunks of a candidate, from its first file to its last."""
    return [(candidate.id, diff.change.path, hunk.id) for diff in candidate.changes for hunk in diff.change.hunks]


def list_rows(candidate: TriedCandidate) -> list[ComparedRow]:
    """Return the rows of a candidate's changes: for every hunk a head and its lines."""
    rows: list[ComparedRow] = []
    for diff in candidate.changes:
        change = diff.change
        facts = f"{change.operation} · +{change.added} −{change.removed}"
        rows.append(ComparedRow(f"{format_path(change.path)} · {facts}", "bold"))
        hunk_index = -1
        keys = [(candidate.id, change.path, hunk.id) for hunk in change.hunks]
        diff_lines = [*diff.lines] if not change.binary else []
        for line in diff_lines:
            if line.hunk not in {-1, hunk_index}:
                hunk_index = line.hunk
                hunk = change.hunks[hunk_index]
                head = f"hunk {hunk_index + 1}/{len(change.hunks)} · +{hunk.new_lines} −{hunk.old_lines}"
                rows.append(ComparedRow(head, "", keys[hunk_index], is_head=True))
            sign, style = _LINES[line.kind]
            key = keys[line.hunk] if 0 <= line.hunk < len(keys) else None
            rows.append(ComparedRow(f"{sign} {expose_text(line.text)}", style, key))
        for key in [] if diff_lines else keys:  # no text to display
            rows.append(ComparedRow("the whole file", "", key, is_head=True))
    return rows


def render_cards(
    candidates: Sequence[TriedCandidate], current: int, choice_counts: Mapping[str, int], width: int
) -> Content:
    """Render a card per candidate side by side, or a row per candidate where there is no room. `choice_counts`:
    number of chosen hunks per candidate."""
    room = min(width // max(len(candidates), 1), WIDEST)
    cards = [
        list(_describe(candidate, choice_counts.get(candidate.id, 0), number))
        for number, candidate in enumerate(candidates, 1)
    ]
    if room < NARROWEST:
        rows = [_join_card(card, number == current, width) for number, card in enumerate(cards)]
        return Content("\n").join(rows)
    lines = []
    for line in range(CARD_ROWS):
        parts: list[Content] = []
        for number, card in enumerate(cards):
            text, style = card[line]
            highlight = "on $marked-row" if number == current else ""
            cell = fit_line(text, room - 3).ljust(room - 3)
            parts.append(Content.assemble((f" {cell} ", f"{style} {highlight}".strip()), " "))
        lines.append(Content("").join(parts))
    return Content("\n").join(lines)


def _join_card(card: Sequence[Piece], is_current: bool, width: int) -> Content:
    text = " · ".join(text for text, _ in card if text)
    return Content.styled(f" {fit_line(text, width - 2)} ", f"{card[1][1]} {'on $marked-row' if is_current else ''}")


def _describe(candidate: TriedCandidate, choice_count: int, number: int) -> Iterator[Piece]:
    is_numbered = candidate.title.startswith(str(number)) or candidate.title.endswith(f" {number}")
    title = candidate.title if is_numbered else f"{number} · {candidate.title}"
    yield title, "bold"
    yield _describe_check(candidate)
    changes = [diff.change for diff in candidate.changes]
    size = f"+{sum(change.added for change in changes)} −{sum(change.removed for change in changes)}"
    yield (f"{count('file', len(changes))} {size}" if changes else "nothing changed"), ""
    usage_parts = (candidate.usage.format_cost(), _format_time(candidate))
    yield " · ".join(filter(None, usage_parts)), "$foreground 60%"
    hunks = sum(len(change.hunks) for change in changes)
    note = "taken before" if candidate.state == "taken" else ""
    yield (f"{choice_count} of {count('hunk', hunks)} chosen" if choice_count else note), "bold"


def _format_time(candidate: TriedCandidate) -> str:
    return format_duration(candidate.duration_ms) if candidate.duration_ms else ""


def _describe_check(candidate: TriedCandidate) -> Piece:
    if candidate.state == "working":
        return "running", "$accent"
    if candidate.state == "gone":
        return "gone: try it again", "$foreground 60%"
    if candidate.check is None:
        return (f"! {candidate.message}", "$text-warning") if candidate.message else ("not checked", "$foreground 60%")
    sign, style = ("✓", "$text-success") if candidate.check.has_passed else ("✕", "$text-error")
    return f"{sign} {candidate.check.command}", style


class ComparedHunks(CursorView):
    """The changes of one candidate; the cursor is on a hunk."""

    BINDINGS = get_bindings("compared")
    DEFAULT_CSS = "ComparedHunks { overflow-x: hidden; }"

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[ComparedRow] = ()
        self._heads: Sequence[int] = ()
        self._chosen: frozenset[HunkKey] = frozenset()
        self._empty = ""

    def show(self, rows: Sequence[ComparedRow], hunk_keys: frozenset[HunkKey], empty: str) -> None:
        if rows != self._rows:
            self._rows = rows
            self._heads = [number for number, row in enumerate(rows) if row.is_head]
            self.virtual_size = Size(0, len(rows))
            self.cursor = 0
            self.scroll_to(y=0, animate=False)
        self._chosen, self._empty = hunk_keys, empty
        self.redraw()

    @property
    def current(self) -> HunkKey | None:
        return self._rows[self._heads[self.cursor]].hunk if self.cursor < len(self._heads) else None

    def move_to(self, index: int) -> None:
        self.cursor = max(min(index, len(self._heads) - 1), 0)
        if self._heads:
            after = self._heads[self.cursor + 1] if self.cursor + 1 < len(self._heads) else len(self._rows)
            self.reveal_rows(self._heads[self.cursor], after - 1)
        self.redraw()

    def count_rows(self) -> int:
        return len(self._rows) or self.size.height

    def get_row_text(self, row: int) -> str:
        return self._rows[row].text if row < len(self._rows) else ""

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            return self.render_message(self._empty, row, width)
        compared_row = self._rows[row]
        is_current = compared_row.hunk is not None and compared_row.hunk == self.current
        base = self.resolve_style(compared_row.style)
        if compared_row.is_head:
            base = self.resolve_style("on $marked-row" if is_current else "on $foreground 10%")
        box = ("[x] " if compared_row.hunk in self._chosen else "[ ] ") if compared_row.is_head else ""
        bar = ("▌" if is_current else " ", "$accent")
        text = fit_line(compared_row.text, width) if compared_row.is_head else compared_row.text
        strip = self.render_styled([bar, (f"{box}{text}"[: max(width - 1, 1)], "")], base)
        return strip.adjust_cell_length(width, base.rich_style)

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.move_to(self.cursor)

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        positions = [number for number, head in enumerate(self._heads) if head <= row]
        if positions:
            self.move_to(positions[-1])


class BestDialog(Dialog[tuple[CandidatePick, ...]]):
    """Compares candidates; answers with the hunks to adopt."""

    BINDINGS = get_bindings("best")
    shape = "subagent"

    def __init__(self, answer: CandidatesAnswer) -> None:
        super().__init__(fit_line(answer.prompt, 200))
        self._candidates = answer.candidates
        self._current = 0
        self._chosen: set[HunkKey] = set()

    def compose_body(self) -> ComposeResult:
        yield Static(id="best-cards")
        yield ComparedHunks()
        yield Static(id="best-keys")

    def set_up(self) -> None:
        self.query_one(ComparedHunks).focus()
        indices = (
            number
            for number, candidate in enumerate(self._candidates)
            if candidate.check and candidate.check.has_passed
        )
        self._current = next(indices, 0)
        self._show()

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show()

    @property
    def _candidate(self) -> TriedCandidate:
        return self._candidates[self._current]

    def _show(self) -> None:
        counts = {candidate.id: sum(key[0] == candidate.id for key in self._chosen) for candidate in self._candidates}
        cards = self.query_one("#best-cards", Static)
        width = max((cards.size.width or self.size.width - 6), 20)
        cards.update(render_cards(self._candidates, self._current, counts, width))
        current_candidate, reply = self._candidate, self._candidate.said or self._candidate.message
        empty = f"Nothing changed\n\n{fit_line(reply, 400)}" if reply else "Nothing changed\n\nIt changed no file."
        self.query_one(ComparedHunks).show(list_rows(current_candidate), frozenset(self._chosen), empty)
        hints = format_hints(KEY_HINTS, get_keymap(self.app))
        several = sum(bool(number) for number in counts.values())
        total = f" {count('hunk', len(self._chosen))} of {count('candidate', several)}" if self._chosen else ""
        self.query_one("#best-keys", Static).update(Content.assemble(hints, (total, "$accent")))

    def action_next(self, step: int) -> None:
        self._current = (self._current + step) % len(self._candidates)
        self._show()

    def action_show_candidate(self, number: int) -> None:
        if number <= len(self._candidates):
            self._current = number - 1
            self._show()

    def action_choose(self) -> None:
        if (key := self.query_one(ComparedHunks).current) is not None:
            self._chosen ^= {key}
            self._show()

    def action_choose_all(self) -> None:
        """Choose every hunk of the candidate, or none of them if all are chosen."""
        hunk_keys = set(list_hunks(self._candidate))
        self._chosen = self._chosen - hunk_keys if hunk_keys <= self._chosen else self._chosen | hunk_keys
        self._show()

    def action_take(self) -> None:
        """Answer with the chosen hunks; without any, with all of the current candidate."""
        picks: list[CandidatePick] = []
        for candidate in self._candidates:
            hunk_keys = [key for key in list_hunks(candidate) if key in self._chosen]
            if hunk_keys and len(hunk_keys) == len(list_hunks(candidate)):
                picks.append(CandidatePick(id=candidate.id))
                continue
            for path in dict.fromkeys(path for _, path, _ in hunk_keys):
                picks.append(
                    CandidatePick(id=candidate.id, path=path, hunks=tuple(h for _, p, h in hunk_keys if p == path))
                )
        if not self._chosen and self._candidate.changes:
            picks = [CandidatePick(id=self._candidate.id)]
        if picks:
            self.answer(tuple(picks))
