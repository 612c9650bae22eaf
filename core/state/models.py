"""Models in the session's state: the chosen ones, the one that answers, and the usage of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from core.protocol import events as ev
from core.protocol.messages import Effort, Usage
from core.state.usage import add_usage

if TYPE_CHECKING:
    from core.state.fold import SessionState


@dataclass(slots=True, kw_only=True)
class ModelChoices:
    """The user's choices beside the model of the session, and the usage of all models.

    `effort` "" = not chosen; `models` and `efforts` by the mode that they are chosen for. `route`: the model
    that answers, None = the session's at its default effort. `usage` by job and model: `chat openai/gpt-5`.
    """

    effort: Effort | Literal[""] = ""
    models: dict[str, str] = field(default_factory=dict)
    efforts: dict[str, Effort | Literal[""]] = field(default_factory=dict)
    route: ev.RouteTaken | None = None
    usage: dict[str, Usage] = field(default_factory=dict)

    def add_usage(self, job: str, model: str, usage: Usage) -> None:
        """Add the usage of a model for a job."""
        if usage != Usage():
            key = f"{job} {model}"
            self.usage[key] = add_usage(self.usage.get(key, Usage()), usage)


def set_model(state: SessionState, _: ev.Envelope, event: ev.ModelChanged) -> None:
    if event.mode:
        state.model_choices.models[event.mode] = event.model
    else:
        state.model, state.context_window = event.model, event.context_window
    state.dropped_reasoning_count = 0


def set_effort(state: SessionState, _: ev.Envelope, event: ev.EffortChanged) -> None:
    if event.mode:
        state.model_choices.efforts[event.mode] = event.effort
    else:
        state.model_choices.effort = event.effort


def set_route(state: SessionState, _: ev.Envelope, event: ev.RouteTaken) -> None:
    if event.model != (state.model_choices.route.model if state.model_choices.route else state.model):
        state.dropped_reasoning_count = 0
    state.model_choices.route = event
    state.context_window = event.context_window or state.context_window


def add_model_usage(state: SessionState, _: ev.Envelope, event: ev.ModelUsed) -> None:
    state.model_choices.add_usage(event.job, event.model, event.usage)
