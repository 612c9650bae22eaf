"""list_dir: a folder as a tree, breadth first, bounded; what is left out is counted."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from core.errors import PathRefused, ToolInputInvalid
from core.tools.base import Reader, ReadTool, ToolOutcome
from core.tools.builtin.editing.edit_targets import require_present
from core.tools.builtin.reading.globs import compile_glob
from core.workspace import DirectoryEntry

_DEPTH = 4
_TOTAL = 400
_PER_FOLDER = 80


class _Folder(Struct, kw_only=True):
    """`entries` None: not opened."""

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
    ignored_arguments: ClassVar = frozenset(("depth", "recursive", "limit", "offset", "respect_git_ignore"))

    relative_workspace_path: Annotated[str, Meta(description='The folder; "." is the workspace.')] = "."
    ignore_globs: Annotated[
        tuple[str, ...], Meta(description="Leave out what matches one of these, such as *.svg or fixtures/**.")
    ] = ()
    explanation: str = ""  # models of other agents give it

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
        return ToolOutcome(content="\n".join(rows), summary=f"{count:,} entr{'y' if count == 1 else 'ies'}")


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


def _read_folder(reader: Reader, folder: _Folder, patterns: list[re.Pattern[str]], room: int) -> None:
    try:
        entries = reader.list_dir(folder.path)
    except (OSError, PathRefused) as error:
        if folder.depth == 1:  # what was asked for: no note beside it says what else there is
            raise
        folder.note = " (cannot be opened)" if isinstance(error, OSError) else " (not open to you)"
        return
    paths = [(entry, entry.name if folder.path == "." else f"{folder.path}/{entry.name}") for entry in entries]
    visible_entries = [(entry, path) for entry, path in paths if not any(glob.fullmatch(path) for glob in patterns)]
    cut = min(room, _PER_FOLDER)
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
