"""Which paths of the workspace a command must not be able to read: what `.cursorignore` keeps from the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator

from core.workspace.ignore import IgnoreRules
from core.workspace.tree import Workspace

RULES = ".cursorignore"


def withheld_paths(workspace: Workspace, ignore: IgnoreRules) -> tuple[str, ...]:
    """Workspace-relative paths, a directory in place of all that is below it. Free of cost without a `.cursorignore`
    in the root; further ones below it count then, too."""
    if not (workspace.root / RULES).is_file():
        return ()
    return tuple(_below(workspace, ignore, ""))


def _below(workspace: Workspace, ignore: IgnoreRules, above: str) -> Iterator[str]:
    try:
        with os.scandir(workspace.root / above) as found:
            entries = sorted(found, key=lambda each: each.name)
    except OSError:
        return
    for entry in entries:
        path = f"{above}{entry.name}"
        is_dir = entry.is_dir(follow_symlinks=False)
        if ignore.is_withheld(path, is_dir):
            yield path
        elif is_dir and path != ".git" and not ignore.is_ignored(path, True):
            yield from _below(workspace, ignore, f"{path}/")
