"""A layer that a process still writes to: what is new in it since the last time, copied into a layer of its own.

The process goes on over its own layer, so nothing in that is moved, linked or changed. A copy that was begun while a
file was written is copied again the next time, as its signature is taken before.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from core.filesystem.open_beneath import open_parent
from core.shadow.content.paths import list_parents
from core.shadow.layers.layer_files import copy_file, make_room
from core.shadow.layers.layer_scan import LayerEntry, scan_layer
from core.shadow.layers.overlayfs import encode_place, get_place, make_whiteout, set_opaque
from core.workspace.path_status import PERMISSION_BITS


class _Signature(Struct, frozen=True):
    """All that tells that an entry is not as it was; of a directory, its entries aside."""

    kind: str
    number: int
    mode: int
    size: int = 0
    changed_ns: int = 0
    opaque: bool = False

    def is_same_directory(self, other: _Signature | None) -> bool:
        """True if both are of one directory, whatever its mode is by now."""
        return other is not None and (self.kind, self.number, self.opaque) == (other.kind, other.number, other.opaque)


class LiveLayer:
    """The layer below `upper`, of a process that runs."""

    def __init__(self, upper: Path) -> None:
        self._upper = upper
        self._known: dict[str, _Signature] = {}

    def copy_news(self, target: Path) -> bool:
        """Copy what is new into an empty layer, and what is gone as a whiteout; False: nothing is. Raises OSError: then
        all of it is still new."""
        entries = scan_layer(self._upper).entries
        signatures = self._sign(entries)
        if signatures == self._known:
            return False
        modes = {entry.path: entry.mode for entry in entries if entry.kind == "directory"}
        replaced_paths = set[str]()
        for entry in entries:
            old_signature, now = self._known.get(entry.path), signatures.get(entry.path)
            is_below = any(above in replaced_paths for above in list_parents(entry.path))
            if now is None or (old_signature == now and not is_below):
                continue
            if not now.is_same_directory(old_signature):
                replaced_paths.add(entry.path)
            copy_path = make_room(target, entry.path, modes.__getitem__)
            with suppress(FileNotFoundError):  # it was removed meanwhile, which is news for the next time
                self._copy(entry, copy_path)
            if entry.kind == "directory" and old_signature is not None and entry.path in replaced_paths:
                set_opaque(copy_path, True)  # also where nothing lies below it but what was taken in before
        for path in sorted(self._known.keys() - signatures.keys()):
            self._hide(target, path, signatures, modes)
        self._known = signatures
        return True

    def _sign(self, entries: list[LayerEntry]) -> dict[str, _Signature]:
        signatures = {}
        for entry in entries:
            with suppress(FileNotFoundError):
                stats = os.lstat(encode_place(self._upper, entry.path))
                if entry.kind == "directory":
                    signatures[entry.path] = _Signature(entry.kind, stats.st_ino, entry.mode, opaque=entry.opaque)
                else:
                    change_time = max(stats.st_mtime_ns, stats.st_ctime_ns)
                    signatures[entry.path] = _Signature(
                        entry.kind, stats.st_ino, entry.mode, stats.st_size, change_time
                    )
        return signatures

    def _copy(self, entry: LayerEntry, target: Path) -> None:
        source = get_place(self._upper, entry.path)
        if entry.kind == "directory":
            with suppress(FileExistsError):
                target.mkdir(0o700)
            target.chmod(entry.mode | 0o700)
            set_opaque(target, entry.opaque)
        elif entry.kind == "whiteout":
            make_whiteout(target)
        elif entry.kind == "special":
            with suppress(OSError):  # what can't be made here is not taken in either
                os.mknod(target, source.lstat().st_mode)
        else:
            _copy_content(source, target)

    def _hide(self, target: Path, path: str, signatures: dict[str, _Signature], modes: dict[str, int]) -> None:
        """Make a whiteout for what is gone, unless what stands above it says so: it was there for nobody but us."""
        parents = list_parents(path)
        is_covered = any(
            above not in modes or not signatures[above].is_same_directory(self._known[above]) for above in parents
        )
        if self._known[path].kind != "whiteout" and not is_covered:
            whiteout_path = make_room(target, path, modes.__getitem__)
            with suppress(FileExistsError):
                make_whiteout(whiteout_path)


def _copy_content(source: Path, target: Path) -> None:
    """Copy a file or a link; a file that its owner may not read is made readable for a moment."""
    with open_parent(os.fsencode(source)) as source_name, open_parent(os.fsencode(target)) as target_name:
        try:
            copy_file(source_name, target_name, sync=False)
        except PermissionError as refused:
            stats = source.lstat()
            if not stat.S_ISREG(stats.st_mode) or refused.errno != errno.EACCES:
                raise
            source.chmod(stats.st_mode & PERMISSION_BITS | 0o400)
            try:
                copy_file(source_name, target_name, sync=False)
            finally:
                source.chmod(stats.st_mode & PERMISSION_BITS)
                target.chmod(stats.st_mode & PERMISSION_BITS)
