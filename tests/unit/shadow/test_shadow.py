"""What the agent sees and writes: the shadow over the workspace, and the user's files untouched."""

from __future__ import annotations

import os

import pytest

from core.errors import PathRefused
from core.protocol.events import ChangeConflicted, ChangeProposed, ChangeResolved, ChangeRevised
from core.protocol.review import Origin
from core.shadow.tool_view import ShadowView

TEN = b"".join(b"line %d\n" % number for number in range(1, 11))


def edited(data: bytes, *numbers: int, into: bytes = b"new") -> bytes:
    for number in numbers:
        data = data.replace(b"line %d\n" % number, b"%s %d\n" % (into, number))
    return data


def test_an_edit_is_seen_by_reads_and_not_by_the_disk(desk):
    desk.put("a.py", b"old\n")
    change = desk.shadow.write("a.py", b"new\n", Origin(call="c1", tool="write"))
    assert (desk.shadow.read("a.py"), desk.disk("a.py")) == (b"new\n", b"old\n")
    assert (change.operation, change.added, change.removed, change.language) == ("edit", 1, 1, "python")
    assert change.origin == Origin(call="c1", tool="write")
    assert desk.events == [ChangeProposed(change=change)]


def test_a_second_edit_builds_on_the_first_and_going_back_resolves_the_change(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 3))
    kept = desk.ids("a")
    change = desk.shadow.write("a", edited(TEN, 3, 8))
    assert isinstance(desk.events[-1], ChangeRevised)
    assert [hunk.id for hunk in change.hunks][:1] == kept
    assert desk.shadow.write("a", TEN).hunks == ()
    assert isinstance(desk.events[-1], ChangeResolved)
    assert desk.shadow.list_changes() == ()


def test_writing_what_is_there_already_is_no_change(desk):
    desk.put("a", TEN)
    assert desk.shadow.write("a", TEN).hunks == ()
    assert desk.events == []


def test_creating_and_deleting_show_in_listings_and_stats(desk):
    desk.put("old/x", b"x")
    desk.put("b", b"b")
    desk.shadow.write("fresh/deep/n.txt", b"hello")
    desk.shadow.delete("b")
    names = [(each.name, each.kind) for each in desk.shadow.list_dir()]
    assert names == [("fresh", "directory"), ("old", "directory")]
    assert [each.name for each in desk.shadow.list_dir("fresh/deep")] == ["n.txt"]
    assert desk.shadow.stat("fresh").kind == "directory"
    assert desk.shadow.stat("fresh/deep/n.txt").size == 5
    assert (desk.shadow.stat("b"), desk.shadow.read("b")) == (None, None)
    assert desk.disk("b") == b"b"
    with pytest.raises(PathRefused):
        desk.shadow.delete("b")
    desk.shadow.delete("fresh/deep/n.txt")
    assert list(desk.state.changes) == ["b"]


def test_p13_binary_empty_and_deleted_files_are_one_hunk(desk):
    desk.put("pic", b"\0one\ntwo\n")
    desk.put("gone", TEN)
    for path, data in (("pic", b"\0one\nthree\nfour\n"), ("empty", b""), ("new", TEN)):
        desk.shadow.write(path, data)
    desk.shadow.delete("gone")
    assert [len(change.hunks) for change in desk.shadow.list_changes()] == [1, 1, 1, 1]
    assert desk.state.changes["pic"].binary
    assert "binary" in desk.shadow.diff("pic").note
    assert desk.shadow.diff("empty").note == "empty file"
    assert [line.kind for line in desk.shadow.diff("gone").lines] == ["removed"] * 10


def test_p4_an_edit_through_a_link_changes_the_target(desk):
    desk.put("real", b"old\n")
    (desk.root / "l").symlink_to("real")
    change = desk.shadow.write("l", b"new\n")
    assert change.path == "real"
    assert desk.shadow.read("l") == desk.shadow.read("real") == b"new\n"
    desk.shadow.resolve("real")
    assert (desk.root / "l").is_symlink()
    assert desk.disk("real") == b"new\n"


def test_deleting_a_link_removes_the_link_alone(desk):
    desk.put("real", b"old\n")
    (desk.root / "l").symlink_to("real")
    assert desk.shadow.delete("l").base.kind == "symlink"
    desk.shadow.resolve("l")
    assert not (desk.root / "l").is_symlink()
    assert desk.disk("real") == b"old\n"
    desk.shadow.undo()
    assert str((desk.root / "l").readlink()) == "real"


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/x", "sub/.git", "dir", "file/below", "fresh", "."])
def test_p16_places_where_nothing_can_be_written_are_refused(desk, path):
    desk.put("dir/x", b"")
    desk.put("file", b"")
    desk.shadow.write("fresh/x", b"")
    with pytest.raises(PathRefused):
        desk.shadow.write(path, b"mine")
    assert list(desk.state.changes) == ["fresh/x"]


def test_p20_what_the_user_withholds_is_neither_read_nor_written(desk):
    desk.put(".cursorignore", b"secret*\n")
    desk.put("secret.txt", b"key")
    (desk.root / "alias").symlink_to("secret.txt")
    desk.shadow.write("other", b"pending")
    for path in ("secret.txt", "alias"):
        with pytest.raises(PathRefused):
            desk.shadow.read(path)
        with pytest.raises(PathRefused):
            desk.shadow.write(path, b"")


def test_edits_of_the_user_elsewhere_in_the_file_are_taken_in_at_the_next_write(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 3))
    desk.put("a", edited(TEN, 9, into=b"user"))
    desk.shadow.write("a", edited(TEN, 3, 6))
    assert desk.shadow.read("a") == edited(edited(TEN, 3, 6), 9, into=b"user")
    assert desk.state.changes["a"].conflict == ""
    assert len(desk.ids("a")) == 2


def test_a_conflict_is_told_and_settled_by_an_edit_of_what_the_user_has(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 3, 7))
    desk.put("a", edited(TEN, 3, into=b"user"))
    assert "same place" in desk.shadow.check_disk("a").conflict
    assert isinstance(desk.events[-1], ChangeConflicted)
    seen = desk.shadow.read("a")
    assert seen == edited(edited(TEN, 3, into=b"user"), 7)
    change = desk.shadow.write("a", seen)
    assert (change.conflict, len(change.hunks)) == ("", 1)
    desk.shadow.resolve("a")
    assert desk.disk("a") == seen


def test_a_change_that_the_user_made_too_is_resolved(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 3))
    desk.put("a", edited(TEN, 3))
    assert desk.shadow.check_disk("a") is None
    assert desk.state.changes == {}


def test_p7_a_second_name_of_the_file_is_mentioned(desk):
    desk.put("a", TEN)
    os.link(desk.root / "a", desk.root / "b")
    desk.shadow.write("a", edited(TEN, 3))
    assert "2 names" in desk.shadow.diff("a").note
    desk.shadow.resolve("a")
    assert desk.disk("b") == TEN


def test_a_tool_sees_the_shadow_by_paths_as_the_model_writes_them(desk):
    desk.put(".gitignore", b"*.log\n")
    desk.put("x.log", b"")
    view = ShadowView(desk.shadow, Origin(call="c", tool="write"))
    done = view.write(f"{desk.root}/src/./a.py", b"1\n")
    assert (done.change.path, done.before, done.after) == ("src/a.py", None, b"1\n")
    assert view.read_bytes("src/a.py", 1) == b"1"
    assert dict(view.pending_paths()) == {"src/a.py": "create"}
    listed = [(each.name, each.kind, each.ignored) for each in view.list_dir(".")]
    assert listed == [("src", "directory", False), (".gitignore", "file", False), ("x.log", "file", True)]
    assert view.delete("src/a.py").before == b"1\n"
    with pytest.raises(PathRefused):
        view.read_bytes("src/a.py", 1)
    with pytest.raises(PathRefused):
        view.write("../x", b"")
