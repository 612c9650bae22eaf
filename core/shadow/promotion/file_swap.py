"""The write of one path in a promotion: new content replaces the old in one step, which is verified afterwards.

The new file and the old one exchange their names. Whatever another program wrote until that moment is still there,
under the temporary name, and is compared with the base of the change. A temporary name is removed only if its content
is known: the new, or the old one. Any other bytes are somebody's work: they return to their name or, if that is taken,
get a name next to it (`.kept-<8 hex>`), which is reported to the user.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from core.errors import ContentLost, PathRefused, ReviewConflict
from core.filesystem.atomic_write import NameInDirectory, create_file, exchange_names, move_to_free_name, sync_directory
from core.filesystem.file_attributes import copy_attributes, copy_owner
from core.filesystem.file_dates import FileDates
from core.protocol.review import FileState
from core.shadow.content.blob_store import BlobStore
from core.shadow.promotion.journal import PathWrite
from core.workspace import ABSENT, Workspace
from core.workspace import file_names as names
from core.workspace.path_status import read_state_at

TemporaryContent = Literal["nothing", "new", "old", "other"]


class FileSwaps(Struct, eq=False):
    """The single writes of a transaction. `step` is called between any two effects."""

    workspace: Workspace
    blobs: BlobStore
    step: Callable[[str], None]
    dates: FileDates

    def write_content(self, write: PathWrite, state: FileState) -> None:
        """Write the content of a state under the temporary name. Raises OSError, `ContentLost`."""
        data = self.blobs.get(state.blob)
        with self.workspace.open_parent(write.temporary_path) as (directory, temporary):
            if state.kind == "symlink":
                os.symlink(data, temporary, dir_fd=directory)
                return
            with create_file(directory, temporary, state.mode) as file:
                file.write(data)
            if write.aside is None:
                name = names.to_os_name(write.path.rpartition("/")[2])
                copy_owner(directory, name, temporary)
                copy_attributes(directory, name, temporary, state.mode)
                with suppress(OSError):
                    self.dates.separate(directory, temporary, os.stat(name, dir_fd=directory, follow_symlinks=False))

    def swap(self, write: PathWrite) -> None:
        """Exchange old and new content. Raises `ReviewConflict`, and leaves the disk alone, if its state is not
        `write.before`; also `PathRefused`, OSError."""
        with self.workspace.open_parent(write.path) as target:
            if _read_state(target, write.path) != write.before:
                raise build_outdated_error(write)
        self.step(f"verified {write.path}")
        with (
            self.workspace.open_parent(write.temporary_path) as temporary,
            self.workspace.open_parent(write.path) as target,
        ):
            if write.after.kind == "absent":
                if write.before.kind != "absent":
                    self._remove_target(write, temporary, target)
            elif write.before.kind == "absent":
                _move_to_target(temporary, target, write)
            elif exchange_names(temporary, target):
                if not _has_state(temporary, write.path, write.before):
                    self._undo_exchange(write, temporary, target)
            elif _read_state(target, write.path) != write.before:
                raise build_outdated_error(write)
            else:
                os.rename(temporary[1], target[1], src_dir_fd=temporary[0], dst_dir_fd=target[0])

    def _remove_target(self, write: PathWrite, temporary: NameInDirectory, target: NameInDirectory) -> None:
        try:
            move_to_free_name(target, temporary)
        except FileNotFoundError:
            raise build_outdated_error(write) from None
        if not _has_state(temporary, write.path, write.before):
            with suppress(FileExistsError):  # else `discard` preserves it
                move_to_free_name(temporary, target)
            raise build_outdated_error(write)

    def _undo_exchange(self, write: PathWrite, temporary: NameInDirectory, target: NameInDirectory) -> None:
        exchange_names(temporary, target)
        if not _has_state(temporary, write.path, write.after):
            exchange_names(temporary, target)  # both were written meanwhile: the later file gets the name
        raise build_outdated_error(write)

    def is_untouched(self, write: PathWrite) -> bool:
        """True if the replaced file is unchanged: a program that has it open may still write to it."""
        if write.before.kind == "absent":
            return True
        try:
            with self.workspace.open_parent(write.temporary_path) as temporary:
                state = _read_state(temporary, write.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except (OSError, PathRefused):
            return False
        return state in {ABSENT, write.after} or _is_same_content(state, write.before)

    def restore(self, write: PathWrite) -> None:
        """Restore the previous file, unless others changed it since. Raises OSError, `ReviewConflict`."""
        with (
            self.workspace.open_parent(write.temporary_path) as temporary,
            self.workspace.open_parent(write.path) as target,
        ):
            if write.before.kind == "absent":
                self._remove_written(write, temporary, target)
            elif write.after.kind == "absent":
                _move_to_target(temporary, target, write)
            else:
                self._exchange_back(write, temporary, target)
            sync_directory(target[0])

    def _remove_written(self, write: PathWrite, temporary: NameInDirectory, target: NameInDirectory) -> None:
        if self._classify_temporary(write, temporary) == "new":
            os.unlink(temporary[1], dir_fd=temporary[0])
        with suppress(FileNotFoundError):
            move_to_free_name(target, temporary)
            if not _has_state(temporary, write.path, write.after):
                move_to_free_name(temporary, target)

    def _exchange_back(self, write: PathWrite, temporary: NameInDirectory, target: NameInDirectory) -> None:
        kind = self._classify_temporary(write, temporary)
        if kind == "new":
            os.unlink(temporary[1], dir_fd=temporary[0])
        if kind in {"new", "nothing"}:
            self.write_content(write, write.before)
        if exchange_names(temporary, target):
            if not _has_state(temporary, write.path, write.after):
                exchange_names(temporary, target)
        elif _read_state(target, write.path) == write.after:
            os.rename(temporary[1], target[1], src_dir_fd=temporary[0], dst_dir_fd=target[0])

    def _classify_temporary(self, write: PathWrite, temporary: NameInDirectory) -> TemporaryContent:
        """Classify the content under the temporary name. "new" includes an incomplete file of an interrupted write."""
        try:
            state, data = read_state_at(*temporary, write.temporary_path)
        except FileNotFoundError:
            return "nothing"
        except PathRefused:  # a directory, or larger than the limit for edits
            return "other"
        if _is_same_content(state, write.before):
            return "old"
        is_new = _is_same_content(state, write.after)
        if write.after.kind == state.kind == "file":
            with suppress(ContentLost):
                is_new = is_new or self.blobs.get(write.after.blob).startswith(data or b"")
        return "new" if is_new else "other"

    def discard(self, write: PathWrite) -> str:
        """Remove the temporary name. Somebody's work under it gets another name, which is returned ("" = there was
        none).

        Raises OSError: FileNotFoundError when its directory no longer exists.
        """
        with self.workspace.open_parent(write.temporary_path) as temporary:
            match self._classify_temporary(write, temporary):
                case "nothing":
                    return ""
                case "new" | "old":
                    os.unlink(temporary[1], dir_fd=temporary[0])
                    return ""
                case "other":
                    name = f"{write.path.rpartition('/')[2]}.kept-{secrets.token_hex(4)}"
                    move_to_free_name(temporary, (temporary[0], names.to_os_name(name)))
                    above = write.temporary_path.rpartition("/")[0]
                    return f"{above}/{name}" if above else name


def build_outdated_error(write: PathWrite) -> ReviewConflict:
    return ReviewConflict(
        f"{write.path} has changed since the change was made; nothing was written.",
        hint="Look at the change again, then accept or reject it.",
    )


def _read_state(location: NameInDirectory, path: str) -> FileState:
    try:
        return read_state_at(*location, path)[0]
    except FileNotFoundError:
        return ABSENT


def _has_state(location: NameInDirectory, path: str, state: FileState) -> bool:
    with suppress(PathRefused):
        return _read_state(location, path) == state
    return False


def _is_same_content(one: FileState, other: FileState) -> bool:
    """True if all bytes are equal; modes may differ."""
    return (one.kind, one.blob) == (other.kind, other.blob)


def _move_to_target(temporary: NameInDirectory, target: NameInDirectory, write: PathWrite) -> None:
    try:
        move_to_free_name(temporary, target)
    except FileExistsError:
        raise build_outdated_error(write) from None
