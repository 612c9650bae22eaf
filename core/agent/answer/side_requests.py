"""Model calls outside the conversation: text in, text out, without tools and without documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.agent.answer.receiver import closing_stream
from core.agent.base.budget import TurnBudget
from core.agent.base.routes import Route, TurnRoutes
from core.protocol.events import AnyEvent, ModelUsed
from core.protocol.messages import Message, ModelJob, Usage, WireAnswer
from core.providers.base import AnswerReport, HostedSearch, ModelRequest, TextDelta, UsageReport

# The suffix of a job's key for the provider's cache.
CONVERSATIONS: Mapping[ModelJob, str] = {"small": "notes", "apply": "apply", "advisor": "advisor"}


def record_usage(
    job: ModelJob, route: Route, usage: Usage, budget: TurnBudget, emit: Callable[[AnyEvent], None]
) -> None:
    """Emit the usage of a model call that is no step of the conversation."""
    if usage != Usage():
        emit(ModelUsed(job=job, model=route.id, usage=usage))
        if usage.cost is None:
            budget.mark_unpriced(route.id)


class SideRequests(Struct, frozen=True):
    """The side requests of one turn. `session_id` and the job form the key for the provider's cache."""

    routes: TurnRoutes
    budget: TurnBudget
    emit: Callable[[AnyEvent], None]
    session_id: str
    private: bool

    async def ask(
        self, job: ModelJob, route: Route, system: str, messages: Sequence[Message], *, max_tokens: int = 0
    ) -> str:
        """Return the text of the answer; its usage counts in the turn. Raises `ProviderError`."""
        text, _ = await self._ask(job, route, self._build(job, route, system, messages, max_tokens))
        return text

    async def search(
        self, route: Route, system: str, messages: Sequence[Message], search: HostedSearch
    ) -> tuple[str, WireAnswer | None]:
        """Return the text of an answer for which the API may search the web, and the raw answer."""
        request = replace(self._build("small", route, system, messages, 0), search=search)
        return await self._ask("small", route, request)

    def _build(
        self, job: ModelJob, route: Route, system: str, messages: Sequence[Message], max_tokens: int
    ) -> ModelRequest:
        return ModelRequest(
            model=route.model,
            system=system,
            tools=(),
            messages=tuple(messages),
            max_tokens=max_tokens,
            effort=route.effort,
            tier=route.tier,
            session=f"{self.session_id}-{CONVERSATIONS[job]}",
            private=self.private,
        )

    async def _ask(self, job: ModelJob, route: Route, request: ModelRequest) -> tuple[str, WireAnswer | None]:
        parts: list[str] = []
        usage, wire = Usage(), None
        try:
            async with closing_stream(route.provider.stream(request)) as stream:
                async for delta in stream:
                    if isinstance(delta, TextDelta):
                        parts.append(delta.text)
                    elif isinstance(delta, UsageReport):
                        usage = self.routes.add_cost(route, delta.usage)
                    elif isinstance(delta, AnswerReport):
                        wire = delta.wire
        finally:
            self.budget.add(usage, route.id)
            record_usage(job, route, usage, self.budget, self.emit)
        return "".join(parts), wire
