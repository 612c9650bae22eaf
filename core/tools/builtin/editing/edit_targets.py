"""The target files of tool calls, and the errors for unsuitable targets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.text_file import TextFile, decode_text, detect_binary, find_declared_encoding
from core.errors import PathRefused, ToolFailed, ToolInputInvalid
from core.modes import Access
from core.notebooks.notebook import is_notebook_path
from core.text.similarity import find_nearest_names
from core.text.well_formed import is_utf8
from core.tools.base import Editor, Reader, Tool
from core.workspace import PathStat

_SEARCH_SECONDS = 0.3  # for a file of the same name elsewhere
_MAX_SUGGESTED = 3
_EDIT_LIMIT = 16_000_000
_MOST_SETTINGS = 100_000  # The size limit of an `.editorconfig`, in bytes.
FilePath = Annotated[str, Meta(min_length=1, description="The file, relative to the workspace or absolute.")]
# Aliases of the file argument and of the arguments of a replacement.
FILE_NAMES = dict.fromkeys(("path", "target_file", "filename", "file_name"), "file_path")
REPLACEMENT_NAMES = {
    **FILE_NAMES,
    **dict.fromkeys(("old_str", "old_text", "TargetContent", "before", "old"), "old_string"),
    **dict.fromkeys(("new_str", "new_text", "ReplacementContent", "after", "new"), "new_string"),
    "allow_multiple": "replace_all",
}
# What other agents' tools for edits are told beside the edit.
EDIT_REMARKS = frozenset(
    (
        *("instruction", "instructions", "explanation", "description", "display_description", "toolSummary"),
        *("instruction_reminder", "instructions_reminder", "CodeMarkdownLanguage", "TargetLintErrorIds"),
    )
)


class SingleFileEdit(Tool[Editor], frozen=True, kw_only=True):
    """Base of the tools that edit one file, which the argument `path_argument` names."""

    access: ClassVar[Access] = Access.PROPOSE
    path_argument: ClassVar[str] = "file_path"

    def subject(self) -> str:
        return str(getattr(self, self.path_argument))

    def paths(self) -> tuple[str, ...]:
        return (self.subject(),)


def require_present(reader: Reader, path: str) -> PathStat:
    """Return the status of `path`. Raises `ToolInputInvalid` with similar names if it does not exist."""
    stat = reader.stat(path)
    if stat is None:
        raise build_missing_error(reader, path)
    return stat


def build_missing_error(reader: Reader, path: str) -> ToolInputInvalid:
    """Return the error for a path that does not exist, with the names that do."""
    rel = PurePosixPath(reader.relative(path))
    folder = next((parent for parent in rel.parents if _is_folder(reader, str(parent))), PurePosixPath("."))
    names = [entry.name for entry in reader.list_dir(str(folder))]
    missing_name = rel.parts[len(folder.parts)] if len(rel.parts) > len(folder.parts) else rel.name
    nearest_paths = [str(folder / name) for name in find_nearest_names(missing_name, names)]
    if not nearest_paths or len(rel.parts) > len(folder.parts) + 1:
        nearest_paths = _find_elsewhere(reader, rel) or nearest_paths
    hint = (
        f"Did you mean {' or '.join(nearest_paths)}?"
        if nearest_paths
        else "Look for it with glob_file_search or list_dir."
    )
    return ToolInputInvalid(f"{path} does not exist.", hint=hint, code="file_not_found")


def _find_elsewhere(reader: Reader, path: PurePosixPath) -> list[str]:
    """Return the files with this name in other directories, those that share most of its end; a search of large
    projects is given up."""
    deadline = time.monotonic() + _SEARCH_SECONDS
    directories, scores = deque(["."]), dict[str, int]()
    while directories and time.monotonic() < deadline:
        directory = directories.popleft()
        with suppress(PathRefused):
            for entry in reader.list_dir(directory):
                child = entry.name if directory == "." else f"{directory}/{entry.name}"
                if entry.kind == "directory":
                    directories += [child] if not entry.ignored and not entry.name.startswith(".") else []
                elif entry.name == path.name:
                    scores[child] = _count_common_end(path.parts, child.split("/"))
    best = max(scores.values(), default=0)
    nearest_paths = sorted(candidate for candidate, score in scores.items() if score == best)
    return nearest_paths if len(nearest_paths) <= _MAX_SUGGESTED else []


def _count_common_end(parts: Sequence[str], other_parts: Sequence[str]) -> int:
    pairs = zip(reversed(parts), reversed(other_parts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_folder(reader: Reader, path: str) -> bool:
    try:
        stat = reader.stat(path)
    except PathRefused:
        return False
    return stat is not None and stat.kind == "directory"


def require_file(stat: PathStat, path: str) -> None:
    """Raise for a folder, a pipe, a device …"""
    if stat.kind == "directory":
        raise ToolInputInvalid(f"{path} is a directory.", hint="List it with list_dir, or give a file in it.")
    if stat.kind not in {"file", "symlink"}:
        kind = "a pipe, socket or device" if stat.kind == "other" else f"a {stat.kind}"
        raise ToolInputInvalid(f"{path} is not a regular file: it is {kind}.", hint="Leave it alone.")


def read_editable(reader: Reader, path: str) -> TextFile:
    """Return the text of an existing file that is to be edited. Binary and huge files are refused, since they can't be
    rewritten as text."""
    refuse_notebook(path)
    try:
        data = reader.read_bytes(path, _EDIT_LIMIT + 1)
    except PathRefused:
        require_file(require_present(reader, path), path)  # Raises a more precise error.
        raise
    if len(data) > _EDIT_LIMIT:
        size = require_present(reader, path).size
        raise ToolFailed(f"{path} is too large to edit as text ({size:,} bytes).", hint="Use a command for it.")
    text = decode_project_file(reader, path, data)
    if text is None:
        raise build_not_text_error(path, data, len(data))
    return text


def decode_project_file(reader: Reader, path: str, data: bytes) -> TextFile | None:
    """Decode a file by the project's `.editorconfig`, else by its bytes; None: it is no text."""
    if is_utf8(data):
        return decode_text(data)
    return decode_text(data, find_declared_encoding(reader.relative(path), partial(_read_small, reader)))


def _read_small(reader: Reader, path: str) -> bytes | None:
    try:
        return reader.read_bytes(path, _MOST_SETTINGS)
    except PathRefused:
        return None


def open_new_file(reader: Reader, path: str) -> TextFile:
    """Return an empty new file in the encoding of the project's `.editorconfig`, UTF-8 by default."""
    codec = find_declared_encoding(reader.relative(path), partial(_read_small, reader))
    return TextFile(text="", encoding=codec or "utf-8")


def refuse_notebook(path: str) -> None:
    """Raise for a notebook: a text edit can break its JSON, and hides which cell it changes."""
    if is_notebook_path(path):
        raise ToolInputInvalid(
            f"{path} is a notebook; text tools can't edit it.",
            hint="Use edit_notebook: target_notebook, cell_idx, old_string, new_string; is_new_cell for a new one.",
        )


def build_not_text_error(path: str, data: bytes, size: int) -> ToolFailed:
    kind = detect_binary(data) or "text in an unknown encoding"
    return ToolFailed(
        f"{path} is not a text file: {kind}, {size:,} bytes.", hint="Don't use text tools for it.", code="binary_file"
    )
