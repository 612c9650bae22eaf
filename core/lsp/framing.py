"""Frames of the language server protocol: `Content-Length` headers and a body of JSON, from bytes cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from core.errors import ToolFailed

LARGEST_FRAME: Final = 16 << 20  # bytes of a body that is read; a larger one is skipped
_LARGEST_HEAD: Final = 16 << 10
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_LENGTH: Final = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$")


def build_frame(body: bytes) -> bytes:
    """Return a body with its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Cuts a stream of bytes into bodies. Other headers than the length are read over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = -1  # bytes of the body whose header was read
        self._skipped = 0  # bytes that are still to come of a body that is too large

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies that `data` completes. Raises `ToolFailed` for what is no frame."""
        self._buffer += data
        while True:
            if self._skipped:
                skip_count = min(self._skipped, len(self._buffer))
                del self._buffer[:skip_count]
                self._skipped -= skip_count
            if self._skipped or not (self._wanted >= 0 or self._read_head()):
                return
            if self._wanted > LARGEST_FRAME:
                self._skipped, self._wanted = self._wanted, -1
                continue
            if len(self._buffer) < self._wanted:
                return
            body = bytes(self._buffer[: self._wanted])
            del self._buffer[: self._wanted]
            self._wanted = -1
            yield body

    def _read_head(self) -> bool:
        end = _END_OF_HEAD.search(self._buffer, 0, _LARGEST_HEAD)
        if end is None:
            if len(self._buffer) > _LARGEST_HEAD:
                raise ToolFailed("What it writes is no language server protocol.")
            return False
        length = _LENGTH.search(self._buffer, 0, end.end())
        if length is None:
            raise ToolFailed("It sent a message without a length.")
        self._wanted = int(length[1])
        del self._buffer[: end.end()]
        return True
