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
    """The old path of each pending rename, by the new one: of pairs whose content and mode are the same at both. They
    have one verdict. A file whose content was changed as well is a creation and a deletion."""
    found = {path: each.renamed_from for path, each in changes.items() if _is_moved(each, changes)}
    count = Counter(found.values())
    return {new: old for new, old in found.items() if count[old] == 1}


def _is_moved(change: Change, changes: Mapping[str, Change]) -> bool:
    if not change.renamed_from or change.base.kind != "absent":
        return False
    old = changes.get(change.renamed_from)
    return (
        old is not None
        and old.pending.kind == "absent"
        and old.base == change.pending
        and not f"{old.path}/".startswith(f"{change.path}/")
        and not f"{change.path}/".startswith(f"{old.path}/")
    )


def listed(changes: Mapping[str, Change]) -> tuple[Change, ...]:
    """The changes as they are listed, by path: a rename is one, without lines that come or go. One in conflict is two,
    since each path may have to be settled; what is no rename (any more) is a creation."""
    pairs = {new: old for new, old in renames(changes).items() if not (changes[new].conflict or changes[old].conflict)}
    olds = frozenset(pairs.values())
    return tuple(
        replace(each, added=0, removed=0) if path in pairs else _alone(each)
        for path, each in sorted(changes.items())
        if path not in olds
    )


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
