"""The model of a sequence: says what the sequence says, waits where it has to, looks for secrets in what it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from core.config.settings import Settings
from core.engine.shared.models import ModelAccess
from core.protocol.messages import Usage
from core.providers.base import (
    Delta,
    ModelInfo,
    ModelRequest,
    Provider,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from core.providers.registry import resolve_provider
from tests.fuzz.actions import Call, Turn
from tests.fuzz.ending import looked_for
from tests.support.default_model import access_to

MODEL = "fuzz/model"


class FuzzModel:
    """`begin` gives it a turn to play; `reached` is set where that waits, `go_on` lets it go on."""

    name = "fuzz"

    def __init__(self) -> None:
        self.leaks: set[str] = set()
        self.asked = 0
        self.begin(Turn())

    def begin(self, turn: Turn) -> None:
        self._turn, self._at = turn, 0
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self.asked += 1
        text = str(request)
        self.leaks |= {f"request: {name}" for name, secret in looked_for() if secret in text}
        at, self._at = self._at, self._at + 1
        if at == self._turn.pause:
            self.reached.set()
            await self.go_on.wait()
        step = self._turn.steps[at] if at < len(self._turn.steps) else (Call(text="Done."),)
        for delta in _deltas(step, self.asked):
            yield delta
            await asyncio.sleep(0)

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def close(self) -> None:
        self.go_on.set()


def _deltas(step: tuple[Call, ...], asked: int) -> list[Delta]:
    deltas: list[Delta] = [TextDelta(call.text) for call in step if call.text]
    calls = [call for call in step if call.tool]
    for index, call in enumerate(calls):
        deltas.append(ToolCallDelta(index, id=f"call{asked}_{index}", name=call.tool))
        deltas.append(ToolCallDelta(index, arguments=json.dumps(call.arguments)))
    deltas.append(UsageReport(Usage(prompt_tokens=100, completion_tokens=10)))
    return [*deltas, StreamEnd("tool_calls" if calls else "stop")]


def access(model: FuzzModel) -> ModelAccess:
    def resolved(_: str, settings: Settings) -> tuple[Provider, str]:
        resolve_provider("openai/any", settings)  # what a provider's door does with keys is done, and nothing is sent
        return model, "model"

    return access_to(resolved, MODEL)
