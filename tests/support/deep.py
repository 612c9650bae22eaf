"""Directories in directories, more than a path can name: made from one to the next."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def deepen(top: Path, levels: int, leaf: str = "", *, name: str = "d") -> None:
    """Make them below `top`, those that are there already among them, and in the last one a file."""
    above = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
        below = os.open(name, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    if leaf:
        os.close(os.open(leaf, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=above))
    os.close(above)
