"""The rows of the list of changes by file: grouped by directory where there are many, and one row per bulk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, NamedTuple

from core.protocol.paths import list_parents
from core.protocol.review import Bulk, Change
from tui.review.proof_view import HunkPlace

GROUPED_FROM: Final = 25  # files from which they are grouped by directory
HEADED_FROM: Final = 4  # number of files from which a grouped list shows a row for their directory
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
    groups = {} if words else _group_deleted(changes, indices)
    ungrouped = {index: changes[index].path for index in indices if index not in groups}
    heads = _find_heads(ungrouped.values()) if len(indices) >= GROUPED_FROM else set()
    rows: list[ChangeRow] = []
    listed: set[str] = set()
    for index in indices:
        path = changes[index].path
        above = [groups[index]] if index in groups else [parent for parent in list_parents(path) if parent in heads]
        is_open = True
        for depth, name in enumerate(above):
            is_open = (name in toggled_names) == (index in groups)
            if name not in listed:
                listed.add(name)
                members = [member for member, top in groups.items() if top == name] if index in groups else []
                members = members or [
                    member for member, file_path in ungrouped.items() if file_path.startswith(f"{name}/")
                ]
                rows.append(ChangeRow("directory", name, tuple(sorted(members)), index in groups, is_open, depth))
            if not is_open:
                break
        if is_open:
            rows.append(ChangeRow("file", path, (index,), depth=len(above), below=above[-1] if above else ""))
    rows += [ChangeRow("bulk", bulk.root) for bulk in bulks if not words or has_words(bulk.root.lower(), words)]
    return rows


def _find_heads(paths: Iterable[str]) -> set[str]:
    """Return the directories that get a row: those with enough files that no directory below them has."""
    direct = Counter(path.rpartition("/")[0] for path in paths)
    heads = set()
    for name in sorted({above for path in direct for above in list_parents(f"{path}/")}, key=len, reverse=True):
        if name and direct[name] >= HEADED_FROM:
            heads.add(name)
        elif name:
            direct[name.rpartition("/")[0]] += direct[name]
    return heads


def search_text(change: Change) -> str:
    return f"{change.renamed_from} {change.path} {change.origin.command if change.origin else ''}".lower()


def has_words(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _group_deleted(changes: Sequence[Change], indices: Sequence[int]) -> dict[int, str]:
    """Map deleted files to the topmost directory with nothing but deletions, if there are several."""
    total = Counter(above for index in indices for above in list_parents(changes[index].path))
    deleted_indices = [index for index in indices if changes[index].operation == "delete"]
    deletion_counts = Counter(above for index in deleted_indices for above in list_parents(changes[index].path))
    wholly = {above for above, files in deletion_counts.items() if files == total[above] >= DELETED_GROUP_FROM}
    tops = {
        index: next((parent for parent in list_parents(changes[index].path) if parent in wholly), "")
        for index in deleted_indices
    }
    return {index: top for index, top in tops.items() if top}
