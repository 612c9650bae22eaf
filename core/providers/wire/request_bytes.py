"""Request bodies that are built by appending: the encoding of one request is reused for the next.

A body is a head (model, system prompt, tools), the array of the history, and a tail of options that may vary. As long
as the history only grows, head and array are a literal prefix of those of the next request, so prompt caches hit, and
reasoning stays bound to the bytes before it. A history is compared with the previous one by identity (messages are
immutable); everything from the first difference on is encoded again. So bytes and digests are a function of the request
alone, and a request costs only as much as its new part.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar, Final

from msgspec import Struct, field

from core.protocol.messages import AssistantMessage, Attachment, Message, ToolMessage, WireAnswer, WireProtocol
from core.providers.base import ModelRequest
from core.text.well_formed import encode_record

MAX_HISTORIES: Final = 8  # Histories whose bytes a provider caches.
_DIGEST_BYTES: Final = 16
_REASONING_TYPES: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning_details")


class SentCall(Struct, frozen=True, kw_only=True):
    """A tool call as it was sent: the `id` that its result refers to, whether its input was free text, and whether it
    was a search of tools."""

    id: str
    freeform: bool = False
    is_search: bool = False


class EncodedMessages(Struct, frozen=True, kw_only=True):
    """The encoding of some messages. `items`: elements of the request's array, JSON-ready; `calls`: the tool calls
    among them by our id. `dropped_reasoning`: answers whose reasoning could not be sent."""

    items: Sequence[Mapping[str, Any]] = ()
    calls: Mapping[str, SentCall] = field(default_factory=dict)
    dropped_reasoning: int = 0


class Wire(ABC):
    """The encoder of one request in one protocol. `array`: the name of the history's field; `provider`: the id of the
    provider."""

    name: ClassVar[WireProtocol]
    array: ClassVar[str]

    def __init__(self, request: ModelRequest, *, provider: str) -> None:
        self._request = request
        self._model = f"{provider}/{request.model}"

    @property
    def key(self) -> Hashable:
        """Return everything that the items depend on besides the messages and the head."""
        return self._model

    @abstractmethod
    def head(self) -> Mapping[str, Any]:
        """Return the fields before the array."""

    def build_bound_head(self) -> Mapping[str, Any]:
        """Return the fields before the array as far as reasoning is bound to them."""
        return self.head()

    @abstractmethod
    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        """Encode a unit of the history (see `find_unit_end`) as elements of the array after `before`. The result may
        depend only on these, the head, and the key."""

    def find_unit_end(self, messages: Sequence[Message], start: int) -> int:
        """Return the end of the unit that begins at `start`. It may grow as long as the history ends with it."""
        return find_unit_end(messages, start)

    def _find_reusable(self, message: AssistantMessage, *, binding: str = "") -> WireAnswer | None:
        """Return the unchanged answer if it may be sent back: over the same wire to the same model, and, if its
        reasoning is bound, after the same bytes (`binding`)."""
        answer = message.wire
        if answer is None or answer.wire != self.name or message.model != self._model:
            return None
        return answer if answer.binding in {"", binding} else None

    def _encode_base64(self, attachment: Attachment) -> str:
        """Return the bytes of an attachment in base64. Raises `StateError` if they are gone."""
        return base64.b64encode(self._request.blobs(attachment.digest)).decode("ascii")


def has_reasoning(answer: WireAnswer | None) -> bool:
    """Return True if an answer has reasoning that can be sent back to its model."""
    return answer is not None and any(
        item.get("type") in _REASONING_TYPES or any(item.get(name) for name in _REASONING_FIELDS)
        for item in answer.items
    )


class RequestBytes(Struct, frozen=True, kw_only=True):
    """A request without its tail: the first `size` bytes of `data` are head and array without the closing bracket.
    `binding`: their digest; `call_ids`: the calls in it; `dropped_reasoning`: answers sent without their reasoning."""

    data: bytearray
    size: int
    binding: str
    call_ids: frozenset[str] = frozenset()
    dropped_reasoning: int = 0

    @property
    def prefix(self) -> bytes:
        """Return head and array without the closing bracket."""
        return bytes(self.data[: self.size])

    def build_body(self, tail: Mapping[str, Any]) -> bytes:
        """Return the whole body, with the fields of `tail` after the array."""
        with memoryview(self.data) as data, data[: self.size] as prefix:
            return b"".join((prefix, b"],", encode_record(tail)[1:]) if tail else (prefix, b"]}"))


def find_unit_end(messages: Sequence[Message], start: int) -> int:
    """Return the end of the unit that begins at `start`: the results of a step stay together, with everything between
    them; any other message is a unit. A unit never reaches beyond an assistant's message."""
    end = start + 1
    if isinstance(messages[start], ToolMessage):
        for index in range(end, len(messages)):
            if isinstance(messages[index], AssistantMessage):
                break
            if isinstance(messages[index], ToolMessage):
                end = index + 1
    return end


class _Part(Struct, frozen=True):
    """The messages up to `end`, in the first `size` bytes. `calls` are those of the last unit; everything else covers
    all messages."""

    end: int
    size: int
    digest: Any
    calls: Mapping[str, SentCall]
    dropped_reasoning: int


class EncodedHistory:
    """The last encoding of one history. `_data` only ever grows, so emitted prefixes stay valid."""

    def __init__(self, head: bytes, bound_head: bytes) -> None:
        self._data = bytearray(head)
        digest = hashlib.blake2b(bound_head, digest_size=_DIGEST_BYTES)
        self._head = _Part(0, len(head), digest, {}, 0)
        self._messages: tuple[Message, ...] = ()
        self._parts: list[_Part] = []
        self._call_ids: set[str] = set()

    @property
    def binding(self) -> str:
        """Return the digest of head and array so far."""
        return str(self._last_part.digest.hexdigest())

    @property
    def is_empty(self) -> bool:
        """True if the array has no element yet."""
        return self._last_part.size == self._head.size

    def find_call(self, call_id: str) -> SentCall | None:
        """Return the form in which our call `call_id` was sent, None if it was not."""
        return next((part.calls[call_id] for part in reversed(self._parts) if call_id in part.calls), None)

    def advance(self, wire: Wire, messages: tuple[Message, ...]) -> RequestBytes:
        self._drop_stale_parts(wire, messages)
        while (start := self._last_part.end) < len(messages):
            end = wire.find_unit_end(messages, start)
            self._append(wire.encode(messages[start:end], self), end)
        self._messages = messages
        return RequestBytes(
            data=self._data,
            size=self._last_part.size,
            binding=self.binding,
            call_ids=frozenset(self._call_ids),
            dropped_reasoning=self._last_part.dropped_reasoning,
        )

    @property
    def _last_part(self) -> _Part:
        return self._parts[-1] if self._parts else self._head

    def _drop_stale_parts(self, wire: Wire, messages: tuple[Message, ...]) -> None:
        """Drop the parts that do not match `messages`."""
        shared_count, count = _count_shared(self._messages, messages), len(self._parts)
        while count and self._parts[count - 1].end > shared_count:
            count -= 1
        first = count
        while first and not isinstance(messages[self._start(first - 1)], AssistantMessage):
            first -= 1
        for number in range(max(first - 1, 0), count):  # Newer messages may belong to a unit that was still open.
            if wire.find_unit_end(messages, self._start(number)) != self._parts[number].end:
                count = number
                break
        if count < len(self._parts):
            del self._parts[count:]
            self._data = self._data[: self._last_part.size]
            self._call_ids = set().union(*(_collect_ids(part.calls) for part in self._parts))
        self._messages = messages[: self._last_part.end]

    def _start(self, number: int) -> int:
        return self._parts[number - 1].end if number else 0

    def _append(self, encoded_messages: EncodedMessages, end: int) -> None:
        last, digest = self._last_part, self._last_part.digest
        if data := b",".join(encode_record(item) for item in encoded_messages.items):
            digest = digest.copy()
            digest.update(data)
            digest.update(b",")
            self._data += data if self.is_empty else b"," + data
        self._call_ids.update(_collect_ids(encoded_messages.calls))
        dropped_reasoning = last.dropped_reasoning + encoded_messages.dropped_reasoning
        self._parts.append(_Part(end, len(self._data), digest, encoded_messages.calls, dropped_reasoning))


def _collect_ids(calls: Mapping[str, SentCall]) -> set[str]:
    return calls.keys() | {call.id for call in calls.values()}


def _count_shared(old: tuple[Message, ...], new: tuple[Message, ...]) -> int:
    shorter = min(len(old), len(new))
    if all(map(is_, old, new)):
        return shorter
    return next((index for index in range(shorter) if not _is_same(old[index], new[index])), shorter)


def _is_same(one: Message, other: Message) -> bool:
    """Return True if two messages are equal. A dialect recreates equal messages; parsed JSON is compared by identity
    only, since 1 == True there."""
    if one is other:
        return True
    return one == other and getattr(one, "wire", None) is getattr(other, "wire", None)


class RequestEncoder:
    """The latest histories that one provider has sent, by session and head (another model or job)."""

    def __init__(self) -> None:
        self._histories: dict[Hashable, EncodedHistory] = {}  # The least recently sent first.

    def encode(self, wire: Wire, request: ModelRequest) -> RequestBytes:
        """Return the bytes of a request. Raises what `wire` raises, without damage to the next request."""
        array = b',"' + wire.array.encode() + b'":['
        head = encode_record(wire.head())[:-1] + array
        kind = (request.session, wire.key, head)
        history = self._histories.pop(kind, None)
        if history is None:
            history = EncodedHistory(head, encode_record(wire.build_bound_head())[:-1] + array)
        self._histories[kind] = history
        if len(self._histories) > MAX_HISTORIES:
            del self._histories[next(iter(self._histories))]
        return history.advance(wire, request.messages)
