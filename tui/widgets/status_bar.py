"""The status bar: mode, model, cost, and what waits. It is animated only while a turn or a command runs."""

from __future__ import annotations

from math import ceil
from time import monotonic
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from core.modes import Mode
from tui.keymap import format_first_key, get_keymap
from tui.quantities import count, format_count
from tui.search.progress import format_progress
from tui.state import ViewState
from tui.state.view import PendingRetry
from tui.text import fit_line
from tui.themes.appearance import is_read_out

FRAMES: Final = "⠋⠙⠸⠴⠦⠇"
FRAME_INTERVAL: Final = 0.25
_METER_WIDTH: Final = 8
_MIN_LEFT_WIDTH: Final = 12
_MIN_MODEL_WIDTH: Final = 20  # columns of a model's name that are kept before facts give way
WAITING_RANK: Final = 6  # the rank of what waits for the user

Part = tuple[str, str | Style]


class StatusFact(NamedTuple):
    """A fact on the right; without room for all, the lowest rank is dropped first."""

    rank: int
    parts: list[Part]


def _make_muted_fact(rank: int, text: str) -> StatusFact:
    return StatusFact(rank, [(text, "$foreground 60%")])


def render_meter(used: int, window: int) -> str:
    """Return a bar and the share of the context window used."""
    share = min(used / window, 1.0)
    full = round(share * _METER_WIDTH)
    return f"{'━' * full}{'╌' * (_METER_WIDTH - full)} {share:.0%}"


def _describe_containment(state: ViewState) -> Part:
    """Return what contains the effects of commands; until that is known, what becomes of one."""
    commands = "ask" if Mode(state.mode).rules.keeps_effects else "off"
    if state.box is None:
        return f"commands: {commands}", "$foreground 60%"
    if state.box.tier == "T4":
        return f"no box, commands: {commands}", "$warning"
    return f"box {state.box.tier}", "$foreground 60%"


def _list_session_facts(state: ViewState) -> list[StatusFact]:
    """Return what holds for the whole session and is not the default."""
    facts = [StatusFact(WAITING_RANK, [("private", "bold")])] if state.is_private else []
    if state.policy.policy == "human":
        facts.append(StatusFact(5, [("you type commands", "$warning")]))
    elif state.policy.policy == "confirm":
        facts.append(_make_muted_fact(3, "asks before commands"))
    if state.client_count > 1:
        facts.append(_make_muted_fact(4, f"{state.client_count} clients"))
    return facts


class StatusBar(Widget):
    """Shows facts of the state; where the line is too short, the model's name is cut first."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--mode", "status--accent"}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._state = ViewState()
        self._retry: PendingRetry | None = None
        self._note = "starting…"
        self._frame = 0
        self._timer: Timer | None = None
        self._retry_at = 0.0  # when a model call is tried again
        self._is_calling = False
        self._command_started_at: float | None = None  # when the user's own command was seen to run

    def show(self, state: ViewState, note: str) -> None:
        """Show `state`; `note` is what the bridge is doing, "" = nothing special."""
        if state.retry != self._retry:
            self._retry = state.retry
            self._retry_at = monotonic() + (state.retry.delay_ms / 1000 if state.retry else 0.0)
        self._state, self._note = state, note
        moves = (state.is_running or state.is_running_command) and not is_read_out(self.app)
        self._command_started_at = (self._command_started_at or monotonic()) if state.is_running_command else None
        if moves and self._timer is None:
            self._timer = self.set_interval(FRAME_INTERVAL, self._advance_frame)
        elif not moves and self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.refresh()

    def set_calling(self, is_calling: bool) -> None:
        """Show, or no longer, that something outside the focus waits for an answer."""
        if is_calling != self._is_calling:
            self._is_calling = is_calling
            self.refresh()

    def _advance_frame(self) -> None:
        self._frame = (self._frame + 1) % len(FRAMES)
        self.refresh()

    def _list_facts(self) -> list[StatusFact]:
        state = self._state
        usage = state.model_choices.sum_usage()
        tokens = usage.prompt_tokens + usage.completion_tokens
        is_boxless = state.box is not None and state.box.tier == "T4"
        facts = [StatusFact(5 if is_boxless else 2, [_describe_containment(state)]), *_list_session_facts(state)]
        if (indexing := format_progress(state.index))[0]:
            facts.append(StatusFact(1, [indexing]))
        if state.jobs:
            facts.append(_make_muted_fact(3, count("job", len(state.jobs))))
        if tokens:
            facts.append(_make_muted_fact(1, f"{format_count(tokens)} tokens"))
        if usage.cost is not None:
            most = f" of ${state.limits.max_cost:.2f}" if state.limits.max_cost else ""
            facts.append(_make_muted_fact(4 if usage.cost else 0, f"${usage.cost:.2f}{most}"))
        if state.context_window and state.context_used:
            share = state.context_used / state.context_window
            style = "$warning" if share > 0.8 else "$foreground 60%"
            facts.append(StatusFact(5, [(render_meter(state.context_used, state.context_window), style)]))
        if state.pending_hunk_count:
            facts.append(StatusFact(WAITING_RANK, [(f"{state.pending_hunk_count:,} to review", "$warning")]))
        if self._is_calling:
            key = format_first_key("app.answer", get_keymap(self.app)).upper()
            facts.append(StatusFact(WAITING_RANK + 2, [(f"waits for you · {key}", "bold $warning")]))
        if (work := self._describe_work()) is not None:
            sign = (FRAMES[self._frame], self.get_visual_style("status--accent"))
            facts.append(StatusFact(WAITING_RANK + 1, [sign, (work, "$foreground 60%")]))
        return facts

    def _describe_work(self) -> str | None:
        state = self._state
        turn = state.current_turn
        if turn is None:
            started = self._command_started_at
            return None if started is None else f" command {monotonic() - started:.0f} s"
        if count := len(state.transcript.find_running_subagents()):
            return f" {count} at work · {format_first_key('app.agents', get_keymap(self.app)).upper()}"
        if (left := self._retry_at - monotonic()) > 0 and state.retry is not None:
            key = format_first_key("app.interrupt", get_keymap(self.app)).replace("escape", "esc").capitalize()
            return f" {state.retry.reason}: again in {ceil(left)} s · {key} stops"
        most = f" of {state.limits.max_steps}" if state.limits.by == "user" and state.limits.max_steps else ""
        return f" step {turn.step}{most}" if turn.step else ""

    def _render_left(self, room: int) -> Content:
        """Return mode and model, the start of a long model name cut."""
        state = self._state
        mode = Content.assemble((f" {state.mode.capitalize()} ", self.get_visual_style("status--mode")), "  ")
        note = Content.styled(f"  {self._note}", "$foreground 60%") if state.shown_model and self._note else Content("")
        if state.is_demo:
            return Content.assemble(mode, ("scripted demo", "$warning"), note)
        name, rest = fit_line(state.shown_model, 200) or self._note, self._describe_model()
        most = max(room - mode.cell_length - note.cell_length - rest.cell_length, _MIN_MODEL_WIDTH)
        name = name if cell_len(name) <= most else f"…{set_cell_size(name[::-1], most - 1)[::-1].lstrip()}"
        return Content.assemble(mode, (name, "" if state.shown_model else "$foreground 60%"), rest, note)

    def _describe_model(self) -> Content:
        """Return the effort, and the model that this one stands in for."""
        route = self._state.model_choices.route
        parts: list[Part] = [(f" · {route.effort}", "$foreground 60%")] if route is not None and route.effort else []
        if route is not None and route.instead_of:
            parts.append((f" for {fit_line(route.instead_of, 30)}", "$warning"))
        return Content.assemble(*parts)

    def render(self) -> Content:
        width = self.size.width
        facts = self._list_facts()
        while facts:
            right = Content("   ").join(Content.assemble(*fact.parts) for fact in facts)
            room = width - right.cell_length - 3
            left = self._render_left(room)
            least = min(facts, key=lambda fact: fact.rank)
            if left.cell_length > room and least.rank >= WAITING_RANK:  # it counts more than a model's name
                left = left.truncate(max(room, _MIN_LEFT_WIDTH), ellipsis=True)
            if left.cell_length <= room:
                return Content.assemble(left, " " * (room - left.cell_length + 2), right, " ")
            facts.remove(least)
        return self._render_left(width).truncate(width, ellipsis=True)
