"""The chunks of a chat completions stream, as OpenAI and the many compatible servers send them, made into deltas.

Servers add fields of their own to a message and its calls (what was thought, signatures), and some refuse the next
request without them: whatever is not understood here is kept to be sent back as it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from core.protocol.messages import Usage, WireAnswer
from core.providers.base import Answered, Delta, Finished, FinishReason, ReasoningDelta, TextDelta, UsageReport
from core.providers.connection.failures import Api, from_event
from core.providers.openai.merged_pieces import MergedPieces
from core.providers.openai.think_tags import ThinkTags
from core.providers.wire.parsed_fields import count, table, tables, text
from core.providers.wire.tool_calls import CallNormaliser
from core.wellformed import mapped

_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "context_full",
    "content_filter": "refused",
    "safety": "refused",
    "prohibited_content": "refused",
    "recitation": "refused",
    "blocklist": "refused",
}
_FAILED: Final = {"error": 500, "abort": 500, "cancelled": 500, "insufficient_system_resource": 503}
# Of a message, and what servers put into its pieces though it speaks of the stream.
_OWN_FIELDS: Final = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
_OF_THE_STREAM: Final = frozenset({"index", "finish_reason", "logprobs", "usage", "token_ids"})


class ChatAnswer:
    """One answer while it comes. `taken`: ids that calls have already. `finished` is None until the server has said why
    it stopped."""

    def __init__(self, taken: AbstractSet[str], *, api: Api) -> None:
        self._api = api
        self._calls = CallNormaliser(taken)
        self._tags = ThinkTags()
        self._text: list[str] = []
        self._unknown = MergedPieces()
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

    def answered(self) -> Iterator[Delta]:
        """What was held back of the text; and the message as it is to go back, if it says more than text."""
        yield from self._said(self._tags.rest())
        calls, unknown = self._calls.calls(), self._unknown.value()
        if not calls and not any(unknown.values()):
            return
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text) or None, **unknown}
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = ""
        yield Answered(WireAnswer(wire="chat", items=(mapped(message),)))

    def feed(self, chunk: object) -> Iterator[Delta]:
        """The deltas of one chunk; what is not understood in it is passed over. Raises `ProviderError`."""
        if not isinstance(chunk, dict):
            return
        if (usage := usage_of(chunk)) is not None:
            yield UsageReport(usage)
        for choice in tables(chunk, "choices"):
            if choice.get("index") in (0, None):
                yield from self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> Iterator[Delta]:
        delta = table(choice, "delta")
        if not delta and not self._spoke and not len(self._calls):
            delta = table(choice, "message")  # all of it at once
        yield from self._delta(delta)
        if reason := text(choice, "finish_reason").lower():
            if reason in _FAILED:
                error = table(choice, "error") or {"message": f"The answer ended with {reason!r}."}
                raise from_event({"error": {"code": _FAILED[reason], **error}}, self._api)
            self._reason = _REASONS.get(reason, "stop")

    def _delta(self, delta: dict[str, Any]) -> Iterator[Delta]:
        known = _OWN_FIELDS | _OF_THE_STREAM
        self._unknown.add({key: value for key, value in delta.items() if key not in known})
        if thought := text(delta, "reasoning_content") or text(delta, "reasoning") or _thought(delta):
            yield ReasoningDelta(thought)
        if said := _text(delta.get("content")):
            yield from self._said(self._tags.feed(said))
        if refusal := text(delta, "refusal"):
            self._refused = True
            yield from self._said(iter((TextDelta(refusal),)))
        for part in tables(delta, "tool_calls"):
            if (call := self._calls.feed(part)) is not None:
                yield call

    def _said(self, deltas: Iterator[Delta]) -> Iterator[Delta]:
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._spoke = True
                self._text.append(delta.text)
            yield delta


def _text(content: object) -> str:
    """Text, or the text of a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _thought(delta: dict[str, Any]) -> str:
    """The reasoning among a list of parts."""
    return "".join(text(each, "text") for part in tables(delta, "content") for each in tables(part, "thinking"))


def usage_of(chunk: dict[str, Any]) -> Usage | None:
    """The token counts of a chunk, None if it has none."""
    extension = chunk.get("x_groq")
    found = chunk.get("usage") or (extension.get("usage") if isinstance(extension, dict) else None)
    if not isinstance(found, dict):
        return None
    prompt, completion = table(found, "prompt_tokens_details"), table(found, "completion_tokens_details")
    return Usage(
        prompt_tokens=count(found, "prompt_tokens"),
        completion_tokens=count(found, "completion_tokens"),
        cached_tokens=count(prompt, "cached_tokens") or count(found, "prompt_cache_hit_tokens"),
        reasoning_tokens=count(completion, "reasoning_tokens"),
    )
