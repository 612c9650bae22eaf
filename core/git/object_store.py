"""Blobs and trees of this program's own content, written by GitPython into the objects of a temporary repository.

Git would be started once for every file and three times for every tree: for 50 changed files that takes 430 ms, and
this 150 (160 more for the first one, which imports GitPython). `core.git` says why it reads nothing of a project.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core.git.repository import GitFailed

if TYPE_CHECKING:
    from types import ModuleType

# GitPython starts a git when it is imported, by default the first one on PATH, which may belong to the project.
_NO_GIT: Final = {"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"}


class ObjectStore:
    """The objects of a SHA-1 repository in a directory of ours."""

    def __init__(self, directory: Path) -> None:
        git: Any = import_gitpython()
        self._database = git.GitDB(str(directory))
        self._build_stream = git.index.fun.IStream

    def store_tree(self, files: Mapping[bytes, tuple[str, bytes]]) -> str:
        """Store files, by path: their modes in octal digits and their contents. Returns the name of their tree. Raises
        `GitFailed` for a path that git refuses, as one below `.git`."""
        return self._store_directory(files).hex()

    def _store_directory(self, files: Mapping[bytes, tuple[str, bytes]]) -> bytes:
        from git.objects.fun import tree_to_stream

        entries: list[tuple[bytes, int, Any]] = []
        directories: dict[bytes, dict[bytes, tuple[str, bytes]]] = {}
        for path, (mode, data) in files.items():
            name, is_below, rest = path.partition(b"/")
            if is_below:
                directories.setdefault(name, {})[rest] = (mode, data)
            else:
                entries.append((self._store("blob", data), int(mode, 8), name))
        entries += [(self._store_directory(below), stat.S_IFDIR, name) for name, below in directories.items()]
        entries.sort(key=lambda entry: entry[2] + b"/" * stat.S_ISDIR(entry[1]))
        tree = BytesIO()
        try:
            tree_to_stream(entries, tree.write)
        except ValueError as problem:
            raise GitFailed(f"git stores no such path: {problem}") from problem
        return self._store("tree", tree.getvalue())

    def _store(self, kind: str, data: bytes) -> bytes:
        stream = self._build_stream(kind.encode(), len(data), BytesIO(data))
        name: bytes = self._database.store(stream).binsha
        return name


@cache
def import_gitpython() -> ModuleType:
    """Import GitPython so that it can start no git, neither now nor later."""
    environment = {name: os.environ.get(name) for name in _NO_GIT}
    os.environ.update(_NO_GIT)
    try:
        import git
    finally:
        for name, value in environment.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
    git.Git.GIT_PYTHON_GIT_EXECUTABLE = os.devnull  # otherwise it falls back to the first git after all
    return git
