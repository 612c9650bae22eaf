"""Surveys of the project on disk before and after a command that works in it, and the record of what it changed.

A survey takes sizes, times and inodes; ignored files are left out, and git's own state is one entry.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.errors import AgentTuiError
from core.protocol.events import EffectsRecorded, FileWritten
from core.protocol.review import FileState
from core.shadow.shadow import Shadow
from core.workspace import ABSENT, Workspace

MAX_ENTRIES: Final = 50_000
MAX_KEPT_FILE: Final = 4 << 20  # bytes of a file whose former content is kept
MAX_KEPT: Final = 256 << 20  # bytes of all of them
GIT_STATE: Final = ".git"
NO_CHANGE: Final = "no project file changed"
GIT_CHANGED: Final = "git's own state changed"
UNKNOWN: Final = "its changes are unknown: the project has too many files to check"
_GIT_FILES: Final = ("HEAD", "index", "packed-refs", "config", "logs/HEAD", "FETCH_HEAD")
Signature = tuple[int, ...]
IgnoreMatcher = Callable[[str], Callable[[str, bool], bool]]


class DiskChanges(Struct, frozen=True, kw_only=True):
    """Workspace-relative paths. `has_git_changed`: commits, branches, the index or git's configuration."""

    created: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    has_git_changed: bool = False


DiskRecord = tuple[DiskChanges | None, tuple[FileWritten, ...]]  # as `DiskRecorder.end` returns it


class DiskSurvey(Struct, frozen=True):
    """The signatures of a project's files by their paths; `is_whole` False: there were too many files."""

    files: dict[str, Signature]
    is_whole: bool

    def compare(self, after: DiskSurvey) -> DiskChanges | None:
        """Return the changes in a later survey; None if one of them is not whole."""
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
    """Survey the project below `root`; slow for a large one. `match_in(directory)` returns a function that tests which
    names are ignored there.

    Unreadable files count as absent.
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
    """Return one signature of git's state: of its files, and of everything below `refs`."""
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


def build_disk_effects(call: str, command: str, changes: DiskChanges | None, note: str = "") -> EffectsRecorded:
    """Build the record of a command's changes on the disk. `changes` None: they are unknown."""
    disk_changes = changes or DiskChanges()
    notice = note or (UNKNOWN if changes is None else NO_CHANGE if changes == DiskChanges() else "")
    return EffectsRecorded(
        call=call,
        command=command,
        created=disk_changes.created,
        edited=disk_changes.edited,
        deleted=disk_changes.deleted,
        notes=tuple(filter(None, (GIT_CHANGED if disk_changes.has_git_changed else "", notice))),
        on_machine=True,
    )


class DiskRecorder:
    """Records what commands change in the project itself, each change once: with the next command that ends. Former
    contents of files that are not ignored are kept within the bounds above, so that /rewind can restore them. Its
    methods are slow, for a thread."""

    def __init__(self, workspace: Workspace, shadow: Shadow) -> None:
        self._workspace, self._shadow = workspace, shadow
        self._survey = DiskSurvey({}, is_whole=False)
        self._states: dict[str, tuple[Signature, FileState]] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Survey the project before a command: what others changed since the last survey is none of its changes."""
        with self._lock:
            self._keep_contents(self._survey_disk())

    def end(self) -> DiskRecord:
        """Return the changes since the last survey (None: unknown, there are too many files), and the writes that can
        be undone."""
        with self._lock:
            survey, former_states = self._survey_disk(), self._states
            changes = self._survey.compare(survey)
            self._keep_contents(survey)
            return changes, tuple(self._list_writes(changes or DiskChanges(), former_states))

    def _survey_disk(self) -> DiskSurvey:
        return survey_disk(self._workspace.root, self._shadow.ignore.match_in)

    def _keep_contents(self, survey: DiskSurvey) -> None:
        """Store the contents that are new in a survey, which becomes the last one."""
        states, size = dict[str, tuple[Signature, FileState]](), 0
        for path, signature in survey.files.items():
            if path == GIT_STATE or signature[1] > MAX_KEPT_FILE:
                continue
            size += signature[1]
            kept_state = self._states.get(path)
            if kept_state is not None and kept_state[0] == signature:
                states[path] = kept_state
            elif size <= MAX_KEPT and (state := self._store(path)) is not None:
                states[path] = signature, state
        self._survey, self._states = survey, states

    def _list_writes(
        self, changes: DiskChanges, former_states: dict[str, tuple[Signature, FileState]]
    ) -> Iterator[FileWritten]:
        for path in (*changes.created, *changes.edited, *changes.deleted):
            before = ABSENT if path in changes.created else former_states[path][1] if path in former_states else None
            state = ABSENT if path in changes.deleted else self._states[path][1] if path in self._states else None
            if before is not None and state is not None:
                yield FileWritten(path=path, state=state, before=before)

    def _store(self, path: str) -> FileState | None:
        try:
            state, data = self._workspace.read_state(path)
            if data is not None:
                self._shadow.blobs.put(data)
            return state
        except (AgentTuiError, OSError):  # a name or kind that the program does not handle
            return None
