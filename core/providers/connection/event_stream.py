"""The additions to both SDKs' streams: pass over events that say nothing, and notice how a stream ends.

Servers and proxies that call themselves compatible send empty data, lone `retry:` fields and pings to keep a connection
open; an SDK would take each for a chunk. A page or a JSON object in place of a stream is told by its content type.
A model may read and think for long, before its first word and between an item and the next; but a server that sends not
one byte for a minute (a ping or a comment is one) in the middle of a text or a call has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Final

from core.errors import ProviderError
from core.providers.connection.failures import Api, SilentTooLong, build_event_error, extract_detail
from core.records import parse_json

MAX_BODY: Final = 65_536
BODY_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 60.0
_TYPE: Final = re.compile(r'"type": ?"(?P<type>content_block_[a-z]+|message_[a-z]+|response\.[a-z_.]+)"')
_DELTA: Final = re.compile(r"content_block_delta|response\.(?!reasoning_summary)[a-z_.]+\.delta")
_CHUNK: Final = re.compile(r'"(content|reasoning|reasoning_content|arguments)": ?"[^"]|"tool_calls": ?\[ ?\{')
_NO_STREAMS: Final = ("text/html", "application/xhtml", "application/json", "application/problem+json")


@cache
def build_stream_class(base: Any) -> Any:
    """An SDK's `AsyncStream` that passes over empty events; `is_done`: the end mark `[DONE]` came."""

    class EventStream(base[object]):  # type: ignore[misc]
        is_done = False
        speaks = False

        async def _iter_events(self) -> AsyncIterator[Any]:
            whole = self.response.aiter_bytes
            self.response.aiter_bytes = lambda: self._in_time(whole())
            async for event in super()._iter_events():
                self.is_done = self.is_done or event.data.startswith("[DONE]")
                if event.data.strip() and event.event != "ping":
                    self.speaks = is_midway(event.data)
                    yield event

        async def _in_time(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            """The bytes as they come, whose pauses are no longer than the client's limit. Raises `SilentTooLong`."""
            limits = self.response.request.extensions.get("timeout") or {}
            seconds = min(SILENCE_SECONDS, float(limits.get("read") or SILENCE_SECONDS))
            while True:
                try:
                    async with asyncio.timeout(seconds if self.speaks else None):
                        piece = await anext(pieces, None)
                except TimeoutError:
                    raise SilentTooLong(seconds) from None
                if piece is None:
                    return
                yield piece

    return EventStream


def is_midway(data: str) -> bool:
    """Return True if an event is a piece of a text or a call, behind which the next one comes without a thought."""
    named = _TYPE.search(data)
    return _DELTA.fullmatch(named["type"]) is not None if named else _CHUNK.search(data) is not None


async def refuse_other(stream: Any, api: Api) -> None:
    """Raise `ProviderError` for an answer that is no stream of events."""
    kind = str(stream.response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    if not kind.startswith(_NO_STREAMS):
        return
    body = await _read_body(stream.response)
    if isinstance(body, dict) and body.get("error"):
        raise build_event_error(body, api)
    detail = extract_detail(body)
    raise ProviderError(
        f"{api.label} answered with {kind} and not with a stream of events{f': {detail}' if detail else ''}.",
        code="stream_invalid",
        hint=api.address_hint,
    )


async def _read_body(response: Any) -> object:
    data = b""
    with contextlib.suppress(Exception):  # what came until then is enough to say what it is
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MAX_BODY:
                    break
    text = data.decode("utf-8", "replace")
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text
