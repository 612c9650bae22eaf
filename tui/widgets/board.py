"""The debug board: what waits for the user, hypotheses with their verdicts and what they cite, the runs, and a log.

It shows what the engine knows; the log of a run is asked for when it is looked at. The keys choose what is seen, and
answer a card that waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from core.protocol.debug import ProbeRecord
from core.protocol.documents import QuestionAnswer
from core.protocol.queries import ProbeLog, ProbeLogQuery
from tui.debug_fold import LIVE, DebugView
from tui.keymap import bindings, key_of
from tui.widgets.board_log import Row, compared_rows, log_rows
from tui.widgets.board_rows import Chip, card_rows, top_rows
from tui.widgets.code_view import CodeView
from tui.widgets.side import KeysChanged
from tui.work import begin

EMPTY: Final = (
    "Nothing is debugged yet\n\nIn Debug mode the agent writes down what may be the cause, puts probes in place, and "
    "judges by what they log. Press shift+tab for the mode."
)

GRACE: Final = 0.5  # seconds

Load = Callable[[ProbeLogQuery], Awaitable[ProbeLog | None]]


class BoardRows(CodeView):
    """Rows of styled pieces, in some of which an option can be clicked."""

    @dataclass
    class Chosen(Message):
        """An option was clicked."""

        option: str

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._chips: Sequence[Chip] = ()

    def show(self, rows: Sequence[Row], chips: Sequence[Chip] = ()) -> None:
        """Show these rows; none: a calm text."""
        self._chips = chips
        if bool(rows) != bool(self._rows):
            self.post_message(KeysChanged())
        if list(rows) != self._rows:
            self._rows = list(rows)
            self.virtual_size = Size(0, len(self._rows))
            self.redraw()

    @property
    def keys_of(self) -> str:
        """Which keys the footer names; "" = those of the board."""
        return "" if self._rows else "nothing"

    def row_count(self) -> int:
        return len(self._rows) or self.size.height

    def row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._rows[row]) if row < len(self._rows) else ""

    def on_click(self, event: events.Click) -> None:
        x, y = event.x + self.scroll_offset.x, event.y + self.scroll_offset.y
        for chip in self._chips:
            if chip.row == y and chip.start <= x < chip.end:
                self.post_message(self.Chosen(chip.option))

    def draw(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            return self.draw_message(EMPTY, row, width)
        marks, at = [], 0
        for text, style in self._rows[row]:
            marks.append((at, at + len(text), style))
            at += len(text)
        code = self.code(self.row_text(row), self.ink("$foreground 85%"), row=row, spans=(), marks=marks)
        return code.crop_extend(shift, shift + width, self.visual_style.rich_style)


class BoardLine(Input):
    """The line at the foot: what is looked for in the log."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("reason")
    keys_of: Final = "sifting"

    def action_cancel(self) -> None:
        """Show the whole log again."""
        self.value = ""
        self.display = False
        self.screen.query_one(BoardRows).focus()


class DebugBoard(Vertical):
    """`load` gives the log of a run, None if there is none."""

    DEFAULT_CSS = """
    DebugBoard { height: 1fr; }
    DebugBoard BoardLine { display: none; height: 1; border: none; padding: 0 1; background: $foreground 8%; }
    DebugBoard BoardLine:focus { border: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("debug")

    @dataclass
    class Answered(Message):
        """The user answered what a card asked."""

        id: str
        answers: tuple[QuestionAnswer, ...]

    def __init__(self, load: Load) -> None:
        super().__init__()
        self._load = load
        self._view = DebugView()
        self._run = ""
        self._other = ""
        self._hypothesis = ""
        self._log = ProbeLog(run="")
        self._drawn: tuple[object, list[Row]] = (None, [])
        self._top = 0
        self._since = 0.0
        self._seeks = False

    def compose(self) -> ComposeResult:
        yield BoardRows()
        yield BoardLine(placeholder="Words of the log")

    def focus(self, scroll_visible: bool = True) -> DebugBoard:
        """The rows have the focus."""
        self.query_one(BoardRows).focus(scroll_visible)
        return self

    def set_debug(self, view: DebugView) -> None:
        """Show what is known now; a run that has ended comes up by itself, and so does what waits for the user."""
        fresh = [name for name in view.runs if name not in self._view.runs]
        waits = view.asked is not None and (self._view.asked is None or self._view.asked.id != view.asked.id)
        self._view = replace(view)
        if self._hypothesis not in view.hypotheses:
            self._hypothesis = ""
        if fresh:
            self._choose(fresh[-1])
        self.draw()
        if waits:
            self._since = monotonic()
            self.query_one(BoardRows).action_top()

    def _choose(self, run: str, other: str = "") -> None:
        self._run, self._other = run, other
        self._fetch()

    def _fetch(self) -> None:
        """Ask for the log that is wanted now."""
        if self._run:
            words = self.query_one(BoardLine).value
            query = ProbeLogQuery(run=self._run, compare_with=self._other, hypothesis=self._hypothesis, words=words)
            begin(self, self._take, query, group="probe log", exclusive=True)

    async def _take(self, query: ProbeLogQuery) -> None:
        log = await self._load(query)
        if log is not None:
            self._log = log
            self.draw()
        if self._seeks:
            self._show_log()
            self._seeks = False

    @property
    def _keys(self) -> Mapping[str, str]:
        keymap: Mapping[str, str] = getattr(self.app, "keymap", {})
        return {option: key_of(f"debug.{option}", keymap) for option in ("proceed", "fixed", "broken")}

    def draw(self) -> None:
        """Lay all rows out for the width that there is."""
        rows, view, width = self.query_one(BoardRows), self._view, max(self.size.width - 2, 20)
        if not (view.hypotheses or view.runs or view.reproducing or view.asked):
            rows.show(())
            return
        card, chips = card_rows(view, width, self._keys)
        top = [*card, *top_rows(view, width, run=self._run, hypothesis=self._hypothesis)]
        follows = view.reproducing is not None and view.asked is None and rows.scroll_y >= rows.max_scroll_y
        self._top = len(top)
        rows.show([*top, *self._lower(width)], chips)
        if follows:
            rows.scroll_end(animate=False)

    def _lower(self, width: int) -> list[Row]:
        """The log that goes on, or the one that was chosen, or two of them."""
        view, words = self._view, self.query_one(BoardLine).value
        if view.reproducing is not None:
            live = self._picked(view.live, words)
            told = "live" if len(view.live) < LIVE else f"its first {LIVE} lines, while it goes on"
            return log_rows(view.reproducing.run, live, width, words=words, live=told)
        if self._log.run != self._run or not self._run:
            return []
        if self._other:
            return compared_rows(self._log, width)
        wanted = (self._log, width, words, self._hypothesis)
        if self._drawn[0] != wanted:  # thousands of rows, and the board is drawn whenever anything happens
            total = self._log.total if self._log.is_cut else 0
            picked = self._picked(self._log.records, words)
            self._drawn = (wanted, log_rows(self._run, picked, width, words=words, total=total))
        return self._drawn[1]

    def _picked(self, records: Sequence[ProbeRecord], words: str) -> list[ProbeRecord]:
        wanted = words.casefold().split()
        return [
            each
            for each in records
            if self._hypothesis in {"", each.hypothesis_id}
            and all(word in f"{each.location} {each.message} {each.data}".casefold() for word in wanted)
        ]

    def _show_log(self) -> None:
        """Bring as much of the log into view as there is room for; again when it has come."""
        rows = self.query_one(BoardRows)
        self._seeks = True
        if rows.virtual_size.height > rows.scroll_y + rows.size.height:
            rows.scroll_to(y=self._top + 1, animate=False)

    def on_resize(self, _: events.Resize) -> None:
        self.draw()

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        event.stop()
        self._look()

    def _look(self) -> None:
        """Other lines are wanted: of those that are here, and of those that are not."""
        if self._other or self._log.is_cut:
            self._fetch()
        self.draw()
        self._show_log()

    @on(Input.Submitted)
    def _stay(self, event: Input.Submitted) -> None:
        event.stop()
        self.focus()

    @on(BoardRows.Chosen)
    def _clicked(self, event: BoardRows.Chosen) -> None:
        event.stop()
        self.action_answer(event.option)

    def action_answer(self, option: str) -> None:
        """Answer the card that waits, if it offers this. A key that was pressed before it was seen is no answer."""
        asked = self._view.asked
        if monotonic() - self._since < GRACE:
            return
        if asked is not None and any(each.id == option for each in asked.questions[0].options):
            self._view = replace(self._view, asked=None)
            answer = QuestionAnswer(question=asked.questions[0].id, options=(option,))
            self.post_message(self.Answered(asked.id, (answer,)))
            self.draw()

    def action_filter(self) -> None:
        """Ask for words of the log."""
        line = self.query_one(BoardLine)
        line.display = True
        line.focus()

    def action_run(self) -> None:
        """The log of the next run, after the last one the first."""
        runs = list(self._view.runs)
        if runs:
            at = runs.index(self._run) if self._run in runs else -1
            self._choose(runs[(at + 1) % len(runs)])
            self._show_log()

    def action_compare(self) -> None:
        """The shown run beside the one before it, and back."""
        runs = list(self._view.runs)
        at = runs.index(self._run) if self._run in runs else 0
        if len(runs) < 2:
            self.notify("There is one run only.", markup=False)
        elif self._other:
            self._choose(self._run)
        else:
            at = max(at, 1)
            self._choose(runs[at], runs[at - 1])
        self._show_log()

    def action_hypothesis(self) -> None:
        """Only the lines of the next hypothesis, after the last one all."""
        names = ["", *self._view.hypotheses]
        self._hypothesis = names[(names.index(self._hypothesis) + 1) % len(names)]
        self._look()
