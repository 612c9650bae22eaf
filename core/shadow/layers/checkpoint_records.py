"""The layers that checkpoints keep: for each, the record of the kept layers at that time.

A record is never written in place, so a hard link to it is a copy that costs nothing; a layer that is named here is not
changed any more: to change it, `LayerStore.unshare` makes a copy first, of hard links to the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from core.shadow.layers.layer_files import link_entry

_ORDER = 12  # digits


class _NamedLayers(Struct):
    layers: tuple[str, ...] = ()


class CheckpointRecords:
    """The records of one session's checkpoints, `<directory>/<order>-<checkpoint>.json`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._named: dict[str, tuple[str, ...]] | None = None

    @property
    def layers_by_record(self) -> dict[str, tuple[str, ...]]:
        """The layers of each record, oldest first, by its file name."""
        if self._named is None:
            self._named = dict(self._read_records())
        return self._named

    def _read_records(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        if not self._directory.is_dir():
            return
        seen: dict[int, tuple[str, ...]] = {}
        for path in sorted(self._directory.glob("*.json")):
            node = path.stat().st_ino
            if node not in seen:
                try:
                    seen[node] = msgspec.json.decode(path.read_bytes(), type=_NamedLayers).layers
                except (OSError, msgspec.MsgspecError):
                    continue
            yield path.name, seen[node]

    @property
    def layers(self) -> frozenset[str]:
        """The layers that may not be changed."""
        return frozenset(each for layers in self.layers_by_record.values() for each in layers)

    def add(self, checkpoint: str, order: int, record: Path, layers: tuple[str, ...]) -> None:
        """Keep a record for a checkpoint. Raises OSError."""
        named = self.layers_by_record
        self._directory.mkdir(mode=0o700, exist_ok=True)
        name = f"{order:0{_ORDER}d}-{checkpoint}.json"
        link_entry(record, self._directory / name)
        named[name] = layers

    def find_path(self, checkpoint: str) -> Path | None:
        """Return the record's path of a checkpoint; None if it has none."""
        name = self._find_file(checkpoint)
        return self._directory / name if name else None

    def _find_file(self, checkpoint: str) -> str:
        return next((each for each in self.layers_by_record if each[_ORDER + 1 :] == f"{checkpoint}.json"), "")

    def drop(self, checkpoint: str) -> None:
        """Forget the record of a checkpoint."""
        self.drop_file(self._find_file(checkpoint))

    def drop_file(self, name: str) -> None:
        """Forget a record by its file name ("" = none)."""
        if name:
            (self._directory / name).unlink(missing_ok=True)
            self.layers_by_record.pop(name, None)
