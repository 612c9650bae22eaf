"""The sessions of a workspace, newest first, as a table for people and as records for clients. Nothing is repaired."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from core.errors import StateError
from core.exits import ExitCode
from core.protocol.events import Envelope, TurnStarted
from core.protocol.queries import SessionInfo
from core.sessions.fold import fold
from core.sessions.log import scan
from core.sessions.store import SessionStore, is_locked

_PRINTED = 50


def list_sessions(store: SessionStore, *, limit: int) -> tuple[SessionInfo, ...]:
    """At most `limit` sessions, the one written last first. A log that can't be read is listed with its `problem`."""
    return tuple(_info(directory) for directory in store.directories()[: max(limit, 0)])


def _info(directory: Path) -> SessionInfo:
    locked = is_locked(directory)
    try:
        found = scan(directory / "log.jsonl")
    except StateError as problem:
        written = (directory / "log.jsonl").stat().st_mtime_ns // 1_000_000
        return SessionInfo(
            id=directory.name,
            title="",
            started=0,
            updated=written,
            model="",
            mode="",
            locked=locked,
            problem=problem.message,
        )
    state = fold(found.envelopes)
    return SessionInfo(
        id=directory.name,
        title=state.title,
        started=state.started,
        updated=state.updated,
        model=state.model,
        mode=state.mode,
        turns=len(state.turns),
        pending=len(state.pending),
        locked=locked,
        problem="" if found.whole or locked else "The log is damaged; what is whole of it can be resumed.",
    )


def prompts_of(store: SessionStore, *, limit: int, sessions: int = 30) -> tuple[str, ...]:
    """What the user typed in the latest sessions, oldest first, without repeating a prompt right after itself."""
    found: list[Envelope] = []
    for directory in store.directories()[:sessions]:
        try:
            found += [each for each in scan(directory / "log.jsonl").envelopes if isinstance(each.event, TurnStarted)]
        except StateError:
            continue
    prompts: list[str] = []
    for each in sorted(found, key=lambda each: each.at):
        if isinstance(each.event, TurnStarted) and (not prompts or prompts[-1] != each.event.prompt):
            prompts.append(each.event.prompt)
    return tuple(prompts[-limit:]) if limit > 0 else ()


def print_sessions(directory: Path) -> int:
    """`agent-tui sessions`: a table on standard output."""
    found = list_sessions(SessionStore(directory), limit=_PRINTED)
    if not found:
        sys.stdout.write(f"No sessions of {directory} yet. Start one: agent-tui\n")
        return ExitCode.DONE
    for line in _table(found):
        sys.stdout.write(f"{line}\n")
    return ExitCode.DONE


def _table(sessions: tuple[SessionInfo, ...]) -> list[str]:
    width = max(len(each.id) for each in sessions)
    lines = [f"{'SESSION':<{width}}  {'LAST USED':<16}  TURNS  PENDING  TITLE"]
    for each in sessions:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.updated / 1000))
        note = " (open)" if each.locked else ""
        title = _plain(each.problem or each.title or "Untitled")
        lines.append(f"{each.id:<{width}}  {used:<16}  {each.turns:>5}  {each.pending:>7}  {title}{note}")
    return lines


def _plain(text: str) -> str:
    """One line without control characters: titles come from prompts."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:80]
