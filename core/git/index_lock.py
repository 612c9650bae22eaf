"""The next index of a work tree, put in the position of git's own lock, so that no git changes the index meanwhile.

Git does the same for `git commit -- PATH`: the lock holds the next index while hooks run and the branch moves, and then
takes the index's name in one step. A kill leaves the old index with a lock, or the new one; as long as the lock exists,
git refuses to stage anything over an index that does not match the branch yet.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from core.filesystem.atomic_write import create_file, sync_directory
from core.filesystem.open_beneath import DIRECTORY
from core.git.repository import GitFailed

LOCK: Final = "index.lock"
_INDEX: Final = "index"
_DEFAULT_MODE: Final = 0o644


class IndexDraft(Struct, frozen=True, kw_only=True):
    """The next index of a work tree.

    `name`: of a second link to the lock, next to it; `digest` and `replaces`: SHA-256 of the draft and of the index
    that it was made from ("" = there was none).
    """

    name: str
    digest: str
    replaces: str


def build_draft(git_directory: Path, data: bytes) -> IndexDraft:
    """Return a draft with `data` for the index in `git_directory`. Nothing is written. Raises OSError."""
    name = f"{_INDEX}.{secrets.token_hex(8)}.agent-tui"
    return IndexDraft(name=name, digest=_hash(data), replaces=digest_index(git_directory))


def digest_index(git_directory: Path, name: str = _INDEX) -> str:
    """Return the SHA-256 of an index; "" = there is none. Raises OSError."""
    try:
        return _hash((git_directory / name).read_bytes())
    except FileNotFoundError:
        return ""


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def take_lock(git_directory: Path, draft: IndexDraft, data: bytes) -> None:
    """Write the draft, and make it the lock of the index.

    Raises `GitFailed` if another git holds the index or changed it since the draft was made, and OSError; then nothing
    of it is left.
    """
    try:
        mode = (git_directory / _INDEX).stat().st_mode
    except FileNotFoundError:
        mode = _DEFAULT_MODE
    directory = os.open(git_directory, DIRECTORY)
    try:
        with create_file(directory, draft.name.encode(), mode) as file:
            file.write(data)
        _link_lock(directory, draft, mode, data)
        sync_directory(directory)
        if digest_index(git_directory) != draft.replaces:
            raise GitFailed("another git has just changed the index.", hint="Commit again.")
    except FileExistsError:
        _unlink(git_directory / draft.name)
        raise GitFailed(
            f"another git is running here: {git_directory / LOCK} exists.",
            hint="Commit again when it is done; if none is running, delete that file.",
        ) from None
    except BaseException:
        release_lock(git_directory, draft)
        raise
    finally:
        os.close(directory)


def _link_lock(directory: int, draft: IndexDraft, mode: int, data: bytes) -> None:
    try:
        os.link(draft.name, LOCK, src_dir_fd=directory, dst_dir_fd=directory)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with create_file(directory, LOCK.encode(), mode) as file:
            file.write(data)


def is_lock_ours(git_directory: Path, draft: IndexDraft) -> bool:
    """True if the lock of the index is this draft."""
    with suppress(OSError):
        return digest_index(git_directory, LOCK) == draft.digest
    return False


def install_draft(git_directory: Path, draft: IndexDraft) -> bool:
    """Rename the lock to the index. Returns False if one of them belongs to another process. Raises OSError."""
    if digest_index(git_directory) == draft.digest:
        return True
    if not is_lock_ours(git_directory, draft) or digest_index(git_directory) != draft.replaces:
        return False
    directory = os.open(git_directory, DIRECTORY)
    try:
        os.rename(LOCK, _INDEX, src_dir_fd=directory, dst_dir_fd=directory)
        sync_directory(directory)
    finally:
        os.close(directory)
    return True


def release_lock(git_directory: Path, draft: IndexDraft) -> None:
    """Remove the draft, and the lock if it is the draft."""
    if is_lock_ours(git_directory, draft):
        _unlink(git_directory / LOCK)
    _unlink(git_directory / draft.name)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
