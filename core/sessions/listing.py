"""The sessions of a workspace, newest first. Nothing is repaired."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain, groupby
from pathlib import Path

from msgspec.structs import replace

from core.errors import StateError
from core.protocol.events import SessionStarted
from core.protocol.queries import SessionInfo
from core.sessions.log import read_log
from core.sessions.record_format import decode_record
from core.sessions.store import SessionStore, is_locked, is_session_id
from core.sessions.summary import SessionSummary, build_summary, load_summary
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.user_dirs import get_state_dir

LATEST_SESSIONS = 30  # whose prompts are gone through one by one
DAMAGED = "The log is damaged; what is whole of it can be resumed."


def list_sessions(
    store: SessionStore, *, limit: int, known: Mapping[str, SessionSummary] | None = None
) -> tuple[SessionInfo, ...]:
    """Return at most `limit` sessions, the one written last first; an unreadable log is listed with its `problem`.
    `known` are summaries of sessions that are open in this process. Only a log without a fitting summary is read."""
    directories = store.list_directories()[: max(limit, 0)]
    return tuple(_load_summary(directory, known or {}).info for directory in directories)


def read_session_info(directory: Path) -> SessionInfo:
    """Return what a list shows of one session."""
    return _load_summary(directory, {}).info


def find_latest_conversation(store: SessionStore) -> str:
    """Return the id of the session that was written last of those that somebody was asked in, which a run of `-p` is
    not; without one, of the last of all, "" = there is none."""
    latest = store.list_directories()
    attended = (each.name for each in latest if not read_session_info(each).unattended)
    return next(attended, latest[0].name if latest else "")


def can_be_deleted(session: SessionInfo) -> bool:
    """True if nothing in a session waits for the user, nobody has it open, all of it can be read, and it has no tag."""
    waits = session.pending or session.asked or session.draft
    return not (waits or session.locked or session.problem or session.tags)


def find_workspace(session: str, home: Path | None = None) -> Path | None:
    """Return the workspace of a session, whichever it is; None: there is no such session, or its project is gone."""
    if not is_session_id(session):
        return None
    state = home or get_state_dir()
    below = ("workspaces", "agents/*/sessions/workspaces")  # of the user, and of background agents
    for log in chain.from_iterable(state.glob(f"{place}/*/sessions/{session}/log.jsonl") for place in below):
        with log.open("rb") as file:
            first = decode_record(file.readline()[:-1])
        if first is not None and isinstance(first.event, SessionStarted):
            found = Path(first.event.workspace)
            return found if found.is_dir() else None
    return None


def list_workspaces(home: Path | None = None) -> list[Path]:
    """Return the workspaces that have sessions and are still there."""
    found = dict[Path, None]()
    for sessions in ((home or get_state_dir()) / "workspaces").glob("*/sessions"):
        logs = (each / "log.jsonl" for each in sessions.iterdir() if is_session_id(each.name))
        if (log := next((each for each in logs if each.is_file()), None)) is not None:
            workspace = find_workspace(log.parent.name, home)
            found |= {workspace: None} if workspace is not None else {}
    return [*found]


def load_session_info(directory: Path) -> SessionInfo:
    """Return what lists show of the session in a directory."""
    return _load_summary(directory, {}).info


def _load_summary(directory: Path, known: Mapping[str, SessionSummary]) -> SessionSummary:
    locked = is_locked(directory)
    found = (
        known.get(directory.name) or load_summary(directory, growing=locked) or _read_summary(directory, locked=locked)
    )
    return replace(found, info=replace(found.info, locked=locked, running=locked and found.info.running))


def _read_summary(directory: Path, *, locked: bool) -> SessionSummary:
    state = SessionState()
    try:
        found = read_log(directory / "log.jsonl", partial(apply_event, state, table=SHARED_STEPS))
    except StateError as problem:
        written = (directory / "log.jsonl").stat().st_mtime_ns // 1_000_000
        info = SessionInfo(
            id=directory.name, title="", started=0, updated=written, model="", mode="", problem=problem.message
        )
        return SessionSummary(size=0, info=info)
    summary = build_summary(state, name=directory.name, size=found.size)
    if found.is_whole or locked:
        return summary
    return replace(summary, info=replace(summary.info, problem=DAMAGED))


def load_prompts(
    store: SessionStore, *, limit: int, pattern: str = "", known: Mapping[str, SessionSummary] | None = None
) -> tuple[str, ...]:
    """Return the user's prompts in the latest sessions, oldest first, without immediate repetitions; with a pattern
    those of all sessions that hold each of its words."""
    words = pattern.lower().split()
    directories = store.list_directories()[: None if words else LATEST_SESSIONS]
    found = [
        prompt
        for each in directories
        for prompt in _load_summary(each, known or {}).prompts
        if all(word in prompt.text.lower() for word in words)
    ]
    prompts = [text for text, _ in groupby(each.text for each in sorted(found, key=lambda prompt: prompt.at))]
    return tuple(prompts[-limit:]) if limit > 0 else ()
