"""References to places of the project in a text: `path:line`, and the forms of compilers and tracebacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

MAX_PLACES: Final = 200  # of one text
_FORMS: Final = (
    r'File "(?P<python>[^"\n]{1,400})", line (?P<python_line>\d{1,9})',
    r"(?P<typescript>[^\s\"'`()\[\]{}<>:]{1,400})\((?P<typescript_line>\d{1,9}),(?P<typescript_column>\d{1,9})\)",
    r"(?P<path>[^\s\"'`()\[\]{}<>:|]{1,400}):(?P<path_line>\d{1,9})(?::(?P<path_column>\d{1,9}))?",
)
_REFERENCE: Final = re.compile("|".join(_FORMS))


class FilePlace(NamedTuple):
    """A place in a file, from 1. `path` is relative to the project where it is of the project."""

    path: str
    line: int = 1
    column: int = 1


def find_places(text: str, root: str, is_known: Callable[[str], bool]) -> list[FilePlace]:
    """Return the places that a text names, each once, in its order: those in files below `root`, or of which
    `is_known` says that they will be there."""
    places: dict[FilePlace, None] = {}
    for match in _REFERENCE.finditer(text):
        form = next(name for name in ("python", "typescript", "path") if match[name])
        path = find_path(match[form], root, is_known)
        if path:
            groups = match.groupdict()
            places[FilePlace(path, int(groups[f"{form}_line"]) or 1, int(groups.get(f"{form}_column") or 1) or 1)] = (
                None
            )
        if len(places) == MAX_PLACES:
            break
    return list(places)


def find_path(word: str, root: str, is_known: Callable[[str], bool]) -> str:
    """Return the path below `root` that a word means, "" = none."""
    base = Path(root)
    for path in _list_readings(word.removeprefix("./")):
        full = base / path
        try:
            inside = full.resolve().relative_to(base.resolve()).as_posix()
            if is_known(inside) or (full.is_file() and inside != "."):
                return inside
        except (OSError, ValueError):
            continue
    return ""


def _list_readings(word: str) -> Iterable[str]:
    """Iterate over what a word may be: the path, or one in a diff's `a/` and `b/`."""
    yield word
    if word.startswith(("a/", "b/")):
        yield word[2:]
