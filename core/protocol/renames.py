"""Renames among the pending changes: two paths with one verdict, listed and counted as one.

They are derived from the changes alone, so that every client sees the same pairs as the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.paths import are_apart, is_named_by
from core.protocol.review import Change
from core.text.display_names import display_name

MIN_GROUPED_RENAMES = 3  # From this number on, renamed files are summed up as a directory.


class RenamedDirectory(Struct, frozen=True):
    """A directory whose files are renamed ("." = the project); `files` are their new paths."""

    old: str
    new: str
    files: tuple[str, ...]


class ListedChange(Protocol):
    """A change as a list shows it."""

    @property
    def path(self) -> str: ...
    @property
    def renamed_from(self) -> str: ...
    @property
    def protected(self) -> bool: ...
    @property
    def conflict(self) -> str: ...
    @property
    def added(self) -> int: ...
    @property
    def removed(self) -> int: ...


def find_renames(changes: Mapping[str, Change]) -> dict[str, str]:
    """Map the new path of every pending rename to its old one: they share one verdict, but the hunks of the new one
    have their own."""
    renames = {
        path: change.renamed_from
        for path, change in changes.items()
        if change.renamed_from and _is_rename(change, changes)
    }
    count = Counter(renames.values())
    return {new: old for new, old in renames.items() if count[old] == 1}


def _is_rename(change: Change, changes: Mapping[str, Change]) -> bool:
    old = changes.get(change.renamed_from) if change.base.kind == "absent" else None
    return (
        old is not None
        and old.pending.kind == "absent"
        and old.base == (change.source or change.pending)
        and are_apart(old.path, change.path)
    )


def map_conflicting_renames(changes: Mapping[str, Change]) -> dict[str, str]:
    """Map new to old paths like `find_renames`, including pairs with one path in conflict."""
    removed_paths = {path for path, change in changes.items() if change.pending.kind == "absent"}
    return {path: change.renamed_from for path, change in changes.items() if change.renamed_from in removed_paths}


def list_changes(changes: Mapping[str, Change]) -> tuple[Change, ...]:
    """Return the changes in the order of their paths, a rename as one. A rename in conflict counts as two changes,
    since both paths may have to be resolved; one whose old path is no longer deleted is a creation."""
    pairs = {
        new: old for new, old in find_renames(changes).items() if not (changes[new].conflict or changes[old].conflict)
    }
    olds = frozenset(pairs.values())
    return tuple(
        change if path in pairs else _drop_rename(change)
        for path, change in sorted(changes.items())
        if path not in olds
    )


def _drop_rename(change: Change) -> Change:
    if not change.renamed_from:
        return change
    return replace(change, renamed_from="", operation="create" if change.operation == "rename" else change.operation)


def select_named(changes: Iterable[Change], entries: Sequence[str]) -> list[Change]:
    """Return the changes that a user's entries name, each a path, a directory or a pattern; a rename by either of its
    paths."""
    return [
        change
        for change in changes
        if any(is_named_by(path, entry) for path in (change.path, change.renamed_from) if path for entry in entries)
    ]


def format_change_path(row: ListedChange) -> str:
    """Format the path of a change for people: `old -> new` of a rename."""
    return (
        f"{display_name(row.renamed_from)} -> {display_name(row.path)}" if row.renamed_from else display_name(row.path)
    )


def group_renames(rows: Iterable[ListedChange]) -> list[RenamedDirectory]:
    """Group the listed changes into renamed directories, sorted by their new name. Only renames without other
    differences count; protected changes and conflicts belong to no group."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.renamed_from and not (row.protected or row.conflict or row.added or row.removed):
            groups.setdefault(_split_common_tail(row.renamed_from, row.path), []).append(row.path)
    directories = (
        RenamedDirectory(old, new, tuple(paths))
        for (old, new), paths in groups.items()
        if len(paths) >= MIN_GROUPED_RENAMES
    )
    return sorted(directories, key=lambda directory: (directory.new, directory.old))


def _split_common_tail(old: str, new: str) -> tuple[str, str]:
    """Return the outermost directories below which two paths are equal, or the paths if the file names differ."""
    one, other = old.split("/"), new.split("/")
    if one.pop() != other.pop():
        return old, new
    while len(one) > 1 and len(other) > 1 and one[-1] == other[-1]:
        del one[-1], other[-1]
    return "/".join(one) or ".", "/".join(other) or "."
