"""The facts of the status bar: what each says, how much it counts, and the command or key that leads to more.

The bar draws them, the page of `/status` tells all of them in words. A figure that stands elsewhere on the screen, too,
is read from the same place of the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from textual.style import Style

from core.modes import Mode
from core.protocol.messages import Usage
from core.text.counting import count
from tui.quantities import format_count
from tui.search.progress import describe_progress, format_progress
from tui.state import ViewState
from tui.text import fit_line, render_prose

METER_WIDTH: Final = 8
MUTED: Final = "$foreground 60%"
WAITING_RANK: Final = 6  # the rank of what waits for the user
PAGE: Final = "/status"
ASKING_TIERS: Final = frozenset({"T3", "T4"})  # which hold too little for a command to run unasked
TIERS: Final = {
    "T1": "namespaces",
    "T2": "bubblewrap",
    "T3": "Landlock",
    "T4": "there is none: nothing holds what a command does",
}

Part = tuple[str, str | Style]


class StatusFact(NamedTuple):
    """A fact of the bar; without room for all, the lowest rank is left out first, and without `parts` it stands on the
    page alone. `told`: the same as a sentence. `way`: what leads to more, a command or the id of a key."""

    rank: int
    parts: list[Part]
    told: str
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
    model = "the scripted demo, which asks none" if state.is_demo else fit_line(state.shown_model, 200)
    return StatusFact(WAITING_RANK, [(name, style)], f"Model: {model}", "/model")


def list_effort(state: ViewState) -> list[StatusFact]:
    """Return the effort, and the model that this one stands in for, if there are such."""
    route, facts = state.model_choices.route, list[StatusFact]()
    if route is not None and route.effort:
        facts.append(StatusFact(WAITING_RANK, [(f" · {route.effort}", MUTED)], f"Effort: {route.effort}", "/effort"))
    if route is not None and route.instead_of:
        name = fit_line(route.instead_of, 200)
        parts: list[Part] = [(f" for {fit_line(name, 30)}", "$warning")]
        facts.append(StatusFact(WAITING_RANK, parts, f"It answers instead of {name}", "/models"))
    return facts


def list_facts(state: ViewState) -> list[StatusFact]:
    """Return the facts beside mode and model, in the order in which they are shown."""
    return [
        *_list_surroundings(state),
        *_list_costs(state),
        *_list_context(state),
        *_list_waiting(state),
    ]


def _list_surroundings(state: ViewState) -> Iterator[StatusFact]:
    """Yield what holds commands, who decides on them, who looks on, and what goes on beside the conversation."""
    yield _describe_containment(state)
    if state.is_private:
        description = "This session is private: nothing is left of it when the program ends"
        yield StatusFact(WAITING_RANK, [("private", "bold")], description)
    if state.policy.policy == "human":
        description = "You type the commands; no model is called but by ?…"
        yield StatusFact(5, [("you type commands", "$warning")], description, "/policy")
    elif state.policy.policy == "confirm":
        description = "Each command waits for your yes"
        yield StatusFact(3, [("asks before commands", MUTED)], description, "/policy")
    if state.branch:
        yield StatusFact(2, [(f"on {fit_line(state.branch, 30)}", MUTED)], f"Branch: {fit_line(state.branch, 200)}")
    if state.client_count > 1:
        description = f"{state.client_count} screens and programs have this session open"
        yield StatusFact(4, [(f"{state.client_count} clients", MUTED)], description)
    if (indexing := format_progress(state.index))[0]:
        yield StatusFact(1, [indexing], f"Index of the project: {describe_progress(state.index)}", "/index")
    if state.jobs:
        description = f"{count('command', len(state.jobs))} in the background"
        yield StatusFact(3, [(count("job", len(state.jobs)), MUTED)], description, "/jobs")
    if working := sum(agent.state in {"queued", "running", "waiting"} for agent in state.background):
        description = f"{count('background agent', working)} at work"
        yield StatusFact(3, [(f"{working} in background", MUTED)], description, "/background")


def _describe_containment(state: ViewState) -> StatusFact:
    """Return what contains the effects of commands; until that is known, what becomes of one."""
    commands = "ask" if Mode(state.mode).rules.keeps_effects else "off"
    if state.box is None:
        description = "Commands wait for your yes" if commands == "ask" else "No command runs in this mode"
        return StatusFact(2, [(f"commands: {commands}", MUTED)], description, "/policy")
    tier, reason = state.box.tier, render_prose(" ".join(filter(None, (state.box.reason, state.box.cure))))
    description = f"Box {tier}: {TIERS.get(tier[:2], tier)}{f'. {reason}' if reason else ''}"
    if tier == "T4":
        return StatusFact(5, [(f"not sandboxed, commands: {commands}", "$warning")], description)
    label = "partly sandboxed" if tier[:2] in ASKING_TIERS else "sandboxed"
    return StatusFact(2, [(label, MUTED)], description)


def _list_costs(state: ViewState) -> Iterator[StatusFact]:
    """Yield what came from the cache, and what the last turn and the session have cost."""
    usage = state.model_choices.sum_usage()
    turn = state.turns[-1].usage if state.turns else Usage()
    if usage.cached_tokens and turn.prompt_tokens:
        share = min(turn.cached_tokens / turn.prompt_tokens, 1.0)
        miss_note = f"; it was missed: {render_prose(state.cache_miss)}" if state.cache_miss else ""
        description = f"Cache: {share:.0%} of what the last turn sent was read from the provider's{miss_note}"
        yield StatusFact(0, [], description, "/models")
    max_cost = state.limits.max_cost
    if turn.cost is not None and (max_cost or (turn.cost and turn.cost != usage.cost)):
        limit = f" of ${max_cost:.2f}" if max_cost else ""
        description = f"Cost of the last turn: ${turn.cost:.4f}{limit}"
        yield StatusFact(4 if max_cost else 2, [(f"turn ${turn.cost:.2f}{limit}", MUTED)], description, "/limits")
    tokens = f"{usage.prompt_tokens:,} tokens sent and {usage.completion_tokens:,} received"
    if usage.cost is not None:
        description = f"Cost of the session: ${usage.cost:.4f}, {tokens}"
        yield StatusFact(4 if usage.cost else 0, [(f"session ${usage.cost:.2f}", MUTED)], description, "/models")
    elif usage.prompt_tokens:
        yield StatusFact(0, [], f"Cost of the session: not known, {tokens}", "/models")


def _list_context(state: ViewState) -> Iterator[StatusFact]:
    """Yield the context used of the window."""
    used_tokens, window = state.context_used, state.context_window
    if not used_tokens:
        return
    if not window:
        description = f"Context: {used_tokens:,} tokens; the model's window is not known"
        yield StatusFact(4, [(f"context {format_count(used_tokens)}", MUTED)], description, "/context")
        return
    description = f"Context: {used_tokens:,} of {window:,} tokens of the window, {min(used_tokens / window, 1.0):.0%}"
    style = "$warning" if used_tokens / window > 0.8 else MUTED
    yield StatusFact(1, [(f"{format_count(used_tokens)} of {format_count(window)}", MUTED)], description, "/context")
    yield StatusFact(5, [(render_meter(used_tokens, window), style)], description, "/context")


def _list_waiting(state: ViewState) -> Iterator[StatusFact]:
    if waiting := state.pending_hunk_count:
        description = f"Review: {waiting:,} {'waits' if waiting == 1 else 'wait'} for your verdict"
        yield StatusFact(WAITING_RANK, [(f"{waiting:,} to review", "$warning")], description, "app.review")
