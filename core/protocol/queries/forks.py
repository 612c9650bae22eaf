"""Sessions as a tree: each fork below the session that it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from core.protocol.queries.sessions import SessionInfo


class ForkRow(NamedTuple):
    """A session in the tree; `lead`: the lines that lead to it from its source."""

    lead: str
    session: SessionInfo


def list_forks(sessions: Sequence[SessionInfo]) -> list[ForkRow]:
    """Return the sessions that are forks or were forked, from the top down. The fork of one that is gone is a top."""
    sessions_by_id = {session.id: session for session in sessions}
    below = dict[str, list[SessionInfo]]()
    for session in sorted(sessions, key=lambda info: (info.started, info.id)):
        if session.forked_from in sessions_by_id and session.forked_from != session.id:
            below.setdefault(session.forked_from, []).append(session)
    tops = [
        sessions_by_id[session_id]
        for session_id in below
        if sessions_by_id[session_id].forked_from not in sessions_by_id
    ]
    return [row for top in tops for row in _walk(top, below, "", "")]


def _walk(session: SessionInfo, below: Mapping[str, list[SessionInfo]], lead: str, indent: str) -> Iterator[ForkRow]:
    yield ForkRow(lead, session)
    forks = below.get(session.id, [])
    for number, fork in enumerate(forks, 1):
        is_last = number == len(forks)
        yield from _walk(fork, below, indent + ("└─ " if is_last else "├─ "), indent + ("   " if is_last else "│  "))
