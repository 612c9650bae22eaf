"""The demo: a sample project with real bugs and a script that plays the model. Everything else in it is real.

Each demo gets a copy of its own below the state directory, so that nothing of the user's can be touched by trying it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from core.errors import StateError
from core.ids import new_id
from core.sessions.store import SessionStore
from core.user_dirs import state_dir
from core.workspace.removing import remove_tree

KEPT = 5
_HERE = Path(__file__).resolve().parent


def model() -> str:
    """The id of the scripted model that plays the demo."""
    return f"scripted/{_HERE / 'demo.yaml'}"


def prepare() -> Path:
    """A fresh copy of the sample project. Raises `StateError` where the state directory can't be written."""
    copy = _home() / new_id("till")
    try:
        _home().mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copytree(_HERE / "sample", copy, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as problem:
        raise StateError(
            f"the sample project can't be copied to {copy}: {problem.strerror}.",
            hint="Make the state directory writable, or set AGENT_TUI_STATE_DIR to another one.",
        ) from problem
    for old in _copies()[:-KEPT]:
        with suppress(OSError):
            remove_tree(old)
    return copy


def copy_of(session: str) -> Path | None:
    """The sample project in which a session of this id was held."""
    return next((copy for copy in _copies() if SessionStore(copy).holds(session)), None)


def latest() -> str:
    """The session of the newest demo in which something was done; "" = there is none."""
    return next(filter(None, (SessionStore(copy).latest() for copy in reversed(_copies()))), "")


def _home() -> Path:
    return state_dir() / "demo"


def _copies() -> list[Path]:
    """Oldest first: their names begin with the time."""
    return sorted(_home().iterdir()) if _home().is_dir() else []
