"""A repository as commands left it, laid out so that git can be asked about it.

Objects are taken in by their content: one that is not what its name says, or stands for one that the project has, is
not there. So what git tells afterwards is true, whatever was written below `.git/objects`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from core.git.places import Places, find
from core.git.room import GitFailed, Room, at_hand, configured, room
from core.git.settings import harmless
from core.git.short_lived import short_lived
from core.shadow.seen import Seen
from core.shadow.stack import Layered
from core.workspace import Workspace

_LOOSE = re.compile(r"[0-9a-f]{2}/[0-9a-f]{38}(?:[0-9a-f]{24})?\Z")
_READ = re.compile(r"(?:HEAD|packed-refs|index|sharedindex\..*|shallow|[A-Z]+(?:_[A-Z]+)*_HEAD)\Z")
UNDER_WAY = ("rebase-merge", "rebase-apply", "sequencer")
_SMALL = 1 << 20
_INDEX = 1 << 28
_WALKED = 100_000


class LaidRepository(Struct, frozen=True):
    """`now`: with what commands left; `before`: the project's own, None if it has none. `head`: of `now`; `hashes`: its
    algorithm for the names of objects; `under_way`: directories of a rebase that commands began."""

    rel: str
    now: Room
    before: Room | None
    places: Places | None
    head: bytes
    hashes: str
    under_way: tuple[str, ...] = ()


@contextmanager
def laid_out(workspace: Workspace, seen: Seen, rel: str) -> Iterator[LaidRepository]:
    """For the directory `rel`, which is named `.git`. `GitFailed`: it is no repository that git can read."""
    root = (workspace.root / rel).parent
    with short_lived() as directory, room(root) as before:
        nowhere = directory / "tree"
        nowhere.mkdir()
        now = Room(at_hand(root), directory, root if root.is_dir() else nowhere)
        places = find(root) if before else None
        if before is None and os.path.lexists(root / ".git" / "HEAD"):
            raise GitFailed(f"{rel} of the project is no repository of its own.")
        head = _read(seen, f"{rel}/HEAD")
        users, own = configured(now, _read(seen, f"{rel}/config"))
        (now.directory / "config").write_text(harmless(users, own, head), encoding="utf-8", errors="surrogateescape")
        hashes = "sha256" if ("extensions.objectformat", "sha256") in own else "sha1"
        _lay(seen, rel, now.directory)
        _lay_objects(seen, rel, now, places, hashes)
        begun = tuple(each for each in UNDER_WAY if isinstance(seen.stack.find(f"{rel}/{each}"), Layered))
        yield LaidRepository(rel, now, before, places, head, hashes, begun)


def _read(seen: Seen, rel: str, limit: int = _SMALL) -> bytes:
    node = seen.node(rel)
    return seen.read(rel, node, limit) if node is not None and node.kind == "file" else b""


def _lay(seen: Seen, rel: str, directory: Path) -> None:
    """Copy what is small: references, index, and what stands beside them."""
    for each in ("refs/heads", "refs/tags", "objects/pack", "objects/info", "info"):
        (directory / each).mkdir(parents=True, exist_ok=True)
    for name, kind in seen.names(rel).items():
        if kind == "file" and _READ.match(name):
            (directory / name).write_bytes(_read(seen, f"{rel}/{name}", _INDEX))
    waiting, count = ["refs", "logs", "info"], 0
    while waiting and (count := count + 1) < _WALKED:
        inside = waiting.pop()
        (directory / inside).mkdir(parents=True, exist_ok=True)
        for name, kind in seen.names(f"{rel}/{inside}").items():
            if kind == "directory":
                waiting.append(f"{inside}/{name}")
            elif kind == "file" and f"{inside}/{name}" != "info/attributes":
                (directory / inside / name).write_bytes(_read(seen, f"{rel}/{inside}/{name}"))


def _lay_objects(seen: Seen, rel: str, now: Room, places: Places | None, hashes: str) -> None:
    objects = now.directory / "objects"
    if places is not None:
        (objects / "info" / "alternates").write_bytes(os.fsencode(places.common / "objects") + b"\n")
    for path, entry in seen.stack.walk(f"{rel}/objects"):
        if entry is None or not stat.S_ISREG(entry.stats.st_mode):
            continue
        name, source = path.removeprefix(f"{rel}/objects/"), Path(os.fsdecode(entry.place))
        if name.startswith("pack/pack-") and name.endswith(".pack"):
            with suppress(GitFailed):
                target = objects / name
                target.symlink_to(source)
                now.run("index-pack", "-o", str(target.with_suffix(".idx")), str(target), seconds=60.0)
        elif _LOOSE.match(name) and not _is_known(places, name) and _is_true(source, name, hashes):
            (objects / name).parent.mkdir(exist_ok=True)
            (objects / name).symlink_to(source)


def _is_known(places: Places | None, name: str) -> bool:
    return places is not None and os.path.lexists(places.common / "objects" / name)


def _is_true(source: Path, name: str, hashes: str) -> bool:
    """Whether a loose object is what its name says."""
    digest, unpacked = hashlib.new(hashes), zlib.decompressobj()
    try:
        with source.open("rb") as file:
            while data := file.read(_SMALL):
                while data:
                    digest.update(unpacked.decompress(data, _SMALL))
                    data = unpacked.unconsumed_tail
        digest.update(unpacked.flush())
    except (OSError, zlib.error):
        return False
    return unpacked.eof and digest.hexdigest() == name.replace("/", "")
