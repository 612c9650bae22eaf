"""The files that a search covers: glob patterns, and the arguments that limit ripgrep to them."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from core.errors import PathRefused, ToolInputInvalid
from core.patterns import compile_lazily
from core.protocol.paths import is_below
from core.text.path_patterns import SET, compile_pattern, is_costly
from core.tools.base import Reader
from core.tools.builtin.editing.edit_targets import require_present

_SET = compile_lazily(SET)
_LITERALS = compile_lazily(rf"\\.|{SET}", re.DOTALL)
OUTSIDE_HINT = "read_file and list_dir reach it."


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Compile a glob. Raises `ToolInputInvalid` for a pattern that is malformed or could take very long."""
    glob = pattern.strip()
    if not glob.removeprefix("./").strip("/"):
        raise ToolInputInvalid("The glob pattern is empty.", hint="Give one such as *.py or src/**/*.ts.")
    if is_costly(glob):
        raise ToolInputInvalid(
            f"The glob pattern {pattern[:80]!r} has too many wildcards.", hint="Use a simpler one, or several calls."
        )
    bare = _LITERALS.sub("", glob)
    if bare.count("{") > bare.count("}"):
        raise ToolInputInvalid(f"The glob pattern {pattern!r} has an unclosed {{.", hint="Add the }.")
    return compile_pattern(glob, syntax="escapes", below="always")


def extract_name_part(pattern: str) -> str:
    """Return the part of a pattern that file names have to match; "" if it does not restrict names."""
    name = _SET.sub("*", pattern.strip().rstrip("/").rpartition("/")[2])  # To ripgrep a set is one character.
    is_balanced = name.count("{") == name.count("}")
    return (
        name
        if is_balanced
        and "[" not in name
        and "**" not in name
        and not pattern.endswith("/")
        and re.search(r"[*?.]", name)
        else ""
    )


class SearchScope:
    """The files below `path` (or `path` itself) that match the patterns, as the agent sees them. `pending`: those that
    are not on disk like that, pending or left by commands, with the operation."""

    def __init__(self, reader: Reader, path: str, *, include: str = "", exclude: str = "") -> None:
        self.path = reader.relative(path or ".")
        if self.path.startswith("/"):
            raise ToolInputInvalid(f"{path} is outside the project; only the project is searched.", hint=OUTSIDE_HINT)
        kind = require_present(reader, self.path).kind
        if kind == "other" or (kind == "symlink" and _leads_to_device(Path(reader.root, self.path))):
            raise ToolInputInvalid(f"{path} is a pipe or a device, which can't be searched.", hint="Name a file.")
        self.is_file = kind != "directory"
        command_files = dict.fromkeys(reader.list_command_files(self.path), "edit")
        self.pending: Mapping[str, str] = MappingProxyType({**reader.pending_paths(), **command_files})
        self._reader = reader
        self._include = compile_glob(include) if include else None
        self._exclude = compile_glob(exclude) if exclude else None
        self._names = extract_name_part(include)
        self._seen: dict[str, bool] = {}

    def build_arguments(self) -> list[str]:
        """Return ripgrep's arguments for the workspace on disk; empty if nothing of this scope is on disk."""
        if not Path(self._reader.root, self.path).exists():
            return []
        # Unlike an include glob, a type filter does not bring ignored files back.
        types = [f"--type-add=wanted:{self._names}", "--type=wanted"] if self._names else []
        return [*types, "--", f"./{self.path}" if self.path != "." else "./"]

    def includes(self, path: str) -> bool:
        """Return True if a path belongs to the scope by its name."""
        below = is_below(path, self.path)
        is_included = self._include is None or self._matches(self._include, path)
        return below and is_included and not (self._exclude and self._matches(self._exclude, path))

    def may_include(self, ending: str) -> bool:
        """Return False if the patterns exclude every file with this ending."""
        if self.is_file:
            return self.path.endswith(ending)
        name = self._names.rpartition("/")[2]
        return not re.search(r"\.\w+$", name) or name.endswith(ending)

    def is_searched_on_disk(self, path: str) -> bool:
        """Return True if the agent sees this file as it is on disk."""
        return path not in self.pending and self.includes(path) and self._is_visible(path)

    def list_pending_files(self) -> list[str]:
        """Return the paths of pending files in this scope, without deletions."""
        alive = (path for path, operation in self.pending.items() if operation != "delete" and self.includes(path))
        return sorted(path for path in alive if self._is_visible(path))

    def _matches(self, glob: re.Pattern[str], path: str) -> bool:
        if glob.fullmatch(path):
            return True
        inner = path.removeprefix(f"{self.path}/")
        return inner != path and glob.fullmatch(inner) is not None

    def _is_visible(self, path: str) -> bool:
        """Return False for a file that the reader refuses (ignored for agents, outside the workspace), which is not
        even named."""
        if path not in self._seen:
            try:
                stat = self._reader.stat(path)
            except (PathRefused, ValueError):  # ValueError: a name that is no text.
                stat = None
            self._seen[path] = stat is not None and stat.kind == "file"
        return self._seen[path]


def _leads_to_device(link: Path) -> bool:
    try:
        mode = link.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
