"""Commits made again with other content: author, dates and message stay, a signature can't."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from core.git.history import Commit, Entry, changes, put_in_index
from core.git.room import Room

_SIGNATURE = re.compile(rb"(?m)^gpgsig(?:-sha256)? .*\n?(?: .*\n?)*")
Settled = Callable[[Entry], Entry | None]


def is_chain(commits: Sequence[Commit]) -> bool:
    """Whether each commit has the one before as its only parent."""
    return all(len(each.parents) < 2 for each in commits) and all(
        after.parents == (before.oid,) for before, after in pairwise(commits)
    )


def rebuilt(room: Room, chain: Sequence[Commit], settled: Settled) -> dict[str, str]:
    """What stands for each commit of the chain ("": nothing): `settled` says what an entry that a commit changed is to
    be instead, None: what it is in the parent. A commit that changes nothing then is left out."""
    made: dict[str, str] = {}
    parent = chain[0].parents[0] if chain[0].parents else ""
    for each in chain:
        entries = [known for entry in changes(room, each) if (known := settled(entry)) is not None]
        tree = _tree(room, parent, entries)
        is_empty = tree == _tree(room, parent, [])
        had_content = each.tree != _tree(room, each.parents[0] if each.parents else "", [])
        if not (is_empty and had_content):
            parent = _written(room, each, tree, parent)
        made[each.oid] = parent
    return made


def _tree(room: Room, parent: str, entries: Sequence[Entry]) -> str:
    file = str(room.directory / "rebuilding")
    more = {"GIT_INDEX_FILE": file}
    room.run("read-tree", *([parent] if parent else ["--empty"]), more=more, seconds=30.0)
    put_in_index(room, entries, file)
    return room.run("write-tree", more=more, seconds=30.0).decode().strip()


def _written(room: Room, of: Commit, tree: str, parent: str) -> str:
    if tree == of.tree and of.parents == ((parent,) if parent else ()):
        return of.oid
    parents = f"parent {parent}\n" if parent else ""
    head = _SIGNATURE.sub(b"", of.head + b"\n").rstrip(b"\n")
    data = f"tree {tree}\n{parents}".encode() + head + b"\n\n" + of.message
    return room.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
