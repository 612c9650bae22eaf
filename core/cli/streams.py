"""Standard input, output and error, and JSON as it is printed.

A pipe that does not block is waited for. A character that a stream can't encode is written as a JSON string has it
(`\\u2192`), so that nothing is lost. A stream that was closed before the program began reads from and writes to
/dev/null, so that no file of the program takes its number.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import select
import sys
from typing import BinaryIO, Final, TextIO

from core.errors import OutputFailed
from core.text.display_names import HIDDEN

_BEYOND: Final = 0x10000  # characters from here on are two escapes
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_HIDDEN: Final = re.compile(f"[{HIDDEN}]")  # everything that is there and not seen
_ESCAPED: Final = "json-escapes"
_GENTLE: Final = frozenset({"replace", "ignore", "xmlcharrefreplace", "backslashreplace", "namereplace"})  # of the user
_STANDARD: Final = (0, 1, 2)
PATIENCE: Final = 2.0  # seconds until it is said what is waited for
_CHUNK: Final = 65_536
_NOTICE: Final = (
    "! Waiting for the end of standard input, which whoever started this has left open. Nothing to send? "
    "Start it with </dev/null.\n"
)


def write_json(text: str | bytes, output: TextIO | None = None) -> None:
    """Write JSON and the end of its line to `output`, else to standard output."""
    stream = output or sys.stdout
    stream.write(f"{fit_json(text if isinstance(text, str) else text.decode('utf-8'), stream)}\n")


def fit_json(text: str, stream: TextIO) -> str:
    """Return JSON as a stream is to have it. It is UTF-8, whatever the locale: for a stream with another encoding
    everything beyond ASCII is escaped."""
    escaped_text = escape_hidden(text)
    if codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8":
        return escaped_text
    return _NOT_ASCII.sub(lambda sign: escape_sign(sign[0]), escaped_text)


def escape_hidden(text: str) -> str:
    """JSON of the same value in which nothing moves a cursor, reorders or hides what is read in a terminal: C1, DEL,
    bidi, zero-width, tag and other invisible characters are written as escapes (those below U+0020 are already)."""
    return (
        text if text.isascii() and "\x7f" not in text else _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    )


def escape_sign(sign: str) -> str:
    """Return a character as JSON escapes it, one beyond the first 65,536 as two halves."""
    number = ord(sign)
    if number < _BEYOND:
        return f"\\u{number:04x}"
    number -= _BEYOND
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"


def prepare_output() -> None:
    """Make the standard streams fit. Streams that a caller has put in their place stay as they are."""
    _fill_closed()
    codecs.register_error(_ESCAPED, _escape_unencodable)
    sys.stdin = sys.stdin or open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrap(1, sys.__stdout__)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrap(2, sys.__stderr__, is_by_line=True)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, f"__{name}__") is None:
            setattr(sys, f"__{name}__", getattr(sys, name))


class _PatientFile(io.FileIO):
    """A descriptor that is written to its end, also where a write does not block: then its reader is waited for. That
    it takes no more is raised once; of standard error it is not, as nobody could be told."""

    _has_failed = False

    def write(self, data: object) -> int:
        rest = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = len(rest)
        while rest and not self._has_failed:
            try:
                rest = rest[os.write(self.fileno(), rest) :]
            except BlockingIOError:
                select.select([], [self.fileno()], [])
            except OSError as problem:
                self._has_failed = True
                self._tell(problem)
        return size

    def _tell(self, problem: OSError) -> None:
        if self.fileno() == _STANDARD[2]:
            return
        if isinstance(problem, BrokenPipeError):  # its reader wants no more
            raise problem
        raise OutputFailed(
            f"standard output can't be written: {problem.strerror}.", hint="Make room, or send it elsewhere."
        ) from problem


def _wrap(descriptor: int, stream: TextIO | None, *, is_by_line: bool = False) -> TextIO:
    """Return a stream over a descriptor, like the one that Python has made: its encoding, and when it is flushed."""
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_PatientFile(descriptor, "wb", closefd=False)),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors=stream.errors if stream is not None and stream.errors in _GENTLE - {"backslashreplace"} else _ESCAPED,
        newline="\n",
        line_buffering=is_by_line or os.isatty(descriptor),
        write_through=getattr(stream, "write_through", False),
    )


def _fill_closed() -> None:
    """Open what was closed onto nothing."""
    for descriptor in _STANDARD:
        try:
            os.fstat(descriptor)
        except OSError:
            null_descriptor = os.open(os.devnull, os.O_RDWR)
            if null_descriptor != descriptor:
                os.dup2(null_descriptor, descriptor)
                os.close(null_descriptor)


def _escape_unencodable(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    return "".join(map(escape_sign, problem.object[problem.start : problem.end])), problem.end


def read_input(source: BinaryIO, limit: int = -1) -> bytes:
    """Return the bytes of `source`, at most `limit` (-1: all of them). A pipe that does not block is waited for, and
    one that stays open for `PATIENCE` seconds is spoken of on standard error."""
    try:
        descriptor = source.fileno()
    except (io.UnsupportedOperation, AttributeError):  # no file
        return source.read(limit)
    if os.isatty(descriptor):
        return source.read(limit)
    return _read_to_end(descriptor, limit)


def _read_to_end(descriptor: int, limit: int) -> bytes:
    buffer = bytearray()
    patience: float | None = PATIENCE
    while limit < 0 or len(buffer) < limit:
        if not select.select([descriptor], [], [], patience)[0]:
            sys.stderr.write(_NOTICE)
            sys.stderr.flush()
            patience = None  # said once
            continue
        try:
            chunk = os.read(descriptor, _CHUNK if limit < 0 else min(_CHUNK, limit - len(buffer)))
        except BlockingIOError:
            continue
        if not chunk:
            break
        buffer += chunk
    return bytes(buffer)
