"""Which pending changes are a rename: two paths with one verdict, listed and counted as one.

Derived from the changes alone, so that every client sees the same pairs as the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.names import named
from core.protocol.review import Change

GROUPED_FROM = 3  # renamed files that are told as a directory


class Moved(Struct, frozen=True):
    """A directory whose files are renamed, "." = the project: `files` of them, by their new path."""

    old: str
    new: str
    files: tuple[str, ...]


class Row(Protocol):
    """A change as it is listed."""

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


def renames(changes: Mapping[str, Change]) -> dict[str, str]:
    """The old path of each pending rename, by the new one. The two paths go together; of the hunks of the new one each
    has its verdict."""
    found = {path: each.renamed_from for path, each in changes.items() if _is_moved(each, changes)}
    count = Counter(found.values())
    return {new: old for new, old in found.items() if count[old] == 1}


def _is_moved(change: Change, changes: Mapping[str, Change]) -> bool:
    old = changes.get(change.renamed_from) if change.renamed_from and change.base.kind == "absent" else None
    return (
        old is not None
        and old.pending.kind == "absent"
        and old.base == (change.source or change.pending)
        and are_apart(old.path, change.path)
    )


def are_apart(one: str, other: str) -> bool:
    """Whether neither path lies below the other."""
    return not f"{one}/".startswith(f"{other}/") and not f"{other}/".startswith(f"{one}/")


def tied(changes: Mapping[str, Change]) -> dict[str, str]:
    """The same, with those that are no rename as long as one of the two paths is in conflict."""
    gone = {path for path, each in changes.items() if each.pending.kind == "absent"}
    return {path: each.renamed_from for path, each in changes.items() if each.renamed_from in gone}


def listed(changes: Mapping[str, Change]) -> tuple[Change, ...]:
    """The changes as they are listed, by path: a rename is one. One in conflict is two, since each path may have to be
    settled; what is no rename (any more) is a creation."""
    pairs = {new: old for new, old in renames(changes).items() if not (changes[new].conflict or changes[old].conflict)}
    olds = frozenset(pairs.values())
    return tuple(each if path in pairs else _alone(each) for path, each in sorted(changes.items()) if path not in olds)


def _alone(change: Change) -> Change:
    if not change.renamed_from:
        return change
    return replace(change, renamed_from="", operation="create" if change.operation == "rename" else change.operation)


def arrow(row: Row) -> str:
    """The name of a change as it is printed: `old -> new` of a rename."""
    return f"{named(row.renamed_from)} -> {named(row.path)}" if row.renamed_from else named(row.path)


def directories(rows: Iterable[Row]) -> list[Moved]:
    """Of changes as they are listed: the directories of which several files were renamed alike and in nothing else, by
    their new name. What is asked about by itself is in none."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in rows:
        if each.renamed_from and not (each.protected or each.conflict or each.added or each.removed):
            found.setdefault(_parted(each.renamed_from, each.path), []).append(each.path)
    whole = (Moved(old, new, tuple(paths)) for (old, new), paths in found.items() if len(paths) >= GROUPED_FROM)
    return sorted(whole, key=lambda each: (each.new, each.old))


def _parted(old: str, new: str) -> tuple[str, str]:
    """The outermost directories below which two paths are the same; the paths, if the file has another name."""
    one, other = old.split("/"), new.split("/")
    if one.pop() != other.pop():
        return old, new
    while len(one) > 1 and len(other) > 1 and one[-1] == other[-1]:
        del one[-1], other[-1]
    return "/".join(one) or ".", "/".join(other) or "."
