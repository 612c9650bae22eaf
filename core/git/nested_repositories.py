"""Repositories inside the project that an unsandboxed command would enter: git runs the programs that they name.

Git uses the nearest repository from the current directory upwards: a `.git` there (directory, file or link), or the
directory itself if it looks like a bare repository. One that came with the project, or that an agent made, has hooks
and settings that no user has reviewed.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from core.patterns import compile_lazily

_BARE: Final = ("HEAD", "objects", "refs")
_MAX_WORDS: Final = 200  # of a command that are read
_MAX_PATHS: Final = 200  # that are checked
_MAX_BASES: Final = 20  # directories that a command may change to
_PATTERN: Final = compile_lazily(r"[*?[]")
_ENDS: Final = "'\"`;&|()<>{}"


def find_nested_repositories(root: Path, directory: str, command: str) -> tuple[str, ...]:
    """Return the repositories below the project's top that contain the directory of a command or a path that it names,
    relative to the top; "." = the top itself is a bare one. `directory`: relative to `root`, a real path."""
    working_directory = Path(os.path.normpath(root / directory))
    repositories: dict[str, None] = {}
    for path in (working_directory, *_list_named(working_directory, command)):
        repositories |= dict.fromkeys(_climb(root, path))
    return tuple(sorted(repositories))


def is_bare_repository(directory: Path) -> bool:
    """True if git would use a directory itself as a repository."""
    if directory.name == ".git" or os.path.lexists(directory / ".git"):
        return False  # it belongs to the directory above, or git uses its content
    return all(os.path.lexists(directory / name) for name in _BARE)


def forbid_bare_repositories(environment: dict[str, str]) -> None:
    """Make git use no directory as a bare repository unless it is named as one, in addition to the user's settings."""
    count = environment.get("GIT_CONFIG_COUNT", "")
    index = int(count) if count.isascii() and count.isdigit() else 0
    environment |= {
        "GIT_CONFIG_COUNT": str(index + 1),
        f"GIT_CONFIG_KEY_{index}": "safe.bareRepository",
        f"GIT_CONFIG_VALUE_{index}": "explicit",
    }
    if parameters := environment.get("GIT_CONFIG_PARAMETERS"):  # it takes precedence over the variables above
        environment["GIT_CONFIG_PARAMETERS"] = f"{parameters} 'safe.barerepository=explicit'"


def _climb(root: Path, path: Path) -> Iterator[str]:
    """Yield the nearest repository from a path upwards, also along its links, unless it is that of the top."""
    for start in dict.fromkeys((path, _resolve(path))):
        for directory in (start, *start.parents):
            if not directory.is_relative_to(root):
                break
            if is_bare_repository(directory) or (directory != root and os.path.lexists(directory / ".git")):
                yield directory.relative_to(root).as_posix()
                break


def _list_named(directory: Path, command: str) -> Iterable[Path]:
    """List the paths that a command may name.

    These are its words, and the parts of them after a `=`, with patterns expanded like a shell does. Every word is also
    tried below the directories before it, since the command may have changed to one.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    paths, bases = dict.fromkeys([directory]), [directory]
    for word in words[:_MAX_WORDS]:
        for piece in (word.strip(_ENDS), word.partition("=")[2].strip(_ENDS)):
            if piece and "\0" not in piece and len(paths) < _MAX_PATHS:
                new_paths = [path for base in bases for path in _expand(base, piece) if path not in paths]
                paths |= dict.fromkeys(new_paths)
                bases += [path for path in new_paths if path.is_dir()][: _MAX_BASES - len(bases)]
    return list(paths)


def _expand(base: Path, piece: str) -> list[Path]:
    """Return the existing paths with this name or pattern."""
    if not _PATTERN.search(piece):
        path = Path(os.path.normpath(base / piece))
        return [path] if _exists(path) else []
    try:
        top = Path(base.anchor) if piece.startswith("/") else base
        matches = top.glob(piece.lstrip("/").replace("**", "*"))  # `**` is a `*` in most shells, and is bounded
        return [Path(os.path.normpath(match)) for match in islice(matches, _MAX_PATHS)]
    except (OSError, ValueError, NotImplementedError, re.error):
        return []


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
