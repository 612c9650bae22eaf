"""Which directories git takes hooks from: `core.hooksPath` of a repository and of the user."""

from __future__ import annotations

import os
from pathlib import Path

from core.git.places import find
from core.git.room import GitFailed, Room, at_hand, configured, own_text
from core.git.short_lived import short_lived


def hook_directories(root: Path) -> tuple[str, ...]:
    """The directories below `root` that hooks are taken from, beside `.git/hooks`; "." is the root itself."""
    places = find(root)
    if places is None:
        return ()
    try:
        with short_lived() as directory:
            users, own = configured(Room(at_hand(root), directory, root), own_text(places))
    except (GitFailed, OSError):
        return ()
    named = {value for key, value in (*users, *own) if key == "core.hookspath" and value}
    found = (os.path.relpath(root / Path(value).expanduser(), root) for value in named)
    return tuple(sorted(each for each in found if each.split("/")[0] != ".."))
