"""The files of layers: linked, copied and fingerprinted, every step relative to descriptors.

A copy keeps content, permissions and modification time; a hard link costs nothing, and the content of a linked file is
never changed in place.
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
from core.filesystem.directory_cursor import DirectoryCursor
from core.filesystem.open_beneath import open_beneath, open_parent
from core.filesystem.removal import remove_path
from core.protocol.review import FileState
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.overlayfs import (
    encode_place,
    get_place,
    is_opaque,
    is_whiteout,
    list_missing_parents,
    make_passable_at,
    set_opaque,
)
from core.shadow.paths import list_parents
from core.workspace import Workspace
from core.workspace.path_status import PERMISSION_BITS

_CHUNK = 1 << 20


def fingerprint_entry(entry: LayeredEntry) -> FileState | None:
    """Return the state of a layer's file or link; None: it is neither."""
    with open_parent(entry.place) as (directory, name):
        return fingerprint_file(directory, name)


def fingerprint_file(directory: int, name: bytes) -> FileState | None:
    """Return the state of a file of any size, or of a link; None: it is neither. Raises OSError."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return FileState(
            kind="symlink", blob=hashlib.sha256(target).hexdigest(), mode=PERMISSION_BITS, size=len(target)
        )
    if not stat.S_ISREG(found.st_mode):
        return None
    digest = hashlib.sha256()
    descriptor = open_beneath(directory, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while data := os.read(descriptor, _CHUNK):
            digest.update(data)
    finally:
        os.close(descriptor)
    return FileState(kind="file", blob=digest.hexdigest(), mode=found.st_mode & PERMISSION_BITS, size=found.st_size)


def copy_file(source: tuple[int, bytes], target: tuple[int, bytes], *, sync: bool) -> None:
    """Copy a file (content, permissions, modification time) or a link to a name that is free. Raises OSError."""
    (from_directory, from_name), (to_directory, to_name) = source, target
    found = os.stat(from_name, dir_fd=from_directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(from_name, dir_fd=from_directory), to_name, dir_fd=to_directory)
        return
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "no regular file", from_name)
    mode = found.st_mode & PERMISSION_BITS
    reading = open_beneath(from_directory, from_name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(reading, "rb") as content, create_file(to_directory, to_name, mode, durable=sync) as file:
        copyfileobj(content, file, _CHUNK)
        file.flush()
        os.utime(file.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def make_room(layer: Path, path: str, mode: Callable[[str], int]) -> Path:
    """Make the directories to a path in a layer, with the modes that they have elsewhere; return the path there."""
    for each in list_missing_parents(layer, path):
        with open_parent(encode_place(layer, each)) as (directory, name):
            os.mkdir(name, 0o700, dir_fd=directory)
            os.chmod(name, mode(each) | 0o700, dir_fd=directory)
    return get_place(layer, path)


def copy_into_layer(workspace: Workspace, rel: str, layer: Path) -> None:
    """Copy a file or link of the workspace into a layer that hides its place. Raises OSError."""
    for each in list_parents(rel):
        place = get_place(layer, each)
        is_hidden = os.path.lexists(place) and is_whiteout(place.lstat())
        if is_hidden:
            place.unlink()
        if not os.path.lexists(place):
            with workspace.open_parent(each) as (directory, name):
                mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode & PERMISSION_BITS
            place.mkdir()
            place.chmod(mode)
            set_opaque(place, is_hidden)
    with open_parent(encode_place(layer, rel)) as into, workspace.open_parent(rel) as source:
        copy_file(source, into, sync=False)


def link_entry(source: Path, target: Path) -> None:
    """Link a file, link or whiteout at another place; copy it where the file system has no (more) links."""
    with open_parent(os.fsencode(source)) as (here, name), open_parent(os.fsencode(target)) as (there, other):
        _link_at((here, name), (there, other))


def _link_at(source: tuple[int, bytes], target: tuple[int, bytes]) -> None:
    (here, name), (there, other) = source, target
    try:
        os.link(name, other, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if is_whiteout(found):
            os.mknod(other, stat.S_IFCHR, os.makedev(0, 0), dir_fd=there)
        elif stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
            copy_file(source, target, sync=False)
        else:
            raise


def link_tree(source: Path, target: Path) -> None:
    """Copy a layer: directories of its own, hard links to the same files. Raises OSError, and leaves nothing then."""
    try:
        _copy_tree(source, target)
    except OSError:
        with suppress(OSError):
            remove_path(target)
        raise


def _copy_tree(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    waiting, done = [b""], []
    with DirectoryCursor(source.parent) as sources, DirectoryCursor(target.parent) as targets:
        one, other = os.fsencode(source.name), os.fsencode(target.name)
        while waiting:
            path = waiting.pop()
            above, _, name = (one + path).rpartition(b"/")
            found = os.stat(name, dir_fd=sources.open_at(above), follow_symlinks=False)
            make_passable_at(sources.open_at(above), name)
            here, there = sources.open_at(one + path), targets.open_at(other + path)
            with os.scandir(here) as entries:
                below = [(os.fsencode(each.name), each.is_dir(follow_symlinks=False)) for each in entries]
            for each, is_directory in below:
                if is_directory:
                    os.mkdir(each, 0o700, dir_fd=there)
                    waiting.append(path + b"/" + each)
                else:
                    _link_at((here, each), (there, each))
            if is_opaque(here):
                set_opaque(there, True)
            done.append((path, found))
        for path, found in reversed(done):
            _restore_metadata(sources, one + path, found)
            _restore_metadata(targets, other + path, found, as_old=True)


def _restore_metadata(tree: DirectoryCursor, path: bytes, found: os.stat_result, *, as_old: bool = False) -> None:
    """Set a directory's mode, and with `as_old` its times, to those of the original."""
    above, _, name = path.rpartition(b"/")
    mode = stat.S_IMODE(found.st_mode)
    if as_old or mode & 0o700 != 0o700:
        os.chmod(name, mode, dir_fd=tree.open_at(above))
    if as_old:
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=tree.open_at(above))
