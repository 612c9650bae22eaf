"""The places of the parts of a project's repository, if they are the project's own (gitrepository-layout(5)).

A `.git` file or a `commondir` can name any directory on the machine. It is believed only if that directory says the
same of the project: a linked worktree's by its `gitdir` file, a submodule's by its `core.worktree`.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

_MAX_BYTES = 1 << 20
_HEAD = re.compile(rb"(?:ref: refs/[^\0\n]{1,4000}|[0-9a-f]{40}(?:[0-9a-f]{24})?)\n*\Z")


class RepositoryLayout(Struct, frozen=True):
    """`own`: HEAD and index of this worktree; `common`: objects, references and configuration, shared by worktrees.

    `module`: believed only if `core.worktree` leads from `own` to the project.
    """

    root: Path
    own: Path
    common: Path
    head: bytes
    is_submodule: bool = False


def find_layout(root: Path) -> RepositoryLayout | None:
    """Return the repository whose top is `root`, a real path; None: there is none, or it is another project's."""
    git = root / ".git"
    try:
        if stat.S_ISREG(git.lstat().st_mode):
            return _find_by_git_file(root, git)
        return _check_layout(RepositoryLayout(root, git, git, b""))
    except (OSError, ValueError):
        return None


def read_small_file(path: Path) -> bytes:
    """Return the content of a regular file that is no link. Raises OSError, also for more than a megabyte."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise OSError(f"{path} is no small file")
        return file.read(_MAX_BYTES)


def is_of_type(path: Path, kind: int) -> bool:
    """True if something of this type (of `stat`) lies there itself, not behind a link."""
    try:
        return stat.S_IFMT(path.lstat().st_mode) == kind
    except OSError:
        return False


def _find_by_git_file(root: Path, git: Path) -> RepositoryLayout | None:
    own = _resolve_named(read_small_file(git).removeprefix(b"gitdir:"), root)
    if not os.path.lexists(own / "commondir"):
        return _check_layout(RepositoryLayout(root, own, own, b"", is_submodule=True))
    common = _resolve_named(read_small_file(own / "commondir"), own)
    is_ours = own.parent == common / "worktrees" and _resolve_named(read_small_file(own / "gitdir"), own) == git
    return _check_layout(RepositoryLayout(root, own, common, b"")) if is_ours else None


def _resolve_named(text: bytes, base: Path) -> Path:
    return (base / os.fsdecode(text.strip(b" \r\n"))).resolve()


def _check_layout(places: RepositoryLayout) -> RepositoryLayout | None:
    """Return the layout with its HEAD, if all that git would read lies where it seems to; else None."""
    directories = (places.own, places.common, places.common / "objects", places.common / "refs")
    if not all(is_of_type(each, stat.S_IFDIR) for each in directories):
        return None
    if places.own == places.common and os.path.lexists(places.own / "commondir"):
        return None
    head = read_small_file(places.own / "HEAD")
    return replace(places, head=head) if _HEAD.match(head) else None
