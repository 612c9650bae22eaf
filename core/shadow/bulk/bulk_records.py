"""Records of bulk verdicts on disk: the progress of a verdict, and everything that is needed to undo or repeat it.

`<location>/<verdict>/{verdict.json,upper,prepared,saved}`: `upper` has the files of the bulk, `prepared` the state of
git to be written, `saved` the replaced files of the project. The file `deciding` names the unfinished verdict. A copy
of the accepted files stays in `<location>/again-<verdict>` as long as a checkpoint names the verdict.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from core.errors import StateError
from core.filesystem.atomic_write import replace_file
from core.filesystem.removal import remove_path, remove_tree
from core.ids import new_id
from core.protocol.review import Bulk, FileState, Verdict, VerdictRecord
from core.records import decode_json
from core.shadow.bulk.bulk_summary import describe_bulk
from core.shadow.layers.layer_files import link_tree
from core.shadow.layers.layer_store import LayerStore, RetainedLayers, RetainedTop
from core.state.review import ReviewState
from core.workspace import ABSENT

Phase = Literal["saving", "applying", "applied", "undoing", "undone"]


class BulkDecision(Struct, frozen=True, kw_only=True):
    """A bulk verdict with what is needed to carry it out and undo it: its part of the record of retained layers, the
    directories that it created (`made`), and the previous modes of directories (`modes`, by path)."""

    verdict: VerdictRecord
    tops: dict[str, RetainedTop]
    bases: dict[str, FileState]
    phase: Phase
    made: tuple[str, ...] = ()
    modes: dict[str, int] = {}


def build_bulk_verdict(
    bulk: Bulk, verdict: Verdict, *, name: str = "", reason: str = "", is_superseded: bool = False
) -> VerdictRecord:
    """Build the record of a verdict on a bulk, which has neither hunks nor states."""
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
        return self.layers.location / decision.verdict.id

    def get_saved_layer(self, decision: BulkDecision) -> Path:
        """Return the layer with the replaced files of the project."""
        return self.get_directory(decision) / "saved"

    def get_prepared_layer(self, decision: BulkDecision) -> Path:
        """Return the layer with the state of git to be written; other bulks have none."""
        return self.get_directory(decision) / "prepared"

    @property
    def _unfinished_path(self) -> Path:
        return self.layers.location / "deciding"

    def write(self, decision: BulkDecision, *, is_unfinished: bool = True) -> None:
        """Write the progress of a verdict; the next start finds an unfinished one. Raises `StateError`."""
        directory = self.get_directory(decision)
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            replace_file(directory / "verdict.json", msgspec.json.encode(decision))
            if is_unfinished:
                replace_file(self._unfinished_path, decision.verdict.id.encode())
            else:
                self._unfinished_path.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"The verdict can't be recorded in {directory}: {error.strerror}.") from error

    def forget(self, decision: BulkDecision) -> None:
        """Remove the directory of a verdict."""
        with suppress(OSError):
            self._unfinished_path.unlink(missing_ok=True)
            remove_tree(self.get_directory(decision))

    def read(self, verdict_id: str) -> BulkDecision | None:
        """Return the record of a verdict; None if there is none or it is damaged."""
        try:
            data = (self.layers.location / verdict_id / "verdict.json").read_bytes()
            return decode_json(data, BulkDecision)
        except (OSError, msgspec.MsgspecError):
            return None

    def write_copy(self, decision: BulkDecision, directory: Path) -> None:
        """Write a copy of the record into another directory. Raises OSError."""
        replace_file(directory / "verdict.json", msgspec.json.encode(decision))

    def read_unfinished(self) -> BulkDecision | None:
        """Return the verdict that a crash interrupted; None if there is none."""
        try:
            name = self._unfinished_path.read_bytes().decode("ascii", "replace")
        except OSError:
            return None
        decision = self.read(name)
        if decision is None:
            self._unfinished_path.unlink(missing_ok=True)
        return decision


class BulkRedo(Struct, eq=False):
    """The undone bulks of one session that can be accepted again."""

    layers: LayerStore
    records: BulkRecords
    state: ReviewState

    def name_layer(self, verdict_id: str) -> str:
        """Return a free layer name for the files of an undone verdict; the name is the same after a crash."""
        name, layer_names = f"layer-of-{verdict_id}", self.layers.checkpoint_records.layers
        while name in layer_names:
            name += "-"
        return name

    def list_directories(self) -> list[str]:
        """List the directories in the location of the layers that are still needed."""
        standing = [verdict.id for verdict in self.state.verdicts if verdict.bulk]
        return [*standing, *(self._get_directory(verdict_id).name for verdict_id in self._find_checkpointed())]

    def _find_checkpointed(self) -> set[str]:
        return {verdict.id for point in self.state.checkpoints.values() for verdict in point.verdicts if verdict.bulk}

    def _get_directory(self, verdict_id: str) -> Path:
        return self.layers.location / f"again-{verdict_id}"

    def save_accepted(self, decision: BulkDecision) -> None:
        """Copy the accepted files before they return to the layers. Raises `StateError`."""
        source = self.records.get_directory(decision) / "upper"
        if decision.verdict.id not in self._find_checkpointed() or not source.is_dir():
            return
        directory = self._get_directory(decision.verdict.id)
        try:
            remove_path(directory)
            directory.mkdir(mode=0o700)
            link_tree(source, directory / "upper")
            self.records.write_copy(decision, directory)
        except OSError as error:
            raise StateError(f"What was accepted can't be saved in {directory}: {error.strerror}.") from error

    def restore_layers(self, verdict_id: str) -> bool:
        """Make the accepted files the only retained layer. Return False if they no longer exist."""
        directory = self._get_directory(verdict_id)
        decision = self.records.read(directory.name)
        if decision is None:
            return False
        layer = new_id("layer")
        try:
            (self.layers.location / layer).mkdir(mode=0o700)
            link_tree(directory / "upper", self.layers.get_upper(layer))
        except OSError as error:
            raise StateError(f"{decision.verdict.path} can't be prepared: {error.strerror}.") from error
        removed_directories = self.layers.retained.gone
        self.layers.switch_to(
            RetainedLayers(layers=(layer,), tops=decision.tops, bases=decision.bases, gone=removed_directories)
        )
        return True
