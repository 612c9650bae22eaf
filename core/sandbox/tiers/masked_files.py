"""After a command: its layer without what it did to masked files, and the layer of the masks itself removed."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from core.sandbox.box import BoxRequest
from core.sandbox.tiers.project_copy import is_opaque, remove_copy

_NAMED = 5


def name_mask_layer(upper: Path) -> Path:
    """Return the mask layer's path, on the file system of `upper`: on a third one, inode numbers would differ."""
    return upper.with_name(f"{upper.name}.masks")


def remove_masked_changes(request: BoxRequest) -> tuple[str, ...]:
    """Drop what the command did to masked files, and return notes for the user.

    What it saw there was not the file, so nothing that it made of it is kept, unless a directory above it is gone or
    replaced.
    """
    if not request.masked or request.upper is None:
        return ()
    try:
        written_paths = _remove_written(os.fsencode(request.upper), [os.fsencode(path) for path in request.masked])
    except OSError as error:
        return (f"It may have replaced secrets of the project; look before you accept: {error.strerror}.",)
    finally:
        remove_copy(name_mask_layer(request.upper))
    names = ", ".join(os.fsdecode(path) for path in written_paths)
    notes = (f"What it wrote there is dropped, since these files are kept from commands: {names}",) if names else ()
    return notes + describe_deleted_secrets(request.upper, [os.fsencode(path) for path in request.masked])


def describe_deleted_secrets(upper: Path, secret_paths: Sequence[bytes]) -> tuple[str, ...]:
    """Return a note if a command deleted or moved directories with files that are kept from it: it saw empty ones."""
    deleted_paths = [os.fsdecode(path) for path in secret_paths if _look_above(os.fsencode(upper), path) == "replaced"]
    if not deleted_paths:
        return ()
    suffix = f" and {len(deleted_paths) - _NAMED} more" if len(deleted_paths) > _NAMED else ""
    names = f"{', '.join(sorted(deleted_paths)[:_NAMED])}{suffix}"
    return (
        f"Accepting a deletion deletes files that are kept from commands, and what was moved of them is empty: {names}",
    )


def _remove_written(upper: bytes, masked_paths: Sequence[bytes]) -> list[bytes]:
    """Remove what was written at masked paths; return those that had content."""
    written_paths = []
    for path in masked_paths:
        target = os.path.join(upper, path)
        if _look_above(upper, path) != "there" or not os.path.lexists(target):
            continue
        stats = os.lstat(target)
        if stat.S_ISDIR(stats.st_mode):
            remove_copy(Path(os.fsdecode(target)))
        else:
            os.unlink(target)
        if stats.st_size and not stat.S_ISCHR(stats.st_mode):
            written_paths.append(path)
    return written_paths


def _look_above(upper: bytes, path: bytes) -> Literal["missing", "replaced", "there"]:
    """Return what the layer says of the directories above a path; "replaced" if one of them is deleted or new."""
    above = upper
    for part in path.split(b"/")[:-1]:
        above = os.path.join(above, part)
        if not os.path.lexists(above):
            return "missing"
        if not stat.S_ISDIR(os.lstat(above).st_mode) or is_opaque(above):
            return "replaced"
    return "there"
