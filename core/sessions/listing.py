"""The sessions of a workspace, newest first, as a table for people and as records for clients. Nothing is
repaired."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from core.errors import StateError
from core.exits import ExitCode
from core.protocol.queries import SessionInfo
from core.sessions.log import read_log
from core.sessions.store import SessionStore, is_locked
from core.sessions.summary import SessionSummary, build_summary, load_summary
from core.state.fold import SessionState
from core.text.display_names import display_name, to_one_line

_MAX_PRINTED = 50
DAMAGED = "The log is damaged; what is whole of it can be resumed."


def list_sessions(
    store: SessionStore, *, limit: int, known: Mapping[str, SessionSummary] | None = None
) -> tuple[SessionInfo, ...]:
    """Return at most `limit` sessions, the one written last first; an unreadable log is listed with its
    `problem`.

    `known` are summaries of sessions that are open in this process. Only a log without a fitting summary is
    read.
    """
    directories = store.list_directories()[: max(limit, 0)]
    return tuple(_load_summary(directory, known or {}).info for directory in directories)


def _load_summary(directory: Path, known: Mapping[str, SessionSummary]) -> SessionSummary:
    locked = is_locked(directory)
    found = (
        known.get(directory.name) or load_summary(directory, growing=locked) or _read_summary(directory, locked=locked)
    )
    return replace(found, info=replace(found.info, locked=locked))


def _read_summary(directory: Path, *, locked: bool) -> SessionSummary:
    state = SessionState(recall=lambda _: ())  # what the model was told is not wanted
    try:
        found = read_log(directory / "log.jsonl", state.apply)
    except StateError as problem:
        return SessionSummary(size=0, info=_describe_unreadable(directory, problem))
    summary = build_summary(state, name=directory.name, size=found.size)
    if found.is_whole or locked:
        return summary
    return replace(summary, info=replace(summary.info, problem=DAMAGED))


def _describe_unreadable(directory: Path, problem: StateError) -> SessionInfo:
    written = (directory / "log.jsonl").stat().st_mtime_ns // 1_000_000
    return SessionInfo(
        id=directory.name, title="", started=0, updated=written, model="", mode="", problem=problem.message
    )


def load_prompts(
    store: SessionStore, *, limit: int, sessions: int = 30, known: Mapping[str, SessionSummary] | None = None
) -> tuple[str, ...]:
    """Return the user's prompts in the latest sessions, oldest first, without immediate repetitions."""
    found = [
        prompt for each in store.list_directories()[:sessions] for prompt in _load_summary(each, known or {}).prompts
    ]
    prompts: list[str] = []
    for each in sorted(found, key=lambda prompt: prompt.at):
        if not prompts or prompts[-1] != each.text:
            prompts.append(each.text)
    return tuple(prompts[-limit:]) if limit > 0 else ()


def print_sessions(directory: Path) -> int:
    """Print the table of `agent-tui sessions` on standard output. Returns the exit code."""
    found = list_sessions(SessionStore(directory), limit=_MAX_PRINTED)
    if not found:
        sys.stdout.write(f"No sessions of {display_name(str(directory))} yet. Start one: agent-tui\n")
        return ExitCode.DONE
    for line in _format_table(found):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("Go on with the last one: agent-tui -c; with another one: agent-tui --resume SESSION\n")
    return ExitCode.DONE


def _format_table(sessions: tuple[SessionInfo, ...]) -> list[str]:
    rows = [
        (each.id, _format_day(each.updated), str(each.turns), str(each.pending), each.mode or "-", _format_title(each))
        for each in sessions
    ]
    heads = ("SESSION", "LAST USED", "TURNS", "PENDING", "MODE", "TITLE")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(5)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  "
        f"{row[4]:<{widths[4]}}  {row[5]}"
        for row in (heads, *rows)
    ]


def _format_day(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


def _format_title(session: SessionInfo) -> str:
    """Format the title of a session and its special conditions."""
    notes = ["open now"] * session.locked + [session.problem] * bool(session.problem)
    return _shorten(session.title or "Untitled") + "".join(f" ({_shorten(note)})" for note in notes)


def _shorten(text: str) -> str:
    """Return the first 80 characters on one line: titles come from prompts."""
    return to_one_line(text)[:80]
