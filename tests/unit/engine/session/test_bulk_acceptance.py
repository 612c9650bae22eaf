"""Which hunks a verdict on all that was made for a todo means."""

from __future__ import annotations

import pytest

from core.engine.session.bulk_acceptance import select_hunks
from core.protocol.review import Change, FileState, Hunk, Origin


def change(*todos: str, origin: str = "") -> Change:
    hunks = tuple(
        Hunk(id=f"h{at}", old_start=at, old_lines=1, new_start=at, new_lines=1, todo=todo)
        for at, todo in enumerate(todos, 1)
    )
    return Change(
        path="a", operation="edit", base=FileState(), pending=FileState(), hunks=hunks, origin=Origin(todo=origin)
    )


@pytest.mark.parametrize(
    ("found", "origin", "part"),
    [
        (change("a", "b"), None, ()),
        (change("a", "b"), Origin(todo="a"), ("h1",)),
        (change("a", "b", origin="a"), Origin(todo="c"), None),
        (change("b", "b", origin="a"), Origin(todo="a"), None),
        (change("a", "a", origin="b"), Origin(todo="a"), ()),
        (change("a", "", origin="b"), Origin(todo="b"), ("h2",)),
        (change("", "", origin="b"), Origin(todo="b"), ()),
        (change("a", "b", origin="b"), Origin(todo="a", turn="t"), None),
    ],
)
def test_a_todo_means_its_own_hunks_also_in_a_file_that_others_changed(found, origin, part):
    assert select_hunks(found, origin) == part
