"""The history as a messages request: the bytes of a longer history begin with those of the shorter one.

The API's rules: the results of all calls of a step stand first in the next user message, no block is empty, an answer
does not end in thinking. An answer goes back block for block as it came, to the model that gave it and after exactly
what stood before it; otherwise as what it said and called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from core.protocol.attachment_labels import PDF_MEDIA_TYPE
from core.protocol.messages import AssistantMessage, Attachment, Message, ToolMessage, UserMessage
from core.providers.base import HostedSearch, ModelRequest
from core.providers.wire.request_bytes import EncodedHistory, EncodedMessages, SentCall, Wire, has_reasoning
from core.providers.wire.wire_text import NO_OUTPUT, clean, clean_tool_name, parse_arguments

Block = dict[str, Any]
MARK: Final = {"type": "ephemeral"}
GOES_ON: Final = "(the conversation goes on)"
SEARCH: Final = "web_search_20250305"  # the version that every model with a search takes
MAX_SEARCHES: Final = 5  # in one answer
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


class MessagesWire(Wire):
    """One request's head and history. `is_marked`: the system prompt carries a cache mark, for other sessions to
    hit."""

    name = "messages"
    array = "messages"

    def __init__(self, request: ModelRequest, *, provider: str, is_marked: bool) -> None:
        super().__init__(request, provider=provider)
        self._marked = is_marked

    def head(self) -> Mapping[str, Any]:
        request = self._request
        head: dict[str, Any] = {"model": request.model}
        tools: list[dict[str, Any]] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        if request.search is not None:
            tools.append(_build_search(request.search))
        if tools:
            head["tools"] = tools
        if request.system.strip():
            mark = {"cache_control": MARK} if self._marked else {}
            head["system"] = [{"type": "text", "text": clean(request.system), **mark}]
        return head

    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        first = messages[0]
        if isinstance(first, AssistantMessage):
            return self._encode_answer(first, before)
        results = [self._encode_result(message, before) for message in messages if isinstance(message, ToolMessage)]
        user_messages = [message for message in messages if isinstance(message, UserMessage)]
        user_blocks = [
            [*map(self._encode_attachment, user_message.attachments), *_build_text_blocks(user_message.content)]
            for user_message in user_messages
        ]
        content = [*results, *chain.from_iterable(user_blocks)]
        return EncodedMessages(items=[{"role": "user", "content": content}] if content else [])

    def _encode_answer(self, message: AssistantMessage, before: EncodedHistory) -> EncodedMessages:
        lead: list[Block] = [{"role": "user", "content": _build_text_blocks(GOES_ON)}] if before.is_empty else []
        wire_answer = None if lead else self._find_returnable(message, binding=before.binding)
        blocks = wire_answer.items if wire_answer is not None else ()
        ids = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
        if wire_answer is not None and ids == [call.wire_id for call in message.tool_calls]:
            calls = {call.id: SentCall(id=call.wire_id) for call in message.tool_calls}
            return EncodedMessages(items=[{"role": "assistant", "content": blocks}], calls=calls)
        dropped_count = int(has_reasoning(message.wire))
        content = [*_build_text_blocks(message.content), *_build_call_blocks(message)]
        if not content:
            return EncodedMessages(dropped_reasoning=dropped_count)
        plain = {call.id: SentCall(id=call.id) for call in message.tool_calls}
        answer = {"role": "assistant", "content": content}
        return EncodedMessages(items=[*lead, answer], calls=plain, dropped_reasoning=dropped_count)

    def _encode_result(self, message: ToolMessage, before: EncodedHistory) -> Block:
        call = before.find_call(message.call_id)
        content: str | list[Block] = clean(message.content) if message.content.strip() else NO_OUTPUT
        if message.attachments:
            content = [*_build_text_blocks(message.content), *map(self._encode_attachment, message.attachments)]
        block = {"type": "tool_result", "tool_use_id": call.id if call else message.call_id, "content": content}
        return block | ({"is_error": True} if message.is_error else {})

    def _encode_attachment(self, attachment: Attachment) -> Block:
        kind = "document" if attachment.media_type == PDF_MEDIA_TYPE else "image"
        data = self._encode_base64(attachment)
        title = {"title": clean(attachment.name)} if kind == "document" and attachment.name else {}
        return {"type": kind, "source": {"type": "base64", "media_type": attachment.media_type, "data": data}, **title}


def _build_search(search: HostedSearch) -> Block:
    """Build the API's own search; it takes either of the two lists of domains."""
    domains = {"allowed_domains": search.allowed} if search.allowed else {"blocked_domains": search.blocked}
    domain_lists = {name: list(hosts) for name, hosts in domains.items() if hosts}
    return {"type": SEARCH, "name": "web_search", "max_uses": MAX_SEARCHES, **domain_lists}


def _build_text_blocks(content: str) -> list[Block]:
    return [{"type": "text", "text": clean(content)}] if content.strip() else []


def _build_call_blocks(message: AssistantMessage) -> list[Block]:
    return [
        {
            "type": "tool_use",
            "id": tool_call.id,
            "name": clean_tool_name(tool_call.name),
            "input": parse_arguments(tool_call.arguments),
        }
        for tool_call in message.tool_calls
    ]
