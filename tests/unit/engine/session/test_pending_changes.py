"""What a verdict on everything takes, what it leaves for the user, and which hunks one on a todo means."""

from __future__ import annotations

import pytest

from core.engine.session.pending_changes import BulkAcceptance, select_hunks
from core.protocol.review import Change, FileState, Hunk, Origin
from tests.unit.shadow.review_case import ReviewCase


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


def test_a_rename_of_which_one_path_is_in_conflict_is_left_whole(tmp_path):
    review = ReviewCase(tmp_path)
    for path in ("old.py", "other.py"):
        review.put(path, b"x = 1\ny = 2\n")
    review.shadow.delete("old.py")
    review.shadow.write("new.py", b"x = 1\ny = 2\n")
    review.shadow.write("other.py", b"z = 3\n")
    review.put("old.py", b"x = 1\nmine\n")
    synced: list[None] = []
    acceptance = BulkAcceptance(review.shadow, review.state, lambda: synced.append(None), lambda *_, **__: None)
    assert sorted(acceptance.accept(None, ())) == ["new.py", "old.py"]
    assert review.files() == {"old.py": b"x = 1\nmine\n", "other.py": b"z = 3\n"}
    assert sorted(review.state.changes) == ["new.py", "old.py"]
    assert synced
