"""Files of the last commit as the work tree has them, new content as entries of an index, and the rules between them.

A checkout of Windows that is used under Linux has CRLF on the disk and LF in git, and `git status` calls it clean. A
comparison byte for byte would find a difference in every line, so both sides are compared as git would store them
(convert.c in git's sources): line ends, encoding, filters, and whether git stores the path at all. Content that git
converts is converted as its settings say; filters of a repository (LFS) are programs and never run here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from core.git.history import LINK_MODE, MISSING_MODE, SUBMODULE_MODE, GitEntry, parse_listing, update_index
from core.git.repository import GitFailed, GitRepository
from core.git.safe_config import ConfigPairs, find_last, parse_pairs

_SECONDS: Final = 60.0  # time limit of a call of git
_NAMES: Final = ("text", "crlf", "eol", "ident", "working-tree-encoding", "filter")
_SET, _UNSET, _UNSPECIFIED = b"set", b"unset", b"unspecified"
_PRINTABLE_CONTROLS: Final = b"\b\t\x1b\f"
_CONTROLS: Final = bytes(code for code in (*range(32), 127) if code not in b"\r\n" and code not in _PRINTABLE_CONTROLS)
_Name = TypeVar("_Name", bytes, str)
_AT_ONCE = 50  # objects per call: the output of git is bounded


class LineEnds(StrEnum):
    """The rule for a path: `UNCHANGED`: stored as it is; `TEXT`: CRLF is stored as LF; `AUTO`: the same, if git detects
    text."""

    UNCHANGED = "unchanged"
    TEXT = "text"
    AUTO = "auto"


class PathRule(Struct, frozen=True, kw_only=True):
    """The rule for one path.

    `encoding`: that of the work tree, "" = git stores the bytes; `has_id`: `$Id$` is expanded; `has_filter`: a program
    of the repository converts it (LFS, encryption).
    """

    line_ends: LineEnds = LineEnds.UNCHANGED
    encoding: str = ""
    has_id: bool = False
    has_filter: bool = False

    @property
    def is_rewritten(self) -> bool:
        """True if the work tree and git's object differ in more than line ends."""
        return bool(self.encoding) or self.has_id

    def store_line_ends(self, data: bytes, committed_data: bytes) -> bytes:
        """Return `data` with the line ends that git would store.

        `committed_data` is the committed content of the path: if it is text with CRLF, git leaves a file alone that it
        only detects as text.
        """
        if self.line_ends is LineEnds.UNCHANGED or b"\r\n" not in data:
            return data
        if self.line_ends is LineEnds.AUTO and (
            is_binary(data) or (b"\r\n" in committed_data and not is_binary(committed_data))
        ):
            return data
        return data.replace(b"\r\n", b"\n")


def read_path_rules(repository: GitRepository, paths: Sequence[bytes]) -> dict[bytes, PathRule]:
    """Return the rules of paths, from their attributes and the settings. Raises `GitFailed`."""
    settings = parse_pairs(repository.run("config", "--null", "--list"))
    attributes: dict[bytes, dict[str, bytes]] = {path: {} for path in paths}
    if paths:
        request = b"".join(path + b"\0" for path in paths)
        fields = repository.run("check-attr", "-z", "--stdin", *_NAMES, stdin=request, seconds=_SECONDS).split(b"\0")
        for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
            attributes.setdefault(path, {})[name.decode()] = value
    return {path: _build_rule(values, settings) for path, values in attributes.items()}


def _build_rule(attributes: Mapping[str, bytes], settings: ConfigPairs) -> PathRule:
    values = {name: value for name, value in attributes.items() if value not in {_UNSPECIFIED, _UNSET}}
    encoding = values.get("working-tree-encoding", b"").decode("ascii", "replace")
    return PathRule(
        line_ends=_choose_line_ends(attributes, settings),
        encoding="" if encoding.lower() in {"", "set", "utf-8", "utf8"} else encoding,
        has_id="ident" in values,
        has_filter="filter" in values,
    )


def _choose_line_ends(attributes: Mapping[str, bytes], settings: ConfigPairs) -> LineEnds:
    text = attributes.get("text", _UNSPECIFIED)
    if text == _UNSPECIFIED:
        text = attributes.get("crlf", _UNSPECIFIED)
    if text == b"auto":
        return LineEnds.AUTO
    if text == _UNSET:
        return LineEnds.UNCHANGED
    if text in {_SET, b"input"} or attributes.get("eol") in {b"lf", b"crlf"}:
        return LineEnds.TEXT
    return LineEnds.AUTO if find_last(settings, "core.autocrlf") in {"true", "input"} else LineEnds.UNCHANGED


def is_binary(data: bytes) -> bool:
    """True if git detects binary content: a NUL, a CR without LF, or more than one control in 128 characters."""
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return True
    rest = data.translate(None, b"\r\n")
    printable = rest.translate(None, _CONTROLS)
    controls = len(rest) - len(printable) - data.endswith(b"\x1a")
    return len(printable) >> 7 < controls


def find_ignored(repository: GitRepository, paths: Sequence[bytes]) -> set[bytes]:
    """Return the paths that git ignores and does not track. Raises `GitFailed`."""
    if not paths:
        return set()
    request = b"".join(path + b"\0" for path in paths)
    command = ("check-ignore", "-z", "-v", "--non-matching", "--stdin")
    fields = repository.run(*command, stdin=request, seconds=_SECONDS, accepts=(0, 1)).split(b"\0")
    rows = zip(fields[::4], fields[2::4], fields[3::4], strict=False)
    return {path for source, pattern, path in rows if source and not pattern.startswith(b"!")}


def find_outside_sparse(repository: GitRepository, paths: Sequence[bytes]) -> set[bytes]:
    """Return the tracked paths that a sparse checkout leaves out of the work tree. Raises `GitFailed`."""
    outside: set[bytes] = set()
    for part in _chunk(paths):
        names = [f":(top,literal){os.fsdecode(path)}" for path in part]
        command = (
            "-c",
            "sparse.expectFilesOutsideOfPatterns=true",
            "ls-files",
            "-t",
        )  # otherwise git clears the flag of a file that exists
        listing = repository.run(*command, "-z", "--full-name", "--", *names, seconds=_SECONDS)
        outside |= {line[2:] for line in listing.split(b"\0") if line.startswith(b"S ")}
    return outside


def find_submodules(repository: GitRepository, commit: str, directories: Iterable[bytes]) -> set[bytes]:
    """Return the directories that are submodules in a commit ("": there is none). Raises `GitFailed`."""
    submodules: set[bytes] = set()
    for part in _chunk(sorted(set(directories))) if commit else ():
        command = ("ls-tree", "-z", "--full-tree", commit, "--", *map(os.fsdecode, part))
        listing = repository.run(*command, seconds=_SECONDS)
        submodules |= {path for path, (mode, _, _) in parse_listing(listing) if mode == SUBMODULE_MODE}
    return submodules


class TreeFile(Struct, frozen=True, kw_only=True):
    """A path of the last commit: its mode in octal digits, its object with its bytes (`stored`), and the bytes to
    compare (`data`): checked out, but with the line ends that git stores.

    `kind` is that of its object; that of a submodule is "commit", which has no bytes.
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
    """Read paths of a commit ("" = there is none yet). Raises `GitFailed`."""
    listing: dict[bytes, list[str]] = {}
    for part in _chunk(paths) if commit else ():
        command = ("ls-tree", "-z", "--full-tree", commit, "--", *map(os.fsdecode, part))
        listing |= dict(parse_listing(repository.run(*command, seconds=_SECONDS)))
    blobs = read_blobs(repository, {oid for _, kind, oid in listing.values() if kind == "blob"})
    files = {path: TreeFile() for path in paths}
    for path, (mode, kind, oid) in listing.items():
        stored_data = data = blobs.get(oid, b"")
        if kind == "blob" and mode != LINK_MODE:
            checked_out = _check_out(repository, path, oid) if rules[path].is_rewritten else stored_data
            data = rules[path].store_line_ends(checked_out, stored_data)
        files[path] = TreeFile(mode=mode, oid=oid, kind=kind, stored=stored_data, data=data)
    return files


def _chunk(names: Sequence[_Name], size: int = 500) -> Iterable[Sequence[_Name]]:
    return (names[index : index + size] for index in range(0, len(names), size))


def read_blobs(repository: GitRepository, oids: Iterable[str]) -> dict[str, bytes]:
    """Return the content of objects by their names. Raises `GitFailed` for a missing one."""
    names, blobs = list(dict.fromkeys(oids)), dict[str, bytes]()
    for part in _chunk(names, _AT_ONCE):
        request = "".join(f"{oid}\n" for oid in part).encode()
        blobs |= _parse_batch(part, repository.run("cat-file", "--batch", stdin=request, seconds=_SECONDS))
    return blobs


def _parse_batch(names: Sequence[str], output: bytes) -> dict[str, bytes]:
    """Parse the output of `git cat-file --batch` for these objects, in this order."""
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
    """Store content as an object of the repository (a trial: in a directory of ours), and return its name. `rule` None:
    of a link. Raises `GitFailed`, also if the content can't be converted as the rule demands."""
    filters = f"--path={os.fsdecode(path)}" if rule is not None and rule.is_rewritten else "--no-filters"
    variables = {}
    if is_trial:
        (repository.directory / "trial").mkdir(exist_ok=True)
        variables = {"GIT_OBJECT_DIRECTORY": str(repository.directory / "trial")}
    command = ("hash-object", "-w", "--stdin", filters)
    return repository.run(*command, stdin=data, seconds=_SECONDS, variables=variables).decode().strip()


def write_index(repository: GitRepository, file: Path, commit: str, entries: Iterable[GitEntry]) -> None:
    """Write an index file: the tree of `commit` ("": empty) with other entries. An existing `file` retains its cached
    file status, so that git need not read all files again. Raises `GitFailed`."""
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
        for path, (mode, oid, stage) in parse_listing(listing):
            entries_by_path.setdefault(path, []).append(GitEntry(path, mode, oid, stage=int(stage)))
    return entries_by_path


def count_staged(repository: GitRepository, commit: str) -> int:
    """Return the number of paths that the user has staged since the last commit."""
    if not commit:
        return len([path for path in repository.run("ls-files", "-z", seconds=_SECONDS).split(b"\0") if path])
    listing = repository.run("diff-index", "--cached", "--name-only", "--no-renames", "-z", commit, seconds=_SECONDS)
    return listing.count(b"\0")
