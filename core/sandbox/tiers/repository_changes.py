"""Git's directory outside of the workspace: what a command changed there is dropped and said, or can't be changed.

It is no part of the project that the user opened: other work trees share it, and nothing outside of the workspace is
ever written.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from core.git.index import is_same_index
from core.sandbox.box import BoxRequest
from core.sandbox.tiers.project_copy import remove_copy

COMMITS_DROPPED = "Commits and branches are not kept"
STASH = "refs/stash"
COMMIT_HINT = "Changed files are kept for the review: once they are accepted, the user can commit them."
_NAMED = 5
_MAX_COMPARED = 256 << 20  # bytes of a file
_OWN_PART = re.compile(r"worktrees/[^/]+/")
# What git leaves behind without a change of what it holds: objects that nothing names, notes to itself.
_UNIMPORTANT = re.compile(
    r"(?:objects|logs)/.*|.*\.lock|(?:ORIG_HEAD|FETCH_HEAD|AUTO_MERGE|COMMIT_EDITMSG|TAG_EDITMSG|MERGE_RR|gc\.\w+)"
)
_GIT = re.compile(r"\bgit\b")


def name_repository_layer(upper: Path) -> Path:
    """Return the path of the layer over git's directory."""
    return upper.with_name(f"{upper.name}.repository")


def drop_repository_changes(request: BoxRequest) -> tuple[str, ...]:
    """Remove the layer over git's directory, and return a note that names what was changed."""
    if request.repository is None or request.upper is None:
        return ()
    layer = name_repository_layer(request.upper)
    try:
        paths = set(_list_changed(layer / "upper", request.repository))
        changed_paths = sorted(paths, key=lambda path: (path != STASH, path))
    except OSError as error:
        return (f"What it changed in {request.repository} is dropped ({error.strerror}).",)
    finally:
        remove_copy(layer)
    if not changed_paths:
        return ()
    suffix = f" and {len(changed_paths) - _NAMED} more" if len(changed_paths) > _NAMED else ""
    names = f"{', '.join(changed_paths[:_NAMED])}{suffix}"
    summary = "What is staged is not kept" if changed_paths == ["index"] else COMMITS_DROPPED
    return (
        f"{summary}: the repository ({request.repository}) lies outside of the workspace. Dropped: {names}.",
        COMMIT_HINT,
    )


def describe_limits(request: BoxRequest, *, is_found: bool = True) -> tuple[str, ...]:
    """Return a note for a command that uses git where no layer can be laid over git's directory.

    `is_found`: git can find the repository.
    """
    if request.repository is None or not _GIT.search(request.command):
        return ()
    if not is_found:
        return (f"In this tier git does not find the repository of the workspace ({request.repository}).",)
    return (f"The repository ({request.repository}) lies outside of the workspace and is read-only in this tier.",)


def _list_changed(upper: Path, repository: Path) -> Iterator[str]:
    for directory, _, names in os.walk(upper):
        for name in names:
            path = Path(directory, name)
            rel = path.relative_to(upper)
            label = _OWN_PART.sub("", str(rel), count=1)
            if not _UNIMPORTANT.fullmatch(label) and not _is_same(path, repository / rel):
                yield label


def _is_same(new: Path, old: Path) -> bool:
    """True if a file of the layer has the content that was there; an index may only have been refreshed."""
    stats = new.lstat()
    if not stat.S_ISREG(stats.st_mode) or not old.is_file() or stats.st_size > _MAX_COMPARED:
        return False
    one, other = new.read_bytes(), old.read_bytes()
    return one == other or (new.name == "index" and is_same_index(one, other))
