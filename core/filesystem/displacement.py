"""Open files whose name no longer leads to them: writing goes on without an error, and nobody will find it."""

from __future__ import annotations

import os
from pathlib import Path


def explain_displaced(descriptor: int, path: Path) -> str:
    """Return what became of the name of an open file, in words that go on from its path; "" = it still leads there."""
    try:
        open_stat = os.fstat(descriptor)
        path_stat = path.lstat()
    except FileNotFoundError:
        return "was removed" if open_stat.st_nlink == 0 else "was moved away, or its directory was"
    except OSError as error:
        return f"can't be reached any more ({error.strerror})"
    if (open_stat.st_dev, open_stat.st_ino) != (path_stat.st_dev, path_stat.st_ino):
        return "was replaced by another file"
    return ""
