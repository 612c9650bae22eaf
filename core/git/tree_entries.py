"""Files of the last commit as the work tree has them, and new content as entries of an index.

What git stores otherwise than it stands in the work tree is converted as its settings say (`path_rules`); filters of a
repository (LFS) are programs and never run here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from core.git.history import LINK_MODE, MISSING_MODE, GitEntry, update_index
from core.git.path_rules import PathRule
from core.git.repository import GitFailed, GitRepository

_SECONDS = 60.0
_AT_ONCE = 50  # objects: an answer of git is bounded


class TreeFile(Struct, frozen=True, kw_only=True):
    """A path of the last commit: its mode in octal digits, its object with the bytes of that (`stored`), and its bytes
    as they are compared (`data`): as they are checked out, but for line ends, which are those that git stores.

    `kind`: of its object; that of a submodule is "commit", and no bytes are read of one.
    """

    mode: str = MISSING_MODE
    oid: str = ""
    kind: str = "blob"
    stored: bytes = b""
    data: bytes = b""

    @property
    def is_absent(self) -> bool:
        """True if the last commit has no such path."""
        return self.mode == MISSING_MODE


def read_tree_files(
    repository: GitRepository, commit: str, paths: Sequence[bytes], rules: Mapping[bytes, PathRule]
) -> dict[bytes, TreeFile]:
    """Read paths of a commit ("": there is none yet). Raises `GitFailed`."""
    listing: dict[bytes, tuple[str, str, str]] = {}
    for part in _chunk(paths) if commit else ():
        command = ("ls-tree", "-z", "--full-tree", commit, "--", *map(os.fsdecode, part))
        listing |= dict(_parse_tree(repository.run(*command, seconds=_SECONDS)))
    blobs = read_blobs(repository, {oid for _, kind, oid in listing.values() if kind == "blob"})
    files = {path: TreeFile() for path in paths}
    for path, (mode, kind, oid) in listing.items():
        stored_data = data = blobs.get(oid, b"")
        if kind == "blob" and mode != LINK_MODE:
            checked_out = _check_out(repository, path, oid) if rules[path].is_rewritten else stored_data
            data = rules[path].store_line_ends(checked_out, stored_data)
        files[path] = TreeFile(mode=mode, oid=oid, kind=kind, stored=stored_data, data=data)
    return files


def _chunk(names: Sequence[bytes], size: int = 500) -> Iterable[Sequence[bytes]]:
    return (names[index : index + size] for index in range(0, len(names), size))


def _parse_tree(listing: bytes) -> Iterable[tuple[bytes, tuple[str, str, str]]]:
    for line in listing.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, kind, oid = facts.decode().split(" ")
        yield path, (mode, kind, oid)


def read_blobs(repository: GitRepository, oids: Iterable[str]) -> dict[str, bytes]:
    """Return the content of objects by their names. Raises `GitFailed` for one that is not there."""
    names, blobs = list(dict.fromkeys(oids)), dict[str, bytes]()
    for first in range(0, len(names), _AT_ONCE):
        part = names[first : first + _AT_ONCE]
        request = "".join(f"{oid}\n" for oid in part).encode()
        blobs |= _parse_batch(part, repository.run("cat-file", "--batch", stdin=request, seconds=_SECONDS))
    return blobs


def _parse_batch(names: Sequence[str], output: bytes) -> dict[str, bytes]:
    """Parse what `git cat-file --batch` says of these objects, in this order."""
    blobs, offset = dict[str, bytes](), 0
    for name in names:
        end = output.index(b"\n", offset)
        words = output[offset:end].split(b" ")
        if len(words) != 3:
            raise GitFailed(f"object {name} can't be read: {output[offset:end].decode('ascii', 'replace')}")
        size = int(words[2])
        blobs[name] = output[end + 1 : end + 1 + size]
        offset = end + 1 + size + 1
    return blobs


def _check_out(repository: GitRepository, path: bytes, oid: str) -> bytes:
    return repository.run("cat-file", "--filters", f"--path={os.fsdecode(path)}", oid, seconds=_SECONDS)


def store_blob(
    repository: GitRepository, path: bytes, data: bytes, rule: PathRule | None, *, is_trial: bool = False
) -> str:
    """Store content as an object of the repository, a trial in a directory of ours, and return its name. `rule` None:
    of a link. Raises `GitFailed`, also where the content can't be converted as the rule says."""
    filters = f"--path={os.fsdecode(path)}" if rule is not None and rule.is_rewritten else "--no-filters"
    variables = {}
    if is_trial:
        (repository.directory / "trial").mkdir(exist_ok=True)
        variables = {"GIT_OBJECT_DIRECTORY": str(repository.directory / "trial")}
    command = ("hash-object", "-w", "--stdin", filters)
    return repository.run(*command, stdin=data, seconds=_SECONDS, variables=variables).decode().strip()


def write_index(repository: GitRepository, file: Path, commit: str, entries: Iterable[GitEntry]) -> None:
    """Write an index file: the tree of `commit` ("": empty) with other entries. What `file` holds of the status of
    files is kept, so that git need not read them all again. Raises `GitFailed`."""
    variables = {"GIT_INDEX_FILE": str(file)}
    if not commit:
        repository.run("read-tree", "--empty", variables=variables, seconds=_SECONDS)
    elif file.exists():
        repository.run("read-tree", "--reset", commit, variables=variables, seconds=_SECONDS)
    else:
        repository.run("read-tree", commit, variables=variables, seconds=_SECONDS)
    update_index(repository, entries, str(file))


def list_index_entries(repository: GitRepository, paths: Sequence[bytes]) -> dict[bytes, list[GitEntry]]:
    """Return the entries of the user's index at paths; several at one path are the sides of an unfinished merge."""
    entries_by_path: dict[bytes, list[GitEntry]] = {path: [] for path in paths}
    for part in _chunk(paths):
        names = [f":(top,literal){os.fsdecode(path)}" for path in part]
        listing = repository.run("ls-files", "--stage", "-z", "--full-name", "--", *names, seconds=_SECONDS)
        for record in listing.split(b"\0")[:-1]:
            facts, _, path = record.partition(b"\t")
            mode, oid, stage = facts.decode().split(" ")
            entries_by_path.setdefault(path, []).append(GitEntry(path, mode, oid, stage=int(stage)))
    return entries_by_path


def count_staged(repository: GitRepository, commit: str) -> int:
    """Return how many paths the user has staged beside the last commit."""
    if not commit:
        return len([path for path in repository.run("ls-files", "-z", seconds=_SECONDS).split(b"\0") if path])
    listing = repository.run("diff-index", "--cached", "--name-only", "--no-renames", "-z", commit, seconds=_SECONDS)
    return listing.count(b"\0")
