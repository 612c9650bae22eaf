"""The provider that plays a script in place of a model, for demos and tests."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from core.errors import ProviderError
from core.patterns import compile_lazily
from core.protocol.messages import AssistantMessage, EffortMessage, Message, ToolMessage, Usage, UserMessage
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
from core.providers.script_file import (
    Script,
    ScriptCondition,
    ScriptFault,
    ScriptStep,
    ScriptTurn,
    read_script,
)
from core.providers.wire.tool_calls import CallNormaliser, collect_call_ids

_QUERY: Final = compile_lazily(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_STEERED: Final = compile_lazily(r"\A<system_reminder>\nThe user sent this while you were working")
_MODE: Final = compile_lazily(r"^(Agent|Plan|Ask|Debug) mode:", re.MULTILINE)
_WORKSPACE: Final = compile_lazily(r"^Workspace: (.+)$", re.MULTILINE)
_PLACE: Final = compile_lazily(r"\{\{\s*(prompt|workspace|mode|last_tool_result|find:.+?)\s*\}\}", re.DOTALL)
SPEED_VARIABLE: Final = "AGENT_TUI_SCRIPT_SPEED"
CHARACTERS_PER_TOKEN: Final = 4
_WORDS: Final = compile_lazily(r"\s*\S{1,12}|\s+")
_SILENCE: Final = ScriptStep(line=0, text="(The script has nothing more to say here.)")


class ScriptScene:
    """A prompt and the messages after it, up to the next prompt. Moment n is before the n-th answer, from 0."""

    def __init__(self, prompt: str, mode: str, workspace: str) -> None:
        self.prompt, self.mode, self.workspace = prompt, mode, workspace
        self._moments: list[list[UserMessage | ToolMessage]] = [[]]  # The messages up to every moment.

    @property
    def answers(self) -> int:
        return len(self._moments) - 1

    def add(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._moments.append([])
        elif not isinstance(message, EffortMessage):
            self._moments[-1].append(message)

    def satisfies(self, condition: ScriptCondition | None, moment: int) -> bool:
        """Return True if a step may be played at a moment."""
        if condition is None:
            return True
        before = self._moments[moment]
        results = [message for message in before if isinstance(message, ToolMessage)]
        user_text = "\n".join(message.content for message in before if isinstance(message, UserMessage))
        result_text = "\n".join(result.content for result in results)
        checks = ((condition.result, result_text), (condition.prompt, self.prompt), (condition.told, user_text))
        return (
            all(pattern is None or pattern.search(text) for pattern, text in checks)
            and condition.mode in {"", self.mode_at(moment)}
            and condition.step in {0, moment + 1}
            and (condition.failed is None or condition.failed == any(result.is_error for result in results))
        )

    def mode_at(self, moment: int) -> str:
        """Return the mode that the model was last notified of."""
        user_texts = [
            message.content for message in chain(*self._moments[: moment + 1]) if isinstance(message, UserMessage)
        ]
        return next(filter(None, map(find_mode, reversed(user_texts))), self.mode)

    def fill_text(self, text: str) -> str:
        """Return the text with its placeholders filled in; unknown ones become empty."""
        return _PLACE.sub(lambda match: self._look_up(match[1]), text) if "{{" in text else text

    def fill_value(self, value: Any) -> Any:
        """Fill in the placeholders of every text in a tree of JSON values."""
        match value:
            case str():
                return self.fill_text(value)
            case dict():
                return {key: self.fill_value(child) for key, child in value.items()}
            case list():
                return [self.fill_value(child) for child in value]
            case _:
                return value

    def _look_up(self, name: str) -> str:
        results = [message.content for message in chain(*self._moments) if isinstance(message, ToolMessage)]
        match name:
            case "prompt":
                return self.prompt
            case "workspace":
                return self.workspace
            case "mode":
                return self.mode_at(self.answers)
            case "last_tool_result":
                return results[-1] if results else ""
            case _:
                return _evaluate(name.removeprefix("find:"), results)


def _evaluate(expression: str, results: Sequence[str]) -> str:
    try:
        pattern = re.compile(expression)
    except re.error:
        return ""
    matches = [match for text in results for match in pattern.finditer(text)]
    return (matches[-1][1] if pattern.groups else matches[-1][0]) if matches else ""


def find_mode(text: str) -> str:
    """Return the mode that a message announces, "" = none."""
    matches = _MODE.findall(text)
    return matches[-1].lower() if matches else ""


def split_scenes(messages: Sequence[Message]) -> list[ScriptScene]:
    """Return one scene for every prompt, at least one. Messages that the user sent during a turn belong to
    its scene."""
    scenes: list[ScriptScene] = []
    mode = workspace = ""
    for message in messages:
        if isinstance(message, UserMessage):
            mode = find_mode(message.content) or mode
            if match := _WORKSPACE.search(message.content):
                workspace = match[1]
            if message.origin == "user" and not _STEERED.match(message.content):
                prompt = next(iter(_QUERY.findall(message.content)[-1:]), message.content)
                scenes.append(ScriptScene(prompt, mode, workspace))
                continue
        if scenes:
            scenes[-1].add(message)
    return scenes or [ScriptScene("", mode, workspace)]


class ScriptedProvider:
    """A provider that plays one script. `speed` multiplies the script's pace; 0 = no pauses."""

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
        """See `Provider`. Raises `ProviderError` and `ContextOverflow` where the script has them."""
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
        """See `SuggestingProvider`: return the suggestion of the first turn that is not played yet and has one."""
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
        """Return the first unplayed turn whose `match` matches, else the next one without a `match`."""
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
        """Return the seconds between two deltas."""
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
    """Replay the answers of this turn, each of which took the next step whose condition was satisfied at its moment."""
    index = 0
    for moment in range(scene.answers + 1):
        while index < len(steps) and not scene.satisfies(steps[index].when, moment):
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
    """Split the text into pieces of `chunk` characters; 0 = about a token each."""
    if chunk > 0:
        return [text[start : start + chunk] for start in range(0, len(text), chunk)]
    return _WORDS.findall(text)


def _estimate_usage(step: ScriptStep, request: ModelRequest, deltas: list[Delta]) -> Usage:
    """Return the usage of the script, else one estimated from the characters, with the earlier messages counted as
    cached."""
    if step.usage is not None:
        return step.usage
    texts = (delta.arguments if isinstance(delta, ToolCallDelta) else getattr(delta, "text", "") for delta in deltas)
    call_sizes = (
        sum(len(call.arguments) for call in getattr(message, "tool_calls", ())) for message in request.messages
    )
    texts_of = (getattr(message, "content", "") for message in request.messages)
    sizes = [len(text) + size for text, size in zip(texts_of, call_sizes, strict=True)]
    head = len(request.system) + sum(len(json.dumps(tool.parameters)) + len(tool.description) for tool in request.tools)
    return Usage(
        prompt_tokens=(head + sum(sizes)) // CHARACTERS_PER_TOKEN,
        completion_tokens=max(1, sum(map(len, texts)) // CHARACTERS_PER_TOKEN),
        cached_tokens=(head + sum(sizes[:-1])) // CHARACTERS_PER_TOKEN if len(sizes) > 1 else 0,
    )
