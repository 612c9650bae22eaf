"""What a directory holds, and whose marks stand in it, also inside of git's objects."""

from __future__ import annotations

import os
import stat
import subprocess
import zlib
from pathlib import Path

from msgspec import Struct

from tests.fuzz.project import GIT, MARK, plain_environment


class Entry(Struct, frozen=True):
    """A path: "file" or "link", its permissions, its bytes (of a link: where it points)."""

    kind: str
    mode: int
    data: bytes


Tree = dict[str, Entry]


def tree_of(root: Path) -> Tree:
    """Every file and link below a directory, git's included; names as text, with surrogates for what is none."""
    tree: Tree = {}
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(f"{root}/{below}") as entries:
            for dir_entry in entries:
                if dir_entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{below}{dir_entry.name}/")
                elif (entry := entry_of(dir_entry.path)) is not None:
                    tree[below + dir_entry.name] = entry
    return tree


def entry_of(path: str | Path) -> Entry | None:
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return Entry("link", 0, os.fsencode(Path(path).readlink()))
        if stat.S_ISREG(info.st_mode):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                return Entry("file", stat.S_IMODE(info.st_mode), os.read(descriptor, info.st_size + 1))
            finally:
                os.close(descriptor)
    except OSError:
        return None
    return None if stat.S_ISDIR(info.st_mode) else Entry("special", 0, b"")


def marks(data: bytes, whose: bytes) -> set[bytes]:
    return {mark for mark in MARK.findall(data) if mark.startswith(whose)}


def marks_in_git(project: Path, disk: Tree) -> set[bytes]:
    """The agent's marks anywhere in git: loose objects, packs, index, refs, logs, stash."""
    agent_marks: set[bytes] = set()
    packed = False
    for path, entry in disk.items():
        if not path.startswith(".git/"):
            continue
        agent_marks |= marks(path.encode("utf-8", "surrogateescape") + b"\n" + entry.data, b"ag")
        if path.startswith(".git/objects/") and not path.startswith(".git/objects/pack/"):
            agent_marks |= marks(_inflated(entry.data), b"ag")
        packed |= path.endswith(".pack")
    return agent_marks | (_packed(project) if packed else set())


def _inflated(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return b""


def _packed(project: Path) -> set[bytes]:
    command = [*GIT, "cat-file", "--batch-all-objects", "--batch", "--buffer"]
    env = plain_environment(project.parent / "home")
    done = subprocess.run(command, cwd=project, capture_output=True, check=False, env=env)
    return marks(done.stdout, b"ag")
