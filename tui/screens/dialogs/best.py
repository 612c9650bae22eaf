"""The dialog of the ways that a prompt was tried: side by side, with the hunks that are to be taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Static

from core.protocol.commands import CandidatePick
from core.protocol.queries import CandidatesAnswer, TriedCandidate
from core.text.counting import count
from tui.agents.comparison import ComparedRow, HunkKey, list_hunks, list_rows, render_cards
from tui.keymap import get_bindings, get_keymap
from tui.screens.dialogs.dialog import Dialog
from tui.text import fit_line
from tui.widgets.key_hints import Hint, format_hints
from tui.widgets.row_view import CursorView

KEY_HINTS: Final[tuple[Hint, ...]] = (
    ("best.next", "next"),
    ("best.choose", "hunk"),
    ("best.choose_all", "all"),
    ("best.take", "take"),
    ("best.leave", "back"),
)


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
    """Compares candidates; answers with what is to be taken of them."""

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
        empty = (
            f"Nothing changed\n\n{fit_line(reply, 400)}"
            if reply
            else "Nothing changed\n\nIt left every file as it was."
        )
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
        """Answer with what is chosen; without any choice, with all of the candidate that is looked at."""
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
