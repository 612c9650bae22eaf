"""Facts of the project for the model: its layout and its git status. Both are conveniences that may be missing.

The layout is a tree, filled breadth first, so that a large project shows its shape, not one corner. The walk is bounded
in entries and in time, and runs in a thread, since a project may have 50,000 files.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from msgspec import Struct, field

from core.clock import monotonic
from core.errors import PathRefused
from core.git.credentials import register_git_credentials
from core.git.repository import GitFailed, open_repository
from core.workspace import IgnoreRules, Workspace

MAX_ENTRIES = 400
MAX_PER_DIRECTORY = 60
MAX_VISITED = 4_000
MAX_LAYOUT = 20_000  # characters of a layout that a client sends
MAX_SECONDS = 0.5
GIT_TIME_LIMIT = 1.5  # seconds
MAX_CHANGED_FILES = 40
_MAX_GIT_ANSWER = 200_000  # bytes of git's output that are parsed
_STATUS_ARGUMENTS = (
    "status",
    "--short",  # as `--porcelain`, with paths from where git is run
    "--branch",
    "--untracked-files=normal",
    "--ignore-submodules=all",
    "--no-renames",
)


class _Directory(Struct):
    """One directory. `children`: None = not opened; `hidden_count`: the number of entries left out."""

    name: str
    children: list[_Directory | str] | None = None
    hidden_count: int = 0
    path: str = ""


class _Budget(Struct):
    deadline: float
    shown_count: int = 0
    visited_count: int = 0
    waiting: deque[_Directory] = field(default_factory=deque)

    def is_spent(self) -> bool:
        return self.shown_count >= MAX_ENTRIES or self.visited_count >= MAX_VISITED or monotonic() > self.deadline


def render_layout(workspace: Workspace) -> str:
    """Render the tree as indented text; a line in every gap gives the number of entries left out."""
    ignore = IgnoreRules(workspace)
    top = _Directory(name="", path=".")
    budget = _Budget(deadline=monotonic() + MAX_SECONDS, waiting=deque([top]))
    while budget.waiting and not budget.is_spent():
        _open_directory(budget.waiting.popleft(), workspace, ignore, budget)
    lines: list[str] = []
    _write_tree(top, 0, lines)
    return "\n".join(lines) if lines else "(empty)"


def clip_layout(layout: str) -> str:
    """Clip the layout from a client to MAX_ENTRIES lines and MAX_LAYOUT characters; its end gives the missing lines."""
    lines, clipped_lines, size = layout.rstrip().splitlines(), list[str](), 0
    for line in lines[:MAX_ENTRIES]:
        size += len(line) + 1
        if size > MAX_LAYOUT:
            break
        clipped_lines.append(_replace_unprintable(line))
    if len(clipped_lines) < len(lines):
        clipped_lines.append(f"… {len(lines) - len(clipped_lines)} more")
    return "\n".join(clipped_lines)


def _open_directory(node: _Directory, workspace: Workspace, ignore: IgnoreRules, budget: _Budget) -> None:
    try:
        entries = workspace.list_dir(node.path)
    except PathRefused:
        return
    node.children = []
    for number, entry in enumerate(entries):
        budget.visited_count += 1
        if len(node.children) >= MAX_PER_DIRECTORY or budget.is_spent():
            node.hidden_count = len(entries) - number
            return
        path = entry.name if node.path == "." else f"{node.path}/{entry.name}"
        is_directory = entry.kind == "directory"
        if ignore.is_ignored(path, is_directory):
            continue
        budget.shown_count += 1
        if is_directory:
            child = _Directory(name=entry.name, path=path)
            node.children.append(child)
            budget.waiting.append(child)
        else:
            node.children.append(entry.name)


def _write_tree(node: _Directory, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    for child in node.children or ():
        if isinstance(child, str):
            lines.append(f"{indent}{_replace_unprintable(child)}")
            continue
        lines.append(f"{indent}{_replace_unprintable(child.name)}/{' …' if child.children is None else ''}")
        _write_tree(child, depth + 1, lines)
    if node.hidden_count:
        lines.append(f"{indent}… {node.hidden_count} more")


def _replace_unprintable(name: str) -> str:
    return name if name.isprintable() else "".join(char if char.isprintable() else "�" for char in name)


def describe_git_status(root: Path) -> str:
    """Return branch and changed files as text, "" = no git, no repository, or no answer in time.

    Filters are not run, so a file that a filter stores in another form (LFS) counts as changed as soon as its size or
    time differs from git's index.
    """
    register_git_credentials(root)
    try:
        with open_repository(root, may_be_above=True) as repository:
            if repository is None:
                return ""
            status = _summarize_status(repository.run("-C", str(root), *_STATUS_ARGUMENTS, seconds=GIT_TIME_LIMIT))
            return f"{_describe_top(repository.root, root)}{status}" if status else ""
    except (OSError, GitFailed):
        return ""


def _describe_top(top: Path, root: Path) -> str:
    if top == root:
        return ""
    top_name, below = (_replace_unprintable(str(path)) for path in (top, root.relative_to(top)))
    return (
        f"repository: {top_name}, of which {below}/ is this workspace; commands can read the rest, nothing can change"
        " it; paths are from here\n"
    )


def _summarize_status(answer: bytes) -> str:
    branch, *files = answer[:_MAX_GIT_ANSWER].decode("utf-8", "replace").splitlines() or [""]
    if not branch.startswith("## "):
        return ""
    lines = [f"branch: {branch.removeprefix('## ')}"]
    if not files:
        return f"{lines[0]}\nno changes"
    lines += [f"  {line}" for line in files[:MAX_CHANGED_FILES]]
    if len(files) > MAX_CHANGED_FILES:
        lines.append(f"  … {len(files) - MAX_CHANGED_FILES} more")
    return "\n".join(lines)
