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
from core.shadow.layers.layer_files import copy_file, make_room
from core.shadow.layers.layer_scan import LayerEntry, scan_layer
from core.shadow.layers.overlayfs import encode_place, get_place, make_whiteout, set_opaque
from core.shadow.paths import list_parents
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
        signed = self._sign(entries)
        if signed == self._known:
            return False
        modes = {entry.path: entry.mode for entry in entries if entry.kind == "directory"}
        replaced = set[str]()
        for entry in entries:
            known, now = self._known.get(entry.path), signed.get(entry.path)
            is_below = any(above in replaced for above in list_parents(entry.path))
            if now is None or (known == now and not is_below):
                continue
            if not now.is_same_directory(known):
                replaced.add(entry.path)
            place = make_room(target, entry.path, modes.__getitem__)
            with suppress(FileNotFoundError):  # it was removed meanwhile, which is news for the next time
                self._copy(entry, place)
            if entry.kind == "directory" and known is not None and entry.path in replaced:
                set_opaque(place, True)  # also where nothing lies below it but what was taken in before
        for path in sorted(self._known.keys() - signed.keys()):
            self._hide(target, path, signed, modes)
        self._known = signed
        return True

    def _sign(self, entries: list[LayerEntry]) -> dict[str, _Signature]:
        signed = {}
        for entry in entries:
            with suppress(FileNotFoundError):
                found = os.lstat(encode_place(self._upper, entry.path))
                if entry.kind == "directory":
                    signed[entry.path] = _Signature(entry.kind, found.st_ino, entry.mode, opaque=entry.opaque)
                else:
                    changed = max(found.st_mtime_ns, found.st_ctime_ns)
                    signed[entry.path] = _Signature(entry.kind, found.st_ino, entry.mode, found.st_size, changed)
        return signed

    def _copy(self, entry: LayerEntry, place: Path) -> None:
        source = get_place(self._upper, entry.path)
        if entry.kind == "directory":
            with suppress(FileExistsError):
                place.mkdir(0o700)
            place.chmod(entry.mode | 0o700)
            set_opaque(place, entry.opaque)
        elif entry.kind == "whiteout":
            make_whiteout(place)
        elif entry.kind == "special":
            with suppress(OSError):  # what can't be made here is not taken in either
                os.mknod(place, source.lstat().st_mode)
        else:
            _copy_content(source, place)

    def _hide(self, target: Path, path: str, signed: dict[str, _Signature], modes: dict[str, int]) -> None:
        """Make a whiteout for what is gone, unless what stands above it says so: it was there for nobody but us."""
        parents = list_parents(path)
        is_covered = any(
            above not in modes or not signed[above].is_same_directory(self._known[above]) for above in parents
        )
        if self._known[path].kind != "whiteout" and not is_covered:
            place = make_room(target, path, modes.__getitem__)
            with suppress(FileExistsError):
                make_whiteout(place)


def _copy_content(source: Path, place: Path) -> None:
    """Copy a file or a link; a file that its owner may not read is made readable for a moment."""
    with open_parent(os.fsencode(source)) as here, open_parent(os.fsencode(place)) as there:
        try:
            copy_file(here, there, sync=False)
        except PermissionError as refused:
            found = source.lstat()
            if not stat.S_ISREG(found.st_mode) or refused.errno != errno.EACCES:
                raise
            source.chmod(found.st_mode & PERMISSION_BITS | 0o400)
            try:
                copy_file(here, there, sync=False)
            finally:
                source.chmod(found.st_mode & PERMISSION_BITS)
                place.chmod(found.st_mode & PERMISSION_BITS)
