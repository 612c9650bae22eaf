"""The content of a repository as plain data: references, commits, what each changes, the index."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from core.git.repository import GitRepository

MISSING_MODE = "000000"  # the mode of what is not there
LINK_MODE, SUBMODULE_MODE = "120000", "160000"
_OBJECT_NAME = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


class GitEntry(Struct, frozen=True):
    """A path in a tree or index: its mode in octal digits and its object's name; `old*`: of what a change replaces.

    `stage` is not 0 for the sides of an unfinished merge.
    """

    path: bytes
    mode: str
    oid: str
    old_mode: str = MISSING_MODE
    old: str = ""
    stage: int = 0


class GitCommit(Struct, frozen=True):
    """A commit. `head`: the header of the object without tree and parents; `message`: its bytes."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    head: bytes
    message: bytes

    @property
    def subject(self) -> str:
        return self.message.decode("utf-8", "replace").strip().partition("\n")[0]


def is_object_name(text: bytes) -> bool:
    """True if this is the full name of an object."""
    return _OBJECT_NAME.match(text) is not None


def list_references(room: GitRepository) -> dict[str, str]:
    """Return every reference below `refs/` with the object that it names."""
    lines = room.run("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "surrogateescape")
    pairs = (line.split(" ", 1) for line in lines.splitlines())
    return {name: oid for oid, name in pairs}


def find_object_types(room: GitRepository, oids: Iterable[str]) -> dict[str, str]:
    """Return the type of each object, behind any tags; "missing" for those that are not there."""
    names = list(dict.fromkeys(oids))
    if not names:
        return {}
    asked = "".join(f"{each}^{{}}\n" for each in names).encode()
    told = room.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).decode()
    return dict(zip(names, (line.rpartition(" ")[2] for line in told.splitlines()), strict=True))


def list_commits(room: GitRepository, wanted: Iterable[str], known: Iterable[str]) -> list[GitCommit]:
    """Return the commits that lead to `wanted` and not to `known`, parents first."""
    asked = "".join([*(f"{each}\n" for each in wanted), *(f"^{each}\n" for each in known)]).encode()
    names = room.run("rev-list", "--topo-order", "--reverse", "--stdin", stdin=asked, seconds=30.0).split()
    return [read_commit(room, name.decode()) for name in names]


def read_commit(room: GitRepository, oid: str) -> GitCommit:
    """Read one commit, exact to the byte."""
    header, _, message = room.run("cat-file", "commit", oid).partition(b"\n\n")
    tree, *rest = header.split(b"\n")
    parents = [line.split()[1].decode() for line in rest if line.startswith(b"parent ")]
    head = b"\n".join(line for line in rest if not line.startswith(b"parent "))
    return GitCommit(oid, tree.split()[1].decode(), tuple(parents), head, message)


def list_commit_changes(room: GitRepository, of: GitCommit) -> list[GitEntry]:
    """Return what a commit changes: of a merge, what differs from all of its parents."""
    if not of.parents:
        return list_tree(room, of.tree)
    found = [diff_trees(room, parent, of.oid) for parent in of.parents]
    common = set.intersection(*({each.path for each in side} for side in found))
    return [each for each in found[0] if each.path in common]


def diff_trees(room: GitRepository, old: str, new: str) -> list[GitEntry]:
    """Return what differs in the tree of `new` from that of `old`; "" is the empty tree."""
    if not old:
        return list_tree(room, new) if new else []
    fields = room.run("diff-tree", "-r", "-z", "--no-renames", old, new, seconds=30.0).split(b"\0")
    found = []
    for facts, path in zip(fields[0:-1:2], fields[1::2], strict=True):
        old_mode, mode, before, after, _ = facts.decode().removeprefix(":").split(" ")
        found.append(GitEntry(path, mode, after, old_mode, before))
    return found


def list_tree(room: GitRepository, of: str) -> list[GitEntry]:
    """Return every file of a tree."""
    found = []
    for each in room.run("ls-tree", "-r", "-z", of, seconds=30.0).split(b"\0")[:-1]:
        facts, _, path = each.partition(b"\t")
        mode, _, oid = facts.decode().split(" ")
        found.append(GitEntry(path, mode, oid))
    return found


def list_index(room: GitRepository) -> list[GitEntry]:
    """Return every entry of the index."""
    found = []
    for each in room.run("ls-files", "--stage", "-z", seconds=30.0).split(b"\0")[:-1]:
        facts, _, path = each.partition(b"\t")
        mode, oid, stage = facts.decode().split(" ")
        found.append(GitEntry(path, mode, oid, stage=int(stage)))
    return found


def list_unwatched(room: GitRepository) -> set[bytes]:
    """Return the paths that git no longer checks: assume-unchanged or skip-worktree in the index."""
    found = room.run("ls-files", "-v", "-z", seconds=30.0).split(b"\0")[:-1]
    return {each[2:] for each in found if each[:1] == b"S" or each[:1].islower()}


def watch_again(room: GitRepository, paths: Iterable[bytes]) -> None:
    """Clear both marks of entries of the index."""
    lines = b"".join(path + b"\0" for path in paths)
    for mark in ("--no-assume-unchanged", "--no-skip-worktree"):  # git heeds one of them at a time
        room.run("update-index", mark, "-z", "--stdin", stdin=lines, seconds=30.0)


def update_index(room: GitRepository, entries: Iterable[GitEntry], file: str = "") -> None:
    """Set entries of an index (mode `MISSING_MODE`: remove them); `file`: of that index instead of the
    repository's."""
    lines = b"".join(f"{each.mode} {each.oid}\t".encode() + each.path + b"\0" for each in entries)
    more = {"GIT_INDEX_FILE": file} if file else {}
    if lines:
        room.run(
            "update-index", "--add", "--remove", "--replace", "-z", "--index-info", stdin=lines, seconds=30.0, more=more
        )
