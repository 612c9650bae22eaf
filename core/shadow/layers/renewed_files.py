"""Files that are the project's again get the time of now in what commands see, as after `git checkout`.

A build tool compares times: while a file still had the time that it has on disk, what was built from the text that was
rejected would count as up to date. Nothing is written to the user's file: a copy of it with a new time lies in the
pending layer, until the user's own file changes. It is no change in the review, for only commands see it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.errors import PathRefused
from core.filesystem.open_beneath import open_parent
from core.shadow.content.paths import AnyAncestor, list_parents
from core.shadow.layers.layer_files import copy_file
from core.shadow.layers.merged_tree import MergedTree
from core.workspace import MAX_EDITED_BYTES


class RenewedFile(Struct, frozen=True, kw_only=True):
    """The file of the project that a copy with a new time stands for: its identity on disk (times in ns since 1970),
    and when the copy was `made`. `absent`: the path is gone again, and its directories get the new time.
    `is_target`: it is there for a renewed link that leads to it."""

    kind: Literal["absent", "file", "symlink"]
    inode: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0
    made: int = 0
    is_target: bool = False

    def is_same(self, other: RenewedFile) -> bool:
        return replace(self, made=0, is_target=False) == replace(other, made=0, is_target=False)


class RenewedFiles(Struct, eq=False):
    """Plan which files of the project need a copy with a new time, and make it."""

    tree: MergedTree

    def plan(
        self,
        known_files: Mapping[str, RenewedFile],
        returned_paths: Collection[str],
        pending_paths: Collection[str],
        last_ns: int,
    ) -> dict[str, RenewedFile]:
        """Return the files to renew, by path. `known_files`: those that are renewed; `returned_paths`: paths that
        commands saw with other content until now; `pending_paths`: what is pending; `last_ns`: until when commands may
        have seen that."""
        is_covered = AnyAncestor(lambda path: path in pending_paths)
        planned_files: dict[str, RenewedFile] = {}
        for path in {*returned_paths, *(path for path, file in known_files.items() if not file.is_target)}:
            if path in pending_paths or is_covered(path) or self.tree.stack.find(path) is not None:
                continue
            file, before = self._identify(path), known_files.get(path)
            if file is None:
                continue
            if before is not None and path not in returned_paths and before.is_same(file):
                planned_files[path] = before
            elif file.modified <= (before.made if before else last_ns):
                planned_files[path] = replace(file, made=time.time_ns())
        links = [(path, file.made) for path, file in planned_files.items() if file.kind == "symlink"]
        for target, timestamp in self._find_targets(links):
            file, before = self._identify(target), known_files.get(target)
            is_own = (
                target not in planned_files and target not in pending_paths and self.tree.stack.find(target) is None
            )
            if is_own and file is not None and file.kind == "file" and file.modified <= timestamp:
                is_known = before is not None and before.is_target and before.is_same(file)
                planned_files[target] = (
                    before if before and is_known else replace(file, made=time.time_ns(), is_target=True)
                )
        return planned_files

    def _find_targets(self, links: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """Yield the files that links lead to, each with the time of its link: build tools look through a link."""
        for path, timestamp in links:
            with suppress(PathRefused):
                yield self.tree.resolve_links(path), timestamp

    def _identify(self, path: str) -> RenewedFile | None:
        """Return what the project has at a path; None: a directory, or what can't be copied."""
        try:
            with self.tree.workspace.open_parent(path) as (directory, name):
                stats = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except PathRefused:
            return None
        except OSError:
            return RenewedFile(kind="absent", modified=self._find_directory_time(path))
        if stats.st_size > MAX_EDITED_BYTES or not (stat.S_ISREG(stats.st_mode) or stat.S_ISLNK(stats.st_mode)):
            return None
        return RenewedFile(
            kind="symlink" if stat.S_ISLNK(stats.st_mode) else "file",
            inode=stats.st_ino,
            size=stats.st_size,
            modified=stats.st_mtime_ns,
            changed=stats.st_ctime_ns,
        )

    def _find_directory_time(self, path: str) -> int:
        """Return when the nearest directory that a path was in changed (ns since 1970)."""
        for directory in (*reversed(list_parents(path)), "."):
            with suppress(OSError, PathRefused), self.tree.workspace.open_parent(directory) as (above, name):
                return os.stat(name or b".", dir_fd=above, follow_symlinks=False).st_mtime_ns
        return 0

    def copy(self, path: str, file: RenewedFile, target: Path) -> bool:
        """Copy a file of the project, with the time of now. Return False if it is no longer that file."""
        with suppress(OSError, PathRefused):
            with self.tree.workspace.open_parent(path) as source, open_parent(os.fsencode(target)) as into:
                copy_file(source, into, sync=False)
            os.utime(target, follow_symlinks=False)
            return (now := self._identify(path)) is not None and now.is_same(file)
        return False

    def find_directories(self, renewed_files: Mapping[str, RenewedFile]) -> set[str]:
        """Return the directories that paths have left, as far as they are there."""
        above = {
            parent for path, file in renewed_files.items() if file.kind == "absent" for parent in list_parents(path)
        }
        return {
            parent for parent in above if (node := self.tree.find_node(parent)) is not None and node.kind == "directory"
        }
