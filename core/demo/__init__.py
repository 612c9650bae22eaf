"""The demo: a sample project with real bugs, and a script that plays the model. Everything else in it is real.

A demo runs in a copy below the state directory, so that it can't touch the user's files. The copy is a git repository
with one commit, so that accepted changes can be committed; without git it is a plain directory.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from core.errors import StateError
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.git.repository import GitFailed, create_repository
from core.ids import new_id
from core.sessions.store import SessionStore
from core.user_dirs import get_state_dir

MAX_PROJECTS = 5
_HERE = Path(__file__).resolve().parent


def build_model_id() -> str:
    """Return the id of the scripted model that plays the demo."""
    return f"scripted/{_HERE / 'demo.yaml'}"


def create_project() -> Path:
    """Copy the sample project and return its directory. Raises `StateError` if it can't be written."""
    copy = _demo_directory() / new_id("till")
    try:
        make_private_directory(_demo_directory())
        shutil.copytree(_HERE / "sample", copy, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as problem:
        raise StateError(
            f"can't copy the sample project to {copy}: {problem.strerror}.",
            hint="Make the state directory writable, or set AGENT_TUI_STATE_DIR to another one.",
        ) from problem
    with suppress(GitFailed):
        create_repository(copy, "A small till", name="agent-tui demo", email="demo@localhost")
    for old in _list_projects()[:-MAX_PROJECTS]:
        with suppress(OSError):
            remove_tree(old)
    return copy


def find_project(session: str) -> Path | None:
    """Return the copy that holds a session; None = there is none."""
    return next((copy for copy in _list_projects() if SessionStore(copy).has_session(session)), None)


def find_latest_session() -> str:
    """Return the session of the newest demo that has one; "" = there is none."""
    return next(filter(None, (SessionStore(copy).find_latest() for copy in reversed(_list_projects()))), "")


def _demo_directory() -> Path:
    return get_state_dir() / "demo"


def _list_projects() -> list[Path]:
    """Return the copies, oldest first: their names begin with the time."""
    return sorted(_demo_directory().iterdir()) if _demo_directory().is_dir() else []
