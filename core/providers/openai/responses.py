"""OpenAI's Responses API: the history as a request, and the events of its stream as deltas.

Requests are stateless: the API stores nothing and is sent everything. The model's own answers go back item for item,
unchanged and in order, with the encrypted reasoning in them; see `select_sendable`. Answers of another model or wire
go back as plain text and calls.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal

from msgspec import Struct, field, to_builtins

from core.protocol.messages import (
    AssistantMessage,
    EffortMessage,
    Message,
    ServiceTier,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    WireAnswer,
)
from core.providers import base
from core.providers.base import Delta, ModelRequest, ReasoningDelta, StreamEnd, TextDelta, ToolCallDelta, ToolSpec
from core.providers.catalog.capabilities import Capabilities
from core.providers.connection.failures import Api, build_event_error
from core.providers.openai.openai_wire import Item, OpenAIWire
from core.providers.wire.answer_forms import build_openai_format
from core.providers.wire.request_bytes import EncodedHistory, EncodedMessages, SentCall, has_reasoning
from core.providers.wire.tool_calls import CallNormaliser
from core.providers.wire.wire_values import (
    NO_OUTPUT,
    REMOVALS,
    clean,
    clean_tool_name,
    encode_arguments,
    get_count,
    get_table,
    get_tables,
    get_text,
    parse_arguments,
)
from core.text.well_formed import map_texts

CALLS: Final = {
    "function_call": False,
    "custom_tool_call": True,
    "tool_search_call": False,
}  # True: its input is free text
_SEARCH_CALL: Final = "tool_search_call"
_BY_CLIENT: Final = {"execution": "client", "status": "completed"}
_OUTPUTS: Final = {False: "function_call_output", True: "custom_tool_call_output"}
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_ADDED: Final = "response.output_item.added"
_DONE: Final = "response.output_item.done"
_BREAK: Final = "\n\n"
CALL_TYPES: Final = frozenset({"function_call", "custom_tool_call", _SEARCH_CALL})
COMPACTION: Final = "compaction"
COMPACTION_OPTIONS: Final = frozenset({"prompt_cache_key", "service_tier"})
WINDOWS: Final = ("2h", "8h")
# The service tiers as responses name them.
TIERS: Final[dict[str, ServiceTier]] = {
    "fast": "fast",
    "priority": "fast",
    "flex": "flex",
    **{window: window for window in WINDOWS},
}
FREE_TEXT: Final = "input"  # The argument for the text of an unknown tool.


class ResponsesWire(OpenAIWire):
    """Writer of one request. `freeform`: the argument that holds the text of every free-text tool, by the
    tool's name; `takes_grammar`: the server may be sent a grammar for it; `search`: the tool that finds others, "" =
    none, or the API can't load them."""

    name = "responses"
    array = "input"
    text_type = "input_text"

    def __init__(
        self,
        request: ModelRequest,
        *,
        provider: str,
        capabilities: Capabilities,
        takes_grammar: bool = True,
        official: bool = False,
    ) -> None:
        super().__init__(request, provider=provider, capabilities=capabilities)
        self._takes_grammar, self._leaves_calls = takes_grammar, official
        tools = request.tools if capabilities.freeform_tools else ()
        self.freeform = {tool.name: tool.freeform for tool in tools if tool.freeform}
        searches = request.tools if capabilities.tool_search else ()
        self.search = next((tool.name for tool in searches if tool.finds_tools), "")

    @property
    def key(self) -> Hashable:
        return super().key, self._takes_grammar, self.search

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
            effort = request.base_effort if self._capabilities.changes_effort else request.effort
            tail["reasoning"] = {**({"effort": effort} if effort else {}), "summary": "auto"}
        if request.max_tokens:
            tail["max_output_tokens"] = max(request.max_tokens, 16)  # The API refuses a lower limit.
        if request.temperature is not None and self._capabilities.sampling and not thinks:
            tail["temperature"] = request.temperature
        if request.session and not request.private:
            tail["prompt_cache_key"] = request.session[:64]
        if request.cache == "all" and self._capabilities.cache.long:
            tail["prompt_cache_options"] = {"ttl": "12h"}
        if (form := request.choose_form(leaves_calls=self._leaves_calls)) is not None:
            tail["text"] = {"format": {"type": "json_schema", **build_openai_format(form)}}
            if not self._leaves_calls and request.tools:
                tail["tool_choice"] = "none"
        return tail | self._build_tier()

    def _build_tier(self) -> Item:
        """Build the fields of a service tier. An answer that may take hours is not streamed but asked for later."""
        tier = self._request.tier
        if not self._capabilities.tiers.get_factor(tier):
            return {}
        if tier in WINDOWS:
            return {"stream": False, "background": True, "background_options": {"completion_window": tier}}
        return {"service_tier": tier}

    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        first = messages[0]
        if isinstance(first, AssistantMessage):
            return self._encode_answer(first, before)
        if isinstance(first, EffortMessage):
            change: Item = {"type": "configuration_update", "reasoning": {"effort": first.effort}}
            return EncodedMessages(items=[change] if self._capabilities.changes_effort else [])
        items: list[Item] = []
        for entry in sorted(messages, key=lambda message: not isinstance(message, ToolMessage)):
            if isinstance(entry, ToolMessage):
                call = before.find_call(entry.call_id)
                items.append(self._encode_output(entry, call))
                if call is not None and call.is_search and not entry.tools:  # Its output has no place for words.
                    items.append(_build_message("user", clean(entry.content)))
            elif isinstance(entry, UserMessage) and (entry.content.strip() or entry.attachments):
                items.append(_build_message("user", self._encode_content(entry.content, entry.attachments)))
        return EncodedMessages(items=items)

    def _encode_answer(self, message: AssistantMessage, before: EncodedHistory) -> EncodedMessages:
        answer = self._find_reusable(message, binding=before.binding)
        if answer is not None and (items := select_sendable(answer, message.tool_calls)) is not None:
            kinds = {item["call_id"]: item["type"] for item in items if item.get("type") in CALLS}
            id_pairs = ((call.id, call.wire_id) for call in message.tool_calls)
            sent_calls = {call_id: _build_sent_call(wire_id, kinds[wire_id]) for call_id, wire_id in id_pairs}
            return EncodedMessages(items=items, calls=sent_calls)
        items = [_build_message("assistant", clean(message.content))] if message.content.strip() else []
        calls = {}
        for call in message.tool_calls:
            item = self._encode_call(call)
            items.append(item)
            calls[call.id] = _build_sent_call(call.id, item["type"])
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
        if call is None:  # The API refuses the output of a call that is not in the input.
            return _build_message("user", output)
        if call.is_search:
            tools = [
                {"type": "function", **to_builtins(tool), "defer_loading": True, "strict": False}
                for tool in message.tools
            ]
            return {**_BY_CLIENT, "type": "tool_search_output", "call_id": call.id, "tools": tools}
        return {"type": _OUTPUTS[call.freeform], "call_id": call.id, "output": output}

    def _build_file(self, name: str, url: str) -> Item:
        return {"type": "input_file", "filename": name, "file_data": url}

    def _build_picture(self, url: str) -> Item:
        return {"type": "input_image", "detail": "auto", "image_url": url}

    def _encode_tool(self, spec: ToolSpec) -> Item:
        fields = {"name": spec.name, "description": spec.description}
        if spec.name == self.search:
            parameters = spec.parameters
            return {
                "type": "tool_search",
                "execution": "client",
                "description": spec.description,
                "parameters": parameters,
            }
        if spec.name in self.freeform:
            grammar = spec.grammar if self._takes_grammar else ""
            text_format = {"type": "grammar", "syntax": "lark", "definition": grammar} if grammar else {"type": "text"}
            return {"type": "custom", **fields, "format": text_format}
        return {"type": "function", **fields, "parameters": spec.parameters, "strict": False}


class CompactionWire(ResponsesWire):
    """Writer of a request for a summary of the history, which takes no tools."""

    def head(self) -> Item:
        return {name: value for name, value in super().head().items() if name != "tools"}

    def build_bound_head(self) -> Item:
        return super().head()

    def tail(self) -> Item:
        return {name: value for name, value in super().tail().items() if name in COMPACTION_OPTIONS}


def _build_sent_call(call_id: str, kind: str) -> SentCall:
    return SentCall(id=call_id, freeform=CALLS[kind], is_search=kind == _SEARCH_CALL)


def _build_message(role: str, content: str | list[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}


def select_sendable(answer: WireAnswer, calls: Sequence[ToolCall]) -> list[Item] | None:
    """Return the items of an answer as the API accepts them back; None: its calls differ from those that have a result.

    A reasoning item is refused without an item after it. One with neither encrypted nor plain reasoning is empty, and
    the other items may then not have the ids by which they refer to it.
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


class _Output(Struct, eq=False):
    """A streamed item. `number` counts the items, `index` the calls among them. `item`: the finished item; `kind`: the
    kind of reasoning that is shown; `passed`: the number of emitted characters of every part."""

    number: int
    index: int = -1
    call_id: str = ""
    named: bool = False
    item: Item = field(default_factory=dict)
    kind: str = ""
    passed: dict[object, int] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)  # The emitted part of a call's arguments.


class ResponsesAnswer:
    """A streamed answer. `taken_ids`: ids of earlier calls; `freeform`, `search`: see `ResponsesWire`; `binding`: see
    `WireAnswer`. `ending` is None until the server sends it."""

    def __init__(
        self, taken_ids: AbstractSet[str], freeform: Mapping[str, str], *, binding: str, api: Api, search: str = ""
    ) -> None:
        self._ids = CallNormaliser(taken_ids)
        self._freeform, self._binding, self._api, self._search = freeform, binding, api, search
        self._outputs: list[_Output] = []
        self._places: dict[str | int, _Output] = {}  # By output index and by id.
        self._calls = 0
        self._spoke = self._refused = False
        self.removed_reasoning, self.removal = 0, ""
        self._reason: base.FinishReason | None = None

    @property
    def ending(self) -> StreamEnd | None:
        if self._reason is None:
            return None
        return StreamEnd("refused" if self._refused else self._reason)

    def infer_ending(self) -> StreamEnd | None:
        """Return the end of an answer that the server marked as done without one; None: the answer is incomplete."""
        if not self._outputs or not all(output.item for output in self._outputs):
            return None
        self._reason = "tool_calls" if self._calls else "stop"
        return self.ending

    def finish(self) -> Iterator[Delta]:
        """Yield the whole answer; nothing if one of its items was never finished."""
        if self._outputs and all(output.item for output in self._outputs):
            items = tuple(map_texts(_repair_output(output)) for output in self._outputs)
            yield base.AnswerReport(WireAnswer(wire="responses", items=items, binding=self._binding))

    def feed(self, event: object) -> Iterator[Delta]:
        """Yield the deltas of one event; unknown events are skipped. Raises `ProviderError`."""
        if not isinstance(event, dict):
            return
        kind = get_text(event, "type")
        if not kind and event.get("object") == "response":  # The server did not stream the response.
            kind, event = f"response.{get_text(event, 'status') or 'completed'}", {"response": event}
        if kind == "error":
            raise build_event_error(event, self._api)
        if kind in _ENDS:
            yield from self._on_end(kind, get_table(event, "response"))
        elif kind in {_ADDED, _DONE}:
            item = get_table(event, "item")
            if get_text(item, "type"):
                yield from self._on_item(self._find_output(event, item), item, is_done=kind == _DONE)
        elif kind.startswith("response.") and kind.endswith(".delta") and get_text(event, "delta"):
            yield from self._on_piece(kind.split(".")[1], self._find_output(event, {}), event)

    def _on_end(self, kind: str, response: Item) -> Iterator[Delta]:
        if usage := get_table(response, "usage"):
            yield base.UsageReport(parse_usage(usage, response))
        if removals := get_tables(response, "input_transformations"):
            self.removed_reasoning = len(removals)
            self.removal = REMOVALS.get(get_text(removals[-1], "reason"), "it does not fit this conversation")
        if kind in {"response.failed", "response.cancelled"}:
            raise build_event_error({"error": response.get("error") or {"message": "The response failed."}}, self._api)
        items = get_tables(response, "output")
        if len(items) <= sum(bool(known_output.item) for known_output in self._outputs):
            items = []  # Every item was finished before, possibly under another id.
        for index, item in enumerate(items):
            output = self._find_output({"output_index": index}, item)
            if not output.item and get_text(item, "type"):
                yield from self._on_item(output, item, is_done=True)
        if kind == "response.completed":
            self._reason = "tool_calls" if self._calls else "stop"
        else:
            reason = get_text(get_table(response, "incomplete_details"), "reason")
            self._reason = "refused" if reason == "content_filter" else "length"

    def _find_output(self, event: Item, item: Item) -> _Output:
        """Return the item that an event belongs to, by its id or output index: servers omit either, or use one index
        for all."""
        index, item_id = _read_index(event, "output_index", -1), get_text(event, "item_id") or get_text(item, "id")
        output = self._places.get(item_id) if item_id else None
        if output is not None and output.item and _is_other_call(output.item, item):
            output = None  # Two calls have one id.
        elif output is None:
            output = self._places.get(index)
            if output is not None and output.item and (item_id or event.get("type") == _ADDED):
                output = None  # Another item has this output index.
        if output is None:
            output = _Output(len(self._outputs))
            self._outputs.append(output)
        self._places |= {key: output for key in (item_id, index) if key not in ("", -1)}
        return output

    def _on_item(self, output: _Output, item: Item, *, is_done: bool) -> Iterator[Delta]:
        match item["type"]:
            case "message":
                for index, part in enumerate(get_tables(item, "content")):
                    kind = "refusal" if part.get("type") == "refusal" else "text"
                    yield from self._emit_text(output, (kind, index), get_text(part, kind), is_whole=True)
            case "reasoning":
                for kind in ("summary", "content"):
                    for index, part in enumerate(get_tables(item, kind)):
                        yield from self._emit_reasoning(output, (kind, index), get_text(part, "text"), is_whole=True)
            case "function_call" | "custom_tool_call":
                yield from self._emit_call(output, item, is_done=is_done)
            case "tool_search_call" if is_done and item.get("execution") == "client":
                arguments = item.get("arguments")
                text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
                call = {**item, "type": "function_call", "name": self._search, "arguments": text}
                yield from self._emit_call(output, call, is_done=is_done)
        if is_done:
            output.item = item

    def _on_piece(self, kind: str, output: _Output, event: Item) -> Iterator[Delta]:
        delta = event["delta"]
        match kind:
            case "output_text" | "refusal":
                part = (kind.removeprefix("output_"), _read_index(event, "content_index"))
                yield from self._emit_text(output, part, delta)
            case "reasoning_summary_text":
                yield from self._emit_reasoning(output, ("summary", _read_index(event, "summary_index")), delta)
            case "reasoning_text":
                yield from self._emit_reasoning(output, ("content", _read_index(event, "content_index")), delta)
            case "function_call_arguments" | "custom_tool_call_input" if output.index >= 0:
                yield from self._emit_arguments(output, delta, is_text=kind.startswith("custom"))

    def _emit_text(self, output: _Output, part: _Part, text: str, *, is_whole: bool = False) -> Iterator[Delta]:
        is_next = self._spoke and not output.passed  # Another message begins.
        if not (text := _take_rest(output, part, text, is_whole=is_whole)):
            return
        self._refused = self._refused or part[0] == "refusal"
        self._spoke = True
        yield TextDelta(_BREAK + text if is_next else text)

    def _emit_reasoning(self, output: _Output, part: _Part, text: str, *, is_whole: bool = False) -> Iterator[Delta]:
        """Yield a piece of reasoning; if there is a summary, only that."""
        if text and (output.kind or part[0]) == part[0]:
            output.kind = part[0]
            is_next = bool(output.passed) and part not in output.passed
            if text := _take_rest(output, part, text, is_whole=is_whole):
                yield ReasoningDelta(_BREAK + text if is_next else text, index=output.number)

    def _emit_call(self, output: _Output, item: Item, *, is_done: bool) -> Iterator[Delta]:
        name, is_text = get_text(item, "name"), item["type"] == "custom_tool_call"
        if output.index < 0:
            output.index, self._calls = self._calls, self._calls + 1
            output.call_id = self._ids.make_unique(get_text(item, "call_id") or get_text(item, "id"))
            head = f'{{"{self._freeform.get(name, FREE_TEXT)}": "' if is_text else ""
            yield ToolCallDelta(output.index, id=output.call_id, name=name, arguments=head)
        elif name and not output.named:
            yield ToolCallDelta(output.index, name=name)
        output.named = output.named or bool(name)
        text = get_text(item, "input" if is_text else "arguments")
        yield from self._emit_arguments(output, text, is_text=is_text, is_whole=True)
        if is_done and is_text and not output.item:
            yield ToolCallDelta(output.index, arguments='"}')

    def _emit_arguments(self, output: _Output, text: str, *, is_text: bool, is_whole: bool = False) -> Iterator[Delta]:
        before = "".join(output.written)
        if is_whole and not is_text and before and not text.startswith(before):
            rest = text if text.strip() else ""  # The differing part stays before it, as `repair_arguments` requires.
        else:
            rest = text[len(before) :] if is_whole else text
        if text := rest:
            output.written.append(text)
            arguments = json.dumps(text, ensure_ascii=False)[1:-1] if is_text else text
            yield ToolCallDelta(output.index, arguments=arguments)


_Part = tuple[str, int]


def _is_other_call(finished_item: Item, item: Item) -> bool:
    """Return True if an item is another call than a finished one with the same id."""
    names = ("call_id", "name")
    return finished_item.get("type") in CALL_TYPES and any(
        get_text(item, name) and get_text(item, name) != get_text(finished_item, name) for name in names
    )


def _read_index(event: Item, name: str, missing: int = 0) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else missing


def _take_rest(output: _Output, part: _Part, text: str, *, is_whole: bool) -> str:
    offset = output.passed.get(part, 0)
    text = text[offset:] if is_whole else text
    if text:
        output.passed[part] = offset + len(text)
    return text


def _repair_output(output: _Output) -> Item:
    """Return the item with the id that its call was assigned, and with valid arguments."""
    item = output.item
    if output.index < 0:
        return item
    if item["type"] == _SEARCH_CALL:
        return {**item, "call_id": output.call_id}
    item = {**item, "call_id": output.call_id, "name": clean_tool_name(get_text(item, "name"))}
    if item["type"] == "function_call":
        item["arguments"] = encode_arguments(get_text(item, "arguments"))
    return item


def parse_usage(usage: Item, response: Item) -> Usage:
    served, window = get_text(response, "service_tier"), get_table(response, "background_options")
    tier: ServiceTier | Literal[""] = TIERS.get(get_text(window, "completion_window") or served, "")
    is_long = get_text(get_table(response, "prompt_cache_options"), "ttl") == "12h"
    read, output_details = get_table(usage, "input_tokens_details"), get_table(usage, "output_tokens_details")
    return Usage(
        prompt_tokens=get_count(usage, "input_tokens"),
        completion_tokens=get_count(usage, "output_tokens"),
        cached_tokens=get_count(read, "cached_tokens"),
        cache_write_tokens=get_count(read, "cache_write_tokens"),
        long_cache_tokens=get_count(read, "cache_write_tokens") if is_long else 0,
        tier=tier,
        reasoning_tokens=get_count(output_details, "reasoning_tokens"),
    )
