"""Reports of unexpected faults of this program: the traceback is saved for a bug report, and never shown.

Every fault gets a file for the user alone (0600) below `faults/` in the state directory; the oldest files are removed
beyond a limit. Possible keys are masked. Nothing here raises: a failure to save a fault would hide both.
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
from core.config.loading import load_settings
from core.errors import AgentTuiError
from core.filesystem.private_files import make_private_directory
from core.ids import new_id
from core.secrets import redact
from core.text.well_formed import make_well_formed
from core.user_dirs import get_state_dir

FOLDER: Final = "faults"
MAX_REPORTS: Final = 20
MAX_CHARACTERS: Final = 200_000

_is_enabled = True


def set_enabled(is_enabled: bool) -> None:
    """Enable or disable the reports of this process: a traceback can contain parts of the conversation."""
    global _is_enabled  # noqa: PLW0603
    _is_enabled = is_enabled


def save_crash_report(fault: BaseException, context: str) -> str:
    """Save the traceback of a fault that ended `context`; return the path of the file, "" if it was not saved."""
    try:
        return str(_write_report(fault, context)) if _is_enabled and not _is_private() else ""
    except Exception:  # the original fault matters more
        return ""


def _is_private() -> bool:
    try:
        return load_settings().privacy
    except AgentTuiError:
        return False


def describe_crash_report(path: str) -> str:
    """Return the notice about a saved fault; `path` "": it was not saved."""
    return f"A crash report was saved in {path}; please report it." if path else "Please report this."


def _write_report(fault: BaseException, context: str) -> Path:
    folder = get_state_dir() / FOLDER
    make_private_directory(folder)
    timestamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ms() / 1000))
    path = folder / f"{timestamp}-{new_id('fault').removeprefix('fault_')}.txt"
    head = f"agent-tui {__version__}, Python {platform.python_version()}, {platform.system()}: {context}\n\n"
    text = redact(make_well_formed(head + "".join(traceback.format_exception(fault))[-MAX_CHARACTERS:]))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode())
    for old in sorted(folder.glob("*.txt"))[:-MAX_REPORTS]:
        with contextlib.suppress(OSError):
            old.unlink()
    return path
