"""Unexpected faults of our own: the trace is kept for whoever is to mend it, and never shown.

A file for each, for its user alone (0600), below `faults/` in the state directory; the oldest go when there are many.
What looks like a key is taken out. Nothing here raises: a fault in keeping a fault would hide both.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
import traceback
from pathlib import Path
from typing import Final

from core import __version__
from core.clock import now_ms
from core.config import load_settings
from core.errors import AgentTuiError
from core.ids import new_id
from core.secrets import redact
from core.user_dirs import state_dir
from core.wellformed import well_formed

FOLDER: Final = "faults"
KEPT: Final = 20
LONGEST: Final = 200_000  # characters


_keeps = True


def keeps(wanted: bool) -> None:
    """Whether faults of this process are kept: a trace can hold what was said."""
    global _keeps  # noqa: PLW0603
    _keeps = wanted


def keep(fault: BaseException, where: str) -> str:
    """Keep the trace of a fault that ended `where`; the path of its file, "" = it is not kept or could not be."""
    try:
        return str(_kept(fault, where)) if _keeps and not _is_private() else ""
    except Exception:  # whatever it is, the fault that is told matters more
        return ""


def _is_private() -> bool:
    """Whether privacy is configured; a configuration that can't be read says nothing."""
    try:
        return load_settings().privacy
    except AgentTuiError:
        return False


def told(path: str) -> str:
    """What to say of a kept fault, "" = nothing is kept."""
    return f"What happened is kept in {path}; please report it." if path else "Please report this."


def _kept(fault: BaseException, where: str) -> Path:
    folder = state_dir() / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    at = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ms() / 1000))
    path = folder / f"{at}-{new_id('fault').removeprefix('fault_')}.txt"
    head = f"agent-tui {__version__}, Python {platform.python_version()}, {platform.system()}: {where}\n\n"
    text = redact(well_formed(head + "".join(traceback.format_exception(fault))[-LONGEST:]))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
    for old in sorted(folder.glob("*.txt"))[:-KEPT]:
        with contextlib.suppress(OSError):
            old.unlink()
    return path
