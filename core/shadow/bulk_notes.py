"""What is noted of verdicts on bulks: how far each has come, and all that it takes to undo it.

`<place>/<verdict>/{verdict.json,upper,prepared,saved}`: `upper` is what was decided, `prepared` what was put of git's
state, `saved` what was replaced in the project.
The file `deciding` names the one that is not finished.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from core.errors import StateError
from core.protocol.review import FileState, VerdictRecord
from core.shadow.layers import Layers, Top
from core.workspace.removing import remove_tree

Phase = Literal["saving", "applying", "applied", "undoing", "undone"]


class Decided(Struct, frozen=True, kw_only=True):
    """A bulk verdict as it is carried out and can be undone: its part of the record, the directories that it made or
    whose mode it changed, and the ids of the layers."""

    verdict: VerdictRecord
    tops: dict[str, Top]
    bases: dict[str, FileState]
    phase: Phase
    made: tuple[str, ...] = ()
    modes: dict[str, int] = {}


class Notes:
    """The notes of one session."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers

    def home(self, decided: Decided) -> Path:
        return self._layers.place / decided.verdict.id

    def saved(self, decided: Decided) -> Path:
        return self.home(decided) / "saved"

    def prepared(self, decided: Decided) -> Path:
        """The layer of what is put of git's state; there is none for other bulks."""
        return self.home(decided) / "prepared"

    @property
    def _pending_note(self) -> Path:
        return self._layers.place / "deciding"

    def note(self, decided: Decided, *, unfinished: bool = True) -> None:
        """Write down how far the verdict is; an unfinished one is found at the next start."""
        home = self.home(decided)
        try:
            home.mkdir(mode=0o700, exist_ok=True)
            _write(home / "verdict.json", msgspec.json.encode(decided))
            if unfinished:
                _write(self._pending_note, decided.verdict.id.encode())
            else:
                self._pending_note.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"The verdict can't be noted in {home}: {error.strerror}.") from error

    def forget(self, decided: Decided) -> None:
        with suppress(OSError):
            self._pending_note.unlink(missing_ok=True)
            remove_tree(self.home(decided))

    def read(self, verdict_id: str) -> Decided | None:
        try:
            data = (self._layers.place / verdict_id / "verdict.json").read_bytes()
            return msgspec.json.decode(data, type=Decided)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep(self, decided: Decided, place: Path) -> None:
        """Note it once more, at another place. Raises OSError."""
        _write(place / "verdict.json", msgspec.json.encode(decided))

    def unfinished(self) -> Decided | None:
        """The verdict that a crash cut off."""
        try:
            name = self._pending_note.read_bytes().decode("ascii", "replace")
        except OSError:
            return None
        decided = self.read(name)
        if decided is None:
            self._pending_note.unlink(missing_ok=True)
        return decided


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
