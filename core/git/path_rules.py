"""The rules by which git stores a path: line ends, encoding, filters, and whether it stores the path at all.

A checkout of Windows that is used under Linux has CRLF on the disk and LF in git, and `git status` calls it clean. Who
compares the two byte for byte finds that every line differs, so both are compared as git would store them (convert.c in
git's sources).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from core.git.repository import GitRepository
from core.git.safe_config import ConfigPairs, find_last, parse_pairs

_SECONDS: Final = 60.0
_NAMES: Final = ("text", "crlf", "eol", "ident", "working-tree-encoding", "filter")
_SET, _UNSET, _UNSPECIFIED = b"set", b"unset", b"unspecified"
_PRINTABLE_CONTROLS: Final = b"\b\t\x1b\f"
_CONTROLS: Final = bytes(code for code in (*range(32), 127) if code not in b"\r\n" and code not in _PRINTABLE_CONTROLS)


class LineEnds(StrEnum):
    """The rule for a path: `KEPT` as they are, `TEXT`: LF for CRLF, `AUTO`: the same, if git takes it for text."""

    KEPT = "kept"
    TEXT = "text"
    AUTO = "auto"


class PathRule(Struct, frozen=True, kw_only=True):
    """The rule for one path. `encoding`: that of the work tree, "" = git stores the bytes; `has_id`: `$Id$` is filled
    in; `has_filter`: a program of the repository's converts it (LFS, encryption)."""

    line_ends: LineEnds = LineEnds.KEPT
    encoding: str = ""
    has_id: bool = False
    has_filter: bool = False

    @property
    def is_rewritten(self) -> bool:
        """True if more than line ends differs between the work tree and what git stores."""
        return bool(self.encoding) or self.has_id

    def store_line_ends(self, data: bytes, committed_data: bytes) -> bytes:
        """Return `data` with the line ends that git would store. `committed_data`: the content that git has of the
        path; where that is text with a CRLF in it, git lets a file be that it only takes for text."""
        if self.line_ends is LineEnds.KEPT or b"\r\n" not in data:
            return data
        if self.line_ends is LineEnds.AUTO and (
            is_binary(data) or (b"\r\n" in committed_data and not is_binary(committed_data))
        ):
            return data
        return data.replace(b"\r\n", b"\n")


def read_path_rules(repository: GitRepository, paths: Sequence[bytes]) -> dict[bytes, PathRule]:
    """Return the rule of each path, from its attributes and the settings. Raises `GitFailed`."""
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
        return LineEnds.KEPT
    if text in {_SET, b"input"} or attributes.get("eol") in {b"lf", b"crlf"}:
        return LineEnds.TEXT
    return LineEnds.AUTO if find_last(settings, "core.autocrlf") in {"true", "input"} else LineEnds.KEPT


def is_binary(data: bytes) -> bool:
    """Return True if git takes content for binary: it has a NUL, a CR without LF, or one control in 128 signs."""
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
    """Return the paths that git tracks and keeps out of the work tree. Raises `GitFailed`."""
    outside: set[bytes] = set()
    for first in range(0, len(paths), 500):
        names = [f":(top,literal){os.fsdecode(path)}" for path in paths[first : first + 500]]
        command = ("-c", "sparse.expectFilesOutsideOfPatterns=true", "ls-files", "-t")  # else git forgets it of a file
        listing = repository.run(*command, "-z", "--full-name", "--", *names, seconds=_SECONDS)
        outside |= {line[2:] for line in listing.split(b"\0") if line.startswith(b"S ")}
    return outside


def find_submodules(repository: GitRepository, commit: str, directories: Iterable[bytes]) -> set[bytes]:
    """Return the directories that are submodules in a commit ("": there is none). Raises `GitFailed`."""
    names, submodules = sorted(set(directories)), set[bytes]()
    for first in range(0, len(names) if commit else 0, 500):
        part = map(os.fsdecode, names[first : first + 500])
        listing = repository.run("ls-tree", "-z", "--full-tree", commit, "--", *part, seconds=_SECONDS)
        rows = (line.partition(b"\t") for line in listing.split(b"\0"))
        submodules |= {path for facts, _, path in rows if facts.startswith(b"160000 ")}
    return submodules
