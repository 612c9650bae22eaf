"""The models that write for commits: the small one first, else the session's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from msgspec.structs import replace

from core.agent.context.turn_context import TurnContext
from core.agent.turn.stages import build_side_requests
from core.errors import ProviderError
from core.prompts import render
from core.protocol.messages import UserMessage

_MAX_TOKENS: Final = 2_000


async def ask_side_models(context: TurnContext, template: str, request: str) -> AsyncIterator[tuple[str, str]]:
    """Yield the answer of one model after the other, with the model's id. One that fails is passed over; none is asked
    any more when the user, or another client, interrupts: what is made without a model stands."""
    side, system, messages = build_side_requests(context), render(template), [UserMessage(content=request)]
    for route in (*side.routes.small, replace(side.routes.current, effort="")):
        try:
            reply = await side.ask("small", route, system, messages, max_tokens=_MAX_TOKENS)
        except ProviderError:
            continue
        except asyncio.CancelledError:
            return
        yield reply, route.id
