"""The chunks of a chat completions stream, as OpenAI and the many compatible servers send them, made into deltas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from core.protocol.messages import Usage
from core.providers.base import Delta, Finished, FinishReason, ReasoningDelta, TextDelta, UsageReport
from core.providers.wire.tool_calls import CallNormaliser

_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
}


class ChatAnswer:
    """One answer while it comes. `finished` is None until the server has said why it stopped."""

    def __init__(self, taken: set[str]) -> None:
        self._calls = CallNormaliser(taken)
        self._reason: FinishReason | None = None
        self._refused = False
        self._spoke = False

    @property
    def finished(self) -> Finished | None:
        if self._reason is None:
            return None
        if self._refused:
            return Finished("refused")
        # Some servers say "stop" although they asked for tools.
        return Finished("tool_calls" if self._reason == "stop" and len(self._calls) else self._reason)

    def unstated(self) -> Finished | None:
        """How an answer ended that the server marked as done without a reason; None: there is no whole answer."""
        if len(self._calls):
            return Finished("tool_calls") if self._calls.complete else None
        return Finished("refused" if self._refused else "stop") if self._spoke else None

    def feed(self, chunk: object) -> Iterator[Delta]:
        """The deltas of one chunk; what is not understood in it is passed over."""
        if not isinstance(chunk, dict):
            return
        if (usage := usage_of(chunk)) is not None:
            yield UsageReport(usage)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) in {0, None}:
                yield from self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> Iterator[Delta]:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            yield from self._delta(delta)
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self._reason = _REASONS.get(reason, "stop")

    def _delta(self, delta: dict[str, Any]) -> Iterator[Delta]:
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            yield ReasoningDelta(reasoning)
        if text := _text(delta.get("content")):
            self._spoke = True
            yield TextDelta(text)
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            self._refused = self._spoke = True
            yield TextDelta(refusal)
        calls = delta.get("tool_calls")
        for part in calls if isinstance(calls, list) else ():
            if isinstance(part, dict) and (call := self._calls.feed(part)) is not None:
                yield call


def _text(content: object) -> str:
    """Text, or the text of a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def usage_of(chunk: dict[str, Any]) -> Usage | None:
    """The token counts of a chunk, None if it has none."""
    extension = chunk.get("x_groq")
    found = chunk.get("usage") or (extension.get("usage") if isinstance(extension, dict) else None)
    if not isinstance(found, dict):
        return None
    prompt, completion = _table(found, "prompt_tokens_details"), _table(found, "completion_tokens_details")
    return Usage(
        prompt_tokens=count(found, "prompt_tokens"),
        completion_tokens=count(found, "completion_tokens"),
        cached_tokens=count(prompt, "cached_tokens") or count(found, "prompt_cache_hit_tokens"),
        reasoning_tokens=count(completion, "reasoning_tokens"),
    )


def _table(found: dict[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def count(found: dict[str, Any], key: str) -> int:
    """A number of tokens; 0 for anything else."""
    value = found.get(key)
    return int(value) if isinstance(value, int | float) and value > 0 else 0
