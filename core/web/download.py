"""One request: a bounded and decompressed response, without cookies, proxies or redirects.

A text that is too long is cut; anything else that is too long is refused, and so is a response that decompresses to
more than the limit.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Mapping
from email.message import Message
from typing import Final

import httpcore2
from msgspec import Struct

from core.attachments.signature import detect_media_type
from core.errors import WebFailed
from core.text.counting import format_size
from core.web.address import WebAddress
from core.web.network import GuardedNetwork

MAX_BYTES: Final = 5_000_000  # of a response, both compressed and decompressed
MAX_TEXT_BYTES: Final = 2_000_000  # bytes of a text
SECONDS: Final = 30.0
_HEADERS: Final = (
    (b"User-Agent", b"agent-tui"),
    (b"Accept", b"text/markdown, text/html;q=0.9, application/json;q=0.8, text/plain;q=0.8, */*;q=0.5"),
    (b"Accept-Encoding", b"gzip, deflate"),
    (b"Connection", b"close"),
)
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_MAX_PARTS: Final = 500  # gzip members of a response; a block of `bgzip` holds 64 kB
_BARE: Final = -15  # raw deflate without a zlib header, as some servers send it


class Download(Struct, frozen=True, kw_only=True):
    """A response. `media_type`, `charset`: of its header, "" = missing; `location`: the redirect target; `is_cut`:
    `data` is incomplete."""

    address: WebAddress
    status: int
    media_type: str = ""
    charset: str = ""
    location: str = ""
    data: bytes = b""
    is_cut: bool = False


async def download(
    address: WebAddress, network: GuardedNetwork, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> Download:
    """Request an address, or post JSON to it (`body`). `headers` replace or extend the default ones. Raises
    `WebFailed`."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _request(address, network, headers or {}, body)
    except (TimeoutError, httpcore2.TimeoutException):
        raise WebFailed(
            f"{address.host} took longer than {SECONDS:.0f} seconds.", hint="Try another page.", code="timed_out"
        ) from None
    except (OSError, httpcore2.NetworkError, httpcore2.ProtocolError) as problem:
        message = str(problem).strip() or type(problem).__name__
        raise WebFailed(
            f"{address.host} can't be reached: {message[:200]}.", hint="Try another page.", code="unreachable"
        ) from None


async def _request(
    address: WebAddress, network: GuardedNetwork, headers: Mapping[str, str], body: bytes | None
) -> Download:
    context = await asyncio.to_thread(ssl.create_default_context) if address.scheme == "https" else None
    target = address.target
    url = httpcore2.URL(
        scheme=address.scheme.encode(), host=target.host.encode(), port=target.port, target=address.path.encode()
    )
    default_headers = [(name, value) for name, value in _HEADERS if name.decode() not in headers]
    request_headers = [(b"Host", address.authority.encode()), *default_headers]
    request_headers += [(name.encode(), value.encode()) for name, value in headers.items()]
    if body is not None:
        request_headers += [(b"Content-Type", b"application/json"), (b"Content-Length", str(len(body)).encode())]
    async with (
        httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=network) as pool,
        pool.stream("GET" if body is None else "POST", url, headers=request_headers, content=body) as answer,
    ):
        return await _read_answer(address, answer)


async def _read_answer(address: WebAddress, answer: httpcore2.Response) -> Download:
    fields = {name.decode("latin-1").lower(): _decode_field(value) for name, value in answer.headers}
    head = Message()
    head["content-type"] = fields.get("content-type", "")
    content_type = fields.get("content-type", "").strip()
    bare_download = Download(
        address=address,
        status=answer.status,
        media_type=head.get_content_type() if content_type else "",
        charset=str(head.get_content_charset() or "") if content_type else "",
        location=fields.get("location", "") if 300 <= answer.status < 400 else "",
    )
    if bare_download.location or answer.status >= 400:
        return bare_download
    data, is_whole = await _read_body(answer, fields.get("content-encoding", ""))
    is_text = not detect_media_type(data[:64])
    if not is_whole and not is_text:
        raise _build_too_large(fields.get("content-length", ""))
    is_cut = is_text and (not is_whole or len(data) > MAX_TEXT_BYTES)
    return Download(
        address=address,
        status=bare_download.status,
        media_type=bare_download.media_type,
        charset=bare_download.charset,
        data=data[:MAX_TEXT_BYTES] if is_cut else data,
        is_cut=is_cut,
    )


async def _read_body(answer: httpcore2.Response, encoding: str) -> tuple[bytes, bool]:
    """Read and decompress a body; False: it is incomplete. A text is read up to its own limit only."""
    name = encoding.strip().lower()
    if name not in {"", "identity", *_WINDOWS}:
        raise WebFailed(f"The answer has an encoding that was not requested ({name[:40]!r}).", code="unsupported")
    unpack = _Unpacker(_WINDOWS[name]) if name in _WINDOWS else None
    byte_count, data = 0, bytearray()
    async for piece in answer.aiter_stream():
        byte_count += len(piece)
        data += piece if unpack is None else unpack.unpack(piece, MAX_BYTES + 1 - len(data))
        is_full = unpack is not None and unpack.is_full
        limit = MAX_BYTES if detect_media_type(bytes(data[:64])) else MAX_TEXT_BYTES
        if is_full or byte_count > MAX_BYTES or len(data) > limit:
            return bytes(data[:limit]), False
    if unpack is not None and byte_count and not unpack.is_whole:
        raise _build_damaged("it ends too early")
    return bytes(data), True


class _Unpacker:
    """A decompressor that works piece by piece and concatenates gzip members."""

    def __init__(self, window: int) -> None:
        self._window, self._is_begun, self._parts = window, False, 0
        self._start_part()

    @property
    def is_full(self) -> bool:
        """True if the limit cut the output."""
        return bool(self._inner.unconsumed_tail)

    @property
    def is_whole(self) -> bool:
        return self._inner.eof

    def unpack(self, piece: bytes, limit: int) -> bytes:
        """Return about `limit` bytes of decompressed data. Raises `WebFailed`."""
        data = b""
        while piece and len(data) < limit:
            if self._inner.eof:
                if self._window != _WINDOWS["gzip"] or not piece.strip(b"\0"):  # padding
                    return data
                self._start_part()
            try:
                data += self._inner.decompress(piece, limit - len(data))
            except zlib.error:
                if self._is_begun or self._window != _WINDOWS["deflate"]:
                    raise _build_damaged("it can't be unpacked") from None
                self._window = _BARE
                self._start_part()
                continue
            self._is_begun = True
            piece = self._inner.unused_data
        return data

    def _start_part(self) -> None:
        self._inner, self._parts = zlib.decompressobj(self._window), self._parts + 1
        if self._parts > _MAX_PARTS:
            raise _build_damaged("it is packed in too many parts")


def _decode_field(value: bytes) -> str:
    """Decode a header value: some servers send the redirect target in UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _build_damaged(reason: str) -> WebFailed:
    return WebFailed(f"The answer is damaged: {reason}.", hint="Try again, or use another source.", code="damaged")


def _build_too_large(content_length: str) -> WebFailed:
    size = format_size(int(content_length)) if content_length.isdigit() and len(content_length) < 15 else "more"
    return WebFailed(
        f"The file is {size}; at most {MAX_BYTES // 1000000} MB are read.", hint="Find a page.", code="too_large"
    )
