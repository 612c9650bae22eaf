"""The events of a messages stream made into deltas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from core.protocol.messages import Usage
from core.providers.base import Delta, Finished, FinishReason, ReasoningDelta, TextDelta, ToolCallDelta, UsageReport
from core.providers.openai.chat_answer import count
from core.providers.wire.tool_calls import CallNormaliser

_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class MessageAnswer:
    """One answer while it comes. `finished` is None until the server has said why it stopped."""

    def __init__(self, taken: set[str]) -> None:
        self._calls = CallNormaliser(taken)
        self._call_count = 0
        self._thoughts = 0
        self._blocks: dict[int, dict[str, Any]] = {}
        self._counts: dict[str, int] = {}
        self._thinking_tokens = 0
        self.finished: Finished | None = None

    def feed(self, event: object) -> Iterator[Delta]:
        """The deltas of one event; unknown ones are passed over, as the API asks its clients to do."""
        if not isinstance(event, dict):
            return
        match event.get("type"):
            case "message_start":
                yield from self._usage(_table(_table(event, "message"), "usage"))
            case "content_block_start":
                yield from self._opened(event)
            case "content_block_delta":
                yield from self._grown(event)
            case "content_block_stop":
                yield from self._closed(event)
            case "message_delta":
                yield from self._usage(_table(event, "usage"))
                self._stopped(_table(event, "delta").get("stop_reason"))

    def _stopped(self, reason: object) -> None:
        if isinstance(reason, str) and reason:
            self.finished = Finished(_REASONS.get(reason, "stop"))

    def _opened(self, event: dict[str, Any]) -> Iterator[Delta]:
        block = dict(_table(event, "content_block"))
        block["arguments"] = False
        self._blocks[count(event, "index")] = block
        match block.get("type"):
            case "text" if block.get("text"):
                yield TextDelta(str(block["text"]))
            case "thinking" | "redacted_thinking":
                block["number"], self._thoughts = self._thoughts, self._thoughts + 1
                if text := block.get("thinking"):
                    yield ReasoningDelta(str(text), index=block["number"])
                if data := block.get("data"):
                    yield ReasoningDelta(redacted=str(data), index=block["number"])
            case "tool_use":
                block["number"], self._call_count = self._call_count, self._call_count + 1
                call_id = self._calls.unique(str(block.get("id") or ""))
                yield ToolCallDelta(block["number"], id=call_id, name=str(block.get("name") or ""))

    def _grown(self, event: dict[str, Any]) -> Iterator[Delta]:
        block, delta = self._blocks.get(count(event, "index"), {}), _table(event, "delta")
        number = block.get("number", 0)
        match delta.get("type"):
            case "text_delta" if delta.get("text"):
                yield TextDelta(str(delta["text"]))
            case "thinking_delta" if delta.get("thinking"):
                yield ReasoningDelta(str(delta["thinking"]), index=number)
            case "signature_delta":
                block["signature"] = f"{block.get('signature') or ''}{delta.get('signature') or ''}"
            case "input_json_delta" if delta.get("partial_json"):
                block["arguments"] = True
                yield ToolCallDelta(number, arguments=str(delta["partial_json"]))

    def _closed(self, event: dict[str, Any]) -> Iterator[Delta]:
        block = self._blocks.pop(count(event, "index"), {})
        if block.get("type") == "thinking" and block.get("signature"):
            yield ReasoningDelta(signature=str(block["signature"]), index=block["number"])
        elif block.get("type") == "tool_use" and not block["arguments"]:
            # A call without arguments comes without any piece of them; some servers send them whole at the start.
            yield ToolCallDelta(block["number"], arguments=json.dumps(block.get("input") or {}, ensure_ascii=False))

    def _usage(self, usage: dict[str, Any]) -> Iterator[Delta]:
        """Counts are cumulative, and a later event may leave some of them out."""
        if not usage:
            return
        for name in _COUNTS:
            if isinstance(usage.get(name), int):
                self._counts[name] = count(usage, name)
        self._thinking_tokens = (
            count(_table(usage, "output_tokens_details"), "thinking_tokens") or self._thinking_tokens
        )
        fresh, answer, read, created = (self._counts.get(name, 0) for name in _COUNTS)
        yield UsageReport(
            Usage(
                prompt_tokens=fresh + read + created,
                completion_tokens=answer,
                cached_tokens=read,
                cache_write_tokens=created,
                reasoning_tokens=self._thinking_tokens,
            )
        )


def _table(found: dict[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}
