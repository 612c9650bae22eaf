"""Versions of a path for a commit: the last commit's version with the accepted hunks of a session applied to it.

The user's own edits of the file stay out. Where they changed what they had accepted, the file on the disk counts: a
commit never undoes what the user sees. A verdict on hunks of several todos is one edit for every todo, so that these
can be committed separately.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError
from core.protocol.review import FileState, Hunk, VerdictRecord
from core.shadow.content.contents import Contents
from core.shadow.diff.alignment import Region, find_pieces
from core.shadow.diff.hunks import is_divisible, select_hunks
from core.shadow.diff.text_lines import split_lines
from core.shadow.diff.three_way_merge import merge_three_way


class EditClash(AgentTuiError, code="edit_clash"):
    """An accepted edit cannot be separated from the user's own edits; the message names their kind."""


class PathVersion(Struct, frozen=True, kw_only=True):
    """A path as git stores it: the bytes of a file, or the target of a link."""

    kind: Literal["absent", "file", "symlink"] = "absent"
    data: bytes = b""
    is_executable: bool = False


class AcceptedEdit(Struct, frozen=True, kw_only=True):
    """One accepted edit of a path. `hunks`, `todo` and `turn` are ids, "" = none; `command`: the command whose effect
    it is."""

    id: str
    path: str
    before: PathVersion
    after: PathVersion
    hunks: tuple[str, ...] = ()
    todo: str = ""
    turn: str = ""
    command: str = ""


def apply_edits(head: PathVersion, edits: Sequence[AcceptedEdit], disk: PathVersion | None) -> PathVersion:
    """Return the next commit's version: `head` with the edits, as far as the disk still has them. `disk` None: later
    edits of the path are accepted too, so the version has to match the state between the edits.

    Raises `EditClash` where the edits depend on lines that the commit would not have.
    """
    version = head
    for edit in edits:
        version = _apply_edit(version, edit.before, edit.after)
    return version if disk is None else _follow_disk(head, version, disk)


def _apply_edit(now: PathVersion, before: PathVersion, after: PathVersion) -> PathVersion:
    if now in (before, after):
        return after
    if reason := _find_difference(now, before, after):
        raise EditClash(reason)
    merged_content = merge_three_way(before.data, now.data, after.data)
    if merged_content is None:
        raise EditClash("mixed with your own uncommitted edits, or with hunks beside these")
    is_executable = after.is_executable if before.is_executable != after.is_executable else now.is_executable
    return replace(now, data=merged_content, is_executable=is_executable)


def _find_difference(now: PathVersion, before: PathVersion, after: PathVersion) -> str | None:
    """Return why no edit from `before` to `after` applies to the last commit's version; None: it may apply."""
    kinds = {before.kind, after.kind}
    if now.kind == "absent":
        return "you have not committed it yet, and its hunks are mixed with your own text"
    if now.kind == "file" and (kinds == {"file"} or (before.kind == "absent" and now.data == after.data)):
        return None
    if now.kind in kinds:
        return "the last commit has another version of it than the one that was changed"
    return "it has another file type in the last commit than when its hunks were accepted"


def _follow_disk(head: PathVersion, accepted_version: PathVersion, disk: PathVersion) -> PathVersion:
    """Return the accepted version with the user's later changes of the accepted lines."""
    if disk in (accepted_version, head):
        return disk
    if accepted_version.kind != disk.kind or disk.kind != "file" or not is_divisible(accepted_version.data, disk.data):
        raise EditClash("it was changed as a whole since its hunks were accepted")
    begin = head.data if head.kind == "file" and is_divisible(head.data, accepted_version.data) else b""
    old, lines, new = split_lines(begin), split_lines(accepted_version.data), split_lines(disk.data)
    touched_spans = [(start, end) for _, _, start, end in find_pieces(old, lines)]
    edits = [region for region in find_pieces(lines, new) if any(_touches(region, span) for span in touched_spans)]
    return replace(accepted_version, data=b"".join(_take_regions(lines, new, edits)))


def _touches(edit: Region, span: tuple[int, int]) -> bool:
    """True if an edit changes lines of a span or inserts inside of it; lines next to it are the user's own."""
    start, end, (first, last) = edit[0], edit[1], span
    if first == last:
        return start <= first <= end if start == end else start < first < end
    return first < start < last if start == end else start < last and first < end


def _take_regions(old: Sequence[bytes], new: Sequence[bytes], regions: Sequence[Region]) -> Iterator[bytes]:
    position = 0
    for a0, a1, b0, b1 in regions:
        yield from old[position:a0]
        yield from new[b0:b1]
        position = a1
    yield from old[position:]


def list_accepted_edits(
    verdicts: Sequence[VerdictRecord], contents: Contents, committed_ids: Collection[str] = ()
) -> list[AcceptedEdit]:
    """Return the edits of the verdicts that are not undone, oldest first, without those in `committed_ids`.

    Raises `ContentLost`.
    """
    records = (
        verdict for verdict in verdicts if verdict.verdict == "accept" and verdict.bulk is None and not verdict.settled
    )
    edits = (edit for record in records for edit in _list_edits(record, contents))
    return [edit for edit in edits if edit.id not in committed_ids and edit.before != edit.after]


def _list_edits(record: VerdictRecord, contents: Contents) -> Iterator[AcceptedEdit]:
    todos = list(dict.fromkeys(hunk.todo for hunk in record.hunks))
    versions = [read_version(record.base_before, contents)]
    if len(todos) > 1 and (partial := _read_partial(record, contents, todos)):
        versions += partial
    else:
        todos = todos[:1] if len(todos) == 1 else [record.origin.todo if record.origin else ""]
    versions.append(read_version(record.base_after, contents))
    turn = record.origin.turn if record.origin else ""
    for number, (todo, (before, after)) in enumerate(zip(todos, pairwise(versions), strict=True)):
        of_todo = [hunk for hunk in record.hunks if hunk.todo == todo] if len(todos) > 1 else record.hunks
        yield AcceptedEdit(
            id=f"{record.id}.{number}" if number else record.id,
            path=record.path,
            before=before,
            after=after,
            hunks=tuple(hunk.id for hunk in of_todo),
            todo=todo,
            turn=turn,
            command=record.origin.command if record.origin else "",
        )


def _read_partial(record: VerdictRecord, contents: Contents, todos: Sequence[str]) -> list[PathVersion]:
    """Return the versions between base and accepted content, adding the hunks of one todo after another; nothing if the
    hunks cannot be separated."""
    sides = (record.base_before, record.pending_before)
    if record.beside or record.source is not None or any(side.kind != "file" for side in sides):
        return []
    base, pending = (contents.read(side) for side in sides)
    if not is_divisible(base, pending) or select_hunks(base, pending, record.hunks) != contents.read(record.base_after):
        return []
    versions, included_todos = [], set[str]()
    for todo in todos[:-1]:
        included_todos.add(todo)
        hunks: list[Hunk] = [hunk for hunk in record.hunks if hunk.todo in included_todos]
        data = select_hunks(base, pending, hunks)
        versions.append(PathVersion(kind="file", data=data, is_executable=bool(record.base_before.mode & 0o100)))
    return versions


def read_version(state: FileState, contents: Contents) -> PathVersion:
    """Return a state with its bytes. Raises `ContentLost`."""
    if state.kind == "absent":
        return PathVersion()
    is_executable = state.kind == "file" and bool(state.mode & 0o100)
    return PathVersion(kind=state.kind, data=contents.read(state), is_executable=is_executable)
