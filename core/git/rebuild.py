"""Commits made again with other content: author, dates and message are kept, a signature can't be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from core.git.history import GitCommit, GitEntry, list_commit_changes, update_index
from core.git.repository import GitRepository

_SIGNATURE = re.compile(rb"(?m)^gpgsig(?:-sha256)? .*\n?(?: .*\n?)*")
ReplaceEntry = Callable[[GitEntry], GitEntry | None]


def is_chain(commits: Sequence[GitCommit]) -> bool:
    """True if each commit has the one before as its only parent."""
    return all(len(each.parents) < 2 for each in commits) and all(
        after.parents == (before.oid,) for before, after in pairwise(commits)
    )


def rebuild_commits(room: GitRepository, chain: Sequence[GitCommit], settled: ReplaceEntry) -> dict[str, str]:
    """Return the new commit for each of the chain ("": none).

    `settled` returns the entry that replaces one that a commit changed, None: the parent's. A commit that changes
    nothing then is left out.
    """
    made: dict[str, str] = {}
    parent = chain[0].parents[0] if chain[0].parents else ""
    for each in chain:
        entries = [known for entry in list_commit_changes(room, each) if (known := settled(entry)) is not None]
        tree = _write_tree(room, parent, entries)
        is_empty = tree == _write_tree(room, parent, [])
        had_content = each.tree != _write_tree(room, each.parents[0] if each.parents else "", [])
        if not (is_empty and had_content):
            parent = _write_commit(room, each, tree, parent)
        made[each.oid] = parent
    return made


def _write_tree(room: GitRepository, parent: str, entries: Sequence[GitEntry]) -> str:
    file = str(room.directory / "rebuilding")
    more = {"GIT_INDEX_FILE": file}
    room.run("read-tree", *([parent] if parent else ["--empty"]), more=more, seconds=30.0)
    update_index(room, entries, file)
    return room.run("write-tree", more=more, seconds=30.0).decode().strip()


def _write_commit(room: GitRepository, of: GitCommit, tree: str, parent: str) -> str:
    if tree == of.tree and of.parents == ((parent,) if parent else ()):
        return of.oid
    parents = f"parent {parent}\n" if parent else ""
    head = _SIGNATURE.sub(b"", of.head + b"\n").rstrip(b"\n")
    data = f"tree {tree}\n{parents}".encode() + head + b"\n\n" + of.message
    return room.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=data).decode().strip()
