"""Model routes of a session: the model that answers, its fallbacks, and the models for side jobs.

If a model does not answer at all, the next one of its chain takes over for the rest of the turn, with a notice. A
request that is invalid, or refused for its content, is not sent to another model. A todo may name a model and effort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from core.errors import AgentTuiError, ContextOverflow, ProviderError
from core.protocol.events import AnyEvent, Notice, RouteTaken
from core.protocol.messages import ServiceTier, Usage
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities, PriceStep
from core.text.display_names import shorten_model

FINAL_CODES: Final = frozenset(
    {"answer_too_large", "content_filtered", "model_refused", "request_invalid", "schema_refused", "tools_unsupported"}
)
FALLBACK_BUDGET: Final = 10.0  # seconds to wait for a model while the chain has another one


class Route(Struct, frozen=True, kw_only=True):
    """The target of model calls. `id` is `provider/name`; `window` in tokens, 0 = not known; `effort` and `tier` "" =
    default."""

    provider: Provider
    model: str
    id: str
    window: int = 0
    effort: str = ""
    capabilities: Capabilities = Capabilities()
    price_step: PriceStep = PriceStep()
    tier: ServiceTier | Literal[""] = ""

    def build_event(self, *, wanted: str = "", instead_of: str = "", reason: str = "") -> RouteTaken:
        """Build the event that this route answers from now on."""
        return RouteTaken(
            model=self.id,
            effort=self.effort,
            wanted=wanted,
            context_window=self.window,
            price_step=self.price_step.tokens,
            tier=self.tier,
            instead_of=instead_of,
            reason=reason,
        )


def price_nothing(_model_id: str, _usage: Usage) -> float | None:
    """Return no price: the price list that knows no model."""
    return None


def estimate_nothing(_model_id: str) -> bool:
    """Return that no price is an estimate."""
    return False


class TurnRoutes(Struct, kw_only=True):
    """The routes of a turn. `current` answers; `chain`: the fallbacks in order, `current` among them.

    `small`, `apply`: routes for these jobs, () = the model of the conversation; `advisor` () = there is none. `find`:
    finds the route to a model (id, effort) or raises `AgentTuiError`. `price` and `is_estimated`: the cost of a call in
    US dollars by the model's id (None = unknown), and whether the price is that of a similar model. `answered`: ids of
    routes at which a model has answered in the session.
    """

    current: Route
    chain: tuple[Route, ...] = ()
    small: tuple[Route, ...] = ()
    apply: tuple[Route, ...] = ()
    advisor: tuple[Route, ...] = ()
    find: Callable[[str, str], Route] | None = None
    price: Callable[[str, Usage], float | None] = price_nothing
    is_estimated: Callable[[str], bool] = estimate_nothing
    answered: set[str] = field(default_factory=set)

    def add_cost(self, route: Route, usage: Usage) -> Usage:
        """Return the usage with its cost, if the model's price is known."""
        if usage.cost is not None:
            return usage
        cost = self.price(route.id, usage)
        return replace(usage, cost=cost, estimated=cost is not None and self.is_estimated(route.id))

    def learn_window(self, window: int, emit: Callable[[AnyEvent], None]) -> None:
        """Take in the window that the server of the current route has named."""
        before = self.current
        self.current = replace(before, window=window)
        self.chain = tuple(self.current if route is before else route for route in self.chain)
        is_fallback = self.current in self.chain[1:]
        emit(self.current.build_event(instead_of=self.chain[0].id if is_fallback else ""))
        emit(Notice(level="info", message=f"{shorten_model(before.id)} has a window of {window:,} tokens."))

    def find_next(self, error: ProviderError | None = None) -> Route | None:
        """Return the route after the current one in the chain, or None. `error`: the failure of the current one."""
        if error is not None and (error.code in FINAL_CODES or isinstance(error, ContextOverflow)):
            return None
        ids = [route.id for route in self.chain]
        start = ids.index(self.current.id) + 1 if self.current.id in ids else 0
        return next((route for route in self.chain[start:] if route.id != self.current.id), None)

    def fall_back(self, route: Route, error: ProviderError, emit: Callable[[AnyEvent], None]) -> None:
        """Switch to another route for the rest of the turn, and notify the user."""
        first, self.current = self.current, route
        preferred_model = self.chain[0].id if first in self.chain else first.id
        emit(route.build_event(instead_of=preferred_model, reason=error.message))
        message = f"{first.id} can't answer: {error.message.rstrip('.')}. {route.id} continues this turn."
        emit(Notice(level="warning", message=message, hint="The next turn tries the first model again."))

    def switch_to(self, model: str, effort: str, emit: Callable[[AnyEvent], None]) -> bool:
        """Switch to the model and effort of a todo, "" = those of the chain's first. True if the route changed."""
        before, self.current = self.current, self._find_route(model, effort, emit)
        route = self.current
        if (route.id, route.effort) == (before.id, before.effort):
            return False
        missing_effort = effort if effort != route.effort else ""
        emit(route.build_event(wanted=missing_effort))
        if missing_effort:
            message = (
                f"{route.id} has no effort level {missing_effort}: this todo uses {route.effort or 'its default'}."
            )
            emit(Notice(level="info", message=message))
        return True

    def _find_route(self, model: str, effort: str, emit: Callable[[AnyEvent], None]) -> Route:
        first = self.chain[0]
        if not (model or effort) or self.find is None:
            return first
        try:
            return self.find(model or first.id, effort or first.effort)
        except AgentTuiError as problem:
            message = f"The todo's model {model} can't be used: {problem.message}"
            emit(Notice(level="warning", message=message, hint=problem.hint))
            return first
