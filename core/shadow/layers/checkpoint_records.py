"""The layers that checkpoints keep: for each, the record of the kept layers at that time.

A record is never written in place, so a hard link to it is a copy that costs nothing; a layer that is named here is not
changed any more: to change it, `LayerStore.unshare` makes a copy first, of hard links to the same files.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from core.ids import Id
from core.records import decode_json
from core.shadow.layers.layer_files import link_entry

_ORDER = 12  # digits


class _NamedLayers(Struct):
    layers: tuple[Id, ...] = ()


class CheckpointRecords:
    """The records of one session's checkpoints, `<directory>/<order>-<checkpoint>.json`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @cached_property
    def layers_by_record(self) -> dict[str, tuple[str, ...]]:
        """The layers of each record, oldest first, by its file name."""
        layers_by_name, layers_by_inode = dict[str, tuple[str, ...]](), dict[int, tuple[str, ...]]()
        for path in sorted(self._directory.glob("*.json")):
            node = path.stat().st_ino
            with suppress(OSError, msgspec.MsgspecError):
                if node not in layers_by_inode:
                    layers_by_inode[node] = decode_json(path.read_bytes(), _NamedLayers).layers
                layers_by_name[path.name] = layers_by_inode[node]
        return layers_by_name

    @property
    def layers(self) -> frozenset[str]:
        """The layers that may not be changed."""
        return frozenset(layer for layers in self.layers_by_record.values() for layer in layers)

    def add(self, checkpoint: str, order: int, record: Path, layers: tuple[str, ...]) -> None:
        """Keep a record for a checkpoint. Raises OSError."""
        layers_by_record = self.layers_by_record
        self._directory.mkdir(mode=0o700, exist_ok=True)
        name = f"{order:0{_ORDER}d}-{checkpoint}.json"
        link_entry(record, self._directory / name)
        layers_by_record[name] = layers

    def find_path(self, checkpoint: str) -> Path | None:
        """Return the record's path of a checkpoint; None if it has none."""
        names = (name for name in self.layers_by_record if name[_ORDER + 1 :] == f"{checkpoint}.json")
        return next((self._directory / name for name in names), None)

    def drop_file(self, name: str) -> None:
        """Forget a record by its file name."""
        (self._directory / name).unlink(missing_ok=True)
        self.layers_by_record.pop(name, None)
