"""`agent-tui sessions`: the sessions of a workspace as a table; and the one that a screen is to go on with."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from core import demo
from core.cli.arguments import ScreenArguments
from core.cli.parsing import Arguments, Front
from core.errors import StateError
from core.exits import ExitCode
from core.protocol.queries import SessionInfo
from core.sessions.listing import list_sessions
from core.sessions.store import SessionStore
from core.text.display_names import display_name, to_one_line

_MAX_PRINTED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsArguments(Arguments):
    front: ClassVar[Front] = "sessions"


def build_arguments(directory: Path, _: argparse.Namespace) -> SessionsArguments:
    """Return the arguments of a main command line whose first word was `sessions`."""
    return SessionsArguments(directory=directory)


def run(arguments: SessionsArguments) -> int:
    """Print the table on standard output. Returns the exit code."""
    directory = arguments.directory
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
    notes = ["open now"] * session.locked + [session.problem] * bool(session.problem)
    return _shorten(session.title or "Untitled") + "".join(f" ({_shorten(note)})" for note in notes)


def _shorten(text: str) -> str:
    """Return the first 80 characters on one line: titles come from prompts."""
    return to_one_line(text)[:80]


def choose_session(arguments: ScreenArguments) -> ScreenArguments:
    """Return the arguments with the session to resume named. Raises `StateError`: there is none, or it is in use."""
    if not (arguments.continue_last or arguments.resume):
        return arguments
    store, session = SessionStore(arguments.directory), arguments.resume or ""
    if arguments.demo and not (session := demo.find_latest_session()):
        raise StateError("no demo was begun yet.", hint="Start one: agent-tui --demo", code="session_unknown")
    if session and not store.has_session(session) and (copy := demo.find_project(session)):
        store = SessionStore(copy)
    session = store.resolve_id(session)
    store.open(session).close()
    return replace(arguments, continue_last=False, resume=session, demo=False)
