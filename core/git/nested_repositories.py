"""Repositories inside the project that a command on the user's machine would get into: git runs what they name.

Git takes the nearest repository from the current directory upwards: a `.git` there (directory, file or link), or the
directory itself if it looks like a bare repository. One that came with the project, or that an agent made, has hooks
and settings of its own, which nobody has looked at.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_BARE: Final = ("HEAD", "objects", "refs")
_MAX_WORDS: Final = 200
_ENDS: Final = "'\"`;&|()<>{}"


def find_nested_repositories(root: Path, directory: str, command: str) -> tuple[str, ...]:
    """Return the repositories below the project's top that the directory of a command belongs to, or a path that it
    names, relative to the top; "." = the top itself is a bare one. `directory`: relative to `root`, a real path."""
    place = Path(os.path.normpath(root / directory))
    found: dict[str, None] = {}
    for path in (place, *_list_named(place, command)):
        found |= dict.fromkeys(_climb(root, path))
    return tuple(found)


def is_bare_repository(directory: Path) -> bool:
    """Return True if git would take a directory itself for a repository."""
    if directory.name == ".git" or os.path.lexists(directory / ".git"):
        return False  # it belongs to the directory above, or git takes what is in it
    return all(os.path.lexists(directory / name) for name in _BARE)


def allow_no_bare_repository(environment: dict[str, str]) -> None:
    """Have git take no directory for a bare repository unless it is named as one, beside what the user has set."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    at = int(count) if count.isascii() and count.isdigit() else 0
    environment |= {
        "GIT_CONFIG_COUNT": str(at + 1),
        f"GIT_CONFIG_KEY_{at}": "safe.bareRepository",
        f"GIT_CONFIG_VALUE_{at}": "explicit",
    }


def _climb(root: Path, path: Path) -> Iterator[str]:
    """Yield the nearest repository from a path upwards, also as its links lead, if it is not that of the top."""
    for start in dict.fromkeys((path, _resolve(path))):
        for each in (start, *start.parents):
            if not each.is_relative_to(root):
                break
            if is_bare_repository(each) or (each != root and os.path.lexists(each / ".git")):
                yield each.relative_to(root).as_posix()
                break


def _list_named(place: Path, command: str) -> Iterable[Path]:
    """List the paths that a command may name: its words, and what follows a `=` in them."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    pieces = {piece.strip(_ENDS) for word in words[:_MAX_WORDS] for piece in (word, word.partition("=")[2])}
    paths = (Path(os.path.normpath(place / piece)) for piece in sorted(pieces) if piece and "\0" not in piece)
    return [path for path in paths if _exists(path)]


def _exists(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
