"""The chat completions API: the history as a request, and the chunks of its stream as deltas.

A request is a function of the history alone: the same history gives the same bytes. Servers add fields of their own to
a message and its calls (reasoning, signatures), and some refuse the next request without them, so an answer goes back
unchanged to the model that gave it. Every other model is sent plain text and calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec.structs import replace

from core.protocol.messages import (
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    WireAnswer,
)
from core.providers.base import (
    AnswerReport,
    Delta,
    FinishReason,
    ModelRequest,
    PromptProgress,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    UsageReport,
)
from core.providers.catalog.capabilities import Capabilities
from core.providers.connection.failures import Api, build_event_error
from core.providers.openai.openai_wire import Item, OpenAIWire
from core.providers.openai.server_quirks import (
    ServerQuirks,
    alternate_items,
    find_run_end,
    is_empty_answer,
    join_contents,
)
from core.providers.wire.answer_forms import build_openai_format
from core.providers.wire.request_bytes import EncodedHistory, EncodedMessages, SentCall, has_reasoning
from core.providers.wire.tool_calls import CallNormaliser
from core.providers.wire.wire_values import (
    NO_OUTPUT,
    clean,
    clean_tool_name,
    encode_arguments,
    get_count,
    get_table,
    get_tables,
    get_text,
)
from core.text.well_formed import map_texts

# Placeholders for missing reasoning and its signature in calls of another model, as documented by the hosts.
_NO_THOUGHT: Final = " "
_NO_SIGNATURE: Final = {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}}
RESULT_ATTACHMENTS: Final = "(what the results above are accompanied by)"
# Fields that are sent whole, possibly repeatedly; all other texts are streamed in pieces.
_WHOLE: Final = frozenset({"role", "type", "id", "name", "format", "signature", "thought_signature", "model", "object"})
# Fields in which equal pieces are legitimate; in any other field an equal piece is a repetition.
_STREAMED: Final = frozenset({"content", "reasoning_content", "reasoning", "thinking", "text", "summary", "data"})
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
# The fields of a message, and fields of the stream that servers put into its pieces.
_OWN_FIELDS: Final = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
_OF_THE_STREAM: Final = frozenset({"index", "finish_reason", "logprobs", "usage", "token_ids"})
_THINK_OPEN: Final = "<think>"
_THINK_CLOSE: Final = "</think>"


class ChatWire(OpenAIWire):
    """Writer of one request. `official`: it goes to OpenAI itself, which has fields that other servers refuse."""

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
        quirks: ServerQuirks | None = None,
    ) -> None:
        super().__init__(request, provider=provider, capabilities=capabilities)
        self._official, self._quirks = official, quirks or ServerQuirks()
        if not capabilities.open_objects:
            self._quirks = replace(self._quirks, takes_objects=False)

    @property
    def key(self) -> Hashable:
        return self._model, self._request.system, self._quirks

    def head(self) -> Item:
        head: Item = {"model": self._request.model}
        if self._request.tools:
            functions = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": self._quirks.fit_schema(tool.parameters),
                }
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
        if self._capabilities.progress:
            tail["return_progress"] = True
        if request.effort:
            tail["reasoning_effort"] = request.effort
        if self._official and request.private:
            tail["store"] = False
        elif self._official and request.session:
            tail["prompt_cache_key"] = request.session[:64]
        if (form := request.choose_form(leaves_calls=self._official)) is not None:
            tail["response_format"] = {"type": "json_schema", "json_schema": build_openai_format(form)}
            if not self._official and request.tools:
                tail["tool_choice"] = "none"
        return tail

    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        if len(answers) == len(messages) or not all(map(is_empty_answer, answers)):
            encoded_messages = self._encode_answers(answers)
        else:
            encoded_messages = EncodedMessages(items=self._encode_results(messages, before))
        if self._quirks.alternates:
            encoded_messages = replace(encoded_messages, items=alternate_items(list(map(dict, encoded_messages.items))))
        if before.is_empty and encoded_messages.items and self._request.system:
            return replace(encoded_messages, items=self._add_system(encoded_messages.items))
        return encoded_messages

    def find_unit_end(self, messages: Sequence[Message], start: int) -> int:
        return find_run_end(messages, start) if self._quirks.alternates else super().find_unit_end(messages, start)

    def _add_system(self, items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        text, (first, *rest) = clean(self._request.system), items
        if self._quirks.takes_system:
            return [{"role": "system", "content": text}, *items]
        if first["role"] == "user":
            return [{**first, "content": join_contents(text, first["content"])}, *rest]
        return [{"role": "user", "content": text}, *items]

    def _encode_answers(self, messages: Sequence[AssistantMessage]) -> EncodedMessages:
        answers = [self._encode_answer(message) for message in messages]
        return EncodedMessages(
            items=[self._quirks.fill_content(dict(item)) for answer in answers for item in answer.items],
            calls={id_: call for answer in answers for id_, call in answer.calls.items()},
            dropped_reasoning=sum(answer.dropped_reasoning for answer in answers),
        )

    def _encode_results(self, messages: Sequence[Message], before: EncodedHistory) -> list[Item]:
        """Encode all results first. Only a user's message can hold pictures, so one with all of them follows."""
        results = [message for message in messages if isinstance(message, ToolMessage)]
        ids = [call.id if (call := before.find_call(result.call_id)) else result.call_id for result in results]
        items = [
            {"role": "tool", "tool_call_id": call_id, "content": clean(result.content) or NO_OUTPUT}
            for call_id, result in zip(ids, results, strict=True)
        ]
        if attachments := [attachment for result in results for attachment in result.attachments]:
            items.append(self._encode_user_message(RESULT_ATTACHMENTS, attachments))
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
        """Encode an answer; an empty one is skipped, since no API accepts an assistant message without content and
        calls."""
        returned_items = (answer.items if (answer := self._find_reusable(message)) else ())[:1]
        ids = [call["id"] for entry in returned_items for call in entry.get("tool_calls", ())]
        if returned_items and ids == [call.wire_id for call in message.tool_calls]:
            calls = {call.id: SentCall(id=call.wire_id) for call in message.tool_calls}
            return EncodedMessages(items=[self._select_accepted(returned_items[0])], calls=calls)
        if not message.content and not message.tool_calls:
            return EncodedMessages()
        wire_message: Item = {"role": "assistant", "content": clean(message.content) or None}
        ids = [shorten_id(call.id) if self._quirks.short_ids else call.id for call in message.tool_calls]
        if message.tool_calls:
            required_fields = self._quirks.required_fields
            signature = _NO_SIGNATURE if "thought_signature" in required_fields else {}
            pairs = zip(message.tool_calls, ids, strict=True)
            wire_message["tool_calls"] = [_build_call(call, call_id) | signature for call, call_id in pairs]
            wire_message |= {"reasoning_content": _NO_THOUGHT} if "reasoning_content" in required_fields else {}
        calls = {call.id: SentCall(id=call_id) for call, call_id in zip(message.tool_calls, ids, strict=True)}
        return EncodedMessages(items=[wire_message], calls=calls, dropped_reasoning=int(has_reasoning(message.wire)))

    def _select_accepted(self, message: Mapping[str, Any]) -> Item:
        """Return the message without the fields that its server refuses, at any depth."""
        refused_fields = self._quirks.refused
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
    """Return the fields of returned messages and their calls that are not OpenAI's."""
    answers = (message.wire for message in messages if isinstance(message, AssistantMessage))
    items = [item for wire in answers if wire is not None and wire.wire == "chat" for item in wire.items]
    calls = [call for item in items for call in item.get("tool_calls", ())]
    of_calls = set[str]().union(*calls) - {"id", "type", "function"}
    return of_calls | (set[str]().union(*items) - {"role", "content", "tool_calls"})


def _build_call(call: ToolCall, call_id: str) -> Item:
    function = {"name": clean_tool_name(call.name), "arguments": encode_arguments(call.arguments)}
    return {"id": call_id, "type": "function", "function": function}


def shorten_id(call_id: str) -> str:
    """Return an id of nine letters and digits, for a host that accepts no others (Mistral)."""
    return hashlib.blake2b(call_id.encode(), digest_size=5).hexdigest()[:9]


class MergedPieces:
    """The pieces of one streamed object. Elements of a list with the same `index` and `type` are pieces of
    one element."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def add(self, piece: dict[str, Any]) -> None:
        for key, value in piece.items():
            match value:
                case None:
                    continue
                case str():
                    pieces = self._fields.setdefault(key, _Texts())
                    if isinstance(pieces, _Texts):
                        pieces.append(value)
                case dict():
                    nested_pieces = self._fields.setdefault(key, MergedPieces())
                    if isinstance(nested_pieces, MergedPieces):
                        nested_pieces.add(value)
                case list():
                    elements = self._fields.setdefault(key, _Elements())
                    if isinstance(elements, _Elements):
                        elements.add(value)
                case _:
                    self._fields[key] = value

    def build_value(self) -> dict[str, Any]:
        return {key: _build_value(key, value) for key, value in self._fields.items()}


class _Texts(list[str]):
    pass


class _Elements:
    def __init__(self) -> None:
        self._elements: list[Any] = []
        self._places: dict[tuple[object, object], MergedPieces] = {}

    def add(self, elements: list[Any]) -> None:
        for piece in elements:
            if not isinstance(piece, dict):
                self._elements.append(piece)
                continue
            key = (piece.get("index"), str(piece.get("type")))
            if key not in self._places or not isinstance(key[0], int):
                self._places[key] = MergedPieces()
                self._elements.append(self._places[key])
            self._places[key].add(piece)

    def build_value(self) -> list[Any]:
        return [piece.build_value() if isinstance(piece, MergedPieces) else piece for piece in self._elements]


def _build_value(key: str, value: Any) -> Any:
    match value:
        case _Texts():
            if key in _WHOLE:
                return next((text for text in reversed(value) if text), "")
            is_same = key not in _STREAMED and len(set(value)) == 1
            return value[0] if is_same else "".join(value)
        case MergedPieces() | _Elements():
            return value.build_value()
    return value


class ThinkTagSplitter:
    """Splitter of a streamed text into reasoning and answer, wherever the pieces are cut. White space between the two
    is dropped."""

    def __init__(self) -> None:
        self._buffer = ""
        self._in_reasoning = False
        self._has_reasoning = False
        self._text_begun = False  # The text itself has begun, so tags no longer count.

    def feed(self, piece: str) -> Iterator[Delta]:
        if self._text_begun:
            yield TextDelta(piece)
            return
        self._buffer += piece
        while self._buffer and not self._text_begun:
            if self._in_reasoning:
                reasoning, closing_tag, rest = self._buffer.partition(_THINK_CLOSE)
                sizes = (
                    size for size in range(len(_THINK_CLOSE) - 1, 0, -1) if reasoning.endswith(_THINK_CLOSE[:size])
                )
                tail_length = 0 if closing_tag else next(sizes, 0)  # Characters that may be the beginning of the tag.
                reasoning, self._buffer = (
                    reasoning[: len(reasoning) - tail_length],
                    rest or reasoning[len(reasoning) - tail_length :],
                )
                if reasoning:
                    yield ReasoningDelta(reasoning)
                if not closing_tag:
                    return
                self._in_reasoning = False
                continue
            text = self._buffer.lstrip()
            if text.startswith(_THINK_OPEN):
                self._in_reasoning = self._has_reasoning = True
                self._buffer = text[len(_THINK_OPEN) :]
            elif not text or _THINK_OPEN.startswith(text):
                return
            else:
                self._text_begun = True
                yield from self.flush()

    def flush(self) -> Iterator[Delta]:
        """Yield the rest at the end of the text."""
        text = self._buffer.lstrip() if self._has_reasoning and not self._in_reasoning else self._buffer
        self._buffer = ""
        if text:
            yield ReasoningDelta(text) if self._in_reasoning else TextDelta(text)


class ChatAnswer:
    """A streamed answer. `taken_ids`: ids of earlier calls; `tool_names`: the names of the tools; `ending`: None until
    the server sends it."""

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
        # Some servers report "stop" although the answer has tool calls.
        reason = "tool_calls" if self._reason == "stop" and len(self._calls) else self._reason
        return StreamEnd("refused" if self._refused else reason)

    def infer_ending(self) -> StreamEnd | None:
        """Return the end of an answer that the server marked as done without a reason; None: the answer is
        incomplete."""
        if len(self._calls):
            return StreamEnd("tool_calls") if self._calls.is_complete else None
        return StreamEnd("refused" if self._refused else "stop") if self._spoke else None

    def finish(self) -> Iterator[Delta]:
        """Yield the rest of text and calls, and the message to send back if it has more than text."""
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
        """Yield the deltas of one chunk; unknown parts are skipped. Raises `ProviderError`."""
        if not isinstance(chunk, dict):
            return
        if (usage := parse_usage(chunk)) is not None:
            yield UsageReport(usage)
        if total := get_count(progress := get_table(chunk, "prompt_progress"), "total"):  # llama.cpp
            yield PromptProgress(min(get_count(progress, "processed"), total), total)
        for choice in get_tables(chunk, "choices"):
            if choice.get("index") in (0, None):
                yield from self._read_choice(choice)

    def _read_choice(self, choice: dict[str, Any]) -> Iterator[Delta]:
        delta = get_table(choice, "delta")
        if not delta and not self._spoke and not len(self._calls):
            delta = get_table(choice, "message")  # The server did not stream the message.
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
    """Return a text, or the text of a list of parts."""
    if isinstance(content, list):
        return "".join(get_text(part, "text") for part in content)
    return content if isinstance(content, str) else ""


def parse_usage(chunk: dict[str, Any]) -> Usage | None:
    """Return the token counts of a chunk, None if it has none."""
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
