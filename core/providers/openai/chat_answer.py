"""The chunks of a chat completions stream, as OpenAI and the many compatible servers send them, made into deltas.

Servers add fields of their own to a message and its calls (what was thought, signatures), and some refuse the next
request without them: whatever is not understood here is kept to be sent back as it came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from core.protocol.messages import Usage, WireAnswer
from core.providers.base import AnswerReport, Delta, FinishReason, ReasoningDelta, StreamEnd, TextDelta, UsageReport
from core.providers.connection.failures import Api, build_event_error
from core.providers.openai.merged_pieces import MergedPieces
from core.providers.wire.parsed_fields import get_count, get_table, get_tables, get_text
from core.providers.wire.tool_calls import CallNormaliser
from core.text.well_formed import map_texts

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
_THINK_OPEN: Final = "<think>"
_THINK_CLOSE: Final = "</think>"


class ThinkTagSplitter:
    """Tells reasoning from text while a text streams, wherever it was cut. White space between the two is neither."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = False
        self._thought = False
        self._begun = False  # the text itself: no tag counts from here on

    def feed(self, piece: str) -> Iterator[Delta]:
        if self._begun:
            yield TextDelta(piece)
            return
        self._held += piece
        while self._held and not self._begun:
            if self._inside:
                reasoning, closing_tag, rest = self._held.partition(_THINK_CLOSE)
                sizes = (
                    size for size in range(len(_THINK_CLOSE) - 1, 0, -1) if reasoning.endswith(_THINK_CLOSE[:size])
                )
                tail_length = 0 if closing_tag else next(sizes, 0)  # characters that may be the beginning of the tag
                reasoning, self._held = (
                    reasoning[: len(reasoning) - tail_length],
                    rest or reasoning[len(reasoning) - tail_length :],
                )
                if reasoning:
                    yield ReasoningDelta(reasoning)
                if not closing_tag:
                    return
                self._inside = False
                continue
            text = self._held.lstrip()
            if text.startswith(_THINK_OPEN):
                self._inside = self._thought = True
                self._held = text[len(_THINK_OPEN) :]
            elif not text or _THINK_OPEN.startswith(text):
                return
            else:
                self._begun = True
                yield from self.flush()

    def flush(self) -> Iterator[Delta]:
        """Yield the rest, at the end of the text."""
        text = self._held.lstrip() if self._thought and not self._inside else self._held
        self._held = ""
        if text:
            yield ReasoningDelta(text) if self._inside else TextDelta(text)


class ChatAnswer:
    """One answer while it comes. `taken_ids`: ids that calls have already; `tool_names`: the names of the tools;
    `ending`: None until the server has said it."""

    def __init__(self, taken_ids: AbstractSet[str], *, api: Api, tool_names: Collection[str] = ()) -> None:
        self._api = api
        self._calls = CallNormaliser(taken_ids, tool_names)
        self._tags = ThinkTagSplitter()
        self._text: list[str] = []
        self._unknown = MergedPieces()
        self._reason: FinishReason | None = None
        self._refused = False
        self._spoke = False

    @property
    def ending(self) -> StreamEnd | None:
        if self._reason is None:
            return None
        # Some servers say "stop" although they asked for tools.
        reason = "tool_calls" if self._reason == "stop" and len(self._calls) else self._reason
        return StreamEnd("refused" if self._refused else reason)

    def infer_ending(self) -> StreamEnd | None:
        """The end of an answer that the server marked as done without a reason; None: there is no whole answer."""
        if len(self._calls):
            return StreamEnd("tool_calls") if self._calls.is_complete else None
        return StreamEnd("refused" if self._refused else "stop") if self._spoke else None

    def finish(self) -> Iterator[Delta]:
        """Yield the rest of text and calls; and the message as it is to go back, if it says more than text."""
        yield from self._split_thinking(self._tags.flush())
        yield from self._calls.finish()
        calls, unknown = self._calls.list_calls(), self._unknown.build_value()
        if not calls and not any(unknown.values()):
            return
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text) or None, **unknown}
        if calls:
            message["tool_calls"] = calls
        elif message["content"] is None:
            message["content"] = ""
        yield AnswerReport(WireAnswer(wire="chat", items=(map_texts(message),)))

    def feed(self, chunk: object) -> Iterator[Delta]:
        """The deltas of one chunk; what is not understood in it is passed over. Raises `ProviderError`."""
        if not isinstance(chunk, dict):
            return
        if (usage := parse_usage(chunk)) is not None:
            yield UsageReport(usage)
        for choice in get_tables(chunk, "choices"):
            if choice.get("index") in (0, None):
                yield from self._read_choice(choice)

    def _read_choice(self, choice: dict[str, Any]) -> Iterator[Delta]:
        delta = get_table(choice, "delta")
        if not delta and not self._spoke and not len(self._calls):
            delta = get_table(choice, "message")  # all of it at once
        yield from self._read_delta(delta)
        if reason := get_text(choice, "finish_reason").lower():
            if reason in _FAILED:
                error = get_table(choice, "error") or {"message": f"The answer ended with {reason!r}."}
                raise build_event_error({"error": {"code": _FAILED[reason], **error}}, self._api)
            self._reason = _REASONS.get(reason, "stop")

    def _read_delta(self, delta: dict[str, Any]) -> Iterator[Delta]:
        known_fields = _OWN_FIELDS | _OF_THE_STREAM
        self._unknown.add({key: value for key, value in delta.items() if key not in known_fields})
        parts = (table for part in get_tables(delta, "content") for table in get_tables(part, "thinking"))
        thinking_text = "".join(get_text(table, "text") for table in parts)
        if reasoning := get_text(delta, "reasoning_content") or get_text(delta, "reasoning") or thinking_text:
            yield ReasoningDelta(reasoning)
        if text := _extract_text(delta.get("content")):
            yield from self._split_thinking(self._tags.feed(text))
        if refusal := get_text(delta, "refusal"):
            self._refused = True
            yield from self._split_thinking(iter((TextDelta(refusal),)))
        for part in get_tables(delta, "tool_calls"):
            yield from self._calls.feed(part)

    def _split_thinking(self, deltas: Iterator[Delta]) -> Iterator[Delta]:
        for delta in deltas:
            if isinstance(delta, TextDelta):
                self._spoke = True
                self._text.append(delta.text)
            yield delta


def _extract_text(content: object) -> str:
    """Text, or the text of a list of parts."""
    if isinstance(content, list):
        return "".join(get_text(part, "text") for part in content)
    return content if isinstance(content, str) else ""


def parse_usage(chunk: dict[str, Any]) -> Usage | None:
    """The token counts of a chunk, None if it has none."""
    usage = chunk.get("usage") or get_table(chunk, "x_groq").get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = get_table(usage, "prompt_tokens_details"), get_table(usage, "completion_tokens_details")
    return Usage(
        prompt_tokens=get_count(usage, "prompt_tokens"),
        completion_tokens=get_count(usage, "completion_tokens"),
        cached_tokens=get_count(prompt, "cached_tokens") or get_count(usage, "prompt_cache_hit_tokens"),
        reasoning_tokens=get_count(completion, "reasoning_tokens"),
    )
