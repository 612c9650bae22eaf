"""Changes of a command that are dropped: those to masked files, and to git's directory outside of the workspace.

The command saw a mask in place of the file, so its content is meaningless. Git's directory is no part of the project
that the user opened: other work trees share it, and nothing outside of the workspace is ever written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from core.filesystem.overlay_support import is_opaque
from core.git.index import is_same_index
from core.patterns import compile_lazily
from core.sandbox.box import BoxRequest
from core.sandbox.tiers.project_copy import remove_copy

_NAMED = 5
COMMITS_DROPPED = "Commits and branches are not kept"
STASH = "refs/stash"
COMMIT_HINT = "Changed files go to review: once they are accepted, the user can commit them."
_MAX_COMPARED = 256 << 20  # bytes of a file
_OWN_PART = compile_lazily(r"worktrees/[^/]+/")
# Files that git leaves behind without a change of the repository: unreferenced objects, its own notes.
_UNIMPORTANT = compile_lazily(
    r"(?:objects|logs)/.*|.*\.lock|(?:ORIG_HEAD|FETCH_HEAD|AUTO_MERGE|COMMIT_EDITMSG|TAG_EDITMSG|MERGE_RR|gc\.\w+)"
)
_GIT = compile_lazily(r"\bgit\b")


def get_mask_layer_path(upper: Path) -> Path:
    """Return the mask layer's path, on the file system of `upper`: on a third one, inode numbers would differ."""
    return upper.with_name(f"{upper.name}.masks")


def remove_masked_changes(request: BoxRequest) -> tuple[str, ...]:
    """Drop the command's changes of masked files, and return notes for the user.

    A deleted or replaced directory above a masked file is retained.
    """
    if not request.masked or request.upper is None:
        return ()
    try:
        written_paths = _remove_written(os.fsencode(request.upper), [os.fsencode(path) for path in request.masked])
    except OSError as error:
        return (f"It may have replaced secrets of the project; check before you accept: {error.strerror}.",)
    finally:
        remove_copy(get_mask_layer_path(request.upper))
    names = ", ".join(os.fsdecode(path) for path in written_paths)
    notes = (f"What it wrote there is dropped, because these files are hidden from commands: {names}",) if names else ()
    return notes + describe_deleted_secrets(request.upper, [os.fsencode(path) for path in request.masked])


def describe_deleted_secrets(upper: Path, secret_paths: Sequence[bytes]) -> tuple[str, ...]:
    """Return a note if a command deleted or moved directories with secret files: it saw empty ones in their place."""
    deleted_paths = [
        os.fsdecode(path) for path in secret_paths if _classify_parents(os.fsencode(upper), path) == "replaced"
    ]
    if not deleted_paths:
        return ()
    suffix = f" and {len(deleted_paths) - _NAMED} more" if len(deleted_paths) > _NAMED else ""
    names = f"{', '.join(sorted(deleted_paths)[:_NAMED])}{suffix}"
    return (f"Accepting a deletion deletes files that are hidden from commands; moved ones are empty: {names}",)


def _remove_written(upper: bytes, masked_paths: Sequence[bytes]) -> list[bytes]:
    """Remove files that were written under masked paths; return the paths of those that had content."""
    written_paths = []
    for path in masked_paths:
        target = os.path.join(upper, path)
        if _classify_parents(upper, path) != "there" or not os.path.lexists(target):
            continue
        stats = os.lstat(target)
        if stat.S_ISDIR(stats.st_mode):
            remove_copy(Path(os.fsdecode(target)))
        else:
            os.unlink(target)
        if stats.st_size and not stat.S_ISCHR(stats.st_mode):
            written_paths.append(path)
    return written_paths


def _classify_parents(upper: bytes, path: bytes) -> Literal["missing", "replaced", "there"]:
    """Return the state of the directories above a path in the layer; "replaced" if one of them is deleted or new."""
    above = upper
    for part in path.split(b"/")[:-1]:
        above = os.path.join(above, part)
        if not os.path.lexists(above):
            return "missing"
        if not stat.S_ISDIR(os.lstat(above).st_mode) or is_opaque(above):
            return "replaced"
    return "there"


def get_repository_layer_path(upper: Path) -> Path:
    """Return the path of the layer over git's directory."""
    return upper.with_name(f"{upper.name}.repository")


def drop_repository_changes(request: BoxRequest) -> tuple[str, ...]:
    """Remove the layer over git's directory, and return a note with the changed files."""
    if request.repository is None or request.upper is None:
        return ()
    layer = get_repository_layer_path(request.upper)
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
        f"{summary}: the repository ({request.repository}) is outside the workspace. Dropped: {names}.",
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
    return (f"The repository ({request.repository}) is outside the workspace and read-only in this tier.",)


def _list_changed(upper: Path, repository: Path) -> Iterator[str]:
    for directory, _, names in os.walk(upper):
        for name in names:
            path = Path(directory, name)
            rel = path.relative_to(upper)
            label = _OWN_PART.sub("", str(rel), count=1)
            if not _UNIMPORTANT.fullmatch(label) and not _is_same(path, repository / rel):
                yield label


def _is_same(new: Path, old: Path) -> bool:
    """True if a file of the layer has its old content; a refreshed index counts as the same."""
    stats = new.lstat()
    if not stat.S_ISREG(stats.st_mode) or not old.is_file() or stats.st_size > _MAX_COMPARED:
        return False
    one, other = new.read_bytes(), old.read_bytes()
    return one == other or (new.name == "index" and is_same_index(one, other))
