"""The events of a messages stream made into deltas, and into the blocks that go back.

Compatible servers leave out the ends of blocks and of the message, give all blocks one number, or answer with the whole
message in place of a stream: what is there is taken as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from core.protocol.messages import Usage, WireAnswer
from core.providers.base import Delta, FinishReason, ReasoningDelta, StreamEnd, TextDelta, ToolCallDelta, UsageReport
from core.providers.wire.parsed_fields import get_count, get_table, get_tables, get_text
from core.providers.wire.tool_calls import CallNormaliser
from core.providers.wire.wire_text import parse_arguments

_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "paused",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context_full",
    "refusal": "refused",
}
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_ARGUMENTS: Final = "partial_json"
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


class _Part(Struct, eq=False):
    """A block while it comes. `number` counts the calls or the thoughts of the answer, `pieces` are those of its
    texts."""

    block: dict[str, Any]
    number: int
    is_over: bool = False
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, piece: str) -> None:
        self.pieces.setdefault(name, [str(self.block.get(name) or "")]).append(piece)

    def whole(self) -> dict[str, Any]:
        """The block with all that came of it."""
        texts = {name: "".join(pieces) for name, pieces in self.pieces.items() if name != _ARGUMENTS}
        arguments = "".join(self.pieces.get(_ARGUMENTS, ()))
        return self.block | texts | ({"input": parse_arguments(arguments)} if arguments.strip() else {})


class MessageAnswer:
    """One answer while it comes. `ending` is None until the server has said it; `id` is the server's id of the answer;
    `cache_miss` is what it says about its cache, `refusal` why it refused, "" = nothing."""

    def __init__(self, taken_ids: set[str]) -> None:
        self._calls = CallNormaliser(taken_ids)
        self._parts: list[_Part] = []
        self._places: dict[int, _Part] = {}
        self._counts: dict[str, int] = {}
        self._thinking_tokens = 0
        self.ending: StreamEnd | None = None
        self.id = self.cache_miss = self.refusal = ""

    def feed(self, event: object) -> Iterator[Delta]:
        """The deltas of one event; unknown ones are passed over, as the API asks its clients to do."""
        if not isinstance(event, dict):
            return
        match event.get("type"):
            case "message_start":
                message = get_table(event, "message")
                self.id = str(message.get("id") or "")
                self.cache_miss = _describe_cache_miss(get_table(message, "diagnostics"))
                yield from self._read_usage(get_table(message, "usage"))
            case "content_block_start":
                yield from self._on_block_start(event)
            case "content_block_delta":
                yield from self._on_block_delta(event)
            case "content_block_stop":
                yield from self._on_block_stop(event)
            case "message_delta":
                yield from self._read_usage(get_table(event, "usage"))
                self._on_stop(get_table(event, "delta"))
            case "message_stop":
                self.ending = self.ending or self._infer_ending()
            case "message":
                yield from self._read_whole(event)

    def infer_ending(self) -> StreamEnd | None:
        """The end of an answer that the server marked as done without one; None: there is no whole answer."""
        return self._infer_ending() if self._parts else None

    def finish(self) -> Iterator[Delta]:
        """Yield what the blocks hold whose end the server did not tell."""
        for part in self._parts:
            yield from self._end_part(part)

    def _infer_ending(self) -> StreamEnd:
        return StreamEnd("tool_calls" if any(part.block.get("type") == "tool_use" for part in self._parts) else "stop")

    def _read_whole(self, message: dict[str, Any]) -> Iterator[Delta]:
        """The deltas of an answer that came whole."""
        self.id = get_text(message, "id")
        for index, block in enumerate(get_tables(message, "content")):
            yield from self._on_block_start({"index": index, "content_block": block})
            yield from self._on_block_stop({"index": index})
        yield from self._read_usage(get_table(message, "usage"))
        self._on_stop(message)
        self.ending = self.ending or self._infer_ending()

    def build_wire_answer(self, binding: str) -> WireAnswer | None:
        """The answer's blocks as they go back: all of them, unchanged and in order, but for what the API does not take
        back: blank text, and thinking that nothing follows. None if nothing is left."""
        blocks = [part.whole() for part in self._parts]
        remaining_blocks = [
            block for block in blocks if block.get("type") != "text" or str(block.get("text") or "").strip()
        ]
        while remaining_blocks and remaining_blocks[-1].get("type") in _THOUGHTS:
            remaining_blocks.pop()
        return WireAnswer(wire="messages", items=tuple(remaining_blocks), binding=binding) if remaining_blocks else None

    def _on_stop(self, delta: dict[str, Any]) -> None:
        if reason := get_text(delta, "stop_reason"):
            self.ending = StreamEnd(_REASONS.get(reason, "stop"))
        details = get_table(delta, "stop_details")
        explanation = get_text(details, "explanation") or get_text(details, "category").replace("_", " ")
        self.refusal = explanation or self.refusal

    def _on_block_start(self, event: dict[str, Any]) -> Iterator[Delta]:
        block = dict(get_table(event, "content_block"))
        kind = str(block.get("type") or "")
        group = _THOUGHTS if kind in _THOUGHTS else {kind}
        part = self._places[get_count(event, "index")] = _Part(
            block, sum(earlier_part.block.get("type") in group for earlier_part in self._parts)
        )
        self._parts.append(part)
        match kind:
            case "text" if block.get("text"):
                yield TextDelta(str(block["text"]))
            case "thinking" if block.get("thinking"):
                yield ReasoningDelta(str(block["thinking"]), index=part.number)
            case "tool_use":
                block["id"] = self._calls.make_unique(str(block.get("id") or ""))
                yield ToolCallDelta(part.number, id=block["id"], name=str(block.get("name") or ""))

    def _on_block_delta(self, event: dict[str, Any]) -> Iterator[Delta]:
        part = self._places.get(get_count(event, "index")) or _Part({}, 0)
        delta = get_table(event, "delta")
        match delta.get("type"):
            case "text_delta" if text := get_text(delta, "text"):
                part.add("text", text)
                yield TextDelta(text)
            case "thinking_delta" if text := get_text(delta, "thinking"):
                part.add("thinking", text)
                yield ReasoningDelta(text, index=part.number)
            case "input_json_delta" if text := get_text(delta, _ARGUMENTS):
                part.add(_ARGUMENTS, text)
                if part.block.get("type") == "tool_use":
                    yield ToolCallDelta(part.number, arguments=text)
            case "citations_delta":
                part.block["citations"] = [*(part.block.get("citations") or ()), delta.get("citation")]
            case "signature_delta":
                part.block["signature"] = delta.get("signature")

    def _on_block_stop(self, event: dict[str, Any]) -> Iterator[Delta]:
        if (part := self._places.get(get_count(event, "index"))) is not None:
            yield from self._end_part(part)

    def _end_part(self, part: _Part) -> Iterator[Delta]:
        """A call without arguments comes without any piece of them; some servers send them whole at the start."""
        was_over, part.is_over = part.is_over, True
        if was_over or part.block.get("type") != "tool_use" or _ARGUMENTS in part.pieces:
            return
        part.block["input"] = part.block.get("input") or {}
        yield ToolCallDelta(part.number, arguments=json.dumps(part.block["input"], ensure_ascii=False))

    def _read_usage(self, usage: dict[str, Any]) -> Iterator[Delta]:
        """Counts are cumulative, and a later event may leave some of them out."""
        if not usage:
            return
        for name in _COUNTS:
            if isinstance(usage.get(name), int):
                self._counts[name] = get_count(usage, name)
        thinking_tokens = get_count(get_table(usage, "output_tokens_details"), "thinking_tokens")
        self._thinking_tokens = thinking_tokens or self._thinking_tokens
        fresh, answer, read, cache_writes = (self._counts.get(name, 0) for name in _COUNTS)
        total_usage = Usage(
            prompt_tokens=fresh + read + cache_writes,
            completion_tokens=answer,
            cached_tokens=read,
            cache_write_tokens=cache_writes,
            reasoning_tokens=self._thinking_tokens,
        )
        yield UsageReport(total_usage)


def _describe_cache_miss(diagnostics: dict[str, Any]) -> str:
    """Describe a cache miss in a few words; "" where the API has nothing to say that would help."""
    reason = get_table(diagnostics, "cache_miss_reason")
    kind = str(reason.get("type") or "")
    if not kind or kind in {"unavailable", "previous_message_not_found"}:
        return ""
    token_count = get_count(reason, "cache_missed_input_tokens")
    return kind.replace("_", " ") + (f", about {token_count:,} tokens" if token_count else "")
