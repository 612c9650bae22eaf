"""One line of state at the bottom: mode, model, cost, and what waits. It moves only while a turn, or a command of the
user's own, runs."""

from __future__ import annotations

from math import ceil
from time import monotonic
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from tui.crew_fold import at_work
from tui.keymap import key_of
from tui.model_fold import effort_of
from tui.retry_fold import Waiting
from tui.state import ViewState
from tui.text import one_line

FRAMES: Final = "⠋⠙⠸⠴⠦⠇"
FRAME_TIME: Final = 0.25
COMMANDS_ASK: Final = ("agent", "debug")
_METER: Final = 8
_SHORTEST: Final = 12
_NAME: Final = 20  # columns of a model's name that are kept before facts give way
WAITS: Final = 6  # the rank of what waits for the user

Part = tuple[str, str | Style]


class Fact(NamedTuple):
    """What stands on the right. Where there is no room for all, those of the lowest rank give way."""

    rank: int
    parts: list[Part]


def _muted(rank: int, text: str) -> Fact:
    return Fact(rank, [(text, "$foreground 60%")])


def dollars(cost: float) -> str:
    """A cost in US dollars, never as nothing when it is little."""
    return "< $0.0001" if 0 < cost < 0.00005 else f"${cost:.4f}"


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


def _standing(state: ViewState) -> list[Fact]:
    """What holds for the whole session, where it is not the usual."""
    facts = [Fact(WAITS, [("private", "bold")])] if state.private else []
    if state.policy.policy == "human":
        facts.append(Fact(5, [("you type commands", "$warning")]))
    elif state.policy.policy == "confirm":
        facts.append(_muted(3, "asks before commands"))
    return facts


class StatusBar(Widget):
    """Draws a few facts of the state. Where the line is too short, the model's name is cut first."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--mode", "status--accent"}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._state = ViewState()
        self._waiting: Waiting | None = None
        self._note = "starting…"
        self._frame = 0
        self._timer: Timer | None = None
        self._again = 0.0  # when a model call is tried again
        self._calls = False
        self._since: float | None = None  # when the user's own command was seen to run

    def show(self, state: ViewState, note: str) -> None:
        """Draw `state`; `note` is what the bridge is doing ("" = nothing special)."""
        if state.waiting != self._waiting:
            self._waiting = state.waiting
            self._again = monotonic() + (state.waiting.delay_ms / 1000 if state.waiting else 0.0)
        self._state, self._note = state, note
        moves = state.running or state.runs_command
        self._since = (self._since or monotonic()) if state.runs_command else None
        if moves and self._timer is None:
            self._timer = self.set_interval(FRAME_TIME, self._spin)
        elif not moves and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.refresh()

    def call_back(self, calls: bool) -> None:
        """Say, or no longer, that something waits for an answer which the focus is not on."""
        if calls != self._calls:
            self._calls = calls
            self.refresh()

    def _spin(self) -> None:
        self._frame = (self._frame + 1) % len(FRAMES)
        self.refresh()

    def _right(self) -> list[Fact]:
        """Facts as they stand beside each other."""
        state = self._state
        tokens = state.prompt_tokens + state.completion_tokens
        facts = [Fact(5 if state.box is not None and state.box.tier == "T4" else 2, [_containment(state)])]
        facts += _standing(state)
        if state.jobs:
            facts.append(_muted(3, f"{len(state.jobs)} {'job' if len(state.jobs) == 1 else 'jobs'}"))
        if tokens:
            facts.append(_muted(1, f"{compact(tokens)} tokens"))
        if state.cost is not None:
            most = f" of ${state.limits.max_cost:.2f}" if state.limits.max_cost else ""
            facts.append(_muted(4 if state.cost else 0, f"${state.cost:.2f}{most}"))
        if state.context_window and state.context_used:
            share = state.context_used / state.context_window
            style = "$warning" if share > 0.8 else "$foreground 60%"
            facts.append(Fact(5, [(meter(state.context_used, state.context_window), style)]))
        if state.pending_hunks:
            facts.append(Fact(WAITS, [(f"{state.pending_hunks} to review", "$warning")]))
        if self._calls:
            key = key_of("app.answer", getattr(self.app, "keymap", {})).upper()
            facts.append(Fact(WAITS + 2, [(f"waits for you · {key}", "bold $warning")]))
        if (work := self._work()) is not None:
            sign = (FRAMES[self._frame], self.get_visual_style("status--accent"))
            facts.append(Fact(WAITS + 1, [sign, (work, "$foreground 60%")]))
        return facts

    def _work(self) -> str | None:
        """What goes on, behind the sign that turns; None: nothing does."""
        state = self._state
        if not state.running:
            return f" command {monotonic() - self._since:.0f} s" if self._since is not None else None
        if count := len(at_work(state)):
            return f" {count} at work"
        if (left := self._again - monotonic()) > 0 and state.waiting is not None:
            key = key_of("app.interrupt", getattr(self.app, "keymap", {})).replace("escape", "esc").capitalize()
            return f" {state.waiting.reason}: again in {ceil(left)} s · {key} stops"
        most = f" of {state.limits.max_steps}" if state.limits.by == "user" and state.limits.max_steps else ""
        return f" step {state.step}{most}" if state.step else ""

    def _left(self, room: int) -> Content:
        """The mode, and the model with as much of the end of its name as there is room for."""
        state = self._state
        mode = Content.assemble((f" {state.mode.capitalize()} ", self.get_visual_style("status--mode")), "  ")
        note = Content.styled(f"  {self._note}", "$foreground 60%") if state.model and self._note else Content("")
        if state.demo:
            return Content.assemble(mode, ("scripted demo", "$warning"), note)
        name, rest = one_line(state.model, 200) or self._note, self._how()
        most = max(room - mode.cell_length - note.cell_length - rest.cell_length, _NAME)
        name = name if cell_len(name) <= most else f"…{set_cell_size(name[::-1], most - 1)[::-1].lstrip()}"
        return Content.assemble(mode, (name, "" if state.model else "$foreground 60%"), rest, note)

    def _how(self) -> Content:
        """How much the model thinks, and that it answers in the place of another."""
        effort, route = effort_of(self._state), self._state.route
        parts: list[Part] = [(f" · {effort}", "$foreground 60%")] if effort else []
        if route is not None and route.instead_of and route.model == self._state.model:
            parts.append((f" for {one_line(route.instead_of, 30)}", "$warning"))
        return Content.assemble(*parts)

    def render(self) -> Content:
        width = self.size.width
        facts = self._right()
        while facts:
            right = Content("   ").join(Content.assemble(*fact.parts) for fact in facts)
            room = width - right.cell_length - 3
            left = self._left(room)
            least = min(facts, key=lambda fact: fact.rank)
            if left.cell_length > room and least.rank >= WAITS:  # it counts more than a model's name
                left = left.truncate(max(room, _SHORTEST), ellipsis=True)
            if left.cell_length <= room:
                return Content.assemble(left, " " * (room - left.cell_length + 2), right, " ")
            facts.remove(least)
        return self._left(width).truncate(width, ellipsis=True)
