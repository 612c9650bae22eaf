"""One line of state at the bottom: mode, model, cost, and what waits. It moves only while a turn, or a command of the
user's own, runs."""

from __future__ import annotations

from time import monotonic
from typing import ClassVar, Final

from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from tui.crew_fold import at_work
from tui.state import ViewState
from tui.text import one_line

FRAMES: Final = "⠋⠙⠸⠴⠦⠇"
FRAME_TIME: Final = 0.25
COMMANDS_ASK: Final = ("agent", "debug")
_METER: Final = 8
_SHORTEST: Final = 12

Part = tuple[str, str | Style]


def compact(tokens: int) -> str:
    """A count in at most five characters: 950, 12.3k, 1.2M."""
    if tokens < 1_000:
        return str(tokens)
    return f"{tokens / 1_000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def meter(used: int, window: int) -> str:
    """How full the model's window is."""
    share = min(used / window, 1.0)
    full = round(share * _METER)
    return f"{'━' * full}{'╌' * (_METER - full)} {share:.0%}"


def _containment(state: ViewState) -> Part:
    """What holds the effects of commands; as long as that is not known, what becomes of one."""
    commands = "ask" if state.mode in COMMANDS_ASK else "off"
    if state.box is None:
        return f"commands: {commands}", "$foreground 60%"
    if state.box.tier == "T4":
        return f"no box, commands: {commands}", "$warning"
    return f"box {state.box.tier}", "$foreground 60%"


class StatusBar(Widget):
    """Draws a few facts of the state; drops the least important ones when the line is too short."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--mode", "status--accent"}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._state = ViewState()
        self._note = "starting…"
        self._frame = 0
        self._timer: Timer | None = None
        self._since: float | None = None  # when the user's own command was seen to run

    def show(self, state: ViewState, note: str) -> None:
        """Draw `state`; `note` is what the bridge is doing ("" = nothing special)."""
        self._state, self._note = state, note
        moves = state.running or state.runs_command
        self._since = (self._since or monotonic()) if state.runs_command else None
        if moves and self._timer is None:
            self._timer = self.set_interval(FRAME_TIME, self._spin)
        elif not moves and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.refresh()

    def _spin(self) -> None:
        self._frame = (self._frame + 1) % len(FRAMES)
        self.refresh()

    def _right(self) -> list[list[Part]]:
        """Facts with the most important last."""
        state = self._state
        tokens = state.prompt_tokens + state.completion_tokens
        facts: list[list[Part]] = [[_containment(state)]]
        if state.jobs:
            facts.append([(f"{len(state.jobs)} {'job' if len(state.jobs) == 1 else 'jobs'}", "$foreground 60%")])
        if tokens:
            facts.append([(f"{compact(tokens)} tokens", "$foreground 60%")])
        if state.cost is not None:
            facts.append([(f"${state.cost:.2f}", "$foreground 60%")])
        if state.context_window and state.context_used:
            share = state.context_used / state.context_window
            facts.append(
                [(meter(state.context_used, state.context_window), "$warning" if share > 0.8 else "$foreground 60%")]
            )
        if state.pending_hunks:
            facts.append([(f"{state.pending_hunks} to review", "$warning")])
        if (work := self._work()) is not None:
            facts.append([(FRAMES[self._frame], self.get_visual_style("status--accent")), (work, "$foreground 60%")])
        return facts

    def _work(self) -> str | None:
        """What goes on, behind the sign that turns; None: nothing does."""
        state = self._state
        if not state.running:
            return f" command {monotonic() - self._since:.0f} s" if self._since is not None else None
        if count := len(at_work(state)):
            return f" {count} at work"
        return f" step {state.step}" if state.step else ""

    def _kept(self) -> int:
        """How many facts, counted from the last, stay as long as the mode has room beside them."""
        return bool(self._state.pending_hunks) + (self._work() is not None)

    def _left(self) -> list[Part]:
        state = self._state
        left: list[Part] = [(f" {state.mode.capitalize()} ", self.get_visual_style("status--mode")), ("  ", "")]
        if state.demo:
            left.append(("scripted demo", "$warning"))
        else:
            left.append((one_line(state.model, 40) or self._note, "" if state.model else "$foreground 60%"))
        if state.model and self._note:
            left.append((f"  {self._note}", "$foreground 60%"))
        return left

    def render(self) -> Content:
        width = self.size.width
        left = Content.assemble(*self._left())
        facts = self._right()
        while facts:
            pieces: list[Part] = []
            for fact in facts:
                pieces += [*fact, ("   ", "")]
            right = Content.assemble(*pieces[:-1], (" ", ""))
            space = width - left.cell_length - right.cell_length
            if space < 2 and len(facts) <= self._kept():  # what waits for the user counts more than a model's name
                left = left.truncate(max(width - right.cell_length - 2, _SHORTEST), ellipsis=True)
                space = width - left.cell_length - right.cell_length
            if space >= 2:
                return Content.assemble(left, " " * space, right)
            facts.pop(0)
        return left.truncate(width, ellipsis=True)
