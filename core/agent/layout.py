"""The project's layout for the model: a tree, breadth first, so that a large project shows its shape, not one corner.

The walk is bounded in entries and in time, and runs in a thread: 50,000 files must not make anybody wait.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from core.clock import monotonic
from core.errors import PathRefused
from core.workspace import IgnoreRules, Workspace

MAX_ENTRIES = 400
MAX_PER_DIRECTORY = 60
MAX_LOOKED_AT = 4_000
MAX_SECONDS = 0.5


class _Node(Struct):
    """One directory; `children` None: it was not opened."""

    name: str
    children: list[_Node | str] | None = None
    more: int = 0
    path: str = ""


class _Budget(Struct):
    deadline: float
    shown: int = 0
    looked_at: int = 0
    waiting: deque[_Node] = field(default_factory=deque)

    def is_spent(self) -> bool:
        return self.shown >= MAX_ENTRIES or self.looked_at >= MAX_LOOKED_AT or monotonic() > self.deadline


def project_layout(workspace: Workspace) -> str:
    """The tree as indented text; what was left out is said where it was left out."""
    ignore = IgnoreRules(workspace)
    top = _Node(name="", path=".")
    budget = _Budget(deadline=monotonic() + MAX_SECONDS, waiting=deque([top]))
    while budget.waiting and not budget.is_spent():
        _open(budget.waiting.popleft(), workspace, ignore, budget)
    lines: list[str] = []
    _write(top, 0, lines)
    return "\n".join(lines) if lines else "(empty)"


def _open(node: _Node, workspace: Workspace, ignore: IgnoreRules, budget: _Budget) -> None:
    try:
        entries = workspace.list_dir(node.path)
    except PathRefused:
        return
    node.children = []
    for number, entry in enumerate(entries):
        budget.looked_at += 1
        if len(node.children) >= MAX_PER_DIRECTORY or budget.is_spent():
            node.more = len(entries) - number
            return
        path = entry.name if node.path == "." else f"{node.path}/{entry.name}"
        is_directory = entry.kind == "directory"
        if ignore.is_ignored(path, is_directory):
            continue
        budget.shown += 1
        if is_directory:
            child = _Node(name=entry.name, path=path)
            node.children.append(child)
            budget.waiting.append(child)
        else:
            node.children.append(entry.name)


def _write(node: _Node, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    for child in node.children or ():
        if isinstance(child, str):
            lines.append(f"{indent}{_printable(child)}")
            continue
        lines.append(f"{indent}{_printable(child.name)}/{' …' if child.children is None else ''}")
        _write(child, depth + 1, lines)
    if node.more:
        lines.append(f"{indent}… {node.more} more")


def _printable(name: str) -> str:
    return name if name.isprintable() else "".join(each if each.isprintable() else "�" for each in name)
