"""Where the parts of a project's repository lie, if they are the project's own (gitrepository-layout(5)).

A `.git` file or a `commondir` can name any directory on the machine. It is believed only if that directory says the
same of the project: a linked worktree's by its `gitdir` file, a submodule's by its `core.worktree`.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from msgspec import Struct

_SMALL = 1 << 20
_HEAD = re.compile(rb"(?:ref: refs/[^\0\n]{1,4000}|[0-9a-f]{40}(?:[0-9a-f]{24})?)\n*\Z")


class Places(Struct, frozen=True):
    """`own`: HEAD and index of this worktree; `common`: objects, references and configuration, shared by worktrees;
    `module`: believed only if `core.worktree` leads from `own` to the project."""

    root: Path
    own: Path
    common: Path
    head: bytes
    module: bool = False


def find(root: Path) -> Places | None:
    """The repository whose top is `root`, a real path; None: there is none, or it belongs to another place."""
    git = root / ".git"
    try:
        if stat.S_ISREG(git.lstat().st_mode):
            return _pointed_to(root, git)
        return _checked(Places(root, git, git, b""))
    except (OSError, ValueError):
        return None


def read_small(path: Path) -> bytes:
    """The content of a regular file that is no link. Raises OSError, also for one of more than a megabyte."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _SMALL:
            raise OSError(f"{path} is no small file")
        return file.read(_SMALL)


def is_real(path: Path, kind: int) -> bool:
    """Whether something of this kind (a type of `stat`) lies there itself, not behind a link."""
    try:
        return stat.S_IFMT(path.lstat().st_mode) == kind
    except OSError:
        return False


def _pointed_to(root: Path, git: Path) -> Places | None:
    own = _named(read_small(git).removeprefix(b"gitdir:"), root)
    if not os.path.lexists(own / "commondir"):
        return _checked(Places(root, own, own, b"", module=True))
    common = _named(read_small(own / "commondir"), own)
    is_ours = own.parent == common / "worktrees" and _named(read_small(own / "gitdir"), own) == git
    return _checked(Places(root, own, common, b"")) if is_ours else None


def _named(text: bytes, base: Path) -> Path:
    return (base / os.fsdecode(text.strip(b" \r\n"))).resolve()


def _checked(places: Places) -> Places | None:
    """`places` with its HEAD, if all that git would read lies where it seems to."""
    directories = (places.own, places.common, places.common / "objects", places.common / "refs")
    if not all(is_real(each, stat.S_IFDIR) for each in directories):
        return None
    if places.own == places.common and os.path.lexists(places.own / "commondir"):
        return None
    head = read_small(places.own / "HEAD")
    return Places(places.root, places.own, places.common, head, places.module) if _HEAD.match(head) else None
