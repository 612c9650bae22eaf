"""Giving files to the user that root becomes in the box of that user's workspace. Runs in `python -I -S -B`."""

from __future__ import annotations

import os
import stat


def change_owner(place: bytes, owner: tuple[int, int] | None) -> None:
    """Give away one file or directory; without an owner nothing is done."""
    if owner:
        os.chown(place, *owner, follow_symlinks=False)


def change_owner_below(directory: bytes, owner: tuple[int, int] | None) -> None:
    """Give away a directory with all in and below it that is root's."""
    waiting = [directory] if owner else []
    while waiting:
        here = waiting.pop()
        change_owner(here, owner)
        with os.scandir(here) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    waiting.append(entry.path)
                elif found.st_uid == 0:
                    change_owner(entry.path, owner)
