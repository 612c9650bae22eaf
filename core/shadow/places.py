"""Where layers can lie: the session's own directory if its file system can be an upper one, else memory."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from core.errors import StateError
from core.workspace.removing import remove_tree
from core.workspace.uppers import MEMORY, can_be_upper, file_system

_REFERENCE = "place"


def place_for(layers: Path) -> Path:
    """The directory in which layers are made, for a session whose layers belong into `layers` (made if missing).

    When that can't hold uppers, it says in a file where in memory they are. `StateError`: nowhere.
    """
    try:
        layers.mkdir(mode=0o700, exist_ok=True)
        if known := _referred(layers):
            return known
        if can_be_upper(layers):
            return layers
        return _in_memory(layers)
    except OSError as error:
        raise StateError(
            f"Layers for commands can't be made in {layers}: {error.strerror}.",
            hint="Make room or set AGENT_TUI_STATE_DIR to a directory of your own on a local disk.",
        ) from error


def _referred(layers: Path) -> Path | None:
    """The place in memory of an earlier start, if it is still there and ours."""
    try:
        place = Path(os.fsdecode((layers / _REFERENCE).read_bytes()))
        found = place.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700
    return place if ours and place.parent == MEMORY else None


def _in_memory(layers: Path) -> Path:
    if not MEMORY.is_dir():
        raise StateError(
            f"No file system here can hold the layers of commands: {layers} is on {file_system(layers) or 'one'} "
            f"that can't, and there is no {MEMORY}.",
            hint="Set AGENT_TUI_STATE_DIR to a directory on a local disk or a volume.",
        )
    place = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=MEMORY))
    (layers / _REFERENCE).write_bytes(os.fsencode(place))
    return place


def forget_place(layers: Path) -> None:
    """Remove what a session has in memory; for when the session itself goes."""
    place = _referred(layers)
    if place is not None:
        remove_tree(place)
