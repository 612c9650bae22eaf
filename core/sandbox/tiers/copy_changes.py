"""The changes of a command in a copy, written as a layer, as overlayfs would have done over the project itself.

A deletion is a whiteout (a character device 0:0, which Linux lets anyone make since 5.8); a new or changed file is the
file itself, moved out of the copy. Nothing here follows a symbolic link, and a tree that the command made is moved as
a whole.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from core.errors import ToolFailed
from core.sandbox.tiers.project_copy import FileSignature, ProjectCopy, take_signature


def move_changes(copy: ProjectCopy, upper: Path, *, is_mounted: bool) -> None:
    """Move what changed since `copy` was made into the empty directory `upper`, on the same file system.

    `mounted`: the held paths were mounted over, so the entries of the copy say nothing. Raises `ToolFailed` if the
    layer can't be written; the copy is used up in any case.
    """
    try:
        _Comparison(copy, upper, frozenset([*copy.withheld, *(copy.held if is_mounted else ())])).write_layer()
    except OSError as error:
        location = os.fsdecode(error.filename) if error.filename else str(upper)
        raise ToolFailed(
            f"What the command changed could not be kept: {error.strerror} ({location}).",
            hint="Your files are as they were. Free some room or check the state directory, and run it again.",
        ) from error


class _Comparison:
    def __init__(self, copy: ProjectCopy, upper: Path, skipped_paths: frozenset[bytes]) -> None:
        self._files = copy.files
        self._from = os.fsencode(copy.root)
        self._to = os.fsencode(upper)
        self._skipped = skipped_paths
        self._children: dict[bytes, list[bytes]] = defaultdict(list)
        for path in copy.files:
            if path:
                above, _, name = path.rpartition(b"/")
                self._children[above].append(name)

    def write_layer(self) -> None:
        now = os.lstat(self._from)
        if now.st_mode != self._files[b""].mode:
            os.chmod(self._to, stat.S_IMODE(now.st_mode))
        waiting = [(b"", now)]
        while waiting:
            waiting += self._compare_directory(*waiting.pop())

    def _compare_directory(self, path: bytes, info: os.stat_result) -> Iterator[tuple[bytes, os.stat_result]]:
        """Compare a directory that is in both. Yields its subdirectories of which the same is true."""
        directory = os.path.join(self._from, path)
        if info.st_mode & 0o700 != 0o700:
            os.chmod(directory, stat.S_IMODE(info.st_mode) | 0o700)
        with os.scandir(directory) as entries:
            present = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        for name in self._children[path]:
            child = path + b"/" + name if path else name
            stats = present.pop(name, None)
            if child not in self._skipped and (child_stats := self._compare_entry(child, self._files[child], stats)):
                yield child, child_stats
        for name, new in present.items():
            self._move_entry(path + b"/" + name if path else name, new)

    def _compare_entry(self, path: bytes, before: FileSignature, now: os.stat_result | None) -> os.stat_result | None:
        """Write what became of an entry; return the status of a directory that still is one, to be compared."""
        if now is None or _is_whiteout(now):
            self._write_whiteout(path)
        elif stat.S_ISDIR(before.mode) and stat.S_ISDIR(now.st_mode):
            if now.st_mode != before.mode:
                self._make_directories(path)
            return now
        elif take_signature(now) != before:
            self._move_entry(path, now)
        return None

    def _write_whiteout(self, path: bytes) -> None:
        self._make_directories(os.path.dirname(path))
        os.mknod(os.path.join(self._to, path), stat.S_IFCHR, os.makedev(0, 0))

    def _move_entry(self, path: bytes, info: os.stat_result) -> None:
        if _is_whiteout(info):
            return  # the command made one where nothing was: it hides nothing
        self._make_directories(os.path.dirname(path))
        source, target = os.path.join(self._from, path), os.path.join(self._to, path)
        shut = stat.S_ISDIR(info.st_mode) and info.st_mode & 0o700 != 0o700
        if shut:
            os.chmod(source, stat.S_IMODE(info.st_mode) | 0o700)  # its `..` changes, which takes permission
        os.rename(source, target)
        if shut:
            os.chmod(target, stat.S_IMODE(info.st_mode))

    def _make_directories(self, path: bytes) -> None:
        """Make sure that the layer has this directory, with the permissions that it has in the copy now."""
        missing = []
        while path and not os.path.isdir(os.path.join(self._to, path)):
            missing.append(path)
            path = os.path.dirname(path)
        for parent in reversed(missing):
            target = os.path.join(self._to, parent)
            os.mkdir(target, 0o700)
            os.chmod(target, stat.S_IMODE(os.lstat(os.path.join(self._from, parent)).st_mode) | 0o700)


def _is_whiteout(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0
