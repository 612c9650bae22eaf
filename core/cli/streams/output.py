"""Standard output and standard error, fit for whoever reads them: the one place that makes them so.

A pipe that does not block is waited for until it takes the rest. What the encoding of a stream has no character for is
written as a JSON string would have it (`\\u2192`), so that nothing is lost. A stream that was closed before the program
began is one that nobody reads, and no file of the program takes its number.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import Final, TextIO

from core.cli.streams.json_escapes import escape_sign
from core.errors import OutputFailed

_ESCAPED: Final = "json-escapes"
_GENTLE: Final = frozenset({"replace", "ignore", "xmlcharrefreplace", "backslashreplace", "namereplace"})  # of the user
_STANDARD: Final = (0, 1, 2)


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
