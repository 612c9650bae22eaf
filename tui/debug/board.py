"""The debug board: the card with a question to the user, hypotheses with verdicts and evidence, runs, and a log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from core.protocol.debug import ProbeRecord
from core.protocol.documents import QuestionAnswer
from core.protocol.queries import ProbeLogAnswer, ProbeLogQuery
from tui.ask.messages import AnswersSubmitted
from tui.debug.board_rows import PLAIN, BoardRow, OptionChip, render_card, render_log, render_overview
from tui.debug.run_comparison import format_comparison, render_comparison
from tui.keymap import format_first_key, get_bindings, get_keymap, insert_keys
from tui.panes import PaneSource, StatePane
from tui.state.view import MAX_LIVE_RECORDS, DebugView, ViewState
from tui.widgets.input_line import InputLine, InputPurpose
from tui.widgets.key_hints import NOTHING_HINTS, Hint, HintsChanged
from tui.widgets.row_view import RowView
from tui.workers import start_worker

EMPTY: Final = (
    "Nothing to debug yet\n\nIn Debug mode the agent lists possible causes, adds probes, and judges the causes by what "
    "they log. Press {app.mode_next} to switch modes."
)

GRACE_SECONDS: Final = 0.5
OPTIONS: Final = ("proceed", "fixed", "broken")  # of a card, by their keys

LoadProbeLog = Callable[[ProbeLogQuery], Awaitable[ProbeLogAnswer | None]]


class BoardRows(RowView):
    """Rows of styled pieces, some with options that can be clicked."""

    @dataclass
    class OptionClicked(Message):
        """An option of the card was clicked."""

        option: str

    _rows: Sequence[BoardRow] = ()
    _chips: Sequence[OptionChip] = ()

    def show(self, rows: Sequence[BoardRow], chips: Sequence[OptionChip] = ()) -> None:
        """Show these rows; without any, the empty-state text."""
        self._chips = chips
        if bool(rows) != bool(self._rows):
            self.post_message(HintsChanged())
        if rows != self._rows:
            self._rows = rows
            self.virtual_size = Size(0, len(self._rows))
            self.redraw()

    @property
    def hints(self) -> tuple[Hint, ...]:
        return () if self._rows else NOTHING_HINTS

    def count_rows(self) -> int:
        return len(self._rows) or self.size.height

    def get_row_text(self, row: int) -> str:
        return "".join(text for text, _ in self._rows[row]) if row < len(self._rows) else ""

    def on_click(self, event: events.Click) -> None:
        x, y = event.x + self.scroll_offset.x, event.y + self.scroll_offset.y
        for chip in self._chips:
            if chip.row == y and chip.start <= x < chip.end:
                self.post_message(self.OptionClicked(chip.option))

    def render_row(self, row: int, width: int, shift: int) -> Strip:
        if not self._rows:
            return self.render_message(insert_keys(EMPTY, get_keymap(self.app)), row, width)
        pieces = [(piece, style or PLAIN) for piece, style in self._rows[row]]
        text = self.render_text_pieces(pieces, self.resolve_style(PLAIN), row=row)
        return text.crop_extend(shift, shift + width, self.visual_style.rich_style)


class LogFilterInput(InputLine):
    """The input at the foot: words to find in the log."""

    purposes: ClassVar[Mapping[str, InputPurpose]] = {
        "filter": InputPurpose("Filter the log by words", "keep filter", "show all")
    }


class DebugBoard(StatePane):
    """Shows a `DebugView`; `load` queries the log of a run, None if there is none."""

    DEFAULT_CSS = """
    DebugBoard { height: 1fr; }
    DebugBoard LogFilterInput, DebugBoard LogFilterInput:focus { padding: 0 1; background: $foreground 8%; }
    """

    BINDINGS = get_bindings("debug")
    hints: Final = (
        ("debug.filter", "find"),
        ("debug.run", "next run"),
        ("debug.compare", "compare"),
        ("debug.hypothesis", "hypothesis"),
    )

    def __init__(self, load: LoadProbeLog) -> None:
        super().__init__()
        self._load = load
        self._view = DebugView()
        self._run = ""
        self._compared_run = ""
        self._hypothesis = ""
        self._log = ProbeLogAnswer(run="")
        self._log_rows: tuple[object, list[BoardRow]] = (None, [])
        self._log_top = 0
        self._card_shown_at = 0.0
        self._is_log_wanted = False

    def compose(self) -> ComposeResult:
        yield BoardRows()
        yield LogFilterInput()

    def focus(self, scroll_visible: bool = True) -> DebugBoard:
        self.query_one(BoardRows).focus(scroll_visible)
        return self

    @classmethod
    def from_source(cls, source: PaneSource) -> DebugBoard:
        return cls(source.load_probe_log)

    def show_state(self, state: ViewState) -> None:
        self.show(state.debug)

    def show(self, view: DebugView) -> None:
        """Show `view`. An ended run and a new card are scrolled into view."""
        fresh = [name for name in view.runs if name not in self._view.runs]
        previous_question = self._view.question
        is_waiting = view.question is not None and (
            previous_question is None or previous_question.id != view.question.id
        )
        self._view = replace(view)
        if self._hypothesis not in view.hypotheses:
            self._hypothesis = ""
        if fresh:
            self._select_run(fresh[-1])
        self.render_rows()
        if is_waiting:
            self._card_shown_at = monotonic()
            self.query_one(BoardRows).action_top()

    def _select_run(self, run: str, other: str = "") -> None:
        self._run, self._compared_run = run, other
        self._load_log()

    def _load_log(self) -> None:
        if self._run:
            words = self.query_one(LogFilterInput).value
            query = ProbeLogQuery(
                run=self._run, compare_with=self._compared_run, hypothesis=self._hypothesis, words=words
            )
            start_worker(self, self._receive_log, query, group="probe log", exclusive=True)

    async def _receive_log(self, query: ProbeLogQuery) -> None:
        log = await self._load(query)
        if log is not None:
            self._log = log
            self.render_rows()
        if self._is_log_wanted:
            self._reveal_log()
            self._is_log_wanted = False

    @on(events.Resize)
    def render_rows(self) -> None:
        rows, view, width = self.query_one(BoardRows), self._view, max(self.size.width - 2, 20)
        if not (view.hypotheses or view.runs or view.reproduction or view.question):
            rows.show(())
            return
        keys = {option: format_first_key(f"debug.{option}", get_keymap(self.app)) for option in OPTIONS}
        card, chips = render_card(view, width, keys)
        top = [*card, *render_overview(view, width, run=self._run, hypothesis=self._hypothesis)]
        follows = view.reproduction is not None and view.question is None and rows.scroll_y >= rows.max_scroll_y
        self._log_top = len(top)
        rows.show([*top, *self._render_log(width)], chips)
        if follows:
            rows.scroll_end(animate=False)

    def _render_log(self, width: int) -> list[BoardRow]:
        """Return the rows of the live log, of the selected run, or of two runs compared."""
        view, words = self._view, self.query_one(LogFilterInput).value
        if view.reproduction is not None:
            live = self._filter_records(view.live_records, words)
            is_cut = len(view.live_records) >= MAX_LIVE_RECORDS
            note = f"its first {MAX_LIVE_RECORDS} lines while it runs" if is_cut else "live"
            return render_log(view.reproduction.run, live, width, words=words, live=note)
        if self._log.run != self._run or not self._run:
            return []
        if self._compared_run:
            key = format_first_key("debug.copy", get_keymap(self.app))
            return render_comparison(self._log, width, view.runs, copy_key=key)
        cache_key = (self._log, width, words, self._hypothesis)
        if self._log_rows[0] != cache_key:  # thousands of rows, and the board is drawn whenever anything happens
            total = self._log.total if self._log.is_truncated else 0
            records = self._filter_records(self._log.records, words)
            self._log_rows = (cache_key, render_log(self._run, records, width, words=words, total=total))
        return self._log_rows[1]

    def format_comparison(self) -> str:
        """Return the two runs that are compared as Markdown, "" = none are."""
        is_shown = self._compared_run and self._log.compare_with == self._compared_run
        return format_comparison(self._log, self._view.runs) if is_shown else ""

    def get_copied_text(self) -> str:
        """Return the runs that are compared as Markdown, else the rows of the board."""
        rows = self.query_one(BoardRows)
        text = "\n".join(rows.get_row_text(row).rstrip() for row in range(rows.count_rows()))
        return self.format_comparison() or text.strip()

    def _filter_records(self, records: Sequence[ProbeRecord], words: str) -> list[ProbeRecord]:
        terms = words.casefold().split()
        return [
            record
            for record in records
            if self._hypothesis in {"", record.hypothesis_id}
            and all(word in f"{record.location} {record.message} {record.data}".casefold() for word in terms)
        ]

    def _reveal_log(self) -> None:
        rows = self.query_one(BoardRows)
        self._is_log_wanted = True
        if rows.virtual_size.height > rows.scroll_y + rows.size.height:
            rows.scroll_to(y=self._log_top + 1, animate=False)

    @on(Input.Changed)
    def _on_filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._apply_filter()

    def _apply_filter(self) -> None:
        """Filter the loaded records and query the others."""
        if self._compared_run or self._log.is_truncated:
            self._load_log()
        self.render_rows()
        self._reveal_log()

    @on(Input.Submitted)
    def _on_filter_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.focus()

    @on(BoardRows.OptionClicked)
    def _on_option_clicked(self, event: BoardRows.OptionClicked) -> None:
        event.stop()
        self.action_answer(event.option)

    def action_answer(self, option: str) -> None:
        """Answer the card if it offers `option`; a key pressed before the card was visible is ignored."""
        request = self._view.question
        if monotonic() - self._card_shown_at < GRACE_SECONDS:
            return
        if request is not None and any(choice.id == option for choice in request.questions[0].options):
            self._view = replace(self._view, question=None)
            answer = QuestionAnswer(question=request.questions[0].id, options=(option,))
            self.post_message(AnswersSubmitted(request.id, (answer,)))
            self.render_rows()

    def action_filter(self) -> None:
        line = self.query_one(LogFilterInput)
        line.ask("filter", line.value)

    @on(LogFilterInput.Cancelled)
    def _on_filter_cancelled(self, event: LogFilterInput.Cancelled) -> None:
        event.stop()
        line = self.query_one(LogFilterInput)
        line.value = ""
        line.close()
        self.focus()

    def action_next_run(self) -> None:
        runs = list(self._view.runs)
        if runs:
            index = runs.index(self._run) if self._run in runs else -1
            self._select_run(runs[(index + 1) % len(runs)])
            self._reveal_log()

    def action_compare(self) -> None:
        runs = list(self._view.runs)
        index = runs.index(self._run) if self._run in runs else 0
        if len(runs) < 2:
            self.notify("Only one run so far.", markup=False)
        elif self._compared_run:
            self._select_run(self._run)
        else:
            index = max(index, 1)
            self._select_run(runs[index], runs[index - 1])
        self._reveal_log()

    def action_next_hypothesis(self) -> None:
        names = ["", *self._view.hypotheses]
        self._hypothesis = names[(names.index(self._hypothesis) + 1) % len(names)]
        self._apply_filter()
