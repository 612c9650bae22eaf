"""Accepting a bulk once more after it was undone. What was accepted stays beside the layers as long as a checkpoint
names the verdict."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from core.errors import StateError
from core.filesystem.removal import remove_path
from core.ids import new_id
from core.shadow.bulk.bulk_records import BulkDecision, BulkRecords
from core.shadow.layers.layer_files import link_tree
from core.shadow.layers.layer_store import KeptLayers, LayerStore
from core.state.review import ReviewState


class BulkRedo(Struct, eq=False):
    """The accepted bulks of one session that may be accepted again."""

    layers: LayerStore
    records: BulkRecords
    state: ReviewState

    def name_layer(self, verdict_id: str) -> str:
        """Return a free layer name for what an undone verdict puts back; it is the same after a crash."""
        name, layer_names = f"layer-of-{verdict_id}", self.layers.checkpoint_records.layers
        while name in layer_names:
            name += "-"
        return name

    def list_directories(self) -> list[str]:
        """List the directories beside the layers that are still needed."""
        standing = [verdict.id for verdict in self.state.verdicts if verdict.bulk]
        return [*standing, *(self._get_directory(verdict_id).name for verdict_id in self._find_checkpointed())]

    def _find_checkpointed(self) -> set[str]:
        return {verdict.id for point in self.state.checkpoints.values() for verdict in point.verdicts if verdict.bulk}

    def _get_directory(self, verdict_id: str) -> Path:
        return self.layers.place / f"again-{verdict_id}"

    def keep_accepted(self, decision: BulkDecision) -> None:
        """Keep a copy of what was accepted, before it goes back into the layers. Raises `StateError`."""
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
            raise StateError(f"What was accepted can't be kept in {directory}: {error.strerror}.") from error

    def restore_layers(self, verdict_id: str) -> bool:
        """Make what was accepted the only kept layer. Return False if it is no longer there."""
        directory = self._get_directory(verdict_id)
        decision = self.records.read(directory.name)
        if decision is None:
            return False
        layer = new_id("layer")
        try:
            (self.layers.place / layer).mkdir(mode=0o700)
            link_tree(directory / "upper", self.layers.get_upper(layer))
        except OSError as error:
            raise StateError(f"{decision.verdict.path} can't be laid out: {error.strerror}.") from error
        removed_directories = self.layers.kept.gone
        self.layers.switch_to(
            KeptLayers(layers=(layer,), tops=decision.tops, bases=decision.bases, gone=removed_directories)
        )
        return True
