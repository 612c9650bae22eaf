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
    verdicts: Sequence[VerdictRecord], contents: Contents, committed: Collection[str] = ()
) -> list[AcceptedEdit]:
    """Return the edits of the standing verdicts, oldest first, without those whose ids are in `committed`.

    Raises `ContentLost`.
    """
    accepted = (each for each in verdicts if each.verdict == "accept" and each.bulk is None and not each.settled)
    found = (edit for each in accepted for edit in _list_edits(each, contents))
    return [each for each in found if each.id not in committed and each.before != each.after]


def _list_edits(record: VerdictRecord, contents: Contents) -> Iterator[AcceptedEdit]:
    todos = list(dict.fromkeys(each.todo for each in record.hunks))
    versions = [read_version(record.base_before, contents)]
    if len(todos) > 1 and (partial := _read_partial(record, contents, todos)):
        versions += partial
    else:
        todos = todos[:1] if len(todos) == 1 else [record.origin.todo if record.origin else ""]
    versions.append(read_version(record.base_after, contents))
    turn = record.origin.turn if record.origin else ""
    for number, (todo, (before, after)) in enumerate(zip(todos, pairwise(versions), strict=True)):
        of_todo = [each for each in record.hunks if each.todo == todo] if len(todos) > 1 else record.hunks
        yield AcceptedEdit(
            id=f"{record.id}.{number}" if number else record.id,
            path=record.path,
            before=before,
            after=after,
            hunks=tuple(each.id for each in of_todo),
            todo=todo,
            turn=turn,
            command=record.origin.command if record.origin else "",
        )


def _read_partial(record: VerdictRecord, contents: Contents, todos: Sequence[str]) -> list[PathVersion]:
    """Return the versions between base and accepted content, with the hunks of one todo more in each; none if the
    hunks can't be told apart."""
    sides = (record.base_before, record.pending_before)
    if record.beside or record.source is not None or any(each.kind != "file" for each in sides):
        return []
    base, pending = (contents.read(each) for each in sides)
    if not is_divisible(base, pending) or select_hunks(base, pending, record.hunks) != contents.read(record.base_after):
        return []
    versions, taken = [], set[str]()
    for todo in todos[:-1]:
        taken.add(todo)
        chosen: list[Hunk] = [each for each in record.hunks if each.todo in taken]
        data = select_hunks(base, pending, chosen)
        versions.append(PathVersion(kind="file", data=data, is_executable=bool(record.base_before.mode & 0o100)))
    return versions


def read_version(state: FileState, contents: Contents) -> PathVersion:
    """Return a state with its bytes. Raises `ContentLost`."""
    if state.kind == "absent":
        return PathVersion()
    is_executable = state.kind == "file" and bool(state.mode & 0o100)
    return PathVersion(kind=state.kind, data=contents.read(state), is_executable=is_executable)
