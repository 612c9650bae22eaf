"""The format of overlayfs layers (whiteouts, opaque directories): scanning and editing layers without a mount."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.filesystem.open_beneath import DIRECTORY, DirectoryCursor, open_parent
from core.filesystem.overlay_support import is_opaque, is_whiteout, set_opaque
from core.filesystem.removal import remove_at
from core.workspace.file_names import from_os_name, to_os_name
from core.workspace.path_status import classify_mode

LayerEntryKind = Literal["file", "symlink", "directory", "whiteout", "special"]
_MAX_PATH_BYTES = 3800  # bytes: the kernel allows 4096, and paths in layers are longer than those in a workspace
_MAX_FULL_PATH_BYTES = 4000  # bytes including the layer's directory; those of other layers are slightly longer


def encode_layer_path(layer: Path, path: str) -> bytes:
    """Return the absolute path in a layer of a workspace-relative path, as bytes."""
    return os.fsencode(layer) + b"/" + to_os_name(path)


def get_layer_path(layer: Path, path: str) -> Path:
    """Return the absolute path in a layer of a workspace-relative path; for deep paths `encode_layer_path` is
    cheaper."""
    return Path(os.fsdecode(encode_layer_path(layer, path)))


def list_missing_parents(layer: Path, path: str) -> list[str]:
    """Return the parent directories of a path that the layer does not have, outermost first."""
    top, missing = os.fsencode(layer) + b"/", []
    directory = path.rpartition("/")[0]
    while directory and not _is_directory(top + to_os_name(directory)):
        missing.append(directory)
        directory = directory.rpartition("/")[0]
    return missing[::-1]


def _is_directory(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def merge_down(upper: Path, lower: Path) -> None:
    """Move all of the layer `upper` into the layer below it, by renames; `upper` is empty afterwards.

    After every step both layers together show the same, so an interruption needs no repair: entries that the lower
    layer loses were hidden already, and entries that it gains hide the same as before.
    """
    with os.scandir(upper) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        merge_entry(upper / name, lower / name)


def merge_entry(source: Path, target: Path) -> None:
    """Merge one entry, which has the same name in both; see `merge_down`."""
    waiting = [os.fsencode(source.name)]
    merged_directories: list[tuple[bytes, int]] = []
    with DirectoryCursor(source.parent) as sources, DirectoryCursor(target.parent) as targets:
        while waiting:
            path = waiting.pop()
            above, _, name = path.rpartition(b"/")
            if _move_whole(sources.open_at(above), targets.open_at(above), name):
                continue
            merged_directories.append((path, _open_up(sources, targets, path)))
            with os.scandir(sources.open_at(path)) as entries:
                waiting += [path + b"/" + os.fsencode(entry.name) for entry in entries]
        for path, mode in reversed(merged_directories):
            above, _, name = path.rpartition(b"/")
            os.chmod(name, mode, dir_fd=targets.open_at(above))
            os.rmdir(name, dir_fd=sources.open_at(above))


def _move_whole(source: int, target: int, name: bytes) -> bool:
    """Move an entry as a whole, if possible; False if both layers have a directory with that name."""
    try:
        below = os.stat(name, dir_fd=target, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
        return True
    if not stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        if stat.S_ISDIR(below.st_mode):
            remove_at(target, name)
    elif stat.S_ISDIR(below.st_mode):
        return False
    else:
        _make_opaque(source, name)  # the entry that hid the layers below is removed
        os.unlink(name, dir_fd=target)
    os.rename(name, name, src_dir_fd=source, dst_dir_fd=target)
    return True


def _make_opaque(above: int, name: bytes) -> None:
    directory = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        set_opaque(directory, True)
    finally:
        os.close(directory)


def _open_up(sources: DirectoryCursor, targets: DirectoryCursor, path: bytes) -> int:
    """Prepare a directory of both layers for merging. Return its final mode."""
    above, _, name = path.rpartition(b"/")
    mode = make_passable_at(sources.open_at(above), name)
    make_passable_at(targets.open_at(above), name)
    if is_opaque(sources.open_at(path)):
        with os.scandir(targets.open_at(path)) as entries:
            below = [os.fsencode(entry.name) for entry in entries]
        for child in below:
            remove_at(targets.open_at(path), child)
        set_opaque(targets.open_at(path), True)
    return mode


def make_passable_at(above: int, name: bytes) -> int:
    """Let the owner list and change a directory; return its previous mode."""
    mode = stat.S_IMODE(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    if mode & 0o700 != 0o700:
        os.chmod(name, mode | 0o700, dir_fd=above)
    return mode


def make_passable(directory: Path) -> int:
    """Let the owner list and change a directory; return its previous mode."""
    with open_parent(os.fsencode(directory)) as (above, name):
        return make_passable_at(above, name)


class LayerEntry(Struct, frozen=True, gc=False):
    """One entry of a layer. `mode` without the type; `size` in bytes; `blocks`: bytes on disk, divided by the number of
    hard links; `opaque`: a directory that replaces one."""

    path: str
    kind: LayerEntryKind
    mode: int
    size: int
    blocks: int = 0
    opaque: bool = False


class LayerScan(Struct, frozen=True):
    """All entries of a layer, parents first; `too_deep` are the paths longer than the system allows, below which
    nothing was read."""

    entries: list[LayerEntry]
    too_deep: list[str]


def scan_layer(layer: Path) -> LayerScan:
    """Read the entries of a layer. Directories that their owner may not read are made readable. Raises OSError."""
    scan = LayerScan([], [])
    longest = min(_MAX_PATH_BYTES, _MAX_FULL_PATH_BYTES - len(os.fsencode(layer)))
    waiting = [(b"", -1)]
    with DirectoryCursor(layer) as descent:
        while waiting:
            above, number = waiting.pop()
            try:
                directory = descent.open_at(above)
            except PermissionError:
                make_passable(layer / os.fsdecode(above))
                directory = descent.open_at(above)
            if number >= 0 and is_opaque(directory):
                scan.entries[number] = replace(scan.entries[number], opaque=True)
            with os.scandir(directory) as entries:
                below = [
                    _add_entry(entry, above, longest, scan)
                    for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name))
                ]
            waiting += [child for child in reversed(below) if child is not None]
    return scan


def _add_entry(entry: os.DirEntry[str], above: bytes, longest: int, into: LayerScan) -> tuple[bytes, int] | None:
    """Add an entry; return the path and the index of a directory."""
    name = os.fsencode(entry.name)
    path = above + b"/" + name if above else name
    if len(path) > longest:
        into.too_deep.append(from_os_name(path))
        return None
    stats = entry.stat(follow_symlinks=False)
    kind: LayerEntryKind | Literal["other"] = classify_mode(stats.st_mode)
    if kind == "other":
        kind = "whiteout" if is_whiteout(stats) else "special"
    blocks = stats.st_blocks * 512 // (1 if kind == "directory" else stats.st_nlink)
    into.entries.append(LayerEntry(from_os_name(path), kind, stat.S_IMODE(stats.st_mode), stats.st_size, blocks))
    return (path, len(into.entries) - 1) if kind == "directory" else None
