"""The store of sessions: `<state>/workspaces/<name>-<8 hex>/sessions/<id>/`; directories 0700, files 0600, one writer.

An open session is locked (flock): a second program on the same workspace gets another session, never half of this one.
A lock dies with its process, so it can't go stale.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from core.errors import StateError
from core.filesystem.name_spelling import resolve_spelled
from core.filesystem.open_files import explain_displaced, is_lock_held, lacks_locks
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.patterns import compile_lazily
from core.sessions.log import STATE_LOST
from core.user_dirs import get_state_dir

LOG_FILE, JOURNAL_FILE = "log.jsonl", "journal.jsonl"
LOCKED = "session_locked"  # the code of the error that another program has a session open
_SESSION_ID = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


def _make_directory(directory: Path) -> None:
    """Make a directory that is private to the user. Raises `StateError` with a hint."""
    try:
        make_private_directory(directory)
    except OSError as problem:
        raise StateError(
            f"the state directory {directory} can't be created: {problem.strerror}.",
            hint="Check its permissions and its disk, or set AGENT_TUI_STATE_DIR to a directory of your own.",
        ) from problem


class SessionDirectory:
    """The directory of one session, locked by this process until `close`. That of its subagents may be missing."""

    def __init__(self, path: Path, cache: Path | None = None) -> None:
        self.path = path
        self.id = path.name
        self.log_path, self.journal_path = path / LOG_FILE, path / JOURNAL_FILE
        self.blobs_path, self.outputs_path = path / "blobs", path / "outputs"
        self.subagents_path = path / "children"
        self._cache = cache
        self._lock = _acquire_lock(path / "lock", path.name)
        self._sweep()

    def _sweep(self) -> None:
        """Remove drafts of a killed process: this process holds the lock, so no other one writes them now."""
        for pattern in ("*.tmp", "layers/*.tmp", "blobs/*/.*.tmp"):
            for draft in self.path.glob(pattern):
                with suppress(OSError):
                    draft.unlink()

    @property
    def cache_path(self) -> Path:
        """The cache of commands, shared by all sessions of the workspace; it may be missing."""
        return self._cache or self.path.parent.parent / "cache"

    def open_subagent(self, name: str) -> SessionDirectory:
        """Open and lock the directory of a subagent's session; create it if it is missing. Raises `StateError`."""
        path = self.subagents_path / name
        for directory in (self.subagents_path, path, path / "blobs", path / "outputs"):
            _make_directory(directory)
        return SessionDirectory(path, self.cache_path)

    def has_subagent(self, name: str) -> bool:
        return self.get_subagent_log(name).is_file()

    def get_subagent_log(self, name: str) -> Path:
        return self.subagents_path / name / "log.jsonl"

    def check_lock(self) -> None:
        """Raise `StateError` (code `state_lost`) if the lock file was replaced: another program may have opened the
        session."""
        if reason := explain_displaced(self._lock, self.path / "lock"):
            raise StateError(
                f"another program has taken over this session: {self.path / 'lock'} {reason}.",
                hint="Save the conversation with /export FILE, then start a new session.",
                code=STATE_LOST,
            )

    def discard(self) -> None:
        """Remove the session's directory, as far as that is possible."""
        with suppress(OSError):
            remove_tree(self.path)

    def close(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _acquire_lock(path: Path, session: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise StateError(
            f"the session {session} can't be opened: {path}: {problem.strerror}.",
            hint="Check the permissions of the state directory, or set AGENT_TUI_STATE_DIR to another one.",
        ) from problem
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        if lacks_locks(problem):
            raise StateError(
                f"the session {session} can't be opened: the file system of {path.parent} has no locks "
                f"({problem.strerror}), so two programs could write one session.",
                hint="Set AGENT_TUI_STATE_DIR to a directory on a local disk. Nothing was changed.",
                code="no_locks",
            ) from problem
        raise StateError(
            f"the session {session} is open in another agent-tui{f' (process {owner})' if owner.isdigit() else ''}.",
            hint=f"Use it there (`agent-tui attach {session}`, if it has a screen), or start a new session here.",
            code=LOCKED,
        ) from problem
    _write_owner(descriptor)
    return descriptor


def _write_owner(descriptor: int) -> None:
    """Write the owner's process id into the lock if possible: a full disk must not prevent opening a session."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)


def is_locked(directory: Path) -> bool:
    """True if any process, this one included, has the session of this directory open."""
    return is_lock_held(directory / "lock", absent=False)


def is_session_id(text: str) -> bool:
    """True if this is a possible id of a session, and so no path."""
    return bool(_SESSION_ID.fullmatch(text))


class SessionStore:
    """The sessions of one workspace, below `home` (None = the state directory). Nothing is written until `create`."""

    def __init__(self, workspace: Path, home: Path | None = None) -> None:
        real = resolve_spelled(workspace)
        digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:8]
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", real.name).strip("-.")[:40] or "root"
        self.workspace = real
        self.home = home or get_state_dir()
        self.path = self.home / "workspaces" / f"{name}-{digest}"
        self.sessions_path = self.path / "sessions"

    def create(self) -> SessionDirectory:
        """Create a new, empty, locked session."""
        path, above = self.sessions_path / new_id("ses"), (self.home, self.home / "workspaces", self.path)
        for directory in (*above, self.sessions_path, path, path / "blobs", path / "outputs"):
            _make_directory(directory)
        return SessionDirectory(path)

    def open(self, session: str) -> SessionDirectory:
        """Open and lock an existing session. Raises `StateError`: unknown, or open elsewhere."""
        if not self.has_session(session):
            raise StateError(
                f"there is no session {session!r} in this workspace.",
                hint="`agent-tui sessions` lists the existing ones.",
                code="session_unknown",
            )
        return SessionDirectory(self.get_path(session))

    def get_path(self, session: str) -> Path:
        """Return the directory of a session, which may be missing. Raises `StateError` for an impossible id."""
        if not is_session_id(session):
            raise StateError(
                f"{session[:80]!r} is not a session id.", hint="`agent-tui sessions` lists the existing ones."
            )
        return self.sessions_path / session

    def has_session(self, session: str) -> bool:
        """True if there is a session with this id."""
        return is_session_id(session) and (self.sessions_path / session / "log.jsonl").is_file()

    def list_directories(self) -> list[Path]:
        """Return the directories of all sessions, the one written last first; a missing state directory has none."""
        if (home := self.home).exists() and not home.is_dir():
            raise StateError(
                f"the state directory {home} is not a directory.", hint="Set AGENT_TUI_STATE_DIR to one of your own."
            )
        try:
            logs = (
                [directory / "log.jsonl" for directory in self.sessions_path.iterdir()]
                if self.sessions_path.is_dir()
                else []
            )
            dated_paths = [(log.stat().st_mtime_ns, log.parent) for log in logs if log.is_file()]
        except OSError as problem:
            raise StateError(
                f"the state directory {self.sessions_path} can't be read: {problem.strerror}.",
                hint="Check its permissions, or set AGENT_TUI_STATE_DIR to another one.",
            ) from problem
        return [path for _, path in sorted(dated_paths, reverse=True)]

    def resolve_id(self, session: str) -> str:
        """Return the requested id; "" = that of the session written last. Raises `StateError` if there is none."""
        if session_id := session or self.find_latest():
            return session_id
        raise StateError("this workspace has no sessions yet.", hint="Start one: agent-tui", code="session_unknown")

    def find_latest(self) -> str:
        """Return the id of the session that was written last; "" = there is none."""
        directories = self.list_directories()
        return directories[0].name if directories else ""
