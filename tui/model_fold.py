"""The part of the screen's fold that models are: which one answers, how much it thinks, what jobs beside it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol import events

if TYPE_CHECKING:
    from tui.state import ViewState


def fold_model(state: ViewState, event: events.AnyEvent) -> bool:
    """Take one event in. False: it is about something else."""
    match event:
        case events.ModelChanged(mode=""):
            state.model, state.context_window = event.model, event.context_window or state.context_window
        case events.ModelChanged() | events.EffortChanged():
            pass  # what becomes of it, `route.taken` says
        case events.RouteTaken():
            state.route, state.model = event, event.model
            state.context_window = event.context_window or state.context_window
        case events.ModelUsed():
            state.add_usage(event.usage)
        case _:
            return False
    return True


def find_shown_effort(state: ViewState) -> str:
    """How much the model thinks that is shown, "" = its default."""
    return state.route.effort if state.route is not None and state.route.model == state.model else ""
