"""Signatures of the user's own files, taken before and after a command that runs outside of the box.

Two surveys say which files of the project a command changed, as far as their size, times and inode tell. Ignored files
are left out; git's own state is one entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

MAX_ENTRIES: Final = 50_000
GIT_STATE: Final = ".git"
_GIT_FILES: Final = ("HEAD", "index", "packed-refs", "config", "logs/HEAD", "FETCH_HEAD")

Signature = tuple[int, ...]
IgnoreMatcher = Callable[[str], Callable[[str, bool], bool]]


class DiskChanges(Struct, frozen=True, kw_only=True):
    """Workspace-relative paths. `has_git_changed`: commits, branches, the index or git's configuration."""

    created: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    has_git_changed: bool = False


class DiskSurvey(Struct, frozen=True):
    """The signatures of a project's files by their paths; `is_whole` False: there were too many of them."""

    files: dict[str, Signature]
    is_whole: bool

    def compare(self, after: DiskSurvey) -> DiskChanges | None:
        """Return what differs in the survey that was taken later; None if one of them is not whole."""
        if not (self.is_whole and after.is_whole):
            return None
        before, now = self.files, after.files
        edited_paths = [path for path, signature in now.items() if path in before and before[path] != signature]
        return DiskChanges(
            created=tuple(sorted(now.keys() - before.keys() - {GIT_STATE})),
            edited=tuple(sorted(set(edited_paths) - {GIT_STATE})),
            deleted=tuple(sorted(before.keys() - now.keys() - {GIT_STATE})),
            has_git_changed=before.get(GIT_STATE) != now.get(GIT_STATE),
        )


def survey_disk(root: Path, match_in: IgnoreMatcher) -> DiskSurvey:
    """Survey the project below `root`; slow for a large one. `match_in(directory)` says which names are ignored there.

    What can't be read counts as absent.
    """
    signatures: dict[str, Signature] = {}
    waiting, entry_count = ["."], 0
    while waiting:
        directory = waiting.pop()
        is_ignored = match_in(directory)
        for entry in _list_entries(root / directory):
            entry_count += 1
            if entry_count > MAX_ENTRIES:
                return DiskSurvey(signatures, is_whole=False)
            path = entry.name if directory == "." else f"{directory}/{entry.name}"
            is_directory = entry.is_dir(follow_symlinks=False)
            if is_ignored(entry.name, is_directory):
                continue
            if is_directory:
                waiting.append(path)
            elif (signature := _read_signature(root / path)) is not None:
                signatures[path] = signature
    signatures[GIT_STATE] = _survey_git(root / ".git")
    return DiskSurvey(signatures, is_whole=True)


def _list_entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _read_signature(path: Path) -> Signature | None:
    try:
        stats = path.lstat()
    except OSError:
        return None
    return (stats.st_mode, stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns, stats.st_ino)


def _survey_git(directory: Path) -> Signature:
    """Return one signature of git's state: that of its files, and of everything below `refs`."""
    total: list[int] = []
    for name in _GIT_FILES:
        total += _read_signature(directory / name) or (0,)
    waiting = [directory / "refs"]
    while waiting and len(total) < MAX_ENTRIES:
        for entry in sorted(_list_entries(waiting.pop()), key=lambda child: child.name):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                total += _read_signature(Path(entry.path)) or (0,)
    return tuple(total)
