"""The accepted hunks of a session as edits of paths, in the order in which they were accepted.

A verdict on hunks that were made for several todos is one edit for each of them, so that they can be committed apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from core.protocol.review import FileState, Hunk, VerdictRecord
from core.shadow.commits.path_version import AcceptedEdit, PathVersion
from core.shadow.content.contents import Contents
from core.shadow.diff.hunks import is_divisible, select_hunks


def list_accepted_edits(
    verdicts: Sequence[VerdictRecord], contents: Contents, committed_ids: Collection[str] = ()
) -> list[AcceptedEdit]:
    """Return the edits of the standing verdicts, oldest first, without those whose ids are in `committed_ids`.

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
    """Return the versions between base and accepted content, with the hunks of one todo more in each; none if the
    hunks can't be told apart."""
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
