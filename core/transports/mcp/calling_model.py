"""The other agent in the place of a model: what it calls is what the model of a turn asks for.

So a call from outside is a call like any: it takes the one path through the gate, is an event, and stands in the log.
The result that the model would be sent is what the caller gets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from core.engine.shared.models import ModelAccess
from core.ids import new_id
from core.protocol.messages import ToolMessage
from core.providers.base import Delta, ModelInfo, ModelRequest, StreamEnd, TextDelta, ToolCallDelta
from core.providers.catalog.capabilities import Capabilities

MODEL: Final = "mcp/client"


class WantedCall(Struct, frozen=True):
    """A call of a tool of ours, by its own name."""

    tool: str
    arguments: dict[str, object]


class CallingModel(Struct, eq=False):
    """Asks for the `wanted` calls in its next answer and is done with the one after it. `results`: of the latest calls,
    in their order."""

    name: str = "mcp"
    wanted: Sequence[WantedCall] = ()
    results: list[ToolMessage] = field(default_factory=list)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Answer with the calls, or with the end of the turn once they have results."""
        wanted_calls, self.wanted = self.wanted, ()
        for index, call in enumerate(wanted_calls):
            arguments = msgspec.json.encode(call.arguments).decode()
            yield ToolCallDelta(index, id=new_id("call"), name=call.tool, arguments=arguments)
        if wanted_calls:
            self.results.clear()
            yield StreamEnd("tool_calls")
            return
        for message in reversed(request.messages):
            if not isinstance(message, ToolMessage):
                break
            self.results.insert(0, message)
        yield TextDelta("Done.")
        yield StreamEnd("stop")

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return none: it is no API."""
        return ()

    async def close(self) -> None:
        """Nothing is held."""


def build_access(model: CallingModel) -> ModelAccess:
    """Build the access of an engine to this one model, which costs nothing and has no window."""

    async def choose(_: object) -> str:
        return MODEL

    return ModelAccess(
        resolve=lambda _id, _settings: (model, "client"),
        cost=lambda _id, _usage: 0.0,
        window=lambda _id: 0,
        capabilities=lambda _id, _settings: Capabilities(),
        preload=lambda _id: None,
        default=choose,
    )
