"""The status bar: mode, model, cost, and what waits. It is animated only while a turn or a command runs."""

from __future__ import annotations

from math import ceil
from time import monotonic
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from core.text.counting import count
from tui.keymap import format_first_key, get_keymap
from tui.state import ViewState
from tui.state.view import PendingRetry
from tui.text import fit_line
from tui.themes.appearance import is_read_out
from tui.widgets.status_facts import (
    MUTED,
    PAGE,
    WAITING_RANK,
    Part,
    StatusFact,
    describe_mode,
    describe_model,
    list_effort,
    list_facts,
)

FRAMES: Final = "⠋⠙⠸⠴⠦⠇"
FRAME_INTERVAL: Final = 0.25
_MIN_LEFT_WIDTH: Final = 12
_MIN_MODEL_WIDTH: Final = 20  # columns of a model's name that are kept before facts give way


class StatusBar(Widget):
    """Shows facts of the state; where the line is too short, the model's name is cut first. Each leads to more by a
    click, and a pointer that rests on it is told what it means."""

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
        self._told = ""  # what the pointer rests on
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
        facts = [fact for fact in list_facts(self._state) if fact.parts]
        if self._is_calling:
            key = format_first_key("app.answer", get_keymap(self.app)).upper()
            parts: list[Part] = [(f"waits for you · {key}", "bold $warning")]
            facts.append(StatusFact(WAITING_RANK + 2, parts, "The agent waits for your answer", "app.answer"))
        if (work := self._describe_work()) is not None:
            sign = (FRAMES[self._frame], self.get_visual_style("status--accent"))
            facts.append(work._replace(parts=[sign, *work.parts]))
        return facts

    def _describe_work(self) -> StatusFact | None:
        """Return what goes on now; None: nothing does."""
        state, keymap = self._state, get_keymap(self.app)

        def tell(text: str, description: str, reference: str) -> StatusFact:
            return StatusFact(WAITING_RANK + 1, [(text, MUTED)], description, reference)

        turn = state.current_turn
        if turn is None:
            if self._command_started_at is None:
                return None
            seconds = f"{monotonic() - self._command_started_at:.0f} s"
            return tell(f" command {seconds}", "A command of yours runs", PAGE)
        if working := len(state.transcript.find_running_subagents()):
            key = format_first_key("app.agents", keymap).upper()
            return tell(f" {working} at work · {key}", f"{count('subagent', working)} at work", "app.agents")
        if (remaining_seconds := self._retry_at - monotonic()) > 0 and state.retry is not None:
            key = format_first_key("app.interrupt", keymap).replace("escape", "esc").capitalize()
            text = f" {state.retry.reason}: again in {ceil(remaining_seconds)} s · {key} stops"
            return tell(text, "The model is asked again in a moment", "/models")
        limit_note = f" of {state.limits.max_steps}" if state.limits.by == "user" and state.limits.max_steps else ""
        return tell(f" step {turn.step}{limit_note}" if turn.step else "", "The agent is at work", "/limits")

    def _render_left(self, room: int) -> Content:
        """Return mode and model, the start of a long model name cut."""
        state = self._state
        mode = describe_mode(state)
        mode = mode._replace(parts=[(mode.parts[0][0], self.get_visual_style("status--mode"))])
        head = Content.assemble(_draw(mode), "  ")
        note = Content.styled(f"  {self._note}", MUTED) if state.shown_model and self._note else Content("")
        if state.is_demo:
            demo = describe_model(state, "")._replace(parts=[("scripted demo", "$warning")])
            return Content.assemble(head, _draw(demo), note)
        rest = Content.assemble(*map(_draw, list_effort(state)))
        name = fit_line(state.shown_model, 200) or self._note
        max_width = max(room - head.cell_length - note.cell_length - rest.cell_length, _MIN_MODEL_WIDTH)
        name = name if cell_len(name) <= max_width else f"…{set_cell_size(name[::-1], max_width - 1)[::-1].lstrip()}"
        return Content.assemble(head, _draw(describe_model(state, name)), rest, note)

    def render(self) -> Content:
        width = self.size.width
        facts = self._list_facts()
        while facts:
            right = Content("   ").join(map(_draw, facts))
            room = width - right.cell_length - 3
            left = self._render_left(room)
            lowest_fact = min(facts, key=lambda fact: fact.rank)
            if left.cell_length > room and lowest_fact.rank >= WAITING_RANK:  # it counts more than a model's name
                left = left.truncate(max(room, _MIN_LEFT_WIDTH), ellipsis=True)
            if left.cell_length <= room:
                return Content.assemble(left, " " * (room - left.cell_length + 2), right, " ")
            facts.remove(lowest_fact)
        return self._render_left(width).truncate(width, ellipsis=True)

    # The pointer

    def on_mouse_move(self, event: events.MouseMove) -> None:
        description = event.style.meta.get("told", "")
        if description != self._told:
            self._told = description
            self.tooltip = Content(description) if description else None

    async def on_click(self, event: events.Click) -> None:
        """Do what leads to more about the fact that was clicked."""
        if reference := event.style.meta.get("way"):
            from tui.slash_commands import find_action

            await self.screen.run_action(find_action(reference))


def _draw(fact: StatusFact) -> Content:
    """Return a fact with what a pointer at it is told, and where a click leads."""
    return Content.assemble(*fact.parts).stylize(Style.from_meta({"way": fact.way, "told": fact.told}))
