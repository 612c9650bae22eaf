"""Sessions as a table: those that wait first to be seen, runs of `-p` that left nothing as one line."""

from __future__ import annotations

import time
from collections.abc import Sequence

from core.protocol.queries import SessionInfo
from core.protocol.queries.sessions import list_forks
from core.text.display_names import display_name, to_one_line

_HEADS = ("SESSION", "LAST USED", "TURNS", "PENDING", "MODE", "TITLE")


def format_table(sessions: Sequence[SessionInfo], running: frozenset[str] = frozenset()) -> list[str]:
    """Return the lines of the table; `running`: those that can be attached to."""
    rows = [
        (
            session.id,
            format_day(session.updated),
            str(session.turns),
            str(session.pending),
            session.mode or "-",
            format_title(session, is_running=session.id in running),
        )
        for session in sessions
    ]
    lines = [_HEADS, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def split_runs(sessions: Sequence[SessionInfo]) -> tuple[list[SessionInfo], list[SessionInfo]]:
    """Return the sessions to list, and the runs of `-p` in which nothing waits."""
    runs = [
        session for session in sessions if session.unattended and not (session.pending or session.asked or session.tags)
    ]
    run_ids = {run.id for run in runs}
    return [session for session in sessions if session.id not in run_ids], runs


def format_tree(sessions: Sequence[SessionInfo]) -> list[str]:
    """Return the forks below the sessions that they were made from, each a line; sessions without any are left out."""
    return [f"{lead}{session.id}  {format_title(session)}" for lead, session in list_forks(sessions)]


def format_day(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


def format_title(session: SessionInfo, *, is_running: bool = False) -> str:
    """Return the title with what is to be said of the session."""
    notes = ["running" if is_running else "open now"] * session.locked + [session.problem] * bool(session.problem)
    notes += [f"{session.asked} waiting for an answer"] * bool(session.asked)
    tags = "".join(f" #{display_name(tag)}" for tag in session.tags)
    return shorten(session.title or "Untitled") + tags + "".join(f" ({shorten(note)})" for note in notes)


def shorten(text: str) -> str:
    """Return the first 80 characters on one line: titles come from prompts."""
    return to_one_line(text)[:80]
