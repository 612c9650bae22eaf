"""The tools that list files: the entries of a directory, and the files that match a pattern."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from core.errors import PathRefused, ToolInputInvalid
from core.tools.base import ProgramData, Reader, ReadTool, ToolOutcome
from core.tools.builtin.editing.edit_targets import require_present
from core.tools.builtin.reading.ripgrep import list_scope, run_ripgrep
from core.tools.builtin.reading.search_scope import SearchScope, compile_glob
from core.workspace import DirectoryEntry
from core.workspace.file_names import from_os_name, to_os_name

_DEPTH = 4
_TOTAL = 400
_PER_FOLDER = 80
_MAX_FILES = 100
_TIME_LIMIT = 20.0
_WILD = frozenset("*?[{")
_MAX_SIMILAR = 10


class _Folder(Struct, kw_only=True):
    """A folder of the listing. `entries` None: it was not opened."""

    path: str
    depth: int
    note: str = ""
    entries: list[tuple[DirectoryEntry, _Folder | None]] | None = None
    left_out: int = 0


class ListDir(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "list_dir"
    argument_names: ClassVar = {
        **dict.fromkeys(
            ("target_directory", "path", "directory", "dir_path", "directory_path", "dir"), "relative_workspace_path"
        ),
        "ignore": "ignore_globs",
    }
    ignored_arguments: ClassVar = frozenset(("depth", "recursive", "limit", "offset", "toolSummary"))
    assumed_arguments: ClassVar = {"respect_git_ignore": True}

    relative_workspace_path: Annotated[str, Meta(description='The folder; "." is the workspace.')] = "."
    ignore_globs: Annotated[
        tuple[str, ...], Meta(description="Skip what matches one of these, like *.svg or fixtures/**.")
    ] = ()
    explanation: str = ""  # For models of other agents.

    def subject(self) -> str:
        return self.relative_workspace_path or "."

    async def run(self, capability: Reader) -> ToolOutcome:
        path = capability.relative(self.relative_workspace_path or ".")
        if require_present(capability, path).kind != "directory":
            raise ToolInputInvalid(f"{path} is not a directory.", hint="Read a file with read_file.")
        patterns = [compile_glob(glob) for glob in self.ignore_globs]
        root = _build_tree(capability, path, patterns)
        rows = [f"{path.rstrip('/')}/", *_format_rows(root, "")]
        if len(rows) == 1:
            rows.append("(empty)")
        count = len(root.entries or ()) + root.left_out
        return ToolOutcome(
            content="\n".join(rows),
            summary=f"{count:,} entr{'y' if count == 1 else 'ies'}",
            build_data=lambda: ProgramData(_list_names(capability, path, patterns)),
        )


def _list_names(reader: Reader, path: str, patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """Return the names of all entries for a program, with a slash after those of directories."""
    entries = reader.list_dir(path)
    names = [entry.name + "/" * (entry.kind == "directory") for entry in entries]
    paths = [entry.name if path == "." else f"{path}/{entry.name}" for entry in entries]
    return [
        name for name, entry in zip(names, paths, strict=True) if not any(glob.fullmatch(entry) for glob in patterns)
    ]


def _build_tree(reader: Reader, path: str, patterns: list[re.Pattern[str]]) -> _Folder:
    root = _Folder(path=path, depth=1)
    waiting, entry_count = deque([root]), 0
    while waiting and entry_count < _TOTAL:
        folder = waiting.popleft()
        _read_folder(reader, folder, patterns, _TOTAL - entry_count)
        entry_count += len(folder.entries or ())
        if folder.depth < _DEPTH:
            waiting.extend(child for _, child in folder.entries or () if child is not None and not child.note)
    return root


def _read_folder(reader: Reader, folder: _Folder, patterns: list[re.Pattern[str]], limit: int) -> None:
    try:
        entries = reader.list_dir(folder.path)
    except (OSError, PathRefused) as error:
        if folder.depth == 1:  # The requested directory itself, whose entries no note summarises.
            raise
        folder.note = " (cannot be opened)" if isinstance(error, OSError) else " (no permission)"
        return
    paths = [(entry, entry.name if folder.path == "." else f"{folder.path}/{entry.name}") for entry in entries]
    visible_entries = [(entry, path) for entry, path in paths if not any(glob.fullmatch(path) for glob in patterns)]
    cut = min(limit, _PER_FOLDER)
    folder.left_out = max(0, len(visible_entries) - cut)
    folder.entries = [(entry, _build_child(entry, path, folder.depth + 1)) for entry, path in visible_entries[:cut]]


def _build_child(entry: DirectoryEntry, path: str, depth: int) -> _Folder | None:
    if entry.kind != "directory":
        return None
    return _Folder(path=path, depth=depth, note=" (ignored, not expanded)" if entry.ignored else "")


def _format_rows(folder: _Folder, indent: str) -> Iterator[str]:
    entries = folder.entries or []
    for index, (entry, child) in enumerate(entries):
        last = index == len(entries) - 1 and not folder.left_out
        yield indent + ("└── " if last else "├── ") + _format_label(entry, child)
        if child is not None and child.entries:
            yield from _format_rows(child, indent + ("    " if last else "│   "))
    if folder.left_out:
        yield f"{indent}└── … {folder.left_out:,} more, not shown; list {folder.path} alone to see them"


def _format_label(entry: DirectoryEntry, child: _Folder | None) -> str:
    if child is None:
        kind = "" if entry.kind in {"file", "symlink"} else f" ({entry.kind})"
        return entry.name + kind + (" (ignored)" if entry.ignored else "")
    ellipsis = " …" if child.entries is None and not child.note else ""
    return f"{entry.name}/{child.note}{ellipsis}"


class PathMatches(NamedTuple):
    """The latest matching files, pending ones first, the number of all, whether there may be more, and a function that
    lists all for a program."""

    paths: list[str]
    total: int
    is_incomplete: bool
    list_all: Callable[[], ProgramData]


class GlobFileSearch(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "glob_file_search"
    argument_names: ClassVar = {
        **dict.fromkeys(("pattern", "query", "file_name", "filename", "glob", "filePattern"), "glob_pattern"),
        **dict.fromkeys(("path", "directory", "dir_path", "dir", "SearchDirectory"), "target_directory"),
    }
    ignored_arguments: ClassVar = frozenset(("limit", "head_limit", "max_results", "toolSummary"))
    assumed_arguments: ClassVar = {
        "respect_git_ignore": True,
        "respect_gemini_ignore": True,
        "respect_qwen_ignore": True,
        "case_sensitive": True,
        "include_dirs": False,
        "offset": 0,
    }

    glob_pattern: Annotated[str, Meta(min_length=1, description="Like *.py, src/**/*.test.ts or **/Makefile.")]
    target_directory: Annotated[str, Meta(description="Where to look; default: the workspace.")] = "."
    explanation: str = ""  # For models of other agents.

    def subject(self) -> str:
        location = "" if self.target_directory in {"", "."} else f" in {self.target_directory}"
        return self.glob_pattern + location

    async def run(self, capability: Reader) -> ToolOutcome:
        matches = await self.find_paths(capability)
        is_name = not any(letter in _WILD for letter in self.glob_pattern)
        if not matches.paths and is_name and (similar_paths := await self._find_similar(capability)):
            return _format_similar(self.glob_pattern, similar_paths)
        outcome = self._format_outcome(matches.paths, matches.total, is_incomplete=matches.is_incomplete)
        return replace(outcome, build_data=matches.list_all)

    async def _find_similar(self, capability: Reader) -> list[str]:
        """Find files whose path has the letters of a name that is no pattern, the best matches first. Models know a
        search of names that is fuzzy."""
        everything = await replace(self, glob_pattern="*").find_paths(capability)
        paths: list[str] = everything.list_all().value
        return rank_paths(self.glob_pattern, paths)[:_MAX_SIMILAR]

    async def find_paths(self, capability: Reader) -> PathMatches:
        """Find the files that match."""
        anywhere = self.glob_pattern.removeprefix("./").removeprefix("/")
        anywhere = anywhere if anywhere.startswith("**/") else f"**/{anywhere}"
        scope = SearchScope(capability, self.target_directory, include=anywhere)
        arguments = scope.build_arguments()
        options = ["--files", "--null", *list_scope(capability.root), *arguments]
        ripgrep_output = await run_ripgrep(options, cwd=capability.root, time_limit=_TIME_LIMIT) if arguments else None
        names = ripgrep_output.data.split(b"\0")[:-1] if ripgrep_output else []
        matching_paths = [
            path for path in (from_os_name(name.removeprefix(b"./")) for name in names) if scope.includes(path)
        ]
        by_age = sorted(matching_paths, key=lambda path: (-_read_mtime(capability.root, path), path))
        pending = scope.list_pending_files()
        limit = max(0, _MAX_FILES - len(pending))
        disk_paths = list(islice(filter(scope.is_searched_on_disk, by_age), limit))
        on_disk = (
            len(disk_paths)
            if len(disk_paths) < limit
            else len([path for path in matching_paths if path not in scope.pending])
        )
        total = len(pending) + on_disk
        is_incomplete = ripgrep_output is not None and (ripgrep_output.cut or ripgrep_output.timed_out)
        note = "the search was cut short, so files are missing" if is_incomplete else ""

        def list_all() -> ProgramData:
            others = filter(scope.is_searched_on_disk, by_age)
            return ProgramData(list(dict.fromkeys([*pending, *others])), note)

        return PathMatches([*pending, *disk_paths][:_MAX_FILES], total, is_incomplete, list_all)

    def _format_outcome(self, paths: list[str], total: int, *, is_incomplete: bool) -> ToolOutcome:
        if not paths:
            hint = "Ignored files are not listed; try a wider pattern, or list_dir."
            return ToolOutcome(content=f"No file matches {self.glob_pattern}. {hint}", summary="no files")
        head = f"{total:,}{'+' if is_incomplete else ''} file{'' if total == 1 else 's'}"
        note = f", the {len(paths)} latest shown; use a narrower pattern to see others" * (total > len(paths))
        return ToolOutcome(content="\n".join([f"{head}{note}", *paths]), summary=head)


def _format_similar(name: str, paths: Sequence[str]) -> ToolOutcome:
    head = f"No file is named {name}. Paths with its letters, the best first:"
    summary = f"{len(paths)} similar"
    return ToolOutcome(
        content="\n".join([head, *paths]), summary=summary, build_data=lambda: ProgramData(list(paths), head)
    )


def rank_paths(name: str, paths: Sequence[str]) -> list[str]:
    """Return the paths that contain the letters of `name` in their order: first where it stands in the file's name in
    one piece, then in the path, then scattered in either; shorter paths first. Case does not count."""
    word = name.strip("/").lower()
    scattered = re.compile(".*?".join(map(re.escape, word)), re.DOTALL)
    ranked = []
    for path in paths:
        folded = path.lower()
        last = folded.rpartition("/")[2]
        tests = (last.startswith(word), word in last, word in folded, scattered.search(last), scattered.search(folded))
        rank = next((number for number, holds in enumerate(tests) if holds), None)
        if rank is not None:
            ranked.append((rank, len(path), path))
    return [path for _, _, path in sorted(ranked)]


def _read_mtime(root: str, path: str) -> int:
    try:
        return Path(root, os.fsdecode(to_os_name(path))).lstat().st_mtime_ns
    except OSError:
        return 0
