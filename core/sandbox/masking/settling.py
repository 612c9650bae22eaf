"""After a command: its layer without what it did to masked files, and the layer of the masks itself gone."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from core.sandbox.box import BoxSpec
from core.sandbox.copies import discard, is_opaque

_NAMED = 5


def masks_beside(upper: Path) -> Path:
    """On the file system of the layer: with three of them, files would show other inode numbers than outside."""
    return upper.with_name(f"{upper.name}.masks")


def settle(spec: BoxSpec) -> tuple[str, ...]:
    """Notes for the user. What the command saw at a masked path was not the file, so nothing that it made of it is
    kept, unless a directory above it is gone or replaced."""
    if not spec.masked or spec.upper is None:
        return ()
    try:
        written = _take_out(os.fsencode(spec.upper), [os.fsencode(path) for path in spec.masked])
    except OSError as error:
        return (f"It may have replaced secrets of the project; look before you accept: {error.strerror}.",)
    finally:
        discard(masks_beside(spec.upper))
    shown = ", ".join(os.fsdecode(path) for path in written)
    told = (f"What it wrote there is dropped, since these files are kept from commands: {shown}",) if shown else ()
    return told + gone_with_their_directory(spec.upper, [os.fsencode(path) for path in spec.masked])


def gone_with_their_directory(upper: Path, kept: Sequence[bytes]) -> tuple[str, ...]:
    """A note when a command deleted or moved directories that hold files which are kept from it: it saw empty ones."""
    gone = [os.fsdecode(path) for path in kept if _is_gone(os.fsencode(upper), path)]
    if not gone:
        return ()
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    named = f"{', '.join(sorted(gone)[:_NAMED])}{more}"
    return (
        f"Accepting a deletion deletes files that are kept from commands, and what was moved of them is empty: {named}",
    )


def _take_out(upper: bytes, masked: Sequence[bytes]) -> list[bytes]:
    """Answers with the paths that had content."""
    written = []
    for path in masked:
        place = os.path.join(upper, path)
        if not _above_is_kept(upper, path) or not os.path.lexists(place):
            continue
        found = os.lstat(place)
        if stat.S_ISDIR(found.st_mode):
            discard(Path(os.fsdecode(place)))
        else:
            os.unlink(place)
        if found.st_size and not stat.S_ISCHR(found.st_mode):
            written.append(path)
    return written


def _is_gone(upper: bytes, path: bytes) -> bool:
    """Whether a directory above the path is deleted or replaced."""
    above = upper
    for part in path.split(b"/")[:-1]:
        above = os.path.join(above, part)
        if not os.path.lexists(above):
            return False
        if not stat.S_ISDIR(os.lstat(above).st_mode) or is_opaque(above):
            return True
    return False


def _above_is_kept(upper: bytes, path: bytes) -> bool:
    above = upper
    for part in path.split(b"/")[:-1]:
        above = os.path.join(above, part)
        if not os.path.lexists(above) or not stat.S_ISDIR(os.lstat(above).st_mode) or is_opaque(above):
            return False
    return True
