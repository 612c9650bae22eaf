"""The history as a request for a response, stateless: the API stores nothing and is sent everything.

The model's own answers go back item for item, unchanged and in order, with the encrypted reasoning in them; see
`returnable`. What another model or wire answered goes back as plain text and calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.protocol.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, WireAnswer
from core.providers.base import ModelRequest, ToolSpec
from core.providers.catalog.capabilities import Capabilities
from core.providers.openai.openai_wire import Item, OpenAIWire
from core.providers.wire.request_bytes import EncodedHistory, EncodedMessages, SentCall, has_reasoning
from core.providers.wire.wire_text import NO_OUTPUT, clean, clean_tool_name, encode_arguments, parse_arguments

CALLS: Final = {"function_call": False, "custom_tool_call": True}  # and whether it is free text
_OUTPUTS: Final = {False: "function_call_output", True: "custom_tool_call_output"}


class ResponsesWire(OpenAIWire):
    """Writes one request. `freeform`: by the name of each free-text tool, the argument that its text is."""

    name = "responses"
    array = "input"
    text_type = "input_text"

    def __init__(self, request: ModelRequest, *, provider: str, capabilities: Capabilities) -> None:
        super().__init__(request, provider=provider, capabilities=capabilities)
        tools = request.tools if capabilities.freeform_tools else ()
        self.freeform = {tool.name: tool.freeform for tool in tools if tool.freeform}

    def head(self) -> Item:
        head: Item = {"model": self._request.model}
        if self._request.system:
            head["instructions"] = clean(self._request.system)
        tools = [self._encode_tool(tool) for tool in self._request.tools]
        if (search := self._request.search) is not None:
            filters = {"filters": {"allowed_domains": list(search.allowed)}} if search.allowed else {}
            tools.append({"type": "web_search", **filters})
        return head | ({"tools": tools} if tools else {})

    def tail(self) -> Item:
        request, thinks = self._request, bool(self._capabilities.efforts or self._request.effort)
        tail: Item = {"stream": True, "store": False}
        include = ["web_search_call.action.sources"] if request.search is not None else []
        if thinks or include:
            tail["include"] = [*(["reasoning.encrypted_content"] if thinks else []), *include]
        if thinks:
            tail["reasoning"] = {**({"effort": request.effort} if request.effort else {}), "summary": "auto"}
        if request.max_tokens:
            tail["max_output_tokens"] = max(request.max_tokens, 16)  # fewer are refused
        if request.temperature is not None and self._capabilities.sampling and not thinks:
            tail["temperature"] = request.temperature
        if request.session and not request.private:
            tail["prompt_cache_key"] = request.session[:64]
        return tail

    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        first = messages[0]
        if isinstance(first, AssistantMessage):
            return self._encode_answer(first, before)
        items: list[Item] = []
        for entry in sorted(messages, key=lambda message: not isinstance(message, ToolMessage)):
            if isinstance(entry, ToolMessage):
                items.append(self._encode_output(entry, before.find_call(entry.call_id)))
            elif isinstance(entry, UserMessage) and (entry.content.strip() or entry.attachments):
                items.append(_build_message("user", self._encode_content(entry.content, entry.attachments)))
        return EncodedMessages(items=items)

    def _encode_answer(self, message: AssistantMessage, before: EncodedHistory) -> EncodedMessages:
        answer = self._find_returnable(message, binding=before.binding)
        if answer is not None and (items := select_sendable(answer, message.tool_calls)) is not None:
            kinds = {item["call_id"]: CALLS[item["type"]] for item in items if item.get("type") in CALLS}
            id_pairs = ((call.id, call.wire_id) for call in message.tool_calls)
            sent_calls = {call_id: SentCall(id=wire_id, freeform=kinds[wire_id]) for call_id, wire_id in id_pairs}
            return EncodedMessages(items=items, calls=sent_calls)
        items = [_build_message("assistant", clean(message.content))] if message.content.strip() else []
        calls = {}
        for call in message.tool_calls:
            item = self._encode_call(call)
            items.append(item)
            calls[call.id] = SentCall(id=call.id, freeform=CALLS[item["type"]])
        return EncodedMessages(items=items, calls=calls, dropped_reasoning=int(has_reasoning(message.wire)))

    def _encode_call(self, call: ToolCall) -> Item:
        name = clean_tool_name(call.name)
        text = parse_arguments(call.arguments).get(self.freeform[name]) if name in self.freeform else None
        if isinstance(text, str):
            return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": clean(text)}
        arguments = encode_arguments(call.arguments)
        return {"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments}

    def _encode_output(self, message: ToolMessage, call: SentCall | None) -> Item:
        output = self._encode_content(message.content if message.content.strip() else NO_OUTPUT, message.attachments)
        if call is None:  # the API refuses the output of a call that it does not see
            return _build_message("user", output)
        return {"type": _OUTPUTS[call.freeform], "call_id": call.id, "output": output}

    def _build_file(self, name: str, url: str) -> Item:
        return {"type": "input_file", "filename": name, "file_data": url}

    def _build_picture(self, url: str) -> Item:
        return {"type": "input_image", "detail": "auto", "image_url": url}

    def _encode_tool(self, spec: ToolSpec) -> Item:
        fields = {"name": spec.name, "description": spec.description}
        if spec.name in self.freeform:
            return {"type": "custom", **fields, "format": {"type": "text"}}
        return {"type": "function", **fields, "parameters": spec.parameters, "strict": False}


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
    call_ids = sorted(str(item.get("call_id", "")) for item in items if item.get("type") in CALLS)
    if call_ids != sorted(call.wire_id for call in calls):
        return None
    if all(map(_is_complete, items)):
        return items
    return [{key: value for key, value in item.items() if key != "id"} for item in items if _is_complete(item)]


def _is_complete(item: Mapping[str, Any]) -> bool:
    return item.get("type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))
