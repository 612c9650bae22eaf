"""The rows of the list of changes by file: below their directories, and one row per bulk."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from core.protocol.paths import list_parents
from core.protocol.review import Bulk, Change
from tui.review.proof_view import HunkPlace

HEADED_FROM: Final = 2  # number of files from which their directory has a row
DELETED_GROUP_FROM: Final = 3  # number of deleted files in a directory that are summed up in a row


class ChangeRow(NamedTuple):
    """A row of the list. `name`: the path of a file or directory, the root of a bulk, or a heading; `members`: indices
    of changes; `below`: the directory of the row above that the name is relative to. `hunks`: the hunk of the row, or
    those that are folded into it, by path and id."""

    kind: Literal["file", "directory", "bulk", "group", "hunk", "fold"]
    name: str
    members: tuple[int, ...] = ()
    is_deleted: bool = False
    is_open: bool = True
    depth: int = 0
    below: str = ""
    hunks: tuple[HunkPlace, ...] = ()


def build_rows(
    changes: Sequence[Change], bulks: Sequence[Bulk], *, pattern: str = "", toggled_names: Collection[str] = ()
) -> list[ChangeRow]:
    """Return the rows in order of path, bulks last. A directory's row covers everything below it.

    `pattern`: words of the path, or of the command behind the change. `toggled_names`: directories that are not in
    their default state (deleted ones closed, others open).
    """
    words = pattern.lower().split()
    indices = [index for index, change in enumerate(changes) if not words or has_words(search_text(change), words)]
    indices.sort(key=lambda index: changes[index].path)
    deleted_tops = set() if words else _find_deleted_tops(changes, indices)
    members = _group_by_directory(changes, indices, deleted_tops)
    rows: list[ChangeRow] = []
    listed: set[str] = set()
    for index in indices:
        path, below, depth, is_open = changes[index].path, "", 0, True
        for name in filter(members.__contains__, list_parents(path)):
            is_deleted = name in deleted_tops
            is_open = (name in toggled_names) == is_deleted
            if name not in listed:
                listed.add(name)
                rows.append(ChangeRow("directory", name, members[name], is_deleted, is_open, depth, below))
            if not is_open:
                break
            below, depth = name, depth + 1
        if is_open:
            rows.append(ChangeRow("file", path, (index,), depth=depth, below=below))
    rows += [ChangeRow("bulk", bulk.root) for bulk in bulks if not words or has_words(bulk.root.lower(), words)]
    return rows


def _group_by_directory(
    changes: Sequence[Change], indices: Sequence[int], deleted_tops: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """Return the members of each directory that gets a row: it has several files, and not all of them are in one
    directory below it. There is none below a deleted directory."""
    members = defaultdict[str, list[int]](list)
    for index in indices:
        for name in list_parents(changes[index].path):
            members[name].append(index)
            if name in deleted_tops:
                break
    only_parents = {
        name.rpartition("/")[0]
        for name, inside in members.items()
        if len(inside) == len(members.get(name.rpartition("/")[0], ()))
    }
    return {
        name: tuple(sorted(inside))
        for name, inside in members.items()
        if name in deleted_tops or (len(inside) >= HEADED_FROM and name not in only_parents)
    }


def search_text(change: Change) -> str:
    return f"{change.renamed_from} {change.path} {change.origin.command if change.origin else ''}".lower()


def has_words(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _find_deleted_tops(changes: Sequence[Change], indices: Sequence[int]) -> set[str]:
    """Return the topmost directories with nothing but deletions, and several of them."""
    total = Counter(above for index in indices for above in list_parents(changes[index].path))
    deleted_paths = [changes[index].path for index in indices if changes[index].operation == "delete"]
    deletion_counts = Counter(above for path in deleted_paths for above in list_parents(path))
    wholly = {above for above, files in deletion_counts.items() if files == total[above] >= DELETED_GROUP_FROM}
    tops = (next((parent for parent in list_parents(path) if parent in wholly), "") for path in deleted_paths)
    return {top for top in tops if top}
