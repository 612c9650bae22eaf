"""The output of a running command: bounded in memory, passed on as it arrives."""

from __future__ import annotations

import asyncio
import codecs
import os
import subprocess
from collections import deque
from collections.abc import Callable
from typing import Literal

from core.sandbox.plain_text import PlainTextStream, strip_escapes

OUTPUT_LIMIT = 10_000_000
_HEAD = 1_000_000
_TAIL = 1_000_000
_CHUNK = 65_536


class OutputReader:
    """Reads a pipe until `stop` or its end, and retains the first and the last megabyte.

    `on_limit` is called once `limit` bytes were read. `on_output` gets plain text; with `raw` the unchanged output,
    with invalid UTF-8 as in PEP 383.
    """

    def __init__(
        self,
        source: int,
        on_output: Callable[[str], None],
        *,
        limit: int = OUTPUT_LIMIT,
        raw: bool = False,
        on_limit: Callable[[], object],
    ) -> None:
        self._limit, self._on_limit = limit, on_limit
        self.is_flooded = False
        self.total_bytes = 0
        self._is_ended = False
        self._source = source
        self._on_output = on_output
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape" if raw else "replace")
        self._stream = None if raw else PlainTextStream()
        os.set_blocking(source, False)
        asyncio.get_running_loop().add_reader(source, self._on_readable)

    def stop(self) -> None:
        """Drain the pipe, and close it without waiting for other processes that have it open."""
        if self._source < 0:
            return
        while self._read_chunk() == "more":
            pass
        asyncio.get_running_loop().remove_reader(self._source)
        os.close(self._source)
        self._source = -1
        self._emit(self._decoder.decode(b"", final=True))
        if self._stream is not None and (rest := self._stream.finish()):
            self._on_output(rest)

    def hand_over(self) -> None:
        """Stop reading, and let a process of its own swallow what others still write to the pipe: they would get an
        error, and most would end."""
        if self._source < 0 or self._is_ended:
            return
        while self._read_chunk() == "more":
            pass
        if not self._is_ended:
            self._is_ended = True
            os.set_blocking(self._source, True)
            subprocess.run(
                ("/bin/sh", "-c", "exec 3<&0; cat <&3 >/dev/null 2>&1 &"),
                stdin=self._source,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                check=False,
            )

    def render_text(self) -> str:
        """Return head and tail as plain text, with the number of missing bytes between them."""
        tail = b"".join(self._tail)
        missing = self.total_bytes - len(self._head) - len(tail)
        if missing <= 0:
            return strip_escapes((bytes(self._head) + tail).decode("utf-8", "replace"))
        head_text = strip_escapes(self._head.decode("utf-8", "replace"))
        return f"{head_text}\n[... {missing:,} bytes left out ...]\n{strip_escapes(tail.decode('utf-8', 'replace'))}"

    @property
    def is_truncated(self) -> bool:
        return self.total_bytes > len(self._head) + self._tail_size

    def _on_readable(self) -> None:
        if self._read_chunk() == "done":
            asyncio.get_running_loop().remove_reader(self._source)

    def _read_chunk(self) -> Literal["more", "empty", "done"]:
        """Read one chunk. "empty": no data is available; "done": the end, or the limit."""
        if self._is_ended or self.is_flooded:
            return "done"
        try:
            piece = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return "empty"
        except OSError:
            piece = b""
        if not piece:
            self._is_ended = True
            return "done"
        self._store(piece)
        self._emit(self._decoder.decode(piece))
        if self.total_bytes >= self._limit:
            self.is_flooded = True
            self._on_limit()
        return "more"

    def _emit(self, text: str) -> None:
        visible_text = text if self._stream is None else self._stream.feed(text)
        if visible_text:
            self._on_output(visible_text)

    def _store(self, piece: bytes) -> None:
        self.total_bytes += len(piece)
        room = _HEAD - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_size += len(piece)
        while self._tail_size - len(self._tail[0] if self._tail else b"") > _TAIL:
            self._tail_size -= len(self._tail.popleft())
