"""The builder as a process of its own: it is told what has changed, line by line, and tells how far it is.

It ends with its standard input, so that it never outlives who started it; it is nice to everything else on the machine.
"""

from __future__ import annotations

import os
import select
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from core.errors import AgentTuiError
from core.index.builder import IndexBuilder, open_builder
from core.index.builder_command import BuilderRequest
from core.protocol.queries.search import IndexStatus
from core.records import build_json_decoder

_NICENESS: Final = 10
_READ: Final = 1 << 16


def main() -> None:
    """Build the index of the workspace named on the command line until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    with suppress(BrokenPipeError):
        try:
            builder = open_builder(Path(sys.argv[2]), Path(sys.argv[3]), _tell)
        except (AgentTuiError, OSError, sqlite3.Error) as problem:
            _tell(IndexStatus(state="failed", problem=f"the index can't be made: {problem}"))
            return
        try:
            BuilderService(builder, _RequestLines(sys.stdin.fileno())).run()
        finally:
            builder.close()


def _tell(status: IndexStatus) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(status) + b"\n")
    sys.stdout.buffer.flush()


class BuilderService:
    """Does what is asked, between two pieces of work; waits without any work when nothing is left."""

    def __init__(self, builder: IndexBuilder, requests: _RequestLines) -> None:
        self._builder = builder
        self._requests = requests

    def run(self) -> None:
        """Return when nobody can ask any more."""
        busy = self._guard(self._builder.sweep)
        while (requests := self._requests.read(wait=not busy)) is not None:
            busy = self._guard(partial(self._do_next, requests))

    def _do_next(self, requests: list[BuilderRequest]) -> bool:
        if any(not request.changed for request in requests):
            self._builder.sweep()
        elif requests:
            self._builder.note_changed(path for request in requests for path in request.changed)
        return self._builder.step()

    def _guard(self, work: Callable[[], bool | None]) -> bool:
        """Do some work; True if there is more, False if it is done or can't be."""
        try:
            return work() is not False
        except sqlite3.Error as problem:
            with suppress(sqlite3.Error, OSError):
                self._builder.recover(problem)
            return self._builder.status.state != "failed"


class _RequestLines:
    """The requests that come in on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._decode = build_json_decoder(BuilderRequest).decode

    def read(self, *, wait: bool) -> list[BuilderRequest] | None:
        """Return what was asked meanwhile; `wait`: at least one. None: nobody asks any more."""
        lines: list[bytes] = []
        while select.select([self._descriptor], [], [], None if wait and not lines else 0)[0]:
            data = os.read(self._descriptor, _READ)
            if not data:
                return None
            *complete, self._rest = (self._rest + data).split(b"\n")
            lines += complete
        return [self._decode(line) for line in lines if line.strip()]
