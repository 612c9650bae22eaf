"""Additions to both SDKs' streams: skip events without content, and detect how a stream ends.

Compatible servers and proxies send empty data, lone `retry:` fields and pings to keep a connection open; an SDK would
parse each of them as a chunk. A web page instead of a stream is recognised by its content type. A JSON object instead
of a stream is the whole answer, whatever its content type, and becomes a single event. A byte that is not UTF-8 costs
one character and not the answer. A model may read and think for long before its first word and between two items; but a
server that sends no byte, not even a ping, for a minute in the middle of a text or a call is gone.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from typing import Any, Final

from core.errors import ProviderError
from core.patterns import compile_lazily
from core.providers.connection.failures import Api, SilentTooLong, build_event_error, extract_detail
from core.records import parse_json

MAX_BODY: Final = 65_536
MAX_ANSWER: Final = 50_000_000  # Bytes of an answer that is one JSON object.
BODY_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 60.0
PATIENT_SECONDS: Final = 240.0  # A longer time for the first byte lengthens that silence in proportion.
_TYPE: Final = compile_lazily(r'"type": ?"(?P<type>content_block_[a-z]+|message_[a-z]+|response\.[a-z_.]+)"')
_DELTA: Final = compile_lazily(r"content_block_delta|response\.(?!reasoning_summary)[a-z_.]+\.delta")
_CHUNK: Final = compile_lazily(r'"(content|reasoning|reasoning_content|arguments)": ?"[^"]|"tool_calls": ?\[ ?\{')
_PAGES: Final = ("text/html", "application/xhtml")
_OBJECTS: Final = ("application/json", "application/problem+json")
_ANSWERS: Final = frozenset({"choices", "output", "content"})  # A whole answer has one of these fields.
_BLANK: Final = b"\xef\xbb\xbf \t\r\n"


@cache
def build_stream_class(base: Any) -> Any:
    """Subclass an SDK's `AsyncStream` to skip empty events. `is_done`: `[DONE]` or a whole answer came."""
    module = sys.modules[base._iter_events.__module__]
    make_event = module.ServerSentEvent
    needs_names = module.__name__.startswith("anthropic")  # The SDK skips events without a name.

    class EventStream(base[object]):  # type: ignore[misc]
        is_done = False
        is_inside_item = False

        async def _iter_events(self) -> AsyncIterator[Any]:
            pieces = _repair_text(self._limit_pauses(self.response.aiter_bytes()))
            self.response.aiter_bytes = lambda: pieces
            if (await peek(self.response)).startswith(b"{"):
                for text in _split_objects(await _read_all(self.response)):
                    self.is_done = True
                    yield make_event(event=_name_event(text), data=text)
                return
            async for event in super()._iter_events():
                self.is_done = (is_end := event.data.startswith("[DONE]")) or self.is_done
                if event.data.strip() and event.event != "ping":
                    self.is_inside_item = is_midway(event.data)
                    has_name = event.event or not needs_names or is_end
                    yield event if has_name else make_event(event=_name_event(event.data), data=event.data)

        async def _limit_pauses(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            """Yield the bytes; inside an item, pauses are limited. Raises `SilentTooLong`."""
            seconds = _limit_silence(self.response.request.extensions.get("timeout") or {})
            while True:
                try:
                    async with asyncio.timeout(seconds if self.is_inside_item else None):
                        piece = await anext(pieces, None)
                except TimeoutError:
                    raise SilentTooLong(seconds) from None
                if piece is None:
                    return
                yield piece

    return EventStream


def _limit_silence(limits: Mapping[str, Any]) -> float:
    """Return the longest pause inside an item. A server of one's own, which is given more time, may read the prompt of
    somebody else in the meantime."""
    allowed = float(limits.get("read") or SILENCE_SECONDS)
    return min(SILENCE_SECONDS * max(1.0, allowed / PATIENT_SECONDS), allowed)


def is_midway(data: str) -> bool:
    """Return True if an event is a piece of a text or a call, after which the model does not pause to think."""
    match = _TYPE.search(data)
    return _DELTA.fullmatch(match["type"]) is not None if match else _CHUNK.search(data) is not None


async def refuse_non_stream(stream: Any, api: Api) -> None:
    """Raise `ProviderError` for an answer that is no stream of events."""
    kind = str(stream.response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    if kind.startswith(_OBJECTS):
        if not (await peek(stream.response)).startswith((b"{", b"[", b'"', b"<")):
            return  # A stream with a wrong content type.
        body = await _read_answer(stream.response)
    elif kind.startswith(_PAGES):
        body = await _read_body(stream.response)
    else:
        return
    if isinstance(body, dict) and body.get("error"):
        raise build_event_error(body, api)
    if isinstance(body, dict) and _ANSWERS & body.keys():
        return
    detail = extract_detail(body)
    raise ProviderError(
        f"{api.label} answered with {kind}, not a stream of events{f': {detail}' if detail else ''}.",
        code="stream_invalid",
        hint=api.address_hint,
    )


async def peek(response: Any) -> bytes:
    """Return the beginning of a body, from its first visible byte on. The body can still be read from the start."""
    pieces, head = response.aiter_bytes(), b""
    async for piece in pieces:
        head += piece
        if head.strip(_BLANK):
            break

    async def read_again() -> AsyncIterator[bytes]:
        yield head
        async for piece in pieces:
            yield piece

    response.aiter_bytes = read_again
    return head.lstrip(_BLANK)


async def _read_all(response: Any) -> str:
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) > MAX_ANSWER:
            raise ProviderError("The model's answer is too large.", code="answer_too_large")
    return data.decode("utf-8", "replace").strip("\ufeff \t\r\n")


async def _read_answer(response: Any) -> object:
    """Return the parsed JSON body. The body can still be read as an answer."""
    text = await _read_all(response)

    async def read_again() -> AsyncIterator[bytes]:
        yield text.encode()

    response.aiter_bytes = read_again
    return _parse(text)


def _split_objects(text: str) -> Iterator[str]:
    """Yield the one JSON object of a text, or those of its lines."""
    if isinstance(_parse(text), dict):
        yield text
    else:
        yield from (line for line in text.splitlines() if line.strip())


def _name_event(data: str) -> str:
    """Return a name for an event without one: its type distinguishes errors from all others."""
    body = _parse(data)
    return "error" if isinstance(body, dict) and body.get("type") == "error" else "message"


async def _repair_text(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes with U+FFFD in place of invalid UTF-8, wherever the pieces are cut."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async for piece in pieces:
        yield piece if piece.isascii() and not decoder.getstate()[0] else decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()


async def _read_body(response: Any) -> object:
    data = b""
    with contextlib.suppress(Exception):  # The bytes so far suffice to identify the content.
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MAX_BODY:
                    break
    return _parse(data.decode("utf-8", "replace"))


def _parse(text: str) -> object:
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text
