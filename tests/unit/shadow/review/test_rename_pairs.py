"""A rename that a command made is one change in the review: one verdict, one transaction, one undoing."""

from __future__ import annotations

import pytest

from core.errors import ReviewConflict
from core.protocol.events import FileWritten, VerdictGiven
from core.protocol.renames import find_renames, group_renames, list_changes
from tests.support.verdicts import accept_everything, reject_everything
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase

BODY = b"x = 1\ny = 2\n"


def moved(review: ReviewCase, *pairs: tuple[str, str], body: bytes = BODY) -> None:
    """A command renamed these files, each with content of its own."""
    for old, _ in pairs:
        review.put(old, old.encode() + b"\n" + body)
    layer = Layer(review)
    for old, new in pairs:
        layer.delete(old)
        layer.put(new, old.encode() + b"\n" + body)
    layer.absorb()


def of(name: str) -> bytes:
    return name.encode() + b"\n" + BODY


@pytest.mark.parametrize("said", ["new.py", "old.py"])
@pytest.mark.parametrize("named", [True, False])
def test_n16a_a_rename_is_accepted_by_either_path_and_taken_back_whole(review, said, named):
    moved(review, ("old.py", "new.py"))
    assert [change.path for change in list_changes(review.state.changes)] == ["new.py"]
    review.shadow.resolve(said, tuple(review.ids(said)) if named else ())
    assert review.files() == {"new.py": of("old.py")}
    assert not review.state.changes
    one, other = review.state.verdicts
    assert (one.moved_with, other.moved_with) == (other.id, one.id)
    review.shadow.undo()
    assert review.files() == {"old.py": of("old.py")}
    assert (find_renames(review.state.changes), review.state.verdicts) == ({"new.py": "old.py"}, [])
    accept_everything(review.shadow)
    assert review.files() == {"new.py": of("old.py")}


@pytest.mark.parametrize("said", ["new.py", "old.py", ""])
def test_n16a_a_rename_is_rejected_by_either_path_and_taken_back_whole(review, said):
    moved(review, ("old.py", "new.py"))
    review.shadow.resolve(said, verdict="reject") if said else reject_everything(review.shadow)
    assert not review.state.changes
    review.shadow.undo(review.state.verdicts[0].id)
    assert (find_renames(review.state.changes), review.state.verdicts) == ({"new.py": "old.py"}, [])
    assert review.files() == {"old.py": of("old.py")}


def test_n16a_a_renamed_directory_is_a_rename_of_each_of_its_files(review):
    moved(review, ("a/1", "b/1"), ("a/2", "b/2"), ("a/c/3", "b/c/3"))
    assert [change.path for change in list_changes(review.state.changes)] == ["b/1", "b/2", "b/c/3"]
    review.shadow.resolve("b/2")
    assert sorted(review.files()) == ["a/1", "a/c/3", "b/2"]
    review.shadow.accept_files(["b/1", "a/1", "b/c/3"])
    assert sorted(review.files()) == ["b/1", "b/2", "b/c/3"]
    for _ in range(3):
        review.shadow.undo()
    assert sorted(review.files()) == ["a/1", "a/2", "a/c/3"]
    assert not (review.root / "b").exists()
    assert len(find_renames(review.state.changes)) == 3


def test_n16a_a_renamed_file_shows_no_lines_but_that_it_only_moved(review):
    moved(review, ("old.py", "new.py"))
    diff = review.shadow.diff("new.py")
    assert (diff.lines, diff.note) == ((), "renamed, content unchanged")
    assert (diff.change.added, diff.change.removed, len(diff.change.hunks)) == (0, 0, 1)


def test_n16a_directories_that_moved_are_told_by_their_outermost_names(review):
    moved(
        review,
        *((f"a/{name}", f"b/x/{name}") for name in ("1", "c/2", "c/d/3")),
        *((f"{name}.py", f"src/{name}.py") for name in ("k", "l", "m")),
        ("one", "other"),
        ("e/1", "f/1"),
    )
    renamed_directories = group_renames(list_changes(review.state.changes))
    assert [
        (renamed_directory.old, renamed_directory.new, renamed_directory.files)
        for renamed_directory in renamed_directories
    ] == [
        ("a", "b/x", ("b/x/1", "b/x/c/2", "b/x/c/d/3")),
        (".", "src", ("src/k.py", "src/l.py", "src/m.py")),
    ]


def test_n16a_a_file_renamed_twice_is_one_rename_from_its_first_name(review):
    moved(review, ("a", "b"))
    layer = Layer(review)
    layer.delete("b")
    layer.put("c", of("a"))
    layer.absorb()
    assert find_renames(review.state.changes) == {"c": "a"}


@pytest.mark.parametrize("said", ["new.py", "old.py"])
@pytest.mark.parametrize("touched", ["new.py", "old.py"])
def test_n16a_a_rename_over_what_the_user_changed_is_a_conflict_and_nothing_is_written(review, said, touched):
    moved(review, ("old.py", "new.py"))
    review.put(touched, b"mine\n")
    before = review.files()
    with pytest.raises(ReviewConflict, match="Nothing was written"):
        review.shadow.resolve(said)
    assert review.files() == before
    assert sorted(review.state.changes) == ["new.py", "old.py"]
    assert len(list_changes(review.state.changes)) == 2


def test_n16a_taking_back_a_rename_over_what_the_user_made_is_refused_whole(review):
    moved(review, ("old.py", "new.py"))
    review.shadow.resolve("new.py")
    review.put("old.py", b"mine\n")
    with pytest.raises(ReviewConflict):
        review.shadow.undo()
    assert review.files() == {"new.py": of("old.py"), "old.py": b"mine\n"}
    assert len(review.state.verdicts) == 2


@pytest.mark.parametrize("undoing", [False, True])
def test_n16a_a_rename_is_one_transaction_whichever_step_it_dies_at(tmp_path, undoing):
    class Died(BaseException):
        pass

    steps: list[str] = []
    review = _dies(tmp_path / "whole", steps, undoing=undoing)
    count = len(steps)
    assert count > 4
    for at in range(1, count + 1):
        steps = []

        def die(step: str, at: int = at, steps: list[str] = steps) -> None:
            steps.append(step)
            if len(steps) == at:
                raise Died

        place = tmp_path / str(at)
        review = _begun(place, undoing=undoing)
        dying = ReviewCase(place, die)
        for event in review.events:
            dying.emit(event)
        with pytest.raises(Died):
            dying.shadow.undo() if undoing else dying.shadow.resolve("new.py")
        after = ReviewCase(place)
        for event in dying.events:
            after.emit(event)
        after.shadow.recover()
        done = sorted(after.files())
        assert done in (["old.py"], ["new.py"])
        is_accepted = done == ["new.py"]
        assert (len(after.state.verdicts), len(after.state.changes)) == ((2, 0) if is_accepted else (0, 2))


def _begun(place, *, undoing: bool) -> ReviewCase:
    review = ReviewCase(place)
    moved(review, ("old.py", "new.py"))
    if undoing:
        review.shadow.resolve("new.py")
    return review


def _dies(place, steps: list[str], *, undoing: bool) -> ReviewCase:
    review = _begun(place, undoing=undoing)
    other = ReviewCase(place, steps.append)
    for event in review.events:
        other.emit(event)
    _ = other.shadow.undo() if undoing else other.shadow.resolve("new.py")
    return other


@pytest.mark.parametrize(("old", "new"), [("notes.md", "AGENTS.md"), ("AGENTS.md", "notes.md")])
def test_n16a_a_rename_is_protected_if_one_of_its_paths_is(review, old, new):
    moved(review, (old, new))
    assert all(change.protected and change.risk for change in review.state.changes.values())
    accept_everything(review.shadow)
    assert review.files() == {old: of(old)}
    review.shadow.resolve(new)
    review.shadow.undo()
    assert [change.protected for change in review.state.changes.values()] == [True, True]


def test_n16a_a_part_of_a_deletion_or_quite_another_text_is_no_rename(review):
    moved(review, ("old.py", "new.py"))
    review.shadow.hunk_edits.split("old.py", review.ids("old.py")[0], 3)
    review.shadow.resolve("old.py", tuple(review.ids("old.py")[:1]))
    assert sorted(review.files()) == ["old.py"]
    assert (find_renames(review.state.changes), sorted(review.state.changes)) == ({}, ["new.py", "old.py"])
    assert review.state.changes["new.py"].operation == "create"
    moved(review, ("one", "two"))
    review.shadow.write("two", b"other\n")
    assert "two" not in find_renames(review.state.changes)
    review.shadow.resolve("two")
    assert {"one", "two"} <= review.files().keys()


def test_n16a_a_rename_holds_over_a_log_that_is_read_again_and_both_files_are_told_as_written(review):
    moved(review, ("old.py", "new.py"))
    again = ReviewCase(review.root.parent)
    for event in review.events:
        again.emit(event)
    assert find_renames(again.state.changes) == {"new.py": "old.py"}
    again.shadow.resolve("new.py")
    written = [write_event.path for write_event in again.events if isinstance(write_event, FileWritten)]
    assert written == [
        verdict_event.verdict.path for verdict_event in again.events if isinstance(verdict_event, VerdictGiven)
    ]
    assert written == ["old.py", "new.py"]


def test_n16a_files_that_took_each_others_place_are_taken_back_one_after_the_other(review):
    for name in ("a", "y"):
        review.put(name, of(name))
    layer = Layer(review)
    layer.delete("y")
    layer.replace("a")
    layer.put("a/y", of("y"))
    layer.put("x", of("a"))
    layer.absorb()
    assert find_renames(review.state.changes) == {"x": "a", "a/y": "y"}
    review.shadow.resolve("a/y")
    assert sorted(review.files()) == ["a/y", "x"]
    while review.state.verdicts:
        review.shadow.undo()
    assert sorted(review.files()) == ["a", "y"]
