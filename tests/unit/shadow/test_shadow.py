"""What the agent sees and writes: the shadow over the workspace, and the user's files untouched."""

from __future__ import annotations

import os

import pytest

from core.errors import PathRefused
from core.protocol.events import ChangeConflicted, ChangeProposed, ChangeResolved, ChangeRevised
from core.protocol.review import Origin

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))


def edited(data: bytes, *numbers: int, into: bytes = b"new") -> bytes:
    for number in numbers:
        data = data.replace(b"line %d\n" % number, b"%s %d\n" % (into, number))
    return data


def test_an_edit_is_seen_by_reads_and_not_by_the_disk(review):
    review.put("a.py", b"old\n")
    change = review.shadow.write("a.py", b"new\n", Origin(call="c1", tool="write"))
    assert (review.shadow.read("a.py"), review.disk("a.py")) == (b"new\n", b"old\n")
    assert (change.operation, change.added, change.removed, change.language) == ("edit", 1, 1, "python")
    assert change.origin == Origin(call="c1", tool="write")
    assert review.events == [ChangeProposed(change=change)]


def test_a_second_edit_builds_on_the_first_and_going_back_resolves_the_change(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 3))
    first_ids = review.ids("a")
    change = review.shadow.write("a", edited(TEN, 3, 8))
    assert isinstance(review.events[-1], ChangeRevised)
    assert [hunk.id for hunk in change.hunks][:1] == first_ids
    assert review.shadow.write("a", TEN).hunks == ()
    assert isinstance(review.events[-1], ChangeResolved)
    assert review.shadow.list_changes() == ()


def test_writing_what_is_there_already_is_no_change(review):
    review.put("a", TEN)
    assert review.shadow.write("a", TEN).hunks == ()
    assert review.events == []


def test_creating_and_deleting_show_in_listings_and_stats(review):
    review.put("old/x", b"x")
    review.put("b", b"b")
    review.shadow.write("fresh/deep/n.txt", b"hello")
    review.shadow.delete("b")
    names = [(entry.name, entry.kind) for entry in review.shadow.list_dir()]
    assert names == [("fresh", "directory"), ("old", "directory")]
    assert [entry.name for entry in review.shadow.list_dir("fresh/deep")] == ["n.txt"]
    assert review.shadow.stat("fresh").kind == "directory"
    assert review.shadow.stat("fresh/deep/n.txt").size == 5
    assert (review.shadow.stat("b"), review.shadow.read("b")) == (None, None)
    assert review.disk("b") == b"b"
    with pytest.raises(PathRefused):
        review.shadow.delete("b")
    review.shadow.delete("fresh/deep/n.txt")
    assert list(review.state.changes) == ["b"]


def test_p13_binary_empty_and_deleted_files_are_one_hunk(review):
    review.put("pic", b"\0one\ntwo\n")
    review.put("gone", TEN)
    for path, data in (("pic", b"\0one\nthree\nfour\n"), ("empty", b""), ("new", TEN)):
        review.shadow.write(path, data)
    review.shadow.delete("gone")
    assert [len(change.hunks) for change in review.shadow.list_changes()] == [1, 1, 1, 1]
    assert review.state.changes["pic"].binary
    assert "binary" in review.shadow.diff("pic").note
    assert review.shadow.diff("empty").note == "empty file"
    assert [line.kind for line in review.shadow.diff("gone").lines] == ["removed"] * 10


def test_p4_an_edit_through_a_link_changes_the_target(review):
    review.put("real", b"old\n")
    (review.root / "l").symlink_to("real")
    change = review.shadow.write("l", b"new\n")
    assert change.path == "real"
    assert review.shadow.read("l") == review.shadow.read("real") == b"new\n"
    review.shadow.resolve("real")
    assert (review.root / "l").is_symlink()
    assert review.disk("real") == b"new\n"


def test_deleting_a_link_removes_the_link_alone(review):
    review.put("real", b"old\n")
    (review.root / "l").symlink_to("real")
    assert review.shadow.delete("l").base.kind == "symlink"
    review.shadow.resolve("l")
    assert not (review.root / "l").is_symlink()
    assert review.disk("real") == b"old\n"
    review.shadow.undo()
    assert str((review.root / "l").readlink()) == "real"


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/x", "sub/.git", "dir", "file/below", "fresh", "."])
def test_p16_places_where_nothing_can_be_written_are_refused(review, path):
    review.put("dir/x", b"")
    review.put("file", b"")
    review.shadow.write("fresh/x", b"")
    with pytest.raises(PathRefused):
        review.shadow.write(path, b"mine")
    assert list(review.state.changes) == ["fresh/x"]


def test_p20_what_the_user_withholds_is_neither_read_nor_written(review):
    review.put(".cursorignore", b"secret*\n")
    review.put("secret.txt", b"key")
    (review.root / "alias").symlink_to("secret.txt")
    review.shadow.write("other", b"pending")
    for path in ("secret.txt", "alias"):
        with pytest.raises(PathRefused):
            review.shadow.read(path)
        with pytest.raises(PathRefused):
            review.shadow.write(path, b"")


def test_edits_of_the_user_elsewhere_in_the_file_are_taken_in_at_the_next_write(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 3))
    review.put("a", edited(TEN, 9, into=b"user"))
    review.shadow.write("a", edited(TEN, 3, 6))
    assert review.shadow.read("a") == edited(edited(TEN, 3, 6), 9, into=b"user")
    assert review.state.changes["a"].conflict == ""
    assert len(review.ids("a")) == 2


def test_a_conflict_is_told_and_settled_by_an_edit_of_what_the_user_has(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 3, 7))
    review.put("a", edited(TEN, 3, into=b"user"))
    assert "same place" in review.shadow.check_disk("a").conflict
    assert isinstance(review.events[-1], ChangeConflicted)
    seen = review.shadow.read("a")
    assert seen == edited(edited(TEN, 3, into=b"user"), 7)
    change = review.shadow.write("a", seen)
    assert (change.conflict, len(change.hunks)) == ("", 1)
    review.shadow.resolve("a")
    assert review.disk("a") == seen


def test_a_change_that_the_user_made_too_is_resolved(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 3))
    review.put("a", edited(TEN, 3))
    assert review.shadow.check_disk("a") is None
    assert review.state.changes == {}


def test_p7_a_second_name_of_the_file_is_mentioned(review):
    review.put("a", TEN)
    os.link(review.root / "a", review.root / "b")
    review.shadow.write("a", edited(TEN, 3))
    assert "2 names" in review.shadow.diff("a").note
    review.shadow.resolve("a")
    assert review.disk("b") == TEN
