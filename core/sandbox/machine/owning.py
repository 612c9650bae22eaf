"""Giving files to the user that root becomes in the box of that user's workspace. Runs in `python -I -S`."""

from __future__ import annotations

import os
import stat


def give(place: bytes, owner: tuple[int, int] | None) -> None:
    """One file or directory; without an owner nothing is to be done."""
    if owner:
        os.chown(place, *owner, follow_symlinks=False)


def give_all(directory: bytes, owner: tuple[int, int] | None) -> None:
    """A directory with all in and below it that is root's."""
    waiting = [directory] if owner else []
    while waiting:
        here = waiting.pop()
        give(here, owner)
        with os.scandir(here) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(entry.path)
                elif found.st_uid == 0:
                    give(entry.path, owner)
