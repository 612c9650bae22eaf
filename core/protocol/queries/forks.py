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
    known = {each.id: each for each in sessions}
    below = dict[str, list[SessionInfo]]()
    for each in sorted(sessions, key=lambda info: (info.started, info.id)):
        if each.forked_from in known and each.forked_from != each.id:
            below.setdefault(each.forked_from, []).append(each)
    tops = [known[each] for each in below if known[each].forked_from not in known]
    return [row for top in tops for row in _walk(top, below, "", "")]


def _walk(session: SessionInfo, below: Mapping[str, list[SessionInfo]], lead: str, indent: str) -> Iterator[ForkRow]:
    yield ForkRow(lead, session)
    forks = below.get(session.id, [])
    for at, each in enumerate(forks, 1):
        is_last = at == len(forks)
        yield from _walk(each, below, indent + ("└─ " if is_last else "├─ "), indent + ("   " if is_last else "│  "))
