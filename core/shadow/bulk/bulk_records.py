"""Records of bulk verdicts on disk: how far each has come, and all that undoing it takes.

`<place>/<verdict>/{verdict.json,upper,prepared,saved}`: `upper` is what was decided, `prepared` what was put of git's
state, `saved` what was replaced in the project. The file `deciding` names the unfinished verdict.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from core.errors import StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.protocol.review import Bulk, FileState, Verdict, VerdictRecord
from core.records import decode_json
from core.shadow.bulk.bulk_summary import describe_bulk
from core.shadow.layers.layer_store import KeptTop, LayerStore
from core.workspace import ABSENT

Phase = Literal["saving", "applying", "applied", "undoing", "undone"]


class BulkDecision(Struct, frozen=True, kw_only=True):
    """A bulk verdict as it is carried out and can be undone: its part of the kept record, the directories that it made
    (`made`), and the modes that it changed (`modes`, by path)."""

    verdict: VerdictRecord
    tops: dict[str, KeptTop]
    bases: dict[str, FileState]
    phase: Phase
    made: tuple[str, ...] = ()
    modes: dict[str, int] = {}


def build_bulk_verdict(
    bulk: Bulk, verdict: Verdict, *, name: str = "", reason: str = "", is_superseded: bool = False
) -> VerdictRecord:
    """Build the record of a verdict on a bulk, which has no hunks and no states."""
    return VerdictRecord(
        id=name or new_id("verdict"),
        path=bulk.root,
        verdict=verdict,
        hunks=(),
        base_before=ABSENT,
        base_after=ABSENT,
        pending_before=ABSENT,
        pending_after=ABSENT,
        reason=reason,
        excerpt=describe_bulk(bulk),
        bulk=bulk,
        superseded=is_superseded,
    )


class BulkRecords(Struct, eq=False):
    """The records of one session's bulk verdicts."""

    layers: LayerStore

    def get_directory(self, decision: BulkDecision) -> Path:
        return self.layers.place / decision.verdict.id

    def get_saved_layer(self, decision: BulkDecision) -> Path:
        """Return the layer of what was replaced in the project."""
        return self.get_directory(decision) / "saved"

    def get_prepared_layer(self, decision: BulkDecision) -> Path:
        """Return the layer of what is put of git's state; other bulks have none."""
        return self.get_directory(decision) / "prepared"

    @property
    def _unfinished_path(self) -> Path:
        return self.layers.place / "deciding"

    def write(self, decision: BulkDecision, *, is_unfinished: bool = True) -> None:
        """Write how far a verdict is; an unfinished one is found at the next start. Raises `StateError`."""
        home = self.get_directory(decision)
        try:
            home.mkdir(mode=0o700, exist_ok=True)
            replace_file(home / "verdict.json", msgspec.json.encode(decision))
            if is_unfinished:
                replace_file(self._unfinished_path, decision.verdict.id.encode())
            else:
                self._unfinished_path.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"The verdict can't be noted in {home}: {error.strerror}.") from error

    def forget(self, decision: BulkDecision) -> None:
        """Remove all that was kept of a verdict."""
        with suppress(OSError):
            self._unfinished_path.unlink(missing_ok=True)
            remove_tree(self.get_directory(decision))

    def read(self, verdict_id: str) -> BulkDecision | None:
        """Return the record of a verdict; None if there is none or it is damaged."""
        try:
            data = (self.layers.place / verdict_id / "verdict.json").read_bytes()
            return decode_json(data, BulkDecision)
        except (OSError, msgspec.MsgspecError):
            return None

    def write_copy(self, decision: BulkDecision, directory: Path) -> None:
        """Write a copy of the record at another place. Raises OSError."""
        replace_file(directory / "verdict.json", msgspec.json.encode(decision))

    def read_unfinished(self) -> BulkDecision | None:
        """Return the verdict that a crash cut off; None if there is none."""
        try:
            name = self._unfinished_path.read_bytes().decode("ascii", "replace")
        except OSError:
            return None
        decision = self.read(name)
        if decision is None:
            self._unfinished_path.unlink(missing_ok=True)
        return decision
