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
_Entry = tuple[bytes, int, Any]  # object, mode, name: bytes, which GitPython accepts and does not declare


class TreeWriter:
    """Writes trees into the objects of a SHA-1 repository, in a directory of ours."""

    def __init__(self, directory: Path) -> None:
        git: Any = import_gitpython()
        self._database = git.GitDB(str(directory))
        self._build_stream = git.index.fun.IStream

    def write(self, files: Mapping[bytes, tuple[str, bytes]]) -> str:
        """Write files, by path: their modes in octal digits and their contents. Returns the name of their tree. Raises
        `GitFailed` for a path that git refuses, as one below `.git`."""
        directories: dict[bytes, list[_Entry]] = {b"": []}
        for path, (mode, data) in files.items():
            above, _, name = path.rpartition(b"/")
            directories.setdefault(above, []).append((self._store("blob", data), int(mode, 8), name))
            while above:
                above = above.rpartition(b"/")[0]
                directories.setdefault(above, [])
        for directory in sorted(filter(None, directories), key=lambda path: path.count(b"/"), reverse=True):
            above, _, name = directory.rpartition(b"/")
            directories[above].append((self._write_directory(directories[directory]), stat.S_IFDIR, name))
        return self._write_directory(directories[b""]).hex()

    def _write_directory(self, entries: list[_Entry]) -> bytes:
        from git.objects.fun import tree_to_stream

        tree = BytesIO()
        try:
            tree_to_stream(sorted(entries, key=_build_sort_key), tree.write)
        except ValueError as problem:
            raise GitFailed(f"git stores no such path: {problem}") from problem
        return self._store("tree", tree.getvalue())

    def _store(self, kind: str, data: bytes) -> bytes:
        stream = self._build_stream(kind.encode(), len(data), BytesIO(data))
        name: bytes = self._database.store(stream).binsha
        return name


def _build_sort_key(entry: _Entry) -> bytes:
    """Return the name by which git sorts an entry: that of a directory ends with a slash."""
    name: bytes = entry[2]
    return name + b"/" if stat.S_ISDIR(entry[1]) else name


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
