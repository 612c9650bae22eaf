"""The status bar and its facts: mode, model, cost, context and pending work.

The bar animates only during a turn or a command; the page of `/status` lists all facts in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from time import monotonic
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from core.modes import Mode
from core.protocol.messages import Usage
from core.text.counting import count
from core.text.display_names import shorten_model
from tui.background_commands import describe_job_end
from tui.index_progress import describe_progress, format_progress
from tui.keymap import format_first_key, get_keymap
from tui.quantities import format_count
from tui.state import ViewState
from tui.state.view import PendingRetry
from tui.text import fit_line, render_prose
from tui.themes.appearance import is_read_out

METER_WIDTH: Final = 8
MUTED: Final = "$foreground 60%"
WAITING_RANK: Final = 6  # rank of facts that require the user
PAGE: Final = "/status"
TIERS: Final = {
    "T1": "namespaces",
    "T2": "bubblewrap",
    "T3": "Landlock",
    "M1": "Seatbelt, on a clone of the project",
    "T4": "none, nothing contains what commands do",
    "container": "this container; commands run on a copy of the project",
    "in-place": "none, commands change the project itself",
}
Part = tuple[str, str | Style]
FRAMES: Final = "⠋⠙⠸⠴⠦⠇"
FRAME_INTERVAL: Final = 0.25
LONG_WAIT: Final = 10.0  # seconds without a word of the model after which the wait is shown
_MIN_LEFT_WIDTH: Final = 12
_MIN_MODEL_WIDTH: Final = 20  # minimum columns of a model's name before facts are dropped


class StatusFact(NamedTuple):
    """A fact of the bar. The lowest rank is left out first; without `parts` it appears on the page of `/status`
    only. `sentence`: a sentence for the page and the tooltip; `way`: a command or the id of a key for more."""

    rank: int
    parts: list[Part]
    sentence: str
    way: str = PAGE


def render_meter(used_tokens: int, window: int) -> str:
    """Return a bar and the share of the context window used."""
    share = min(used_tokens / window, 1.0)
    full = round(share * METER_WIDTH)
    return f"{'━' * full}{'╌' * (METER_WIDTH - full)} {share:.0%}"


def describe_mode(state: ViewState) -> StatusFact:
    return StatusFact(WAITING_RANK, [(f" {state.mode.capitalize()} ", "")], f"Mode: {state.mode}", "/mode")


def describe_model(state: ViewState, name: str) -> StatusFact:
    """Return the model that answers, drawn as `name`."""
    style = "" if state.shown_model else MUTED
    model = "none (scripted demo)" if state.is_demo else fit_line(shorten_model(state.shown_model), 200)
    return StatusFact(WAITING_RANK, [(name, style)], f"Model: {model}", "/model")


def list_effort(state: ViewState) -> list[StatusFact]:
    """Return the effort, and the model that this one replaces, if any."""
    route, facts = state.model_choices.route, list[StatusFact]()
    if route is not None and route.effort:
        facts.append(StatusFact(WAITING_RANK, [(f" · {route.effort}", MUTED)], f"Effort: {route.effort}", "/effort"))
    if route is not None and route.tier:
        facts.append(
            StatusFact(WAITING_RANK, [(f" · {route.tier}", "$warning")], f"Service tier: {route.tier}", "/fast")
        )
    if route is not None and route.instead_of:
        name = fit_line(shorten_model(route.instead_of), 200)
        parts: list[Part] = [(f" for {fit_line(name, 30)}", "$warning")]
        facts.append(StatusFact(WAITING_RANK, parts, f"Answering instead of {name}", "/models"))
    return facts


def list_facts(state: ViewState) -> list[StatusFact]:
    """Return all facts except mode and model, in display order."""
    return [
        *_list_surroundings(state),
        *_list_costs(state),
        *_list_context(state),
        *_list_waiting(state),
    ]


def describe_wait(state: ViewState) -> str:
    """Describe the running turn in a sentence."""
    wait = state.wait
    if wait is None or not wait.total:
        return "The agent is working"
    return f"The model's server has read {wait.processed:,} of {wait.total:,} tokens of the prompt"


def _list_surroundings(state: ViewState) -> Iterator[StatusFact]:
    """Yield the sandbox, the policy, other clients, and background activity."""
    yield _describe_containment(state)
    if state.is_private:
        description = "Private session: nothing is kept after you quit"
        yield StatusFact(WAITING_RANK, [("private", "bold")], description)
    if state.policy.policy == "human":
        description = "You type the commands; only ?… calls the model"
        yield StatusFact(5, [("you type commands", "$warning")], description, "/policy")
    elif state.policy.policy == "confirm":
        description = "Every command asks first"
        yield StatusFact(3, [("asks before commands", MUTED)], description, "/policy")
    if state.branch:
        yield StatusFact(2, [(f"on {fit_line(state.branch, 30)}", MUTED)], f"Branch: {fit_line(state.branch, 200)}")
    if state.client_count > 1:
        description = f"{state.client_count} clients have this session open"
        yield StatusFact(4, [(f"{state.client_count} clients", MUTED)], description)
    if (indexing := format_progress(state.index))[0]:
        yield StatusFact(1, [indexing], f"Project index: {describe_progress(state.index)}", "/index")
    yield from _list_jobs(state)
    yield from _list_long_work(state)
    if working := sum(agent.state in {"queued", "running", "waiting"} for agent in state.background):
        description = f"{count('background agent', working)} running"
        yield StatusFact(3, [(f"{working} in background", MUTED)], description, "/background")


def _list_jobs(state: ViewState) -> Iterator[StatusFact]:
    """Yield the background commands, those that have failed, and the ports at which commands listen."""
    if state.jobs:
        description = f"{count('command', len(state.jobs))} in the background"
        yield StatusFact(3, [(count("job", len(state.jobs)), MUTED)], description, "/jobs")
    if listening := [port for port in state.ports if port.is_listening]:
        label = f"port {listening[0].port}" if len(listening) == 1 else count("port", len(listening))
        numbers = ", ".join(str(port.port) for port in listening[:8])
        yield StatusFact(4, [(label, MUTED)], f"Servers of the agent listen at {numbers}", "/ports")
    if failures := [event for event in state.job_ends.values() if event.is_failure]:
        words = f"{failures[0].id} failed" if len(failures) == 1 else f"{len(failures)} jobs failed"
        description = "; ".join(map(describe_job_end, failures))
        yield StatusFact(5, [(words, "$error")], description, "/jobs")


def _list_long_work(state: ViewState) -> Iterator[StatusFact]:
    """Yield the goal and the loops, which go on without a prompt."""
    goal = state.goal
    if goal is not None and not goal.reason:
        description = f"Goal, round {len(goal.rounds) + 1} of {goal.max_rounds}: {fit_line(goal.condition, 200)}"
        yield StatusFact(3, [("goal", MUTED)], description)
    if state.loops:
        description = f"{count('loop', len(state.loops))}: a prompt is sent again and again"
        yield StatusFact(4, [(count("loop", len(state.loops)), MUTED)], description, "/loop")


def _describe_containment(state: ViewState) -> StatusFact:
    """Describe the sandbox of commands; until its tier is known, the policy for one."""
    commands = "ask" if Mode(state.mode).rules.keeps_effects else "off"
    if state.box is None:
        description = "Commands ask first" if commands == "ask" else "No commands run in this mode"
        return StatusFact(2, [(f"commands: {commands}", MUTED)], description, "/policy")
    tier, reason = state.box.tier, render_prose(" ".join(filter(None, (state.box.reason, state.box.cure))))
    description = f"Sandbox {tier}: {TIERS.get(tier) or TIERS.get(tier[:2], tier)}{f'. {reason}' if reason else ''}"
    if not state.box.is_walled:
        label = tier if state.box.can_run_unasked else f"not sandboxed, commands: {commands}"
        return StatusFact(5, [(label, "$warning")], description)
    label = "sandboxed" if state.box.can_run_unasked else "partly sandboxed"
    return StatusFact(2, [(label, MUTED)], description)


def _list_costs(state: ViewState) -> Iterator[StatusFact]:
    """Yield the cache's share, and the costs of the last turn and the session."""
    usage = state.model_choices.sum_usage()
    turn = state.turns[-1].usage if state.turns else Usage()
    if usage.cached_tokens and turn.prompt_tokens:
        share = min(turn.cached_tokens / turn.prompt_tokens, 1.0)
        miss_note = f"; missed: {render_prose(state.cache_miss)}" if state.cache_miss else ""
        description = f"Cache: {share:.0%} of the last turn's input came from the provider's cache{miss_note}"
        yield StatusFact(0, [], description, "/models")
    max_cost = state.limits.max_cost
    if turn.cost is not None and (max_cost or (turn.cost and turn.cost != usage.cost)):
        limit = f" of ${max_cost:.2f}" if max_cost else ""
        description = f"Last turn cost: {turn.format_cost() or '$0.0000'}{limit}"
        label = f"turn {'~' if turn.estimated else ''}${turn.cost:.2f}{limit}"
        yield StatusFact(4 if max_cost else 2, [(label, MUTED)], description, "/limits")
    tokens = f"{usage.prompt_tokens:,} tokens sent and {usage.completion_tokens:,} received"
    if usage.cost is not None:
        about, estimate = ("about ", " (the price of a similar model)") if usage.estimated else ("", "")
        description = f"Session cost: {about}${usage.cost:.4f}{estimate}, {tokens}"
        label = f"session {'~' if usage.estimated else ''}${usage.cost:.2f}"
        yield StatusFact(4 if usage.cost else 0, [(label, MUTED)], description, "/models")
    elif usage.prompt_tokens:
        yield StatusFact(0, [], f"Session cost: unknown, {tokens}", "/models")


def _list_context(state: ViewState) -> Iterator[StatusFact]:
    """Yield the context used of the window."""
    used_tokens, window = state.context_used, state.context_window
    if not used_tokens:
        return
    if not window:
        description = f"Context: {used_tokens:,} tokens; the model's window is unknown"
        yield StatusFact(4, [(f"context {format_count(used_tokens)}", MUTED)], description, "/context")
        return
    description = f"Context: {used_tokens:,} of {window:,} tokens, {min(used_tokens / window, 1.0):.0%} of the window"
    step = state.model_choices.route.price_step if state.model_choices.route is not None else 0
    room = step if 0 < used_tokens <= step < window else window
    if step:
        description += f"; above {step:,} tokens each one costs more"
    style = "$warning" if used_tokens / room > 0.8 or used_tokens > step > 0 else MUTED
    yield StatusFact(1, [(f"{format_count(used_tokens)} of {format_count(room)}", MUTED)], description, "/context")
    if used_tokens > step > 0:
        yield StatusFact(4, [(f"price step {format_count(step)} passed", "$warning")], description, "/context")
    yield StatusFact(5, [(render_meter(used_tokens, room), style)], description, "/context")


def _list_waiting(state: ViewState) -> Iterator[StatusFact]:
    if waiting := state.pending_hunk_count:
        description = f"Review: {count('hunk', waiting)} pending"
        yield StatusFact(WAITING_RANK, [(f"{waiting:,} to review", "$warning")], description, "app.review")


class StatusBar(Widget):
    """Shows facts of the state; if the line is too short, the model's name is cut first. A click on a fact opens
    more about it, hovering shows its tooltip."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"status--mode", "status--accent"}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._state = ViewState()
        self._retry: PendingRetry | None = None
        self._note = "starting…"
        self._frame = 0
        self._timer: Timer | None = None
        self._retry_at = 0.0  # when a model call is tried again
        self._wait_start = (0, 0.0)  # the seq of a model call, and when it was seen to start
        self._is_calling = False
        self._hovered_text = ""  # the fact under the pointer
        self._command_started_at: float | None = None  # when the user's own command was seen to run

    def show(self, state: ViewState, note: str) -> None:
        """Show `state`; `note` is the bridge's activity, "" = none."""
        if state.retry != self._retry:
            self._retry = state.retry
            self._retry_at = monotonic() + (state.retry.delay_ms / 1000 if state.retry else 0.0)
        if state.wait is not None and state.wait.seq != self._wait_start[0]:
            self._wait_start = (state.wait.seq, monotonic())
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
            parts: list[Part] = [(f"waiting for you · {key}", "bold $warning")]
            facts.append(StatusFact(WAITING_RANK + 2, parts, "The agent is waiting for your answer", "app.answer"))
        if (work := self._describe_work()) is not None:
            sign = (FRAMES[self._frame], self.get_visual_style("status--accent"))
            facts.append(work._replace(parts=[sign, *work.parts]))
        return facts

    def _describe_work(self) -> StatusFact | None:
        """Describe the current activity, None = idle."""
        state, keymap = self._state, get_keymap(self.app)

        def build_fact(text: str, description: str, reference: str) -> StatusFact:
            return StatusFact(WAITING_RANK + 1, [(text, MUTED)], description, reference)

        turn = state.current_turn
        if turn is None:
            if self._command_started_at is None:
                return None
            seconds = f"{monotonic() - self._command_started_at:.0f} s"
            return build_fact(f" command {seconds}", "Your command is running", PAGE)
        if working := len(state.transcript.find_running_subagents()):
            key = format_first_key("app.agents", keymap).upper()
            return build_fact(f" {working} running · {key}", f"{count('subagent', working)} running", "app.agents")
        if (remaining_seconds := self._retry_at - monotonic()) > 0 and state.retry is not None:
            key = format_first_key("app.interrupt", keymap).replace("escape", "esc").capitalize()
            text = f" {state.retry.reason}: retry in {ceil(remaining_seconds)} s · {key} to stop"
            return build_fact(text, "Retrying the model shortly", "/models")
        limit_note = f" of {state.limits.max_steps}" if state.limits.by == "user" and state.limits.max_steps else ""
        text = f" step {turn.step}{limit_note}{self._format_wait()}" if turn.step else ""
        return build_fact(text, describe_wait(state), "/limits")

    def _format_wait(self) -> str:
        """Return how much of a long prompt the server has read, and for how long the model has said nothing."""
        wait = self._state.wait
        if wait is None:
            return ""
        parts = [f"prompt {wait.processed / wait.total:.0%}"] if wait.processed < wait.total else []
        seconds = int(monotonic() - self._wait_start[1])
        if seconds >= LONG_WAIT:
            parts.append(f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s")
        return "".join(f" · {part}" for part in parts)

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
        name = fit_line(shorten_model(state.shown_model), 200) or self._note
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
        description = event.style.meta.get("sentence", "")
        if description != self._hovered_text:
            self._hovered_text = description
            self.tooltip = Content(description) if description else None

    async def on_click(self, event: events.Click) -> None:
        """Run the command or key of the clicked fact."""
        if reference := event.style.meta.get("way"):
            from tui.slash_commands import find_action

            await self.screen.run_action(find_action(reference))


def _draw(fact: StatusFact) -> Content:
    """Draw a fact with its tooltip and click action."""
    return Content.assemble(*fact.parts).stylize(Style.from_meta({"way": fact.way, "sentence": fact.sentence}))
