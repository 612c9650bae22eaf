"""The sessions of a workspace, newest first, as a table for people and as records for clients. Nothing is repaired."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from core.errors import StateError
from core.exits import ExitCode
from core.names import named, on_one_line
from core.protocol.queries import SessionInfo
from core.sessions.fold import SessionState
from core.sessions.log import walk
from core.sessions.store import SessionStore, is_locked
from core.sessions.summary import Summary, kept, summary_of

_PRINTED = 50
DAMAGED = "The log is damaged; what is whole of it can be resumed."


def list_sessions(
    store: SessionStore, *, limit: int, known: Mapping[str, Summary] | None = None
) -> tuple[SessionInfo, ...]:
    """At most `limit` sessions, the one written last first. A log that can't be read is listed with its `problem`.

    `known` are summaries of sessions that are open in this process. Only a log without a fitting summary is read.
    """
    directories = store.directories()[: max(limit, 0)]
    return tuple(_summary(directory, known or {}).info for directory in directories)


def _summary(directory: Path, known: Mapping[str, Summary]) -> Summary:
    locked = is_locked(directory)
    found = known.get(directory.name) or kept(directory, growing=locked) or _read(directory, locked=locked)
    return replace(found, info=replace(found.info, locked=locked))


def _read(directory: Path, *, locked: bool) -> Summary:
    state = SessionState(recall=lambda _: ())  # what the model was told is not wanted
    try:
        found = walk(directory / "log.jsonl", state.apply)
    except StateError as problem:
        return Summary(size=0, info=_unreadable(directory, problem))
    summary = summary_of(state, name=directory.name, size=found.size)
    if found.whole or locked:
        return summary
    return replace(summary, info=replace(summary.info, problem=DAMAGED))


def _unreadable(directory: Path, problem: StateError) -> SessionInfo:
    written = (directory / "log.jsonl").stat().st_mtime_ns // 1_000_000
    return SessionInfo(
        id=directory.name, title="", started=0, updated=written, model="", mode="", problem=problem.message
    )


def prompts_of(
    store: SessionStore, *, limit: int, sessions: int = 30, known: Mapping[str, Summary] | None = None
) -> tuple[str, ...]:
    """What the user typed in the latest sessions, oldest first, without repeating a prompt right after itself."""
    found = [prompt for each in store.directories()[:sessions] for prompt in _summary(each, known or {}).prompts]
    prompts: list[str] = []
    for each in sorted(found, key=lambda prompt: prompt.at):
        if not prompts or prompts[-1] != each.text:
            prompts.append(each.text)
    return tuple(prompts[-limit:]) if limit > 0 else ()


def print_sessions(directory: Path) -> int:
    """`agent-tui sessions`: a table on standard output."""
    found = list_sessions(SessionStore(directory), limit=_PRINTED)
    if not found:
        sys.stdout.write(f"No sessions of {named(str(directory))} yet. Start one: agent-tui\n")
        return ExitCode.DONE
    for line in _table(found):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("Go on with the last one: agent-tui -c; with another one: agent-tui --resume SESSION\n")
    return ExitCode.DONE


def _table(sessions: tuple[SessionInfo, ...]) -> list[str]:
    rows = [
        (each.id, _day(each.updated), str(each.turns), str(each.pending), each.mode or "-", _title(each))
        for each in sessions
    ]
    heads = ("SESSION", "LAST USED", "TURNS", "PENDING", "MODE", "TITLE")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(5)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  "
        f"{row[4]:<{widths[4]}}  {row[5]}"
        for row in (heads, *rows)
    ]


def _day(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


def _title(session: SessionInfo) -> str:
    """What the session is about, then what is special about it."""
    notes = ["open now"] * session.locked + [session.problem] * bool(session.problem)
    return _short(session.title or "Untitled") + "".join(f" ({_short(note)})" for note in notes)


def _short(text: str) -> str:
    """One line: titles come from prompts."""
    return on_one_line(text)[:80]
