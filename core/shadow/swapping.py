"""One path of a promotion: its new content takes the place of the old one, and what was there is looked at afterwards.

The new file and the old one exchange their names in one step: whatever a user's program wrote until that moment is
still there, under the temporary name, and is compared with what the change was made from. A temporary name is removed
only when what it stands for is known: the new content, or the old one. Any other bytes are somebody's work: they go
back to where they were, and if that place is taken, to a name beside it (`.kept-<8 hex>`) that the user is told of.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from core.errors import ContentLost, PathRefused, ReviewConflict
from core.protocol.review import FileState
from core.shadow.blobs import BlobStore
from core.shadow.journal import Write
from core.workspace import ABSENT, Workspace, names
from core.workspace.renaming import Place, exchange, move_to_free_name
from core.workspace.tree import state_at, sync_directory, write_new

Held = Literal["nothing", "new", "old", "other"]


class Swaps:
    """Carries out single writes of a transaction. `step` is called between any two effects."""

    def __init__(self, workspace: Workspace, blobs: BlobStore, step: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._blobs = blobs
        self._step = step

    def prepare(self, write: Write) -> None:
        """Put the new content beside its target. Raises OSError."""
        self._lay_out(write, write.after)

    def _lay_out(self, write: Write, state: FileState) -> None:
        data = self._blobs.get(state.blob)
        with self._workspace.directory(write.temporary_path) as (directory, temporary):
            if state.kind == "symlink":
                os.symlink(data, temporary, dir_fd=directory)
                return
            write_new(directory, temporary, data, state.mode)
            if write.aside is None:
                _keep_owner(directory, names.to_os(write.path.rpartition("/")[2]), temporary)

    @contextmanager
    def _places(self, write: Write) -> Iterator[tuple[Place, Place]]:
        """The temporary name and the target. Raises OSError."""
        with (
            self._workspace.directory(write.temporary_path) as temporary,
            self._workspace.directory(write.path) as target,
        ):
            yield temporary, target

    def swap(self, write: Write) -> None:
        """The one step that shows. `ReviewConflict`: the disk holds something else than `write.before`, and still does;
        `PathRefused`, OSError."""
        with self._workspace.directory(write.path) as target:
            if _state_in(target, write.path) != write.before:
                raise moved_on(write)
        self._step(f"verified {write.path}")
        with self._places(write) as (temporary, target):
            if write.after.kind == "absent":
                if write.before.kind != "absent":
                    self._take_out(write, temporary, target)
            elif write.before.kind == "absent":
                _move_in(temporary, target, write)
            elif exchange(temporary, target):
                self._back_if_other(write, temporary, target)
            elif _state_in(target, write.path) != write.before:
                raise moved_on(write)
            else:
                os.rename(temporary[1], target[1], src_dir_fd=temporary[0], dst_dir_fd=target[0])

    def _take_out(self, write: Write, temporary: Place, target: Place) -> None:
        try:
            move_to_free_name(target, temporary)
        except FileNotFoundError:
            raise moved_on(write) from None
        if not _holds(temporary, write.path, write.before):
            with suppress(FileExistsError):  # else `discard` keeps it
                move_to_free_name(temporary, target)
            raise moved_on(write)

    def _back_if_other(self, write: Write, temporary: Place, target: Place) -> None:
        if _holds(temporary, write.path, write.before):
            return
        exchange(temporary, target)
        if not _holds(temporary, write.path, write.after):
            exchange(temporary, target)  # written to twice meanwhile: the later of the two keeps the name
        raise moved_on(write)

    def is_as_it_was(self, write: Write) -> bool:
        """Whether what the write replaced holds what it did: a program that had it open may write to it even then."""
        if write.before.kind == "absent":
            return True
        try:
            with self._workspace.directory(write.temporary_path) as temporary:
                state = _state_in(temporary, write.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except (OSError, PathRefused):
            return False
        return state in {ABSENT, write.after} or _same(state, write.before)

    def restore(self, write: Write) -> None:
        """Take a write back that the disk shows. What others make of the file meanwhile is left. Raises OSError,
        `ReviewConflict`."""
        with self._places(write) as (temporary, target):
            if write.before.kind == "absent":
                self._take_out_again(write, temporary, target)
            elif write.after.kind == "absent":
                _move_in(temporary, target, write)
            else:
                self._exchange_back(write, temporary, target)
            sync_directory(target[0])

    def _take_out_again(self, write: Write, temporary: Place, target: Place) -> None:
        if self._held(write, temporary) == "new":
            os.unlink(temporary[1], dir_fd=temporary[0])
        with suppress(FileNotFoundError):
            move_to_free_name(target, temporary)
            if not _holds(temporary, write.path, write.after):
                move_to_free_name(temporary, target)

    def _exchange_back(self, write: Write, temporary: Place, target: Place) -> None:
        held = self._held(write, temporary)
        if held == "new":
            os.unlink(temporary[1], dir_fd=temporary[0])
        if held in {"new", "nothing"}:
            self._lay_out(write, write.before)
        if exchange(temporary, target):
            if not _holds(temporary, write.path, write.after):
                exchange(temporary, target)
        elif _state_in(target, write.path) == write.after:
            os.rename(temporary[1], target[1], src_dir_fd=temporary[0], dst_dir_fd=target[0])

    def _held(self, write: Write, temporary: Place) -> Held:
        """What the temporary name stands for. "new": also a part of the new content, from a write that was cut off."""
        try:
            state, data = state_at(*temporary, write.temporary_path)
        except FileNotFoundError:
            return "nothing"
        except PathRefused:  # a directory, or larger than what can be edited
            return "other"
        if _same(state, write.before):
            return "old"
        try:
            is_part = write.after.kind == state.kind == "file" and self._blobs.get(write.after.blob).startswith(
                data or b""
            )
        except ContentLost:
            is_part = False
        return "new" if is_part or _same(state, write.after) else "other"

    def discard(self, write: Write) -> str:
        """Remove the temporary name; if it stands for somebody's work, that gets a name of its own, which is returned.
        Raises OSError: FileNotFoundError when its directory is gone."""
        with self._workspace.directory(write.temporary_path) as temporary:
            match self._held(write, temporary):
                case "nothing":
                    return ""
                case "new" | "old":
                    os.unlink(temporary[1], dir_fd=temporary[0])
                    return ""
                case "other":
                    name = f"{write.path.rpartition('/')[2]}.kept-{secrets.token_hex(4)}"
                    move_to_free_name(temporary, (temporary[0], names.to_os(name)))
                    above = write.temporary_path.rpartition("/")[0]
                    return f"{above}/{name}" if above else name


def moved_on(write: Write) -> ReviewConflict:
    return ReviewConflict(
        f"{write.path} is no longer what the change was made from; nothing was written.",
        hint="Look at the change again, then accept or reject it.",
    )


def _state_in(place: Place, path: str) -> FileState:
    try:
        return state_at(*place, path)[0]
    except FileNotFoundError:
        return ABSENT


def _holds(place: Place, path: str, state: FileState) -> bool:
    try:
        return _state_in(place, path) == state
    except PathRefused:
        return False


def _same(one: FileState, other: FileState) -> bool:
    """Whether no byte differs; modes may."""
    return (one.kind, one.blob) == (other.kind, other.blob)


def _move_in(temporary: Place, target: Place, write: Write) -> None:
    try:
        move_to_free_name(temporary, target)
    except FileExistsError:
        raise moved_on(write) from None


def _keep_owner(directory: int, name: bytes, temporary: bytes) -> None:
    """Give the new file the owner of the one that it replaces, as far as this user may."""
    with suppress(OSError):
        old = os.stat(name, dir_fd=directory, follow_symlinks=False)
        new = os.stat(temporary, dir_fd=directory, follow_symlinks=False)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.chown(temporary, old.st_uid, old.st_gid, dir_fd=directory, follow_symlinks=False)
