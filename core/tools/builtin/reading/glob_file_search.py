"""glob_file_search: files by name pattern, the latest first, as the agent sees the project."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from core.tools.base import Reader, ReadTool, ToolOutcome
from core.tools.builtin.reading.ripgrep import list_scope, run_ripgrep
from core.tools.builtin.reading.search_scope import SearchScope
from core.workspace.file_names import from_os_name, to_os_name

_MAX_FILES = 100
_TIME_LIMIT = 20.0


class GlobFileSearch(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "glob_file_search"
    argument_names: ClassVar = {
        **dict.fromkeys(("pattern", "query", "file_name", "filename"), "glob_pattern"),
        **dict.fromkeys(("path", "directory", "dir_path", "dir"), "target_directory"),
    }
    ignored_arguments: ClassVar = frozenset(("limit", "head_limit", "respect_git_ignore"))

    glob_pattern: Annotated[str, Meta(min_length=1, description="Such as *.py, src/**/*.test.ts or **/Makefile.")]
    target_directory: Annotated[str, Meta(description="Where to look; the whole workspace by default.")] = "."
    explanation: str = ""  # models of other agents give it

    def subject(self) -> str:
        location = "" if self.target_directory in {"", "."} else f" in {self.target_directory}"
        return self.glob_pattern + location

    async def run(self, capability: Reader) -> ToolOutcome:
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
        room = max(0, _MAX_FILES - len(pending))
        disk_paths = list(islice(filter(scope.is_searched_on_disk, by_age), room))
        on_disk = (
            len(disk_paths)
            if len(disk_paths) < room
            else len([path for path in matching_paths if path not in scope.pending])
        )
        total = len(pending) + on_disk
        is_incomplete = ripgrep_output is not None and (ripgrep_output.cut or ripgrep_output.timed_out)
        return self._format_outcome([*pending, *disk_paths][:_MAX_FILES], total, is_incomplete=is_incomplete)

    def _format_outcome(self, paths: list[str], total: int, *, is_incomplete: bool) -> ToolOutcome:
        if not paths:
            hint = "Ignored files are not listed; try a wider pattern, or list_dir."
            return ToolOutcome(content=f"No file matches {self.glob_pattern}. {hint}", summary="no files")
        head = f"{total:,}{'+' if is_incomplete else ''} file{'' if total == 1 else 's'}"
        note = f", the {len(paths)} latest shown; use a narrower pattern to see others" * (total > len(paths))
        return ToolOutcome(content="\n".join([f"{head}{note}", *paths]), summary=head)


def _read_mtime(root: str, path: str) -> int:
    try:
        return Path(root, os.fsdecode(to_os_name(path))).lstat().st_mtime_ns
    except OSError:
        return 0
