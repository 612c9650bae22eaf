"""The part of the fold that models are: which were chosen, which one answers, and what each has taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from core.protocol import events as ev
from core.protocol.messages import Effort, Usage
from core.sessions.usage import total

if TYPE_CHECKING:
    from core.sessions.fold import SessionState


@dataclass(slots=True, kw_only=True)
class Chosen:
    """What the user chose beside the model of the session: `effort` "" = nothing; `models` and `efforts` for a mode
    alone, by its name. `route`: who answers, None = the model of the session at its default. `taken`: usage by job and
    model, as `chat openai/gpt-5`."""

    effort: Effort | Literal[""] = ""
    models: dict[str, str] = field(default_factory=dict)
    efforts: dict[str, Effort | Literal[""]] = field(default_factory=dict)
    route: ev.RouteTaken | None = None
    taken: dict[str, Usage] = field(default_factory=dict)

    def take(self, job: str, model: str, usage: Usage) -> None:
        """Add what a model has taken for a job."""
        if usage != Usage():
            key = f"{job} {model}"
            self.taken[key] = total(self.taken.get(key, Usage()), usage)


def model_changed(state: SessionState, _: ev.Envelope, event: ev.ModelChanged) -> None:
    if event.mode:
        state.chosen.models[event.mode] = event.model
    else:
        state.model, state.context_window = event.model, event.context_window
    state.dropped_reasoning = 0


def effort_changed(state: SessionState, _: ev.Envelope, event: ev.EffortChanged) -> None:
    if event.mode:
        state.chosen.efforts[event.mode] = event.effort
    else:
        state.chosen.effort = event.effort


def route_taken(state: SessionState, _: ev.Envelope, event: ev.RouteTaken) -> None:
    if event.model != (state.chosen.route.model if state.chosen.route else state.model):
        state.dropped_reasoning = 0
    state.chosen.route = event
    state.context_window = event.context_window or state.context_window


def model_used(state: SessionState, _: ev.Envelope, event: ev.ModelUsed) -> None:
    state.chosen.take(event.job, event.model, event.usage)
