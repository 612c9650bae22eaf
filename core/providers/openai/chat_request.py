"""The history as a chat completions request. A function of the request alone: the same history gives the same bytes.

An answer goes back to the model that gave it as it came, with all the fields that its server put in; to every other
model as plain text and calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from core.protocol.messages import AssistantMessage, Attachment, Message, ToolCall, ToolMessage, UserMessage
from core.providers.base import ModelRequest
from core.providers.catalog.capabilities import Capabilities
from core.providers.openai.host_habits import HostHabits, alternate_items, find_run_end, is_silent, join_contents
from core.providers.openai.openai_wire import Item, OpenAIWire
from core.providers.wire.request_bytes import EncodedHistory, EncodedMessages, SentCall, has_reasoning
from core.providers.wire.wire_text import NO_OUTPUT, clean, clean_tool_name, encode_arguments

# What stands for reasoning, and for its signature, in a call that another model made: each as its host documents it.
_NO_THOUGHT: Final = " "
_NO_SIGNATURE: Final = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
ATTACHED: Final = "(what the results above are accompanied by)"


class ChatWire(OpenAIWire):
    """Writes one request. `official`: it goes to OpenAI itself, which has fields that others refuse."""

    name = "chat"
    array = "messages"
    text_type = "text"

    def __init__(
        self,
        request: ModelRequest,
        *,
        provider: str,
        capabilities: Capabilities,
        official: bool = False,
        habits: HostHabits | None = None,
    ) -> None:
        super().__init__(request, provider=provider, capabilities=capabilities)
        self._official, self._habits = official, habits or HostHabits()

    @property
    def key(self) -> Hashable:
        return self._model, self._request.system, self._habits

    def head(self) -> Item:
        head: Item = {"model": self._request.model}
        if self._request.tools:
            functions = [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in self._request.tools
            ]
            head["tools"] = [{"type": "function", "function": function} for function in functions]
        return head

    def tail(self) -> Item:
        request = self._request
        tail: Item = {"stream": True, "stream_options": {"include_usage": True}}
        if request.max_tokens:
            tail["max_completion_tokens" if self._official else "max_tokens"] = request.max_tokens
        if request.temperature is not None and self._capabilities.sampling:
            tail["temperature"] = request.temperature
        if request.effort:
            tail["reasoning_effort"] = request.effort
        if self._official and request.private:
            tail["store"] = False
        elif self._official and request.session:
            tail["prompt_cache_key"] = request.session[:64]
        return tail

    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        if len(answers) == len(messages) or not all(map(is_silent, answers)):
            encoded_messages = self._encode_answers(answers)
        else:
            encoded_messages = EncodedMessages(items=self._encode_results(messages, before))
        if self._habits.alternates:
            encoded_messages = replace(encoded_messages, items=alternate_items(list(map(dict, encoded_messages.items))))
        if before.is_empty and encoded_messages.items and self._request.system:
            return replace(encoded_messages, items=self._add_system(encoded_messages.items))
        return encoded_messages

    def find_unit_end(self, messages: Sequence[Message], start: int) -> int:
        return find_run_end(messages, start) if self._habits.alternates else super().find_unit_end(messages, start)

    def _add_system(self, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        text, (first, *rest) = clean(self._request.system), items
        if self._habits.takes_system:
            return [{"role": "system", "content": text}, *items]
        if first["role"] == "user":
            return [{**first, "content": join_contents(text, first["content"])}, *rest]
        return [{"role": "user", "content": text}, *items]

    def _encode_answers(self, messages: Sequence[AssistantMessage]) -> EncodedMessages:
        answers = [self._encode_answer(message) for message in messages]
        return EncodedMessages(
            items=[self._habits.fill_content(dict(item)) for answer in answers for item in answer.items],
            calls={id_: call for answer in answers for id_, call in answer.calls.items()},
            dropped_reasoning=sum(answer.dropped_reasoning for answer in answers),
        )

    def _encode_results(self, messages: Sequence[Message], before: EncodedHistory) -> list[Item]:
        """All results first; pictures can only stand in a user's message, so one follows that holds them."""
        results = [message for message in messages if isinstance(message, ToolMessage)]
        ids = [call.id if (call := before.find_call(result.call_id)) else result.call_id for result in results]
        items = [
            {"role": "tool", "tool_call_id": call_id, "content": clean(result.content) or NO_OUTPUT}
            for call_id, result in zip(ids, results, strict=True)
        ]
        if attachments := [attachment for result in results for attachment in result.attachments]:
            items.append(self._encode_user_message(ATTACHED, attachments))
        user_messages = [message for message in messages if isinstance(message, UserMessage)]
        return [
            *items,
            *(
                self._encode_user_message(user_message.content, user_message.attachments)
                for user_message in user_messages
            ),
        ]

    def _encode_user_message(self, text: str, attachments: Sequence[Attachment]) -> Item:
        return {"role": "user", "content": self._encode_content(text, attachments)}

    def _encode_answer(self, message: AssistantMessage) -> EncodedMessages:
        """Nothing if there is nothing in it: no API takes an assistant's message without content and calls."""
        returned_items = (answer.items if (answer := self._find_returnable(message)) else ())[:1]
        ids = [call["id"] for entry in returned_items for call in entry.get("tool_calls", ())]
        if returned_items and ids == [call.wire_id for call in message.tool_calls]:
            calls = {call.id: SentCall(id=call.wire_id) for call in message.tool_calls}
            return EncodedMessages(items=[self._select_accepted(returned_items[0])], calls=calls)
        if not message.content and not message.tool_calls:
            return EncodedMessages()
        wire_message: Item = {"role": "assistant", "content": clean(message.content) or None}
        ids = [shorten_id(call.id) if self._habits.short_ids else call.id for call in message.tool_calls]
        if message.tool_calls:
            demanded_fields = self._habits.demanded
            signature = _NO_SIGNATURE if "thought_signature" in demanded_fields else {}
            pairs = zip(message.tool_calls, ids, strict=True)
            wire_message["tool_calls"] = [_build_call(call, call_id) | signature for call, call_id in pairs]
            wire_message |= {"reasoning_content": _NO_THOUGHT} if "reasoning_content" in demanded_fields else {}
        calls = {call.id: SentCall(id=call_id) for call, call_id in zip(message.tool_calls, ids, strict=True)}
        return EncodedMessages(items=[wire_message], calls=calls, dropped_reasoning=int(has_reasoning(message.wire)))

    def _select_accepted(self, message: Mapping[str, Any]) -> Item:
        """The message without what its server refuses, wherever it stands in it."""
        refused_fields = self._habits.refused
        accepted_fields = {key: value for key, value in message.items() if key not in refused_fields}
        if calls := accepted_fields.get("tool_calls"):
            accepted_fields["tool_calls"] = [
                {key: call[key] for key in call if key not in refused_fields} for call in calls
            ]
        return accepted_fields

    def _build_file(self, name: str, url: str) -> Item:
        return {"type": "file", "file": {"filename": name, "file_data": url}}

    def _build_picture(self, url: str) -> Item:
        return {"type": "image_url", "image_url": {"url": url}}


def find_unknown_fields(messages: Sequence[Message]) -> set[str]:
    """The fields of returned messages and their calls that are not OpenAI's."""
    answers = (message.wire for message in messages if isinstance(message, AssistantMessage))
    items = [item for wire in answers if wire is not None and wire.wire == "chat" for item in wire.items]
    calls = [call for item in items for call in item.get("tool_calls", ())]
    of_calls = set[str]().union(*calls) - {"id", "type", "function"}
    return of_calls | (set[str]().union(*items) - {"role", "content", "tool_calls"})


def _build_call(call: ToolCall, call_id: str) -> Item:
    function = {"name": clean_tool_name(call.name), "arguments": encode_arguments(call.arguments)}
    return {"id": call_id, "type": "function", "function": function}


def shorten_id(call_id: str) -> str:
    """An id of nine letters and digits, for a host that takes no others (Mistral)."""
    return hashlib.blake2b(call_id.encode(), digest_size=5).hexdigest()[:9]
