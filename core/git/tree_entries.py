"""Files of the last commit as the work tree has them, and new content as entries of an index.

Line endings are converted as git's settings say; filters of a repository (LFS) are programs and never run here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from core.git.history import LINK_MODE, MISSING_MODE, GitEntry, update_index
from core.git.repository import GitFailed, GitRepository

_SECONDS = 60.0
_AT_ONCE = 50  # objects: an answer of git is bounded


class TreeFile(Struct, frozen=True, kw_only=True):
    """A path of the last commit: its mode in octal digits, its object, and its bytes as they are checked out."""

    mode: str = MISSING_MODE
    oid: str = ""
    data: bytes = b""

    @property
    def is_absent(self) -> bool:
        """True if the last commit has no such path."""
        return self.mode == MISSING_MODE


def read_tree_files(repository: GitRepository, commit: str, paths: Sequence[bytes]) -> dict[bytes, TreeFile]:
    """Read paths of a commit ("": there is none yet). Raises `GitFailed`, also for a submodule at one of them."""
    listed: dict[bytes, tuple[str, str]] = {}
    for part in _chunk(paths) if commit else ():
        asked = ("ls-tree", "-z", "--full-tree", commit, "--", *map(os.fsdecode, part))
        listed |= dict(_parse_tree(repository.run(*asked, seconds=_SECONDS)))
    converted = _find_converted(repository, [path for path, (mode, _) in listed.items() if mode != LINK_MODE])
    raw = read_blobs(repository, {oid for path, (_, oid) in listed.items() if path not in converted})
    files = {
        path: TreeFile(mode=mode, oid=oid, data=_check_out(repository, path, oid) if path in converted else raw[oid])
        for path, (mode, oid) in listed.items()
    }
    return files | {path: TreeFile() for path in paths if path not in files}


def _chunk(names: Sequence[bytes], size: int = 500) -> Iterable[Sequence[bytes]]:
    return (names[at : at + size] for at in range(0, len(names), size))


def _parse_tree(listed: bytes) -> Iterable[tuple[bytes, tuple[str, str]]]:
    for each in listed.split(b"\0")[:-1]:
        facts, _, path = each.partition(b"\t")
        mode, kind, oid = facts.decode().split(" ")
        if kind != "blob":
            raise GitFailed(
                f"{os.fsdecode(path)} is a {'directory' if kind == 'tree' else 'submodule'} in the last commit"
            )
        yield path, (mode, oid)


def read_blobs(repository: GitRepository, oids: Iterable[str]) -> dict[str, bytes]:
    """Return the content of objects by their names. Raises `GitFailed` for one that is not there."""
    names, found = list(dict.fromkeys(oids)), dict[str, bytes]()
    for first in range(0, len(names), _AT_ONCE):
        part = names[first : first + _AT_ONCE]
        asked = "".join(f"{each}\n" for each in part).encode()
        found |= _parse_batch(part, repository.run("cat-file", "--batch", stdin=asked, seconds=_SECONDS))
    return found


def _parse_batch(names: Sequence[str], told: bytes) -> dict[str, bytes]:
    """Parse what `git cat-file --batch` says of these objects, in this order."""
    found, at = dict[str, bytes](), 0
    for each in names:
        end = told.index(b"\n", at)
        words = told[at:end].split(b" ")
        if len(words) != 3:
            raise GitFailed(f"object {each} can't be read: {told[at:end].decode('ascii', 'replace')}")
        size = int(words[2])
        found[each] = told[end + 1 : end + 1 + size]
        at = end + 1 + size + 1
    return found


def _check_out(repository: GitRepository, path: bytes, oid: str) -> bytes:
    return repository.run("cat-file", "--filters", f"--path={os.fsdecode(path)}", oid, seconds=_SECONDS)


def _find_converted(repository: GitRepository, paths: Sequence[bytes]) -> set[bytes]:
    """Return the paths that git may write in another form than it keeps them: line endings, encoding, `$Id$`."""
    settings = repository.run("config", "--null", "--list").decode("utf-8", "replace").lower().split("\0")
    if {"core.autocrlf\ntrue", "core.eol\ncrlf"} & set(settings):
        return set(paths)
    found = _read_attributes(repository, ("eol", "ident", "working-tree-encoding"), paths)
    return {path for path, name, value in found if value not in {b"unspecified", b"unset", b"lf"}}


def _read_attributes(
    repository: GitRepository, names: Sequence[str], paths: Sequence[bytes]
) -> list[tuple[bytes, bytes, bytes]]:
    """Return path, attribute and value of each."""
    if not paths:
        return []
    asked = b"".join(path + b"\0" for path in paths)
    told = repository.run("check-attr", "-z", "--stdin", *names, stdin=asked, seconds=_SECONDS).split(b"\0")
    return list(zip(told[::3], told[1::3], told[2::3], strict=False))


def find_filtered(repository: GitRepository, paths: Sequence[bytes]) -> set[bytes]:
    """Return the paths that git stores by a filter of the repository's (LFS, encryption)."""
    found = _read_attributes(repository, ("filter",), paths)
    return {path for path, _, value in found if value not in {b"unspecified", b"unset"}}


def store_blob(repository: GitRepository, path: bytes, data: bytes, *, is_link: bool = False) -> str:
    """Store content as an object of the repository and return its name. Raises `GitFailed`."""
    how = ("--no-filters",) if is_link else (f"--path={os.fsdecode(path)}",)
    return repository.run("hash-object", "-w", "--stdin", *how, stdin=data, seconds=_SECONDS).decode().strip()


def write_index(repository: GitRepository, file: Path, commit: str, entries: Iterable[GitEntry]) -> None:
    """Write an index file: the tree of `commit` ("": empty) with other entries. What `file` holds of the status of
    files is kept, so that git need not read them all again. Raises `GitFailed`."""
    more = {"GIT_INDEX_FILE": str(file)}
    if not commit:
        repository.run("read-tree", "--empty", more=more, seconds=_SECONDS)
    elif file.exists():
        repository.run("read-tree", "--reset", commit, more=more, seconds=_SECONDS)
    else:
        repository.run("read-tree", commit, more=more, seconds=_SECONDS)
    update_index(repository, entries, str(file))


def list_index_entries(repository: GitRepository, paths: Sequence[bytes]) -> dict[bytes, list[GitEntry]]:
    """Return the entries of the user's index at paths; several at one path are the sides of an unfinished merge."""
    found: dict[bytes, list[GitEntry]] = {path: [] for path in paths}
    for part in _chunk(paths):
        names = [f":(top,literal){os.fsdecode(each)}" for each in part]
        listed = repository.run("ls-files", "--stage", "-z", "--full-name", "--", *names, seconds=_SECONDS)
        for each in listed.split(b"\0")[:-1]:
            facts, _, path = each.partition(b"\t")
            mode, oid, stage = facts.decode().split(" ")
            found.setdefault(path, []).append(GitEntry(path, mode, oid, stage=int(stage)))
    return found


def count_staged(repository: GitRepository, commit: str) -> int:
    """Return how many paths the user has staged beside the last commit."""
    if not commit:
        return len([each for each in repository.run("ls-files", "-z", seconds=_SECONDS).split(b"\0") if each])
    listed = repository.run("diff-index", "--cached", "--name-only", "--no-renames", "-z", commit, seconds=_SECONDS)
    return listed.count(b"\0")
