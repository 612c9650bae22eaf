"""The output of a command while it runs: bounded in memory, handed on as it comes."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from core.sandbox.plain_output import PlainStream, plain

LIMIT = 10_000_000
_HEAD = 1_000_000
_TAIL = 1_000_000
_PIECE = 65_536


async def flooded(readers: Iterable[OutputReader]) -> None:
    """Until one of them has read its limit."""
    waits = [asyncio.ensure_future(each.over.wait()) for each in readers]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


class OutputReader:
    """Reads a pipe until `stop` or its end. Keeps the first and the last megabyte; `over` is set at `limit` bytes.

    `on_output` gets plain text. With `raw` it gets every byte as it came, what is no UTF-8 as PEP 383 has it.
    """

    def __init__(self, source: int, on_output: Callable[[str], None], *, limit: int = LIMIT, raw: bool = False) -> None:
        self._limit = limit
        self.over = asyncio.Event()
        self.total = 0
        self._ended = False
        self._source = source
        self._on_output = on_output
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape" if raw else "replace")
        self._stream = None if raw else PlainStream()
        os.set_blocking(source, False)
        asyncio.get_running_loop().add_reader(source, self._ready)

    def stop(self) -> None:
        """Take what is in the pipe now, and close it without waiting for others who hold it open."""
        if self._source < 0:
            return
        while self._read() == "more":
            pass
        asyncio.get_running_loop().remove_reader(self._source)
        os.close(self._source)
        self._source = -1
        self._tell(self._decoder.decode(b"", final=True))
        if self._stream is not None and (rest := self._stream.finish()):
            self._on_output(rest)

    def text(self) -> str:
        """Head and tail as plain text, with a line between them that says how much is missing."""
        tail = b"".join(self._tail)
        missing = self.total - len(self._head) - len(tail)
        if missing <= 0:
            return plain((bytes(self._head) + tail).decode("utf-8", "replace"))
        head_text = plain(self._head.decode("utf-8", "replace"))
        return f"{head_text}\n[... {missing:,} bytes left out ...]\n{plain(tail.decode('utf-8', 'replace'))}"

    @property
    def truncated(self) -> bool:
        return self.total > len(self._head) + self._tail_size

    def _ready(self) -> None:
        if self._read() == "done":
            asyncio.get_running_loop().remove_reader(self._source)

    def _read(self) -> Literal["more", "empty", "done"]:
        """Take one piece. "empty": nothing is there now; "done": the end, or the limit."""
        if self._ended or self.over.is_set():
            return "done"
        try:
            piece = os.read(self._source, _PIECE)
        except BlockingIOError:
            return "empty"
        except OSError:
            piece = b""
        if not piece:
            self._ended = True
            return "done"
        self._keep(piece)
        self._tell(self._decoder.decode(piece))
        if self.total >= self._limit:
            self.over.set()
        return "more"

    def _tell(self, text: str) -> None:
        shown = text if self._stream is None else self._stream.feed(text)
        if shown:
            self._on_output(shown)

    def _keep(self, piece: bytes) -> None:
        self.total += len(piece)
        room = _HEAD - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_size += len(piece)
        while self._tail_size - len(self._tail[0] if self._tail else b"") > _TAIL:
            self._tail_size -= len(self._tail.popleft())
