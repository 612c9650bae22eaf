"""The history as a request for a response, stateless: the API stores nothing and is sent everything.

The model's own answers go back item for item, unchanged and in order, with the encrypted reasoning in them; see
`returnable`. What another model or wire answered goes back as plain text and calls.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from core.protocol.attachment_labels import PDF_MEDIA_TYPE
from core.protocol.messages import AssistantMessage, Attachment, Message, ToolCall, ToolMessage, UserMessage, WireAnswer
from core.providers.base import ModelRequest, ToolSpec
from core.providers.catalog.capabilities import Capabilities
from core.providers.wire.attachment_data import build_data_url, choose_file_name
from core.providers.wire.request_bytes import (
    EncodedMessages,
    PrecedingRequest,
    SentCall,
    has_reasoning,
    select_returnable,
)
from core.providers.wire.wire_text import NO_OUTPUT, clean, clean_tool_name, encode_arguments, parse_arguments

Item = dict[str, Any]
CALLS: Final = {"function_call": False, "custom_tool_call": True}  # and whether it is free text
_OUTPUTS: Final = {False: "function_call_output", True: "custom_tool_call_output"}


class ResponsesWire:
    """Writes one request. `provider` is the id under which the models of this API are known to a session."""

    array = "input"

    def __init__(self, request: ModelRequest, *, provider: str, capabilities: Capabilities) -> None:
        self._request = request
        self._model = f"{provider}/{request.model}"
        self._capabilities = capabilities
        self._freeform = {each.name: each.freeform for each in request.tools if self._is_freeform(each)}

    @property
    def key(self) -> Hashable:
        return self._model

    @property
    def freeform(self) -> Mapping[str, str]:
        """By the name of each free-text tool: the argument that its text is."""
        return self._freeform

    def head(self) -> Item:
        head: Item = {"model": self._request.model}
        if self._request.system:
            head["instructions"] = clean(self._request.system)
        if self._request.tools:
            head["tools"] = [self._encode_tool(each) for each in self._request.tools]
        return head

    def tail(self) -> Item:
        """Return what may vary from request to request."""
        request, thinks = self._request, bool(self._capabilities.efforts or self._request.effort)
        tail: Item = {"stream": True, "store": False}
        if thinks:
            tail["include"] = ["reasoning.encrypted_content"]
            tail["reasoning"] = {**({"effort": request.effort} if request.effort else {}), "summary": "auto"}
        if request.max_tokens:
            tail["max_output_tokens"] = max(request.max_tokens, 16)  # fewer are refused
        if request.temperature is not None and self._capabilities.sampling and not thinks:
            tail["temperature"] = request.temperature
        if request.session and not request.private:
            tail["prompt_cache_key"] = request.session[:64]
        return tail

    def encode(self, messages: Sequence[Message], before: PrecedingRequest) -> EncodedMessages:
        first = messages[0]
        if isinstance(first, AssistantMessage):
            return self._encode_answer(first, before)
        items: list[Item] = []
        for each in sorted(messages, key=lambda message: not isinstance(message, ToolMessage)):
            if isinstance(each, ToolMessage):
                items.append(self._encode_output(each, before.find_call(each.call_id)))
            elif isinstance(each, UserMessage) and (each.content.strip() or each.attachments):
                items.append(_build_message("user", self._encode_content(each.content, each.attachments)))
        return EncodedMessages(items=items)

    def _encode_answer(self, message: AssistantMessage, before: PrecedingRequest) -> EncodedMessages:
        answer = select_returnable(message, "responses", self._model, binding=before.binding)
        if answer is not None and (items := select_sendable(answer, message.tool_calls)) is not None:
            kinds = {item["call_id"]: CALLS[item["type"]] for item in items if item.get("type") in CALLS}
            called = ((call.id, call.wire_id) for call in message.tool_calls)
            sent = {ours: SentCall(id=theirs, freeform=kinds[theirs]) for ours, theirs in called}
            return EncodedMessages(items=items, calls=sent)
        items = [_build_message("assistant", clean(message.content))] if message.content.strip() else []
        calls = {}
        for call in message.tool_calls:
            item = self._encode_call(call)
            items.append(item)
            calls[call.id] = SentCall(id=call.id, freeform=CALLS[item["type"]])
        return EncodedMessages(items=items, calls=calls, dropped_reasoning=int(has_reasoning(message.wire)))

    def _encode_call(self, call: ToolCall) -> Item:
        name = clean_tool_name(call.name)
        text = parse_arguments(call.arguments).get(self._freeform[name]) if name in self._freeform else None
        if isinstance(text, str):
            return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": clean(text)}
        return {
            "type": "function_call",
            "call_id": call.id,
            "name": name,
            "arguments": encode_arguments(call.arguments),
        }

    def _encode_output(self, message: ToolMessage, call: SentCall | None) -> Item:
        output = self._encode_content(message.content if message.content.strip() else NO_OUTPUT, message.attachments)
        if call is None:  # the API refuses the output of a call that it does not see
            return _build_message("user", output)
        return {"type": _OUTPUTS[call.freeform], "call_id": call.id, "output": output}

    def _encode_content(self, text: str, attachments: Sequence[Attachment]) -> str | list[Item]:
        if not attachments:
            return clean(text)
        said = [{"type": "input_text", "text": clean(text)}] if text.strip() else []
        return [*said, *map(self._encode_attachment, attachments)]

    def _encode_attachment(self, attachment: Attachment) -> Item:
        url = build_data_url(attachment, self._request)
        if attachment.media_type == PDF_MEDIA_TYPE:
            return {"type": "input_file", "filename": choose_file_name(attachment), "file_data": url}
        return {"type": "input_image", "detail": "auto", "image_url": url}

    def _is_freeform(self, spec: ToolSpec) -> bool:
        return bool(spec.freeform) and self._capabilities.freeform_tools

    def _encode_tool(self, spec: ToolSpec) -> Item:
        if self._is_freeform(spec):
            return {"type": "custom", "name": spec.name, "description": spec.description, "format": {"type": "text"}}
        return {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
            "strict": False,
        }


def _build_message(role: str, content: str | list[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}


def select_sendable(answer: WireAnswer, calls: Sequence[ToolCall]) -> list[Item] | None:
    """The items of an answer as the API takes them back; None: its calls are not those that have a result.

    A reasoning item is refused without an item after it. One that holds neither encrypted nor plain reasoning says
    nothing, and then the others may not name the ids by which they belong to it.
    """
    items = list(answer.items)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    called = sorted(str(item.get("call_id", "")) for item in items if item.get("type") in CALLS)
    if called != sorted(each.wire_id for each in calls):
        return None
    if all(map(_is_complete, items)):
        return items
    return [{key: value for key, value in item.items() if key != "id"} for item in items if _is_complete(item)]


def _is_complete(item: Mapping[str, Any]) -> bool:
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))
