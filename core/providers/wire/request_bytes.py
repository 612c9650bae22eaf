"""Request bodies that are made by appending: what was encoded for one request is reused for the next.

A body is a head (model, system prompt, tools), the array of the history, and a tail of options that may vary. Head and
array of a request are a literal prefix of those of the next one as long as the history only grows, so caches hit and
what a model thought stays bound to the bytes before it. The history is compared with the one before it from its
beginning, by identity (messages are immutable); from the first difference on it is encoded anew. So bytes and digests
are a function of the request alone, and a request costs as much as what is new in it.
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

MAX_HISTORIES: Final = 8  # whose bytes a provider keeps
_DIGEST_BYTES: Final = 16
_REASONING_TYPES: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning_details")


class SentCall(Struct, frozen=True, kw_only=True):
    """A tool call as it was sent: under which `id` its result belongs, and whether it was a free-text call."""

    id: str
    freeform: bool = False


class EncodedMessages(Struct, frozen=True, kw_only=True):
    """The encoding of some messages. `items`: elements of the request's array, JSON-ready; `calls`: the tool calls
    among them by our own id. `dropped_reasoning`: answers whose reasoning could not be sent."""

    items: Sequence[Mapping[str, Any]] = ()
    calls: Mapping[str, SentCall] = field(default_factory=dict)
    dropped_reasoning: int = 0


class Wire(ABC):
    """One protocol's way to write one request. `array`: the name of the history's field; `provider`: a session's id of
    it."""

    name: ClassVar[WireProtocol]
    array: ClassVar[str]

    def __init__(self, request: ModelRequest, *, provider: str) -> None:
        self._request = request
        self._model = f"{provider}/{request.model}"

    @property
    def key(self) -> Hashable:
        """Whatever the items depend on besides the messages and the head."""
        return self._model

    @abstractmethod
    def head(self) -> Mapping[str, Any]:
        """The fields before the array."""

    @abstractmethod
    def encode(self, messages: Sequence[Message], before: EncodedHistory) -> EncodedMessages:
        """A unit of the history (see `find_unit_end`) as elements of the array, of which `before` is what stands
        before it. It may depend on nothing but these, the head, and the key."""

    def find_unit_end(self, messages: Sequence[Message], start: int) -> int:
        """Return where the unit that begins at `start` ends. It may grow as long as the history ends with it."""
        return find_unit_end(messages, start)

    def _find_returnable(self, message: AssistantMessage, *, binding: str = "") -> WireAnswer | None:
        """An answer as it came, if it may go back like that: over the wire and to the model that gave it, and if its
        reasoning is bound, then to just what stands before it (`binding`)."""
        answer = message.wire
        if answer is None or answer.wire != self.name or message.model != self._model:
            return None
        return answer if answer.binding in {"", binding} else None

    def _encode_base64(self, attachment: Attachment) -> str:
        """The bytes of an attachment. Raises `StateError` if they are gone."""
        return base64.b64encode(self._request.blobs(attachment.digest)).decode("ascii")


def has_reasoning(answer: WireAnswer | None) -> bool:
    """Return True if an answer came with reasoning that its model could have back."""
    return answer is not None and any(
        item.get("type") in _REASONING_TYPES or any(item.get(name) for name in _REASONING_FIELDS)
        for item in answer.items
    )


class RequestBytes(Struct, frozen=True, kw_only=True):
    """A request but for its tail: the first `size` bytes of `data` are head and array without its closing bracket.
    `binding`: their digest; `call_ids`: of the calls in it; `dropped_reasoning`: answers sent without theirs."""

    data: bytearray
    size: int
    binding: str
    call_ids: frozenset[str] = frozenset()
    dropped_reasoning: int = 0

    @property
    def prefix(self) -> bytes:
        """Head and array without its closing bracket."""
        return bytes(self.data[: self.size])

    def build_body(self, tail: Mapping[str, Any]) -> bytes:
        """The whole body, with the fields of `tail` after the array."""
        with memoryview(self.data) as data, data[: self.size] as prefix:
            return b"".join((prefix, b"],", encode_record(tail)[1:]) if tail else (prefix, b"]}"))


def find_unit_end(messages: Sequence[Message], start: int) -> int:
    """Return where the unit that begins at `start` ends: the results of a step stay together, with whatever came
    between them; any other message is a unit. A unit never reaches beyond an assistant's message."""
    end = start + 1
    if isinstance(messages[start], ToolMessage):
        for index in range(end, len(messages)):
            if isinstance(messages[index], AssistantMessage):
                break
            if isinstance(messages[index], ToolMessage):
                end = index + 1
    return end


class _Part(Struct, frozen=True):
    """The messages up to `end`, in the first `size` bytes; `calls` are those of the last unit, all else is of all of
    them."""

    end: int
    size: int
    digest: Any
    calls: Mapping[str, SentCall]
    dropped_reasoning: int


class EncodedHistory:
    """One history as it was last encoded. `_data` only ever grows: what was given out stays as it is."""

    def __init__(self, head: bytes) -> None:
        self._data = bytearray(head)
        digest = hashlib.blake2b(head, digest_size=_DIGEST_BYTES)
        self._head = _Part(0, len(head), digest, {}, 0)
        self._messages: tuple[Message, ...] = ()
        self._parts: list[_Part] = []
        self._call_ids: set[str] = set()

    @property
    def binding(self) -> str:
        """The digest of head and array so far."""
        return str(self._last_part.digest.hexdigest())

    @property
    def is_empty(self) -> bool:
        """True if the array has no element yet."""
        return self._last_part.size == self._head.size

    def find_call(self, call_id: str) -> SentCall | None:
        """The form in which our call `call_id` was sent, None if it was not."""
        return next((part.calls[call_id] for part in reversed(self._parts) if call_id in part.calls), None)

    def advance(self, wire: Wire, messages: tuple[Message, ...]) -> RequestBytes:
        self._keep(wire, messages)
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

    def _keep(self, wire: Wire, messages: tuple[Message, ...]) -> None:
        """Drop the parts that do not hold for `messages`."""
        shared_count, count = _count_shared(self._messages, messages), len(self._parts)
        while count and self._parts[count - 1].end > shared_count:
            count -= 1
        first = count
        while first and not isinstance(messages[self._start(first - 1)], AssistantMessage):
            first -= 1
        for number in range(max(first - 1, 0), count):  # what came since may belong to a unit that was open
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
    """A dialect makes equal messages anew; parsed JSON is compared by identity alone, since 1 == True there."""
    if one is other:
        return True
    return one == other and getattr(one, "wire", None) is getattr(other, "wire", None)


class RequestEncoder:
    """The latest histories that one provider has sent, of each session and, in it, each head (another model or job)."""

    def __init__(self) -> None:
        self._histories: dict[Hashable, EncodedHistory] = {}  # the one that was sent longest ago first

    def encode(self, wire: Wire, request: ModelRequest) -> RequestBytes:
        """The bytes of a request. Raises what `wire` raises; the next request is not harmed by it."""
        head = encode_record(wire.head())[:-1] + b',"' + wire.array.encode() + b'":['
        kind = (request.session, wire.key, head)
        history = self._histories.pop(kind, None) or EncodedHistory(head)
        self._histories[kind] = history
        if len(self._histories) > MAX_HISTORIES:
            del self._histories[next(iter(self._histories))]
        return history.advance(wire, request.messages)
