"""Operations on the files of layers: linking, copying and fingerprinting, always relative to descriptors.

A copy has the original's content, permissions and modification time. A hard link takes no space, and the content of a
linked file is never changed in place.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj

from core.filesystem.atomic_write import create_file
from core.filesystem.open_beneath import DirectoryCursor, open_beneath, open_parent
from core.filesystem.overlay_support import is_opaque, is_whiteout, make_whiteout, set_opaque
from core.filesystem.removal import remove_path
from core.protocol.paths import list_parents
from core.protocol.review import FileState
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.overlayfs import encode_layer_path, get_layer_path, list_missing_parents, make_passable_at
from core.workspace import Workspace
from core.workspace.path_status import PERMISSION_BITS

_CHUNK = 1 << 20


def fingerprint_entry(entry: LayeredEntry) -> FileState | None:
    """Return the state of a layer's file or link; None if it is neither."""
    with open_parent(entry.location) as (directory, name):
        return fingerprint_file(directory, name)


def fingerprint_file(directory: int, name: bytes) -> FileState | None:
    """Return the state of a file of any size, or of a link; None if it is neither. Raises OSError."""
    stats = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(stats.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return FileState(
            kind="symlink", blob=hashlib.sha256(target).hexdigest(), mode=PERMISSION_BITS, size=len(target)
        )
    if not stat.S_ISREG(stats.st_mode):
        return None
    digest = hashlib.sha256()
    descriptor = open_beneath(directory, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while data := os.read(descriptor, _CHUNK):
            digest.update(data)
    finally:
        os.close(descriptor)
    return FileState(kind="file", blob=digest.hexdigest(), mode=stats.st_mode & PERMISSION_BITS, size=stats.st_size)


def copy_file(source: tuple[int, bytes], target: tuple[int, bytes], *, sync: bool) -> None:
    """Copy a file (content, permissions, modification time) or a link to a free name. Raises OSError."""
    (from_directory, from_name), (to_directory, to_name) = source, target
    stats = os.stat(from_name, dir_fd=from_directory, follow_symlinks=False)
    if stat.S_ISLNK(stats.st_mode):
        os.symlink(os.readlink(from_name, dir_fd=from_directory), to_name, dir_fd=to_directory)
        return
    if not stat.S_ISREG(stats.st_mode):
        raise OSError(errno.EINVAL, "no regular file", from_name)
    mode = stats.st_mode & PERMISSION_BITS
    reading = open_beneath(from_directory, from_name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(reading, "rb") as content, create_file(to_directory, to_name, mode, durable=sync) as file:
        copyfileobj(content, file, _CHUNK)
        file.flush()
        os.utime(file.fileno(), ns=(stats.st_atime_ns, stats.st_mtime_ns))


def make_parent_directories(layer: Path, path: str, mode: Callable[[str], int]) -> Path:
    """Create the directories above a path in a layer, with the modes that `mode` returns; return the path in the
    layer."""
    for parent in list_missing_parents(layer, path):
        with open_parent(encode_layer_path(layer, parent)) as (directory, name):
            os.mkdir(name, 0o700, dir_fd=directory)
            os.chmod(name, mode(parent) | 0o700, dir_fd=directory)
    return get_layer_path(layer, path)


def copy_into_layer(workspace: Workspace, rel: str, layer: Path) -> None:
    """Copy a file or link of the workspace into a layer that hides it. Raises OSError."""
    for parent in list_parents(rel):
        path = get_layer_path(layer, parent)
        is_hidden = os.path.lexists(path) and is_whiteout(path.lstat())
        if is_hidden:
            path.unlink()
        if not os.path.lexists(path):
            with workspace.open_parent(parent) as (directory, name):
                mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode & PERMISSION_BITS
            path.mkdir()
            path.chmod(mode)
            set_opaque(path, is_hidden)
    with open_parent(encode_layer_path(layer, rel)) as into, workspace.open_parent(rel) as source:
        copy_file(source, into, sync=False)


def link_entry(source: Path, target: Path) -> None:
    """Hard-link a file, link or whiteout; copy it where the file system supports no (more) links."""
    with (
        open_parent(os.fsencode(source)) as (source_parent, name),
        open_parent(os.fsencode(target)) as (target_parent, other),
    ):
        _link_at((source_parent, name), (target_parent, other))


def _link_at(source: tuple[int, bytes], target: tuple[int, bytes]) -> None:
    (source_parent, name), (target_parent, other) = source, target
    try:
        os.link(name, other, src_dir_fd=source_parent, dst_dir_fd=target_parent, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        stats = os.stat(name, dir_fd=source_parent, follow_symlinks=False)
        if is_whiteout(stats):
            make_whiteout(other, dir_fd=target_parent)
        elif stat.S_ISREG(stats.st_mode) or stat.S_ISLNK(stats.st_mode):
            copy_file(source, target, sync=False)
        else:
            raise


def link_tree(source: Path, target: Path) -> None:
    """Copy a layer: new directories with hard links to the same files. Raises OSError, and leaves nothing then."""
    try:
        _copy_tree(source, target)
    except OSError:
        with suppress(OSError):
            remove_path(target)
        raise


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    waiting, copied_directories = [b""], []
    with DirectoryCursor(source.parent) as sources, DirectoryCursor(target.parent) as targets:
        one, other = os.fsencode(source.name), os.fsencode(target.name)
        while waiting:
            path = waiting.pop()
            above, _, name = (one + path).rpartition(b"/")
            stats = os.stat(name, dir_fd=sources.open_at(above), follow_symlinks=False)
            make_passable_at(sources.open_at(above), name)
            source_directory, target_directory = sources.open_at(one + path), targets.open_at(other + path)
            with os.scandir(source_directory) as entries:
                below = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]
            for child, is_directory in below:
                if is_directory:
                    os.mkdir(child, 0o700, dir_fd=target_directory)
                    waiting.append(path + b"/" + child)
                else:
                    _link_at((source_directory, child), (target_directory, child))
            if is_opaque(source_directory):
                set_opaque(target_directory, True)
            copied_directories.append((path, stats))
        for path, stats in reversed(copied_directories):
            _restore_metadata(sources, one + path, stats)
            _restore_metadata(targets, other + path, stats, as_old=True)


def _restore_metadata(tree: DirectoryCursor, path: bytes, stats: os.stat_result, *, as_old: bool = False) -> None:
    """Set a directory's mode, and with `as_old` its times, to those of the original."""
    above, _, name = path.rpartition(b"/")
    mode = stat.S_IMODE(stats.st_mode)
    if as_old or mode & 0o700 != 0o700:
        os.chmod(name, mode, dir_fd=tree.open_at(above))
    if as_old:
        os.utime(name, ns=(stats.st_atime_ns, stats.st_mtime_ns), dir_fd=tree.open_at(above))
