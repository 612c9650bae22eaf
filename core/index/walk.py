"""The files of a project that its index holds: not excluded by git or the user, no secrets, nothing behind a link."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from core.errors import PathRefused
from core.index.path_kinds import is_secondary_path
from core.notebooks.notebook import LARGEST as MAX_NOTEBOOK_BYTES
from core.notebooks.notebook import is_notebook_path
from core.patterns import compile_lazily
from core.syntax.grammars import is_known_language
from core.workspace import IgnoreRules, Workspace
from core.workspace.file_names import from_os_name, to_os_name
from core.workspace.ignore_rules import NOT_INDEXED
from core.workspace.secret_files import is_secret, may_be_secret_path

MAX_FILES: Final = 200_000
_MARKER_FILES: Final = frozenset({b"pyvenv.cfg", b"CACHEDIR.TAG"})
RULE_FILES: Final = frozenset({".gitignore", ".cursorignore", NOT_INDEXED, *map(os.fsdecode, _MARKER_FILES)})
"""Names of files that exclude other files."""

MAX_BYTES: Final = 1_000_000
"""Bytes of a file whose text is read; a notebook may be larger, as most of it is output."""

_MAX_RULE_BYTES: Final = 1_000_000
# Generated directories, for projects that do not ignore them; a virtual environment has a pyvenv.cfg.
_GENERATED_DIRECTORIES: Final = """
.git .hg .svn .jj node_modules bower_components __pycache__ .mypy_cache .ruff_cache .pytest_cache .tox .nox .venv .eggs
.gradle .terraform .next .nuxt .svelte-kit .turbo .parcel-cache .cache .idea"""
_SKIPPED: Final = frozenset(_GENERATED_DIRECTORIES.split())
# Pictures, audio, fonts, archives, executables; then text for programs.
_ENDINGS_OF_DATA: Final = """
png jpg jpeg gif bmp ico webp avif tif tiff psd mp3 mp4 wav ogg webm mov avi flac ttf otf woff woff2 eot pdf zip gz tgz
bz2 xz zst 7z rar jar war whl so o a dylib dll exe bin class pyc pyo wasm node db sqlite sqlite3 mo parquet npy npz pkl
onnx pt h5 dbf shp shx dcm
po pot svg csv tsv map lock sum geojson snap ndjson jsonl log"""
_DATA: Final = frozenset(_ENDINGS_OF_DATA.split())
_GENERATED: Final = compile_lazily(
    r".*[.-]min\.(?:js|mjs|css)|.*\.bundle\.js|package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|go\.sum"
)

_DAY: Final = 86_400


class ProjectFile(NamedTuple):
    """A file of the project. `changed` is st_ctime_ns, the time of the last change or rename, which users can't set;
    `modified` the visible time in seconds."""

    path: str
    changed: int
    size: int
    modified: int


class ProjectWalk:
    """One walk over the files below a workspace; its rules are read at the start.

    `known_paths`: paths that are known not to be secrets.
    """

    def __init__(self, workspace: Workspace, known_paths: Container[str] = ()) -> None:
        self._workspace = workspace
        self._root = os.fsencode(workspace.root)
        self._known = known_paths
        self._listed: dict[str, set[bytes]] = {}
        self._open_rules = IgnoreRules(workspace, self._read_rules).open_snapshot(NOT_INDEXED)

    def iterate_files(self, directory: str = ".") -> Iterator[ProjectFile]:
        """Iterate over the files below a directory that is itself not excluded, in no order. Unreadable directories are
        skipped."""
        waiting = [directory]
        while waiting:
            parent = waiting.pop()
            above = "" if parent == "." else f"{parent}/"
            entries = self._list(above)
            self._listed[above] = names = {entry.name for entry in entries}
            if above and not _MARKER_FILES.isdisjoint(names):
                continue
            is_ignored = self._open_rules(parent)
            for entry in entries:
                name = from_os_name(entry.name)
                if entry.is_dir(follow_symlinks=False):
                    waiting += [] if name in _SKIPPED or is_ignored(name, True) else [above + name]
                elif (file := self._examine(entry, above + name, name, is_ignored)) is not None:
                    yield file

    def find(self, path: str) -> list[ProjectFile]:
        """Return the file at a path, or all files below it; [] if it is excluded or missing."""
        directory, _, name = path.rpartition("/")
        if not _SKIPPED.isdisjoint(path.split("/")) or self._is_behind_link(directory) or self._is_generated(directory):
            return []
        is_ignored, os_name = self._open_rules(directory or "."), to_os_name(name)
        entry = next(
            (candidate for candidate in self._list(f"{directory}/" if directory else "") if candidate.name == os_name),
            None,
        )
        if entry is None:
            return []
        if entry.is_dir(follow_symlinks=False):
            return [] if is_ignored(name, True) else list(self.iterate_files(path))
        file = self._examine(entry, path, name, is_ignored)
        return [] if file is None else [file]

    def _is_behind_link(self, directory: str) -> bool:
        path = (self._root + b"/" + to_os_name(directory)).rstrip(b"/")
        return os.path.realpath(path) != path

    def _is_generated(self, directory: str) -> bool:
        """True if a program has generated a directory or one above it."""
        parts = to_os_name(directory).split(b"/") if directory else []
        above = (b"/".join((self._root, *parts[:count])) for count in range(1, len(parts) + 1))
        return any(os.path.lexists(parent + b"/" + mark) for parent in above for mark in _MARKER_FILES)

    def _list(self, above: str) -> list[os.DirEntry[bytes]]:
        with suppress(OSError), os.scandir(self._root + b"/" + to_os_name(above)) as entries:
            return list(entries)
        return []

    def _examine(
        self, entry: os.DirEntry[bytes], path: str, name: str, is_ignored: Callable[[str, bool], bool]
    ) -> ProjectFile | None:
        """Return a directory entry if it is a file of the project."""
        if not entry.is_file(follow_symlinks=False) or is_ignored(name, False):
            return None
        if path not in self._known and may_be_secret_path(path) and is_secret(path, lambda _path, _is_dir: False):
            return None
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            return ProjectFile(path, status.st_ctime_ns, status.st_size, int(status.st_mtime))
        return None

    def _read_rules(self, path: str) -> bytes | None:
        """Return the content of a rule file; a listed directory tells whether there is one."""
        directory, slash, name = path.rpartition("/")
        names = self._listed.get(directory + slash)
        if names is not None and os.fsencode(name) not in names:
            return None
        with suppress(PathRefused):
            return self._workspace.read_bytes(path, _MAX_RULE_BYTES)
        return None


def is_indexed(path: str, size: int) -> bool:
    """True if the text of a file is indexed; pictures, tables and bundles only count by name."""
    name = path.rpartition("/")[2].lower()
    largest = MAX_NOTEBOOK_BYTES if is_notebook_path(name) else MAX_BYTES
    return size <= largest and name.rpartition(".")[2] not in _DATA and not _GENERATED.fullmatch(name)


def sort_by_use(files: Iterable[ProjectFile]) -> list[ProjectFile]:
    """Sort files: source, tests, other text, and files without indexed text; within these by day of modification,
    latest first. Git is not queried, because the index is built before a project is trusted."""
    return sorted(files, key=lambda file: (_classify(file), -(file.modified // _DAY), file.path))


def _classify(file: ProjectFile) -> int:
    if not is_indexed(file.path, file.size):
        return 3
    if not is_known_language(file.path):
        return 2
    return 1 if is_secondary_path(file.path) else 0
