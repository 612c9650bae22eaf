"""Directories of the program's own, for its user alone whatever the umask is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def make_private_directory(path: Path) -> None:
    """Make a directory, and those above it that are missing, each with the mode 0700; one that is there stays as it is.
    Raises OSError.

    `Path.mkdir` gives the mode to the last one alone, and to those above it what the umask leaves of 0777.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(path))
