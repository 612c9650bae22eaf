"""The roots of rules, the project up to its top and the user's directory, and the access to files there.

The project is its repository: a workspace inside of one also gets the rules above it. Files of the project are opened
below its top, and no link leads out of it; the user's own files may be links to anywhere.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from core.config.rules.file_text import MAX_READ_BYTES
from core.errors import PathRefused
from core.git.layout import find_repository
from core.user_dirs import get_config_dir
from core.workspace import Workspace

CURSOR_RULES = ".cursor/rules"
CLAUDE_RULES = ".claude/rules"
COPILOT_RULES = ".github/instructions"
COPILOT_SUFFIX = ".instructions.md"
OVERRIDE = "AGENTS.override.md"
# In every folder, in this order; an override replaces the file that it is named after.
INSTRUCTION_FILES = (
    ".github/copilot-instructions.md",
    "GEMINI.md",
    OVERRIDE,
    "AGENTS.md",
    "CLAUDE.md",
    ".claude/CLAUDE.md",
    "CLAUDE.local.md",
    ".cursorrules",
)
RULE_DIRECTORIES = ((COPILOT_RULES, COPILOT_SUFFIX), (CURSOR_RULES, ".mdc"), (CLAUDE_RULES, ".md"))
# What the user wrote for other agents, in their home, the weakest first. Of two files of one folder the first counts.
HOME_FILES = (
    (".copilot", ("copilot-instructions.md",)),
    (".gemini", ("GEMINI.md",)),
    (".config/opencode", ("AGENTS.md",)),
    (".codex", (OVERRIDE, "AGENTS.md")),
    (".claude", ("CLAUDE.md",)),
)
HOME_RULE_DIRECTORIES = ((".copilot/instructions", COPILOT_SUFFIX), (CLAUDE_RULES, ".md"))
# Names in a folder that has rules.
FIRST_NAMES = frozenset(
    path.partition("/")[0] for path in (*INSTRUCTION_FILES, *(directory for directory, _ in RULE_DIRECTORIES))
)
MAX_DIRECTORIES = 20_000  # searched for rules
_SKIPPED_DIRECTORIES = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
MAX_RULES = 200
MAX_DEPTH = 6


class RuleRoot(Protocol):
    """A directory tree with rules. Paths are relative to its top; `show` returns the path for the user and the
    model."""

    is_project: bool

    def read(self, path: str) -> bytes:
        """Read a file up to the limit. Raises `PathRefused`."""

    def list_names(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a directory, and whether they are directories. Raises `PathRefused`."""

    def show(self, path: str) -> str: ...

    def resolve(self, path: str) -> str:
        """Return the path of an import's target, relative to the top. Raises `PathRefused` for a target outside."""


class ProjectRoot:
    """The project: its repository, or the workspace without one. `here`: the workspace relative to the top."""

    is_project = True

    def __init__(self, workspace: Workspace) -> None:
        repository = find_repository(workspace.root)
        top = repository.root if repository is not None else workspace.root
        self.here = "" if top == workspace.root else workspace.root.relative_to(top).as_posix()
        self._tree = workspace if not self.here else Workspace(top)

    def read(self, path: str) -> bytes:
        return self._tree.read_bytes(path, MAX_READ_BYTES + 1)

    def list_names(self, path: str) -> list[tuple[str, bool]]:
        return [(entry.name, entry.kind == "directory") for entry in self._tree.list_dir(path or ".")]

    def show(self, path: str) -> str:
        return posixpath.relpath(path, self.here) if self.here else path

    def read_shown(self, display_path: str) -> bytes:
        """Read a file by its displayed path. Raises `PathRefused`."""
        return self.read(self.resolve(posixpath.join(self.here, display_path)))

    def resolve(self, path: str) -> str:
        plain = posixpath.normpath(path)
        if path.startswith(("/", "~")) or plain == ".." or plain.startswith("../"):
            raise PathRefused("it points outside the project", code="path_escapes")
        return plain


class UserRoot:
    """The user's configuration directory, or another one of theirs; rules there may import any file."""

    is_project = False

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or get_config_dir()

    def _locate(self, path: str) -> Path:
        return self._directory / Path(path).expanduser()

    def read(self, path: str) -> bytes:
        try:
            location = self._locate(path)
            if stat.S_ISREG(location.stat().st_mode):
                with location.open("rb") as file:
                    return file.read(MAX_READ_BYTES + 1)
        except (OSError, ValueError, RuntimeError) as error:
            raise _to_refusal(error) from error
        raise PathRefused("it is not a regular file", code="not_a_file")

    def list_names(self, path: str) -> list[tuple[str, bool]]:
        try:
            with os.scandir(self._locate(path)) as entries:
                return sorted((entry.name, entry.is_dir()) for entry in entries)
        except OSError as error:
            raise _to_refusal(error) from error

    def show(self, path: str) -> str:
        location, home = str(self._locate(path)), str(Path.home())
        return f"~{location.removeprefix(home)}" if location.startswith(f"{home}/") else location

    def resolve(self, path: str) -> str:
        return os.path.normpath(path)


def _to_refusal(error: Exception) -> PathRefused:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return PathRefused("it does not exist", code="not_found")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return PathRefused(f"it can't be read: {reason}")


def list_rule_files(rule_place: RuleRoot, directory: str, suffix: str) -> list[str]:
    """Return the sorted paths below a directory that end with `suffix`."""
    paths: list[str] = []
    waiting = [(directory, 0)]
    while waiting and len(paths) < MAX_RULES:
        above, depth = waiting.pop()
        try:
            names = rule_place.list_names(above)
        except PathRefused:
            continue
        for name, is_directory in names:
            path = f"{above}/{name}"
            if is_directory and depth < MAX_DEPTH:
                waiting.append((path, depth + 1))
            elif not is_directory and name.endswith(suffix):
                paths.append(path)
    return sorted(paths)[:MAX_RULES]


def is_rule_path(path: str) -> bool:
    """True if a workspace-relative path is spelled like one of a rule."""
    name = path.rpartition("/")[2]
    return any(f"/{path}".endswith(f"/{file_name}") for file_name in INSTRUCTION_FILES) or any(
        f"/{directory}/" in f"/{path}" and name.endswith(suffix) for directory, suffix in RULE_DIRECTORIES
    )


def iterate_rule_paths(workspace: Workspace) -> Iterator[str]:
    """Iterate over workspace paths that are rule files or directories of them."""
    waiting, visit_count = [""], 0
    while waiting and visit_count < MAX_DIRECTORIES:
        above, visit_count = waiting.pop(0), visit_count + 1
        try:
            entries = workspace.list_dir(above or ".")
        except PathRefused:
            continue
        for entry in entries:
            path = f"{above}/{entry.name}" if above else entry.name
            if entry.kind == "directory" and entry.name not in _SKIPPED_DIRECTORIES:
                waiting.append(path)
            if entry.name in FIRST_NAMES:
                yield path


def list_directories_above(path: str) -> list[str]:
    """Return the directories that contain a path, outermost "" first."""
    parts = path.split("/")[:-1] if path else []
    return ["/".join(parts[:count]) for count in range(len(parts) + 1)]
