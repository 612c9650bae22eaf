"""The paths of the parts of a project's repository, if they belong to the project (gitrepository-layout(5)).

A `.git` file or a `commondir` can name any directory on the machine. It is accepted only if that directory confirms the
project: a linked worktree's by its `gitdir` file, a submodule's by its `core.worktree`, a separate git directory by its
index (`core.git.repository`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core import user_dirs
from core.errors import PathRefused
from core.filesystem.open_files import read_open_file
from core.patterns import compile_lazily

# Why a file that git runs, or takes its settings from, needs an eye in the review.
HOOK_RISK: Final = "runs automatically when git commits, merges or pushes"
GIT_RISK: Final = "changes what git runs, or where it fetches from, automatically"
_MAX_BYTES = 1 << 20
_HEAD = compile_lazily(rb"(?:ref: refs/[^\0\n]{1,4000}|[0-9a-f]{40}(?:[0-9a-f]{24})?)\n*\Z")


class RepositoryLayout(Struct, frozen=True):
    """`own`: HEAD and index of this worktree; `common`: objects, references and configuration, shared by worktrees.

    `is_unconfirmed`: a `.git` file names it, and only its configuration or index can confirm that.
    """

    root: Path
    own: Path
    common: Path
    head: bytes
    is_unconfirmed: bool = False


def find_layout(root: Path) -> RepositoryLayout | None:
    """Return the repository whose top is `root`, a real path; None = there is none, or it belongs to another
    project."""
    git = root / ".git"
    try:
        if stat.S_ISREG(git.lstat().st_mode):
            return _find_by_git_file(root, git)
        return _check_layout(RepositoryLayout(root, git, git, b""))
    except (OSError, ValueError):
        return None


def find_repository(directory: Path) -> RepositoryLayout | None:
    """Return the repository around `directory`, a real path; None = it is in no accepted one.

    As for git, the nearest `.git` decides. One above is accepted on the same file system only, if the user owns it and
    its top (without the exceptions of `safe.directory`), and if its top is a project: no home directory, and nothing
    that contains one.
    """
    for path in (directory, *directory.parents):
        if os.path.lexists(path / ".git"):
            return find_layout(path) if path == directory or _may_hold(path, directory) else None
    return None


def _may_hold(top: Path, directory: Path) -> bool:
    try:
        inner, outer, git = (path.lstat() for path in (directory, top, top / ".git"))
        user_dirs.refuse_wide_root(top, top, user_dirs.get_state_dir(), user_dirs.get_config_dir())
    except (OSError, PathRefused):
        return False
    user = os.geteuid()
    owners = {user, inner.st_uid} if user == 0 else {user}
    return inner.st_dev == outer.st_dev and {outer.st_uid, git.st_uid} <= owners


def read_branch(directory: Path) -> str:
    """Return the checked out branch in the repository around `directory`, a real path; "" = none."""
    layout = find_repository(directory)
    head = layout.head.strip() if layout is not None else b""
    return head.removeprefix(b"ref: refs/heads/").decode("utf-8", "replace") if head.startswith(b"ref: refs/h") else ""


def read_small_file(path: Path, limit: int = _MAX_BYTES) -> bytes:
    """Return the content of a regular file, not following a link. Raises OSError, also for more than `limit` bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    data = read_open_file(descriptor, limit + 1)
    if len(data) > limit:
        raise OSError(f"{path} is not a small file")
    return data


def is_of_type(path: Path, kind: int) -> bool:
    """True if the path itself, not the target of a link, is of this type (of `stat`)."""
    try:
        return stat.S_IFMT(path.lstat().st_mode) == kind
    except OSError:
        return False


def _find_by_git_file(root: Path, git: Path) -> RepositoryLayout | None:
    git_directory = _resolve_named(read_small_file(git).removeprefix(b"gitdir:"), root)
    if not os.path.lexists(git_directory / "commondir"):
        return _check_layout(RepositoryLayout(root, git_directory, git_directory, b"", is_unconfirmed=True))
    common = _resolve_named(read_small_file(git_directory / "commondir"), git_directory)
    is_ours = (
        git_directory.parent == common / "worktrees"
        and _resolve_named(read_small_file(git_directory / "gitdir"), git_directory) == git
    )
    return _check_layout(RepositoryLayout(root, git_directory, common, b"")) if is_ours else None


def _resolve_named(text: bytes, base: Path) -> Path:
    return (base / os.fsdecode(text.strip(b" \r\n"))).resolve()


def _check_layout(layout: RepositoryLayout) -> RepositoryLayout | None:
    """Return the layout with its HEAD, if all that git would read is really in its directories; else None."""
    directories = (layout.own, layout.common, layout.common / "objects", layout.common / "refs")
    if not all(is_of_type(directory, stat.S_IFDIR) for directory in directories):
        return None
    if layout.own == layout.common and os.path.lexists(layout.own / "commondir"):
        return None
    head = read_small_file(layout.own / "HEAD")
    return replace(layout, head=head) if _HEAD.match(head) else None
