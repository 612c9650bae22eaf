"""A model that plays a script: a provider like any other, which needs no key, no network and no luck.

It drives the demo and the tests through the real engine. A script is YAML; `docs/scripted-models.md` describes it::

    turns:
      - match: (?i)failing test          # searched for in the prompt; without it: the next turn in order
        steps:                           # one answer a model call
          - reasoning: Let me look.
            tool_calls:
              - {name: read_file, arguments: {target_file: till/tax.py}}
          - when: {result: def tax}      # skipped if this does not hold
            text: The rate is wrong in {{workspace}}.
          - error: {status: 429, retry_after: 1, times: 1}
            text: There it goes.
    otherwise: This script has come to its end.

**No state.** What is played next is derived from the messages of the request alone: which turns earlier prompts took,
and which steps the answers since the last prompt were. So a session goes on where it was after any restart. (Only
`error: {times: n}` counts its failures, for as long as the process lives.)

A text may hold `{{prompt}}`, `{{workspace}}`, `{{mode}}`, `{{last_tool_result}}` and `{{find:REGEX}}`: the first group
(or all) of the last match in the results of this turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

from core.errors import ProviderError
from core.protocol.messages import Message, Usage
from core.providers.base import (
    Delta,
    ModelInfo,
    ModelRequest,
    ReasoningDelta,
    StreamEnd,
    Suggestion,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from core.providers.connection.failures import Api, build_cut_error, build_status_error
from core.providers.scripted.script_file import Script, ScriptFault, ScriptStep, ScriptTurn, read_script
from core.providers.scripted.script_scene import ScriptScene, split_scenes
from core.providers.wire.tool_calls import CallNormaliser, collect_call_ids

SPEED_VARIABLE: Final = "AGENT_TUI_SCRIPT_SPEED"
CHARACTERS_PER_TOKEN: Final = 4
_WORDS: Final = re.compile(r"\s*\S{1,12}|\s+")
_SILENCE: Final = ScriptStep(line=0, text="(The script has nothing more to say here.)")


class ScriptedProvider:
    """Plays one script. `speed` multiplies the script's own pace; 0 = everything at once."""

    def __init__(self, script: Script, *, speed: float | None = None) -> None:
        self.name = "scripted"
        self._script = script
        self._speed = _read_speed() if speed is None else speed
        self._failures: dict[int, int] = {}

    @classmethod
    def from_file(cls, path: str | Path, *, speed: float | None = None) -> ScriptedProvider:
        """Read a script. Raises `ConfigError` with file and line."""
        return cls(read_script(Path(path).expanduser()), speed=speed)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """See `Provider`. Raises `ProviderError`, `ContextOverflow` where the script says so."""
        step, scene = self._next_step(request)
        self._raise_fault(step)
        taken_ids, chunk = collect_call_ids(request.messages), step.chunk or self._script.chunk
        deltas = list(_build_deltas(step, scene, taken_ids, chunk=chunk))
        delta_count = len(deltas) if step.cut is None else round(len(deltas) * step.cut)
        pause = self._pause(step)
        for number, delta in enumerate(deltas[:delta_count]):
            if pause and number:
                await asyncio.sleep(pause)
            yield delta
        if step.cut is not None:
            raise build_cut_error(Api(label="The script", base_url=self._script.path), has_started=delta_count > 0)
        yield UsageReport(_estimate_usage(step, request, deltas))
        yield StreamEnd(step.finish or ("tool_calls" if step.tool_calls else "stop"))

    async def list_models(self) -> tuple[ModelInfo, ...]:
        return (ModelInfo(name=self._script.path, context_window=self._script.context_window),)

    async def close(self) -> None:
        """See `Provider`: there is nothing to release."""

    def suggest(self, messages: Sequence[Message]) -> Suggestion | None:
        """See `SuggestingProvider`: that of the first turn that was not played yet and has one."""
        played_indexes: set[int] = set()
        for scene in split_scenes(messages) if messages else ():
            self._find_turn(scene, played_indexes)
        remaining_turns = (
            turn for index, turn in enumerate(self._script.turns) if index not in played_indexes and turn.suggest
        )
        return next((Suggestion(text=turn.suggest, mode=turn.mode) for turn in remaining_turns), None)

    def _next_step(self, request: ModelRequest) -> tuple[ScriptStep, ScriptScene]:
        *earlier, scene = split_scenes(request.messages)
        if not request.tools and self._script.notes:
            return self._script.notes[0], scene
        played_indexes: set[int] = set()
        for earlier_scene in earlier:
            self._find_turn(earlier_scene, played_indexes)
        turn = self._find_turn(scene, played_indexes)
        steps = turn.steps if turn else self._script.otherwise
        return _find_step(steps, scene) or _SILENCE, scene

    def _find_turn(self, scene: ScriptScene, played_indexes: set[int]) -> ScriptTurn | None:
        """The first turn that is left and whose `match` finds something, else the next one without a `match`."""
        candidates = [
            (index, turn)
            for index, turn in enumerate(self._script.turns)
            if (index not in played_indexes or turn.repeat) and turn.mode in {"", scene.mode}
        ]
        fitting = [
            candidate
            for candidate in candidates
            if candidate[1].match is not None and candidate[1].match.search(scene.prompt)
        ]
        index, turn = next(iter(fitting), None) or next(
            (candidate for candidate in candidates if candidate[1].match is None), (-1, None)
        )
        played_indexes.add(index)
        return turn

    def _raise_fault(self, step: ScriptStep) -> None:
        failure_count = self._failures.get(id(step), 0)
        if step.error is not None and (not step.error.times or failure_count < step.error.times):
            self._failures[id(step)] = failure_count + 1
            raise _build_failure(step.error, self._script.path)

    def _pause(self, step: ScriptStep) -> float:
        """Seconds between two deltas."""
        pace = self._script.tokens_per_second if step.tokens_per_second is None else step.tokens_per_second
        seconds = step.delay_ms / 1000 or (1 / pace if pace > 0 else 0.0)
        return seconds / self._speed if self._speed > 0 else 0.0


def _read_speed() -> float:
    try:
        return max(0.0, float(os.environ.get(SPEED_VARIABLE, "1")))
    except ValueError:
        return 1.0


def _build_failure(fault: ScriptFault, path: str) -> ProviderError:
    status = fault.status or (401 if fault.code == "key_rejected" else 500)
    headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    body = {"error": {"message": fault.message or "the script says so", "type": fault.code}}
    error = build_status_error(status, body, headers, Api(label="The scripted model", base_url=path))
    if fault.code:
        error.code = fault.code
    return error


def _find_step(steps: tuple[ScriptStep, ...], scene: ScriptScene) -> ScriptStep | None:
    """Walk through the answers of this turn: each took the next step that held at that moment."""
    index = 0
    for moment in range(scene.answers + 1):
        while index < len(steps) and not scene.holds(steps[index].when, moment):
            index += 1
        if index >= len(steps):
            return None
        if moment == scene.answers:
            return steps[index]
        index += 1
    return None


def _build_deltas(step: ScriptStep, scene: ScriptScene, taken_ids: set[str], *, chunk: int) -> Iterator[Delta]:
    calls = CallNormaliser(taken_ids)
    for piece in _cut_pieces(scene.fill_text(step.reasoning), chunk):
        yield ReasoningDelta(piece)
    for piece in _cut_pieces(scene.fill_text(step.text), chunk):
        yield TextDelta(piece)
    for index, call in enumerate(step.tool_calls):
        yield ToolCallDelta(index, id=calls.make_unique(call.id), name=call.name)
        arguments = scene.fill_value(call.arguments)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        for piece in _cut_pieces(text, chunk):
            yield ToolCallDelta(index, arguments=piece)


def _cut_pieces(text: str, chunk: int) -> list[str]:
    """The text in pieces of `chunk` characters; 0 = about a token each."""
    if chunk > 0:
        return [text[start : start + chunk] for start in range(0, len(text), chunk)]
    return _WORDS.findall(text)


def _estimate_usage(step: ScriptStep, request: ModelRequest, deltas: list[Delta]) -> Usage:
    """As the script says; else estimated from the characters, with the earlier messages counted as cached."""
    if step.usage is not None:
        return step.usage
    texts = (delta.arguments if isinstance(delta, ToolCallDelta) else getattr(delta, "text", "") for delta in deltas)
    call_sizes = (
        sum(len(call.arguments) for call in getattr(message, "tool_calls", ())) for message in request.messages
    )
    sizes = [len(message.content) + size for message, size in zip(request.messages, call_sizes, strict=True)]
    head = len(request.system) + sum(len(json.dumps(tool.parameters)) + len(tool.description) for tool in request.tools)
    return Usage(
        prompt_tokens=(head + sum(sizes)) // CHARACTERS_PER_TOKEN,
        completion_tokens=max(1, sum(map(len, texts)) // CHARACTERS_PER_TOKEN),
        cached_tokens=(head + sum(sizes[:-1])) // CHARACTERS_PER_TOKEN if len(sizes) > 1 else 0,
    )
