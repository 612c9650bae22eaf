"""Commits that a killed program had begun: finished or undone at the next start, regardless of the session that is
opened.

The repository is repaired at once. The event belongs to the log of the session that made the commit, so its note stays
in that session's directory, with the outcome, until the session is opened.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from core.clock import monotonic
from core.engine.session.session import Session
from core.errors import AgentTuiError, StateError
from core.filesystem.open_files import is_lock_held
from core.git.repository import GitFailed
from core.sandbox.unboxed_run import kill_marked_processes
from core.sessions.store import SessionDirectory
from core.shadow.commits.pending_commit import (
    PendingCommit,
    load_pending_commit,
    remove_pending_commit,
    save_pending_commit,
    settle_commit,
)

INDEX_VARIABLE: Final = "GIT_INDEX_FILE"
_GRACE_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.02
_FINISHED: Final = "An interrupted commit was made after all: {} {}."
_UNDONE: Final = "An interrupted commit was not made, and left nothing behind: {}."
_UNKNOWN: Final = "An interrupted commit can't be checked ({}); compare git status with your files: {}."


def forget_commit(session: Session) -> None:
    """Remove the note of a commit once its event is in the log on disk; else the note waits for the next start."""
    if not session.log.deferred_count:
        remove_pending_commit(session.directory.path)


def finish_own_commit(session: Session) -> str:
    """Finish or undo the commit that a session had begun, and record it. Return a report, "" = there was none."""
    directory = session.directory.path
    pending, sentence = _settle(directory, session.workspace.root)
    if pending is None:
        return ""
    if (commit := pending.made) is not None and commit.id not in {
        known_commit.id for known_commit in session.state.review.commits
    }:
        session.emit_outside_turn(commit)
        session.log.sync()
    remove_pending_commit(directory)
    return sentence


def finish_commit_of_other_session(session: Path, root: Path) -> str:
    """Finish or undo the commit that another session had begun, unless that is open. Return a report, "" = none."""
    try:
        directory = SessionDirectory(session)
    except StateError:
        return ""  # it is open in another program, which finishes the commit
    try:
        pending, sentence = _settle(session, root)
        if pending is not None and pending.made is None:
            remove_pending_commit(session)
        return sentence
    finally:
        directory.close()


def _settle(session: Path, root: Path) -> tuple[PendingCommit | None, str]:
    """Return the noted commit with its outcome, and a report, which is "" if it was returned before."""
    try:
        pending = load_pending_commit(session)
        if pending is None or pending.made is not None:
            return pending, ""
        _end_leftover_git(Path(pending.place))
        commit = settle_commit(root, pending)
    except (AgentTuiError, OSError) as error:
        message = error.message if isinstance(error, GitFailed) else str(error)
        return None, _UNKNOWN.format(message.rstrip("."), session.name)
    if commit is None:
        return pending, _UNDONE.format(pending.subject)
    settled_commit = replace(pending, made=commit)
    with suppress(OSError):  # else the next start comes to the same outcome
        save_pending_commit(session, settled_commit)
    return settled_commit, " ".join(filter(None, (_FINISHED.format(commit.id[:10], commit.subject), commit.problem)))


def _end_leftover_git(directory: Path) -> None:
    """Wait for the git of a killed program, which may be about to commit; end it after a grace period."""
    end = monotonic() + _GRACE_SECONDS
    while is_lock_held(directory):
        if monotonic() > end:
            kill_marked_processes(INDEX_VARIABLE, str(directory / "index"))
            end += _GRACE_SECONDS
        time.sleep(_POLL_SECONDS)
