"""Private directories and small private files of the user, with the modes 0700 and 0600 independent of the umask.

A file is never read through a link, and it is replaced as a whole or not at all.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.errors import ConfigError
from core.filesystem.atomic_write import replace_file

MAX_BYTES: Final = 256 * 1024


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


def read_private(path: Path) -> bytes | None:
    """Return the file's bytes, None if it does not exist; permissions of others are removed. Raises `ConfigError`
    unless the user owns it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.", hint="Check what it is, or remove it.") from None
    try:
        stats = os.fstat(descriptor)
        if not stat.S_ISREG(stats.st_mode) or stats.st_uid != os.getuid():
            raise ConfigError(f"{path} is not a file of your own.", hint="Remove it, and store the key again.")
        if stat.S_IMODE(stats.st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes) -> None:
    """Replace the file's content, and make its directory if needed. Raises OSError; the old file then remains."""
    make_private_directory(path.parent)
    replace_file(path, data)
