"""The sessions of a workspace, newest first, from the summaries stored next to their logs. Nothing is repaired.

A summary is a convenience only: it names the size of the log that it was made from, and one that does not fit is
ignored; then the log itself is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain, groupby
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.errors import StateError
from core.filesystem.atomic_write import replace_file
from core.protocol.events import SessionStarted
from core.protocol.queries import SessionInfo
from core.protocol.renames import list_changes
from core.records import decode_json
from core.sessions.log import read_log
from core.sessions.record_format import decode_record
from core.sessions.store import SessionStore, is_locked, is_session_id
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.user_dirs import get_state_dir

FILE_NAME = "summary.json"
MAX_PROMPT_CHARS = 100_000  # longer prompts are left out of the history
MAX_TOTAL_CHARS = 1_000_000  # of the latest prompts together
LATEST_SESSIONS = 30  # sessions whose prompts the history includes
DAMAGED = "The log is damaged; its intact part can be resumed."


def list_sessions(
    store: SessionStore, *, limit: int, summaries: Mapping[str, SessionSummary] | None = None
) -> tuple[SessionInfo, ...]:
    """Return at most `limit` sessions, the one written last first; an unreadable log is listed with its `problem`.

    `summaries` are those of sessions that are open in this process. Only logs without a matching summary are read.
    """
    directories = store.list_directories()[: max(limit, 0)]
    return tuple(_load_summary(directory, summaries or {}).info for directory in directories)


def read_session_info(directory: Path) -> SessionInfo:
    """Return the list entry of one session."""
    return _load_summary(directory, {}).info


def find_latest_conversation(store: SessionStore) -> str:
    """Return the id of the attended session that was written last (a run of `-p` is unattended); without one, of the
    last of all; "" = there is none."""
    latest = store.list_directories()
    attended_names = (directory.name for directory in latest if not read_session_info(directory).unattended)
    return next(attended_names, latest[0].name if latest else "")


def can_be_deleted(session: SessionInfo) -> bool:
    """True if nothing in a session waits for the user, no process has it open, it is readable, and it has no tag."""
    is_waiting = session.pending or session.asked or session.draft
    return not (is_waiting or session.locked or session.problem or session.tags)


def find_workspace(session: str, home: Path | None = None) -> Path | None:
    """Return the workspace of any session; None = there is no such session, or its project is gone."""
    if not is_session_id(session):
        return None
    state = home or get_state_dir()
    below = ("workspaces", "agents/*/sessions/workspaces")  # sessions of the user, and of background agents
    for log in chain.from_iterable(state.glob(f"{parent}/*/sessions/{session}/log.jsonl") for parent in below):
        with log.open("rb") as file:
            first = decode_record(file.readline()[:-1])
        if first is not None and isinstance(first.event, SessionStarted):
            path = Path(first.event.workspace)
            return path if path.is_dir() else None
    return None


def list_workspaces(home: Path | None = None) -> list[Path]:
    """Return the existing workspaces that have sessions."""
    workspaces = dict[Path, None]()
    for sessions in ((home or get_state_dir()) / "workspaces").glob("*/sessions"):
        logs = (directory / "log.jsonl" for directory in sessions.iterdir() if is_session_id(directory.name))
        if (log := next((path for path in logs if path.is_file()), None)) is not None:
            workspace = find_workspace(log.parent.name, home)
            workspaces |= {workspace: None} if workspace is not None else {}
    return [*workspaces]


def _load_summary(directory: Path, summaries: Mapping[str, SessionSummary]) -> SessionSummary:
    is_open = is_locked(directory)
    summary = (
        summaries.get(directory.name)
        or load_summary(directory, growing=is_open)
        or _read_summary(directory, is_open=is_open)
    )
    return replace(summary, info=replace(summary.info, locked=is_open, running=is_open and summary.info.running))


def _read_summary(directory: Path, *, is_open: bool) -> SessionSummary:
    state = SessionState()
    try:
        extent = read_log(directory / "log.jsonl", partial(apply_event, state, table=SHARED_STEPS))
    except StateError as problem:
        write_time = (directory / "log.jsonl").stat().st_mtime_ns // 1_000_000
        info = SessionInfo(
            id=directory.name, title="", started=0, updated=write_time, model="", mode="", problem=problem.message
        )
        return SessionSummary(size=0, info=info)
    summary = build_summary(state, name=directory.name, size=extent.size)
    if extent.is_whole or is_open:
        return summary
    return replace(summary, info=replace(summary.info, problem=DAMAGED))


def load_prompts(
    store: SessionStore, *, limit: int, pattern: str = "", summaries: Mapping[str, SessionSummary] | None = None
) -> tuple[str, ...]:
    """Return the user's prompts in the latest sessions, oldest first, without immediate repetitions; with a pattern,
    those of all sessions that contain all of its words."""
    words = pattern.lower().split()
    directories = store.list_directories()[: None if words else LATEST_SESSIONS]
    entries = [
        prompt
        for directory in directories
        for prompt in _load_summary(directory, summaries or {}).prompts
        if all(word in prompt.text.lower() for word in words)
    ]
    prompts = [text for text, _ in groupby(entry.text for entry in sorted(entries, key=lambda prompt: prompt.at))]
    return tuple(prompts[-limit:]) if limit > 0 else ()


class PromptEntry(Struct, frozen=True, array_like=True):
    """One prompt of the user; `at` in ms."""

    at: int
    text: str


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The summary of a session; `size`: bytes of the log that it was made from."""

    size: int
    info: SessionInfo
    prompts: tuple[PromptEntry, ...] = ()


def build_summary(state: SessionState, *, name: str, size: int) -> SessionSummary:
    """Build the summary of the session `name` in this state."""
    bulks = state.review.bulks
    info = SessionInfo(
        id=name,
        title=state.title,
        started=state.started,
        updated=state.updated,
        model=state.model,
        mode=state.mode,
        turns=len(state.turns),
        pending=len(list_changes(state.changes)) + sum(bulk.needs_verdict for bulk in bulks),
        kept=sum(not bulk.needs_verdict for bulk in bulks),
        asked=len(state.approvals) + len(state.questions),
        running=state.current_turn is not None,
        branch=state.branch,
        tags=state.tags,
        unattended=state.is_unattended,
        forked_from=state.forked_from,
        draft=bool(state.draft),
    )
    return SessionSummary(size=size, info=info, prompts=tuple(reversed(list(_iterate_latest(state)))))


def _iterate_latest(state: SessionState) -> Iterator[PromptEntry]:
    room = MAX_TOTAL_CHARS
    for turn in reversed(state.turns):
        room -= len(turn.prompt)
        if room < 0:
            return
        if len(turn.prompt) <= MAX_PROMPT_CHARS and turn.cause == "prompt":
            yield PromptEntry(turn.started, turn.prompt)


def load_summary(directory: Path, *, growing: bool = False) -> SessionSummary | None:
    """Load the summary of a log if it matches; for a log that is `growing`, one of an earlier part matches too."""
    try:
        summary = decode_json((directory / FILE_NAME).read_bytes(), SessionSummary)
        size = (directory / "log.jsonl").stat().st_size
        return summary if summary.size == size or (growing and summary.size < size) else None
    except (OSError, msgspec.MsgspecError):
        return None


def save_summary(directory: Path, summary: SessionSummary) -> None:
    """Save a summary, whole or not at all; without it listing only takes longer."""
    with suppress(OSError):
        replace_file(directory / FILE_NAME, msgspec.json.encode(summary), durable=False)
