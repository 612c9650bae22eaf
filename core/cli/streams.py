"""Standard input, output and error, and JSON as it is printed.

A pipe that does not block is waited for. A character that a stream can't encode is written as a JSON string has it
(`\\u2192`), so that nothing is lost. A stream that was closed before the program began reads from and writes to
/dev/null, so that no file of the program takes its number.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import BinaryIO, Final, TextIO

from core.errors import OutputFailed
from core.patterns import compile_lazily
from core.text.display_names import HIDDEN

_BEYOND: Final = 0x10000  # characters from here on take two escapes
_NOT_ASCII: Final = compile_lazily(r"[^\x00-\x7f]")
_HIDDEN: Final = compile_lazily(f"[{HIDDEN}]")  # all invisible characters
_ESCAPED: Final = "json-escapes"
_GENTLE: Final = frozenset({"replace", "ignore", "xmlcharrefreplace", "backslashreplace", "namereplace"})  # the user's
_STANDARD: Final = (0, 1, 2)
PATIENCE: Final = 2.0  # seconds until a notice says what is awaited
_CHUNK: Final = 65_536
_NOTICE: Final = "! Waiting for standard input to end; it is still open. Nothing to send? Start with </dev/null.\n"


def write_json(text: str | bytes, output: TextIO | None = None) -> None:
    """Write a line of JSON to `output`, by default standard output."""
    stream = output or sys.stdout
    stream.write(f"{fit_json(text if isinstance(text, str) else text.decode('utf-8'), stream)}\n")


def fit_json(text: str, stream: TextIO) -> str:
    """Return JSON for a stream: UTF-8 whatever the locale, or pure ASCII if the stream has another encoding."""
    escaped_text = escape_hidden(text)
    if codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name == "utf-8":
        return escaped_text
    return _NOT_ASCII.sub(lambda sign: escape_sign(sign[0]), escaped_text)


def escape_hidden(text: str) -> str:
    """Escape invisible characters in JSON, whose value stays the same: C1, DEL, bidi, zero-width, tag and other
    characters that could move a cursor, reorder or hide text in a terminal. JSON itself escapes those below U+0020."""
    if text.isascii() and "\x7f" not in text:
        return text
    import json  # slow, and no start needs it

    return _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def escape_sign(sign: str) -> str:
    """Escape a character for JSON; one beyond U+FFFF becomes a surrogate pair."""
    number = ord(sign)
    if number < _BEYOND:
        return f"\\u{number:04x}"
    number -= _BEYOND
    return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"


def prepare_output() -> None:
    """Replace the standard streams by ones that write everything. Streams that a caller has replaced stay as they
    are."""
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
    """A descriptor that is written to its end, also a non-blocking one: then it waits for the reader.

    A failed write is raised once; on standard error it is not, since nobody could see it.
    """

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
                self._raise_failure(problem)
        return size

    def _raise_failure(self, problem: OSError) -> None:
        if self.fileno() == _STANDARD[2]:
            return
        if isinstance(problem, BrokenPipeError):  # the reader is gone
            raise problem
        raise OutputFailed(
            f"standard output can't be written: {problem.strerror}.",
            hint="Free some space, or redirect it elsewhere.",
        ) from problem


def _wrap(descriptor: int, stream: TextIO | None, *, is_by_line: bool = False) -> TextIO:
    """Return a stream over a descriptor with the encoding and buffering of the one that Python has made."""
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
    """Open closed standard descriptors on /dev/null."""
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
    """Return the bytes of `source`, at most `limit` (-1: all of them). Waits for a non-blocking pipe; if a pipe stays
    open for `PATIENCE` seconds, a notice on standard error says so."""
    try:
        descriptor = source.fileno()
    except (io.UnsupportedOperation, AttributeError):  # no real file
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
            patience = None  # print the notice only once
            continue
        try:
            chunk = os.read(descriptor, _CHUNK if limit < 0 else min(_CHUNK, limit - len(buffer)))
        except BlockingIOError:
            continue
        if not chunk:
            break
        buffer += chunk
    return bytes(buffer)
