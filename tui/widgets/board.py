"""The debug board: hypotheses with their verdicts and what they cite, the runs, and the log of one of them.

It shows what the engine knows; the log of a run is asked for when it is looked at. The keys choose what is seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.strip import Strip
from textual.widgets import Input

from core.protocol.debug import ProbeRecord
from core.protocol.queries import ProbeLog
from tui.debug_fold import DebugView
from tui.keymap import bindings
from tui.widgets.board_rows import Row, compared_rows, log_rows, top_rows
from tui.widgets.code_view import CodeView

EMPTY: Final = (
    "Nothing is debugged yet\n\nIn Debug mode the agent writes down what may be the cause, puts probes in place, and "
    "judges by what they log. Press shift+tab for the mode."
)

Load = Callable[[str, str], Awaitable[ProbeLog | None]]


class BoardRows(CodeView):
    """Rows of styled pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; none: a calm text."""
        if list(rows) != self._rows:
            self._rows = list(rows)
            self.virtual_size = Size(0, len(self._rows))
            self.redraw()

    def row_count(self) -> int:
        return len(self._rows) or self.size.height

    def row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._rows[row]) if row < len(self._rows) else ""

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

    def action_cancel(self) -> None:
        """Show the whole log again."""
        self.value = ""
        self.display = False
        self.screen.query_one(BoardRows).focus()


class DebugBoard(Vertical):
    """`load(run, compare_with)` gives the log of a run, None if there is none."""

    DEFAULT_CSS = """
    DebugBoard { height: 1fr; }
    DebugBoard BoardLine { display: none; height: 1; border: none; padding: 0 1; background: $foreground 8%; }
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("debug")

    def __init__(self, load: Load) -> None:
        super().__init__()
        self._load = load
        self._view = DebugView()
        self._run = ""
        self._other = ""
        self._hypothesis = ""
        self._log = ProbeLog(run="")

    def compose(self) -> ComposeResult:
        yield BoardRows()
        yield BoardLine(placeholder="Words of the log. Enter stays with what was found, Escape shows all")

    def focus(self, scroll_visible: bool = True) -> DebugBoard:
        """The rows have the focus."""
        self.query_one(BoardRows).focus(scroll_visible)
        return self

    def set_debug(self, view: DebugView) -> None:
        """Show what is known now; a run that has ended comes up by itself."""
        fresh = [name for name in view.runs if name not in self._view.runs]
        self._view = DebugView(
            hypotheses=view.hypotheses,
            probes=view.probes,
            runs=view.runs,
            reproducing=view.reproducing,
            live=view.live,
        )
        if self._hypothesis not in view.hypotheses:
            self._hypothesis = ""
        if fresh:
            self._choose(fresh[-1])
        self.draw()

    def _choose(self, run: str, other: str = "") -> None:
        self._run, self._other = run, other
        self.run_worker(self._fetch(run, other), group="probe log", exclusive=True)

    async def _fetch(self, run: str, other: str) -> None:
        log = await self._load(run, other)
        if log is not None and (run, other) == (self._run, self._other):
            self._log = log
            self.draw()

    def draw(self) -> None:
        """Lay all rows out for the width that there is."""
        rows, view, width = self.query_one(BoardRows), self._view, self.size.width or 40
        if not (view.hypotheses or view.runs or view.reproducing):
            rows.show(())
            return
        top = top_rows(view, width, run=self._run, hypothesis=self._hypothesis)
        wanted = self.query_one(BoardLine).value
        if view.reproducing is not None:
            rows.show([*top, *log_rows(view.reproducing.run, self._picked(view.live, wanted), wanted, live=True)])
        elif self._other:
            rows.show([*top, *compared_rows(self._log, width)])
        elif self._run:
            rows.show([*top, *log_rows(self._run, self._picked(self._log.records, wanted), wanted)])
        else:
            rows.show(top)

    def _picked(self, records: Sequence[ProbeRecord], wanted: str) -> list[ProbeRecord]:
        words = wanted.casefold().split()
        return [
            each
            for each in records
            if self._hypothesis in {"", each.hypothesis_id}
            and all(word in f"{each.location} {each.message} {each.data}".casefold() for word in words)
        ]

    def on_resize(self, _: events.Resize) -> None:
        self.draw()

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        event.stop()
        self.draw()

    @on(Input.Submitted)
    def _stay(self, event: Input.Submitted) -> None:
        event.stop()
        self.focus()

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
            self.draw()

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

    def action_hypothesis(self) -> None:
        """Only the lines of the next hypothesis, after the last one all."""
        names = ["", *self._view.hypotheses]
        self._hypothesis = names[(names.index(self._hypothesis) + 1) % len(names)]
        self.draw()
