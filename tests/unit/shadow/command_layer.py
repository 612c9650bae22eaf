"""A command's layer, filled by hand."""

from __future__ import annotations

import time
from pathlib import Path

from core.filesystem.overlay_support import make_whiteout, set_opaque
from core.protocol.events import EffectsRecorded
from core.protocol.review import Origin
from tests.unit.shadow.review_case import ReviewCase

ORIGIN = Origin(call="c1", tool="run_terminal_cmd", command="make")


class Layer:
    """A command's layer, filled by hand as overlayfs would."""

    def __init__(self, review: ReviewCase) -> None:
        self._review = review
        self.dirs = review.shadow.open_layer()
        self.started = time.time_ns()

    def put(self, path: str, data: bytes, mode: int = 0o644) -> Path:
        target = self.dirs.upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)
        return target

    def delete(self, path: str) -> None:
        target = self.dirs.upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        make_whiteout(target)

    def replace(self, path: str) -> None:
        (self.dirs.upper / path).mkdir(parents=True, exist_ok=True)
        set_opaque(self.dirs.upper / path, True)

    def absorb(self) -> EffectsRecorded:
        return self._review.shadow.absorb(self.dirs, origin=ORIGIN, started_ns=self.started)
