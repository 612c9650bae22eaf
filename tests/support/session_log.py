"""A log as a whole, for tests that look at all of it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from core.protocol.events import Envelope
from core.sessions.log import LogExtent, SessionLog, read_log


class Scan(Struct, frozen=True):
    envelopes: list[Envelope]
    extent: LogExtent

    @property
    def whole(self) -> bool:
        return self.extent.is_whole


def scan(path: Path) -> Scan:
    envelopes: list[Envelope] = []
    return Scan(envelopes, read_log(path, envelopes.append))


def load(path: Path) -> tuple[SessionLog, list[Envelope], str]:
    """A log that is opened, its records, and what was mended."""
    taken: list[list[Envelope]] = []

    def begin(_: SessionLog):
        taken.append([])
        return taken[-1].append

    log, mended = SessionLog.load(path, begin)
    return log, taken[-1], mended
