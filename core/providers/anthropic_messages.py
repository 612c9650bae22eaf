"""Anthropic's Messages API: the history and options of a call as a request, and its stream of events as deltas."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Final, Literal

from msgspec import Struct, field

from core.protocol.attachment_labels import PDF_MEDIA_TYPE
from core.protocol.messages import (
    AssistantMessage,
    Attachment,
    EffortMessage,
    FoundTool,
    Message,
    ServiceTier,
    ToolMessage,
    Usage,
    UserMessage,
    WireAnswer,
)
from core.providers.base import (
    Delta,
    FinishReason,
    HostedSearch,
    ModelRequest,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
)
from core.providers.catalog.capabilities import Capabilities
from core.providers.wire.request_bytes import EncodedHistory, EncodedMessages, SentCall, Wire, has_reasoning
from core.providers.wire.tool_calls import CallNormaliser
from core.providers.wire.wire_values import (
    NO_OUTPUT,
    REMOVALS,
    clean,
    clean_tool_name,
    get_count,
    get_table,
    get_tables,
    get_text,
    parse_arguments,
)

Block = dict[str, Any]
MARK: Final = {"type": "ephemeral"}
LONG_MARK: Final = {"type": "ephemeral", "ttl": "1h"}
CONTINUATION: Final = "(continue)"
SEARCH: Final = "web_search_20250305"  # The version that every model with a search accepts.
COMPACTION: Final = "compaction"
MAX_SEARCHES: Final = 5  # Per answer.
THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
DEFAULT_ANSWER: Final = 32_000
LONG_ANSWER: Final = 64_000  # For efforts with long thinking.
THINKING_ROOM: Final = 16_000  # Room for thinking on top of an answer that the caller bounds.
LEAST_BUDGET: Final = 1_024
_BUDGETS: Final = {"minimal": 1_024, "low": 4_096, "medium": 10_000, "high": 20_000, "xhigh": 26_000, "max": 26_000}
_LONG_EFFORTS: Final = frozenset({"xhigh", "max"})
FOUND_TOOLS: Final = "defer_loading"
# Optional fields, with words by which a compatible server refuses them; the narrowest pattern first.
DISPENSABLE: Final = (
    ("format", ("output_config.format", "output_format", "structured output", "json_schema", "json schema")),
    (FOUND_TOOLS, ("defer_loading", "tool_reference", "tool reference")),
    ("display", ("display",)),
    ("output_config", ("output_config", "effort")),
    ("diagnostics", ("diagnostics",)),
    ("speed", ("speed", "fast mode", "fast-mode")),
    ("ttl", ("ttl",)),
    ("cache_control", ("cache_control",)),
    ("temperature", ("temperature",)),
    ("thinking", ("thinking",)),
)
# Effects of the fields whose loss the user is notified of.
LOSSES: Final = {
    "output_config": "an effort",
    "thinking": "thinking as it is asked for",
    "temperature": "a temperature",
    "speed": "the fast tier for this model",
}
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


class MessagesWire(Wire):
    """The head and history of one request. `is_marked`: the system prompt carries a cache mark, so that other sessions
    hit the cache; `is_kept`: for long. `changes_effort`: changes of the effort are part of the history. `loads_tools`:
    the API loads the tools that a search found where its result names them; their definitions follow the list."""

    name = "messages"
    array = "messages"

    def __init__(
        self,
        request: ModelRequest,
        *,
        provider: str,
        is_marked: bool,
        is_kept: bool = False,
        changes_effort: bool = False,
        loads_tools: bool = False,
    ) -> None:
        super().__init__(request, provider=provider)
        self._marked, self._kept, self._changes_effort = is_marked, is_kept, changes_effort
        self._found = _collect_found_tools(request) if loads_tools else {}

    @property
    def key(self) -> Hashable:
        return super().key, bool(self._found)

    @property
    def optional_names(self) -> Sequence[str]:
        """The names of `DISPENSABLE` in the head."""
        return [FOUND_TOOLS] if self._found else []

    def head(self) -> Mapping[str, Any]:
        return self._build_head(LONG_MARK if self._kept else MARK, self._found.values())

    def build_bound_head(self) -> Mapping[str, Any]:
        """Return the head without the tools that were found: the API counts those where they are loaded."""
        return self._build_head(MARK, ())

    def _build_head(self, mark: Mapping[str, str], found_tools: Iterable[FoundTool]) -> Mapping[str, Any]:
        request = self._request
        head: dict[str, Any] = {"model": request.model}
        tools: list[dict[str, Any]] = [_encode_tool(tool) for tool in request.tools]
        if request.search is not None:
            tools.append(_build_search(request.search))
        tools += [{**_encode_tool(tool), "defer_loading": True} for tool in found_tools]
        if tools:
            head["tools"] = tools
        if request.system.strip():
            marks = {"cache_control": mark} if self._marked else {}
            head["system"] = [{"type": "text", "text": clean(request.system), **marks}]
        return head

    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        first = messages[0]
        if isinstance(first, AssistantMessage):
            return self._encode_answer(first, before)
        if isinstance(first, EffortMessage):
            change = {"role": "system", "content": [], "output_config": {"effort": first.effort}}
            return EncodedMessages(items=[change] if self._changes_effort else [])
        results = [self._encode_result(message, before) for message in messages if isinstance(message, ToolMessage)]
        user_messages = [message for message in messages if isinstance(message, UserMessage)]
        user_blocks = [
            [*map(self._encode_attachment, user_message.attachments), *_build_text_blocks(user_message.content)]
            for user_message in user_messages
        ]
        content = [*results, *chain.from_iterable(user_blocks)]
        return EncodedMessages(items=[{"role": "user", "content": content}] if content else [])

    def _encode_answer(self, message: AssistantMessage, before: EncodedHistory) -> EncodedMessages:
        wire_answer = self._find_reusable(message, binding=before.binding)
        is_summary = wire_answer is not None and has_compaction(wire_answer)
        needs_lead = before.is_empty and not is_summary
        lead: list[Block] = [{"role": "user", "content": _build_text_blocks(CONTINUATION)}] if needs_lead else []
        wire_answer = None if needs_lead else wire_answer
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
        if self._loads(message):
            content = [{"type": "tool_reference", "tool_name": tool.name} for tool in message.tools]
        elif message.attachments:
            content = [*_build_text_blocks(message.content), *map(self._encode_attachment, message.attachments)]
        block = {"type": "tool_result", "tool_use_id": call.id if call else message.call_id, "content": content}
        return block | ({"is_error": True} if message.is_error else {})

    def _loads(self, message: ToolMessage) -> bool:
        """Return True if a result's tools can be named alone: each stands in the head as the search found it."""
        return bool(message.tools) and all(self._found.get(tool.name) == tool for tool in message.tools)

    def _encode_attachment(self, attachment: Attachment) -> Block:
        kind = "document" if attachment.media_type == PDF_MEDIA_TYPE else "image"
        data = self._encode_base64(attachment)
        title = {"title": clean(attachment.name)} if kind == "document" and attachment.name else {}
        return {"type": kind, "source": {"type": "base64", "media_type": attachment.media_type, "data": data}, **title}


def has_compaction(answer: WireAnswer | None) -> bool:
    """Return True if an answer is the API's own summary of what was before it."""
    return answer is not None and any(block.get("type") == COMPACTION for block in answer.items)


def _collect_found_tools(request: ModelRequest) -> dict[str, FoundTool]:
    """Return the tools that the history's searches found, by name, as they were found first: what a request has named
    is not defined anew."""
    listed_names = {tool.name for tool in request.tools}
    found_tools: dict[str, FoundTool] = {}
    for message in request.messages:
        for tool in message.tools if isinstance(message, ToolMessage) else ():
            if tool.name not in listed_names:
                found_tools.setdefault(tool.name, tool)
    return found_tools


def _encode_tool(tool: ToolSpec | FoundTool) -> Block:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}


def _build_search(search: HostedSearch) -> Block:
    """Build the API's own search, which accepts only one of the two lists of domains."""
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


def build_options(
    request: ModelRequest, capabilities: Capabilities, *, without: AbstractSet[str] = frozenset()
) -> dict[str, Any]:
    """Build the fields after the array. `without`: names of `DISPENSABLE` to leave out."""
    thinking = {} if "thinking" in without else _build_thinking(request, capabilities)
    limit = choose_answer_limit(request, capabilities, thinks=_is_thinking(thinking))
    options: dict[str, Any] = {"max_tokens": limit, "stream": True}
    if "display" in without:
        thinking.pop("display", None)
    if budget := thinking.get("budget_tokens"):
        thinking["budget_tokens"] = min(budget, limit - LEAST_BUDGET)
    if thinking and thinking.get("budget_tokens", LEAST_BUDGET) >= LEAST_BUDGET:
        options["thinking"] = thinking
    effort = request.base_effort if capabilities.changes_effort else request.effort
    if thinking.get("type") == "adaptive" and effort and "output_config" not in without:
        options["output_config"] = {"effort": effort}
    if request.tier == "fast" and capabilities.tiers.fast and "speed" not in without:
        options["speed"] = "fast"
    samples = capabilities.sampling and not _is_thinking(thinking) and "temperature" not in without
    if request.temperature is not None and samples:
        options["temperature"] = request.temperature
    if "cache_control" not in without:
        is_long = request.cache == "all" and capabilities.cache.long and "ttl" not in without
        options["cache_control"] = LONG_MARK if is_long else MARK
    return options


def choose_answer_limit(request: ModelRequest, capabilities: Capabilities, *, thinks: bool) -> int:
    """Return the tokens that thinking and answer may take together."""
    if request.max_tokens:
        limit = request.max_tokens + (THINKING_ROOM if thinks else 0)
    else:
        limit = LONG_ANSWER if request.effort in _LONG_EFFORTS else DEFAULT_ANSWER
    return min(limit, capabilities.max_output or limit)


def _is_thinking(thinking: dict[str, Any]) -> bool:
    return thinking.get("type") in {"adaptive", "enabled", "between_tools"}


def _build_thinking(request: ModelRequest, capabilities: Capabilities) -> dict[str, Any]:
    """Build the `thinking` field. The summary of the thinking is requested, else nothing streams between two calls."""
    effort = request.effort or capabilities.default_effort
    best = capabilities.thinking[0] if capabilities.thinking else ""
    if best == "enabled":  # This type is off unless it is requested.
        budget = _BUDGETS.get(effort, 0)
        return {"type": "enabled", "budget_tokens": budget} if budget and _can_begin_thinking(request) else {}
    if effort == "none":
        mode = next(
            (candidate for candidate in ("disabled", "between_tools") if candidate in capabilities.thinking), ""
        )
        return {"type": mode} if mode else {}
    return {"type": "adaptive", "display": "summarized"} if best == "adaptive" else {}


def _can_begin_thinking(request: ModelRequest) -> bool:
    """Return True if thinking within a budget may be requested: not in reply to calls that were made without it."""
    last_answer = next(
        (message for message in reversed(request.messages) if isinstance(message, AssistantMessage)), None
    )
    if last_answer is None or not request.messages or not isinstance(request.messages[-1], ToolMessage):
        return True
    return (
        last_answer.wire is not None
        and bool(last_answer.wire.items)
        and last_answer.wire.items[0].get("type") in THOUGHTS
    )


class _Part(Struct, eq=False):
    """A streamed block. `number` counts the calls or the thoughts of the answer; `pieces` are those of its texts."""

    block: dict[str, Any]
    number: int
    is_over: bool = False
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, piece: str) -> None:
        self.pieces.setdefault(name, [str(self.block.get(name) or "")]).append(piece)

    def whole(self) -> dict[str, Any]:
        """Return the block with all of its pieces."""
        texts = {name: "".join(pieces) for name, pieces in self.pieces.items() if name != _ARGUMENTS}
        arguments = "".join(self.pieces.get(_ARGUMENTS, ()))
        return self.block | texts | ({"input": parse_arguments(arguments)} if arguments.strip() else {})


class MessageAnswer:
    """A streamed answer. `ending` is None until the server sends it; `id` is the server's id of the answer;
    `cache_miss` explains a missed cache, `refusal` a refusal ("" = none)."""

    def __init__(self, taken_ids: set[str]) -> None:
        self._calls = CallNormaliser(taken_ids)
        self._parts: list[_Part] = []
        self._places: dict[int, _Part] = {}
        self._counts: dict[str, int] = {}
        self._thinking_tokens = 0
        self.ending: StreamEnd | None = None
        self.id = self.cache_miss = self.refusal = self.removal = ""
        self.removed_reasoning = 0
        self._tier: ServiceTier | Literal[""] = ""
        self._long_cache_tokens = 0

    def feed(self, event: object) -> Iterator[Delta]:
        """Yield the deltas of one event; unknown events are skipped, as the API asks its clients to do."""
        if not isinstance(event, dict):
            return
        match event.get("type"):
            case "message_start":
                message = get_table(event, "message")
                self.id = str(message.get("id") or "")
                self.cache_miss = _describe_cache_miss(get_table(message, "diagnostics"))
                self._read_removals(message)
                yield from self._read_usage(get_table(message, "usage"))
            case "content_block_start":
                yield from self._on_block_start(event)
            case "content_block_delta":
                yield from self._on_block_delta(event)
            case "content_block_stop":
                yield from self._on_block_stop(event)
            case "message_delta":
                yield from self._read_usage(get_table(event, "usage"))
                self._read_removals(event)
                self._on_stop(get_table(event, "delta"))
            case "message_stop":
                self.ending = self.ending or self._infer_ending()
            case "message":
                yield from self._read_whole(event)

    def infer_ending(self) -> StreamEnd | None:
        """Return the end of an answer that the server marked as done without one; None: the answer is incomplete."""
        return self._infer_ending() if self._parts else None

    def finish(self) -> Iterator[Delta]:
        """Yield the contents of blocks whose end the server did not send."""
        for part in self._parts:
            yield from self._end_part(part)

    def _infer_ending(self) -> StreamEnd:
        return StreamEnd("tool_calls" if any(part.block.get("type") == "tool_use" for part in self._parts) else "stop")

    def _read_whole(self, message: dict[str, Any]) -> Iterator[Delta]:
        """Yield the deltas of an answer that was not streamed."""
        self.id = get_text(message, "id")
        for index, block in enumerate(get_tables(message, "content")):
            yield from self._on_block_start({"index": index, "content_block": block})
            yield from self._on_block_stop({"index": index})
        yield from self._read_usage(get_table(message, "usage"))
        self._on_stop(message)
        self.ending = self.ending or self._infer_ending()

    def build_wire_answer(self, binding: str) -> WireAnswer | None:
        """Return the blocks as they are sent back: unchanged and in order, without blank text and trailing thinking,
        which the API refuses. None if no block is left."""
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
        """Close a block. A call without arguments has no pieces; some servers send the arguments whole at the start."""
        was_over, part.is_over = part.is_over, True
        if was_over or part.block.get("type") != "tool_use" or _ARGUMENTS in part.pieces:
            return
        part.block["input"] = part.block.get("input") or {}
        yield ToolCallDelta(part.number, arguments=json.dumps(part.block["input"], ensure_ascii=False))

    def _read_removals(self, message: dict[str, Any]) -> None:
        """Note the thinking that the API removed from the history; entries of other types are skipped."""
        entries = get_tables(message, "input_transformations")
        removals = [entry for entry in entries if entry.get("type") == "thinking_dropped"]
        if removals:
            self.removed_reasoning, self.removal = len(removals), _describe_removal(removals[-1])

    def _read_usage(self, usage: dict[str, Any]) -> Iterator[Delta]:
        """Yield the counts so far. They are cumulative, and a later event may omit some of them."""
        if not usage:
            return
        for name in _COUNTS:
            if isinstance(usage.get(name), int):
                self._counts[name] = get_count(usage, name)
        self._tier = "fast" if usage.get("speed") == "fast" else self._tier
        long_tokens = get_count(get_table(usage, "cache_creation"), "ephemeral_1h_input_tokens")
        self._long_cache_tokens = long_tokens or self._long_cache_tokens
        thinking_tokens = get_count(get_table(usage, "output_tokens_details"), "thinking_tokens")
        self._thinking_tokens = thinking_tokens or self._thinking_tokens
        fresh, answer, read, cache_writes = (self._counts.get(name, 0) for name in _COUNTS)
        total_usage = Usage(
            prompt_tokens=fresh + read + cache_writes,
            completion_tokens=answer,
            cached_tokens=read,
            cache_write_tokens=cache_writes,
            long_cache_tokens=self._long_cache_tokens,
            reasoning_tokens=self._thinking_tokens,
            tier=self._tier,
        )
        yield UsageReport(total_usage)


def _describe_removal(entry: Mapping[str, Any]) -> str:
    return REMOVALS.get(get_text(entry, "reason").replace("_binding", ""), "it does not fit this conversation")


def _describe_cache_miss(diagnostics: dict[str, Any]) -> str:
    """Describe a cache miss in a few words; "" if the API gives no helpful reason."""
    reason = get_table(diagnostics, "cache_miss_reason")
    kind = str(reason.get("type") or "")
    if not kind or kind in {"unavailable", "previous_message_not_found"}:
        return ""
    token_count = get_count(reason, "cache_missed_input_tokens")
    return kind.replace("_", " ") + (f", about {token_count:,} tokens" if token_count else "")
