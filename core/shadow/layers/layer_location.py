"""The location of a session's layers: its own directory if the file system supports overlayfs uppers, else memory."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from core.errors import StateError
from core.filesystem.overlay_support import SHARED_MEMORY, can_hold_upper, find_file_system_type
from core.filesystem.removal import remove_tree

_REFERENCE = "place"


def find_location(layers: Path) -> Path:
    """Return the directory for the layers of a session, preferably `layers` itself (created if missing).

    If that does not support uppers, a file in it names the directory in memory. Raises `StateError` if there is none.
    """
    try:
        layers.mkdir(mode=0o700, exist_ok=True)
        if location := _read_reference(layers):
            return location
        if can_hold_upper(layers):
            return layers
        return _make_in_memory(layers)
    except OSError as error:
        raise StateError(
            f"Layers for commands can't be created in {layers}: {error.strerror}.",
            hint="Free some space or set AGENT_TUI_STATE_DIR to a directory of your own on a local disk.",
        ) from error


def _read_reference(layers: Path) -> Path | None:
    """Return the directory in memory of an earlier start, if it still exists and belongs to us."""
    try:
        path = Path(os.fsdecode((layers / _REFERENCE).read_bytes()))
        stats = path.lstat()
    except OSError:
        return None
    is_own_directory = (
        stat.S_ISDIR(stats.st_mode) and stats.st_uid == os.geteuid() and stat.S_IMODE(stats.st_mode) == 0o700
    )
    return path if is_own_directory and path.parent == SHARED_MEMORY else None


def _make_in_memory(layers: Path) -> Path:
    if not SHARED_MEMORY.is_dir():
        raise StateError(
            f"No file system here can hold the layers of commands: {layers} is on "
            f"{find_file_system_type(layers) or 'one'} that can't, and there is no {SHARED_MEMORY}.",
            hint="Set AGENT_TUI_STATE_DIR to a directory on a local disk or a volume.",
        )
    path = Path(tempfile.mkdtemp(prefix="agent-tui-", dir=SHARED_MEMORY))
    (layers / _REFERENCE).write_bytes(os.fsencode(path))
    return path


def remove_location(layers: Path) -> None:
    """Remove the layers of a session in memory, when the session itself is removed."""
    if location := _read_reference(layers):
        remove_tree(location)
