"""The right side of a unified diff: the lines of files in it, for references. It is never applied.

A pull request can be commented on at these lines, and a reviewer's references are checked against them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from core.patterns import compile_lazily

_HUNK: Final = compile_lazily(r"@@ -\d+(?:,(?P<old>\d+))? \+(?P<start>\d+)(?:,(?P<count>\d+))? @@")


class RightHunk(Struct, frozen=True):
    """The lines of the right side of one hunk; the first is line `start` (1-indexed) of `path`."""

    path: str
    start: int
    lines: tuple[str, ...]


def list_right_hunks(diff: str) -> Iterator[RightHunk]:
    """Yield the hunks of a unified diff in order, except those of deleted files."""
    path, lines = "", iter(diff.split("\n"))
    for line in lines:
        if line.startswith("+++ "):
            path = read_patch_name(line[4:])
        elif (hunk := _HUNK.match(line)) and path:
            yield RightHunk(
                path, int(hunk["start"]), tuple(_take_right(lines, _count(hunk, "old"), _count(hunk, "count")))
            )


def _count(hunk: re.Match[str], side: str) -> int:
    return int(hunk[side]) if hunk[side] is not None else 1


def _take_right(lines: Iterator[str], old: int, new: int) -> Iterator[str]:
    """Consume the lines of one hunk, and yield its right side."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        if line[:1] in {" ", "+", ""}:  # an empty context line may lack its blank
            yield line[1:]
        old -= line[:1] in {" ", "-", ""}
        new -= line[:1] in {" ", "+", ""}


def read_patch_name(text: str) -> str:
    """Parse the name after `+++ `; "" = the file is deleted."""
    name = text.split("\t", maxsplit=1)[0].strip()
    if name.startswith('"') and name.endswith('"'):  # git's quoting: octal bytes
        raw = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name[1:-1])
        name = raw.encode("latin-1", "replace").decode("utf-8", "replace")
    return "" if name == "/dev/null" else name.removeprefix("b/")
