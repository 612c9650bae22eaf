"""The changes that are promoted together: deletions that make way for others, and both paths of renames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from core.protocol.events import Notice
from core.protocol.renames import find_renames
from core.protocol.review import Change
from core.shadow.content.paths import format_paths, list_parents
from core.shadow.promotion.journal import PathWrite
from core.workspace import Workspace


def group_changes(
    changes: Mapping[str, Change], selection: Iterable[Change], *, partial_path: str = "", accepts: bool = False
) -> list[Change]:
    """Return the chosen changes with the other paths of renames, deletions first.

    `partial_path`: a path of which only a part is meant, so that it is no rename. `accepts`: with the deletions that
    make way for them, too; and a protected change brings only its own rename along.
    """
    grouped_changes = {change.path: change for change in selection}
    pairs = [pair for pair in find_renames(changes).items() if partial_path not in pair]
    others, selected_paths = dict(pairs) | {old: new for new, old in pairs}, frozenset(grouped_changes)
    waiting = list(grouped_changes.values())
    while waiting:
        change = waiting.pop()
        is_new = accepts and change.base.kind == "absent" != change.pending.kind
        companion_paths = _find_blocking_deletions(changes, change.path) if is_new else set[str]()
        other = others.get(change.path, "")
        if other and (not accepts or change.path in selected_paths or not changes[other].protected):
            companion_paths.add(other)
        for path in companion_paths - grouped_changes.keys():
            grouped_changes[path] = changes[path]
            waiting.append(changes[path])
    return sorted(grouped_changes.values(), key=lambda change: (change.pending.kind != "absent", change.path))


def _find_blocking_deletions(changes: Mapping[str, Change], path: str) -> set[str]:
    """Return the deletions above and below a path that is new."""
    places = {*list_parents(path), *(changed_path for changed_path in changes if changed_path.startswith(f"{path}/"))}
    return {changed_path for changed_path in places & changes.keys() if changes[changed_path].pending.kind == "absent"}


def build_hard_link_notices(workspace: Workspace, writes: Sequence[PathWrite]) -> list[Notice]:
    """Build the notice that the other names (hard links) of files to be replaced keep the old content."""
    linked_paths = []
    for write in writes:
        if write.before.kind == write.after.kind == "file":
            with suppress(OSError), workspace.open_parent(write.path) as (directory, name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_nlink > 1:
                    linked_paths.append(write.path)
    if not linked_paths:
        return []
    hint = "Only what was accepted has the new content; the other names keep the old one."
    return [Notice(level="info", message=f"{format_paths(linked_paths)} had other names (hard links).", hint=hint)]
