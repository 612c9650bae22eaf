"""The next model of a route when one can't answer: for the rest of the turn, and visibly.

A model that does not answer at all gives way: it is overloaded, limits the rate for longer than is waited, can't be
reached, is not known there, or its key is not taken. What was wrong with the request, or refused on its merits, would
be no better with another model, and is not shopped around.
"""

from __future__ import annotations

from typing import Final

from core.agent.turn.turn_context import Route, TurnContext
from core.errors import ContextOverflow, ProviderError
from core.protocol.events import Notice, RouteTaken

FINAL_CODES: Final = frozenset(
    {"answer_too_large", "content_filtered", "model_refused", "request_invalid", "schema_refused", "tools_unsupported"}
)
FALLBACK_BUDGET: Final = 10.0  # seconds that a model is waited for while there is another one to ask


def find_next_route(session: TurnContext, error: ProviderError | None = None) -> Route | None:
    """Return the route to ask after the session's, or None. `error`: what went wrong at the present one."""
    if error is not None and (error.code in FINAL_CODES or isinstance(error, ContextOverflow)):
        return None
    ids = [route.id for route in session.route_chain]
    place = ids.index(session.route.id) + 1 if session.route.id in ids else 0
    return next((route for route in session.route_chain[place:] if route.id != session.route.id), None)


def fall_back(session: TurnContext, route: Route, error: ProviderError) -> None:
    """Switch to another route for the rest of the turn, and notify the user."""
    first, session.route = session.route, route
    wanted = session.route_chain[0].id if first in session.route_chain else first.id
    session.emit(
        RouteTaken(
            model=route.id,
            effort=route.effort,
            context_window=route.window,
            instead_of=wanted,
            reason=error.message,
        )
    )
    message = f"{first.id} can't answer: {error.message.rstrip('.')}. {route.id} goes on with this turn."
    session.emit(Notice(level="warning", message=message, hint="The next turn begins with the first again."))
