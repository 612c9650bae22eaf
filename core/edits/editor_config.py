"""The encoding that `.editorconfig` gives a file (the specification at editorconfig.org, version 0.17).

Files are looked for from the directory of the file upwards, to one that says `root = true` or to the workspace. The
nearest one wins, and in a file the last section that fits. Of its encodings only Latin-1 is none that bytes tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from core.config.rules.globs import matches

NAME: Final = ".editorconfig"
_SECTION: Final = re.compile(r"\[(.+)\]\s*\Z")
_PAIR: Final = re.compile(r"([^=:\s][^=:]*?)\s*[=:]\s*(.*)\Z")
_NUMBERS: Final = re.compile(r"\{(-?\d{1,4})\.\.(-?\d{1,4})\}")
_MOST_NUMBERS: Final = 200  # names that one range of numbers stands for
_LATIN: Final = "latin1"


def find_declared_encoding(path: str, read: Callable[[str], bytes | None]) -> str:
    """Return the encoding that the project gives a file, by Python's name; "" = none, or one of Unicode's.

    `path`: relative to the workspace; `read` returns the bytes of a path there, None = there is no such file.
    """
    directory = path
    while directory:
        directory, _, _ = directory.rpartition("/")
        data = read(f"{directory}/{NAME}" if directory else NAME)
        if data is None:
            continue
        charset, is_root = _read_charset(data.decode("utf-8-sig", "replace"), path.removeprefix(f"{directory}/"))
        if charset or is_root:
            return "latin-1" if charset == _LATIN else ""
    return ""


def _read_charset(text: str, path: str) -> tuple[str, bool]:
    """Return what a file says of the encoding of a path below it, "" = nothing, and whether nothing above it counts."""
    charset, is_root = "", False
    for name, value, section in _iterate_pairs(text):
        if not section:
            is_root = is_root or (name == "root" and value == "true")
        elif name == "charset" and _fits(section, path):
            charset = value
    return charset, is_root


def _iterate_pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name and value, in lower case, with the pattern of the section they stand in, "" above the first."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if not line or line[0] in "#;":
            continue
        if heading := _SECTION.match(line):
            section = heading[1]
        elif pair := _PAIR.match(line):
            yield pair[1].lower(), pair[2].strip().lower(), section


def _fits(pattern: str, path: str) -> bool:
    """Return True if the pattern of a section fits a path. The first range of numbers is spelled out."""
    bounds = _NUMBERS.search(pattern)
    if bounds is None:
        return matches(pattern, path)
    low, high = sorted((int(bounds[1]), int(bounds[2])))
    numbers = range(low, min(high, low + _MOST_NUMBERS) + 1)
    return any(matches(f"{pattern[: bounds.start()]}{number}{pattern[bounds.end() :]}", path) for number in numbers)
