"""The sessions of a workspace, newest first. Nothing is repaired."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from pathlib import Path

from msgspec.structs import replace

from core.errors import StateError
from core.protocol.queries import SessionInfo
from core.sessions.log import read_log
from core.sessions.store import SessionStore, is_locked
from core.sessions.summary import SessionSummary, build_summary, load_summary
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState

DAMAGED = "The log is damaged; what is whole of it can be resumed."


def list_sessions(
    store: SessionStore, *, limit: int, known: Mapping[str, SessionSummary] | None = None
) -> tuple[SessionInfo, ...]:
    """Return at most `limit` sessions, the one written last first; an unreadable log is listed with its `problem`.
    `known` are summaries of sessions that are open in this process. Only a log without a fitting summary is read."""
    directories = store.list_directories()[: max(limit, 0)]
    return tuple(_load_summary(directory, known or {}).info for directory in directories)


def _load_summary(directory: Path, known: Mapping[str, SessionSummary]) -> SessionSummary:
    locked = is_locked(directory)
    found = (
        known.get(directory.name) or load_summary(directory, growing=locked) or _read_summary(directory, locked=locked)
    )
    return replace(found, info=replace(found.info, locked=locked))


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
    store: SessionStore, *, limit: int, sessions: int = 30, known: Mapping[str, SessionSummary] | None = None
) -> tuple[str, ...]:
    """Return the user's prompts in the latest sessions, oldest first, without immediate repetitions."""
    found = [
        prompt for each in store.list_directories()[:sessions] for prompt in _load_summary(each, known or {}).prompts
    ]
    prompts = [text for text, _ in groupby(each.text for each in sorted(found, key=lambda prompt: prompt.at))]
    return tuple(prompts[-limit:]) if limit > 0 else ()
