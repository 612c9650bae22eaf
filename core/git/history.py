"""What a repository holds, as plain data: references, commits, what each changes, the index."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from core.git.room import Room

GONE = "000000"  # the mode of what is not there
LINK, MODULE = "120000", "160000"
_NAME = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


class Entry(Struct, frozen=True):
    """A path in a tree or index: its mode in octal digits and the name of its object; of what a change replaces the
    same. `stage` is not 0 for the sides of a merge that waits."""

    path: bytes
    mode: str
    oid: str
    old_mode: str = GONE
    old: str = ""
    stage: int = 0


class Commit(Struct, frozen=True):
    """`head`: the header of the object without tree and parents; `message` as it is."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    head: bytes
    message: bytes

    @property
    def subject(self) -> str:
        return self.message.decode("utf-8", "replace").strip().partition("\n")[0]


def is_name(text: bytes) -> bool:
    """Whether this is the name of an object, in full."""
    return _NAME.match(text) is not None


def references(room: Room) -> dict[str, str]:
    """Every reference below `refs/` with the object that it names."""
    lines = room.run("for-each-ref", "--format=%(objectname) %(refname)").decode("utf-8", "surrogateescape")
    pairs = (line.split(" ", 1) for line in lines.splitlines())
    return {name: oid for oid, name in pairs}


def kinds(room: Room, oids: Iterable[str]) -> dict[str, str]:
    """The type of each object, behind any tags; "missing" for those that are not there."""
    names = list(dict.fromkeys(oids))
    if not names:
        return {}
    asked = "".join(f"{each}^{{}}\n" for each in names).encode()
    told = room.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).decode()
    return dict(zip(names, (line.rpartition(" ")[2] for line in told.splitlines()), strict=True))


def commits(room: Room, wanted: Iterable[str], known: Iterable[str]) -> list[Commit]:
    """The commits that lead to `wanted` and not to `known`, parents first."""
    asked = "".join([*(f"{each}\n" for each in wanted), *(f"^{each}\n" for each in known)]).encode()
    names = room.run("rev-list", "--topo-order", "--reverse", "--stdin", stdin=asked, seconds=30.0).split()
    return [commit(room, name.decode()) for name in names]


def commit(room: Room, oid: str) -> Commit:
    """One commit, read to the byte."""
    header, _, message = room.run("cat-file", "commit", oid).partition(b"\n\n")
    tree, *rest = header.split(b"\n")
    parents = [line.split()[1].decode() for line in rest if line.startswith(b"parent ")]
    head = b"\n".join(line for line in rest if not line.startswith(b"parent "))
    return Commit(oid, tree.split()[1].decode(), tuple(parents), head, message)


def changes(room: Room, of: Commit) -> list[Entry]:
    """What a commit changes: of a merge, what it has like none of its parents."""
    if not of.parents:
        return tree(room, of.tree)
    found = [differences(room, parent, of.oid) for parent in of.parents]
    common = set.intersection(*({each.path for each in side} for side in found))
    return [each for each in found[0] if each.path in common]


def differences(room: Room, old: str, new: str) -> list[Entry]:
    """What the tree of `new` has other than that of `old`; "" is the empty tree."""
    if not old:
        return tree(room, new) if new else []
    fields = room.run("diff-tree", "-r", "-z", "--no-renames", old, new, seconds=30.0).split(b"\0")
    found = []
    for facts, path in zip(fields[0:-1:2], fields[1::2], strict=True):
        old_mode, mode, before, after, _ = facts.decode().removeprefix(":").split(" ")
        found.append(Entry(path, mode, after, old_mode, before))
    return found


def tree(room: Room, of: str) -> list[Entry]:
    """Every file of a tree."""
    found = []
    for each in room.run("ls-tree", "-r", "-z", of, seconds=30.0).split(b"\0")[:-1]:
        facts, _, path = each.partition(b"\t")
        mode, _, oid = facts.decode().split(" ")
        found.append(Entry(path, mode, oid))
    return found


def index(room: Room) -> list[Entry]:
    """Every entry of the index."""
    found = []
    for each in room.run("ls-files", "--stage", "-z", seconds=30.0).split(b"\0")[:-1]:
        facts, _, path = each.partition(b"\t")
        mode, oid, stage = facts.decode().split(" ")
        found.append(Entry(path, mode, oid, stage=int(stage)))
    return found


def unseen(room: Room) -> set[bytes]:
    """Paths at whose files git no longer looks: assume-unchanged or skip-worktree in the index."""
    found = room.run("ls-files", "-v", "-z", seconds=30.0).split(b"\0")[:-1]
    return {each[2:] for each in found if each[:1] == b"S" or each[:1].islower()}


def look_again(room: Room, paths: Iterable[bytes]) -> None:
    """Take both marks off entries of the index."""
    lines = b"".join(path + b"\0" for path in paths)
    for mark in ("--no-assume-unchanged", "--no-skip-worktree"):  # git heeds one of them at a time
        room.run("update-index", mark, "-z", "--stdin", stdin=lines, seconds=30.0)


def put_in_index(room: Room, entries: Iterable[Entry], file: str = "") -> None:
    """Set entries of an index (mode `GONE`: take them out); `file`: of that one instead of the room's own."""
    lines = b"".join(f"{each.mode} {each.oid}\t".encode() + each.path + b"\0" for each in entries)
    more = {"GIT_INDEX_FILE": file} if file else {}
    if lines:
        room.run(
            "update-index", "--add", "--remove", "--replace", "-z", "--index-info", stdin=lines, seconds=30.0, more=more
        )
