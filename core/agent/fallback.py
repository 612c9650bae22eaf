"""Who is asked when a model can't answer: the next one of its route, for the rest of the turn, and visibly.

A model that does not answer at all gives way: it is overloaded, limits the rate for longer than is waited, can't be
reached, is not known there, or its key is not taken. What was wrong with the request, or refused on its merits, would
be no better with another model, and is not shopped around.
"""

from __future__ import annotations

from typing import Final

from core.agent.session import Route, SessionContext
from core.errors import ContextOverflow, ProviderError
from core.protocol.events import Notice, RouteTaken

STAYS: Final = frozenset(
    {"answer_too_large", "content_filtered", "model_refused", "request_invalid", "schema_refused", "tools_unsupported"}
)
PATIENCE: Final = 10.0  # seconds that a model is waited for while there is another one to ask


def next_route(session: SessionContext, error: ProviderError | None = None) -> Route | None:
    """The one to ask after the session's route, None = nobody. `error`: what went wrong at it."""
    if error is not None and (error.code in STAYS or isinstance(error, ContextOverflow)):
        return None
    ids = [route.id for route in session.chain]
    place = ids.index(session.route.id) + 1 if session.route.id in ids else 0
    return next((route for route in session.chain[place:] if route.id != session.route.id), None)


def fall_back(session: SessionContext, route: Route, error: ProviderError) -> None:
    """Let another route answer from now on, and say so."""
    first, session.route = session.route, route
    wanted = session.chain[0].id if first in session.chain else first.id
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
