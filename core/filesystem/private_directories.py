"""Private directories of the program, with the mode 0700 independent of the umask."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def make_private_directory(path: Path) -> None:
    """Create a directory and its missing parents with the mode 0700; existing ones remain unchanged. Raises OSError.

    `Path.mkdir` applies the mode only to the last directory, and the umask to its parents.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for directory in reversed(missing):
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(path))
