"""Accept and reject do exactly what they say, can be taken back, and never cost the user an edit."""

from __future__ import annotations

import os
import random
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import AgentTuiError, CommandRejected, PathRefused, ReviewConflict
from core.protocol.events import FileWritten, Notice, VerdictGiven
from core.protocol.review import Change
from core.shadow.content.blob_store import BlobStore
from core.shadow.diff.hunks import select_hunks
from core.shadow.diff.text_lines import split_lines
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from tests.support.verdicts import accept_everything
from tests.unit.shadow.review_case import ReviewCase
from tests.unit.shadow.test_shadow import TEN, edited


def proposed(review: ReviewCase, *numbers: int) -> list[str]:
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, *numbers))
    return review.ids("a")


def test_an_accepted_hunk_is_on_disk_and_the_others_stay_pending(review):
    ids = proposed(review, 2, 5, 8)
    (record,) = review.shadow.resolve("a", (ids[1],))
    assert review.disk("a") == edited(TEN, 5)
    assert review.ids("a") == [ids[0], ids[2]]
    assert record.excerpt == "-line 5\n+new 5"
    assert [type(event) for event in review.events[1:]][::2] == [FileWritten, VerdictGiven]
    review.shadow.resolve("a")
    assert review.disk("a") == edited(TEN, 2, 5, 8)
    assert review.state.changes == {}


def test_a_rejected_hunk_leaves_the_shadow_and_never_touches_the_disk(review):
    ids = proposed(review, 2, 5, 8)
    (record,) = review.shadow.resolve("a", (ids[0], ids[2]), "reject", "no need")
    assert (review.shadow.read("a"), review.disk("a")) == (edited(TEN, 5), TEN)
    assert (record.reason, review.ids("a")) == ("no need", [ids[1]])
    review.shadow.resolve("a", (), "reject")
    assert (review.state.changes, review.disk("a")) == ({}, TEN)


def test_hunks_of_different_lengths_are_rejected_and_brought_back_exactly(review):
    review.put("a", TEN)
    new_content = (
        TEN.replace(b"line 2\n", b"2\n2 and a half\n").replace(b"line 5\n", b"").replace(b"line 9\n", b"nine\n")
    )
    review.shadow.write("a", new_content)
    ids = review.ids("a")
    review.shadow.resolve("a", (ids[0],), "reject")
    assert review.shadow.read("a") == TEN.replace(b"line 5\n", b"").replace(b"line 9\n", b"nine\n")
    review.shadow.resolve("a", (ids[1],), "reject")
    assert review.shadow.read("a") == TEN.replace(b"line 9\n", b"nine\n")
    assert [line.text for line in review.shadow.diff("a", 0).lines if line.hunk == 0] == ["line 9", "nine"]
    review.shadow.undo()
    review.shadow.undo()
    assert (review.shadow.read("a"), review.ids("a")) == (new_content, ids)


def test_everything_is_accepted_at_once_but_what_is_protected(review):
    proposed(review, 2)
    review.shadow.write("b/new", b"b\n")
    review.shadow.write(".vscode/tasks.json", b"{}")
    accept_everything(review.shadow)
    assert review.files() == {"a": edited(TEN, 2), "b/new": b"b\n"}
    assert list(review.state.changes) == [".vscode/tasks.json"]
    assert review.state.changes[".vscode/tasks.json"].protected
    review.shadow.resolve(".vscode/tasks.json")
    assert review.disk(".vscode/tasks.json") == b"{}"


def test_what_is_not_pending_is_rejected_as_a_command(review):
    proposed(review, 2)
    for path, ids in (("b", ()), ("a", ("nope",)), ("", ("x",))):
        with pytest.raises(CommandRejected):
            review.shadow.resolve(path, ids)
    with pytest.raises(CommandRejected):
        review.shadow.undo()
    assert review.disk("a") == TEN


def test_p6_modes_are_kept_and_new_files_follow_the_umask(review):
    review.put("run", b"old\n", 0o755)
    review.shadow.write("run", b"new\n")
    review.shadow.write("new", b"new\n")
    review.shadow.write("suid", b"x", None, 0o4755)
    accept_everything(review.shadow)
    modes = [stat.S_IMODE((review.root / name).stat().st_mode) for name in ("run", "new", "suid")]
    assert modes == [0o755, review.workspace.new_file_mode, 0o755]


def test_a_mode_alone_is_a_change_of_one_hunk(review):
    review.put("run", b"x\n", 0o644)
    change = review.shadow.write("run", b"x\n", None, 0o755)
    assert (change.operation, len(change.hunks)) == ("mode", 1)
    review.shadow.resolve("run")
    assert stat.S_IMODE((review.root / "run").stat().st_mode) == 0o755
    review.shadow.undo()
    assert stat.S_IMODE((review.root / "run").stat().st_mode) == 0o644


def test_p14_a_file_edited_in_the_same_place_is_a_conflict_and_nothing_is_written(review):
    proposed(review, 2, 8)
    review.shadow.write("b", b"b\n")
    users = review.put("a", edited(TEN, 2, into=b"user")).read_bytes()
    for accept in (lambda: review.shadow.resolve("a"), lambda: accept_everything(review.shadow)):
        with pytest.raises(ReviewConflict, match="a"):
            accept()
    assert review.files() == {"a": users}
    assert review.state.changes["a"].conflict
    review.shadow.resolve("a", (), "reject")
    assert review.files() == {"a": users}


def test_p14_edits_of_the_user_elsewhere_are_kept(review):
    ids = proposed(review, 2, 5)
    review.put("a", edited(TEN, 9, into=b"user"))
    review.shadow.resolve("a", (ids[0],))
    assert review.disk("a") == edited(edited(TEN, 2), 9, into=b"user")
    assert review.ids("a") == [ids[1]]


@pytest.mark.parametrize("what", ["removed", "directory", "symlink", "fifo", "created", "parent"])
def test_p15_p5_what_became_of_another_kind_is_a_conflict(review, what):
    path = "d/a"
    target = review.put(path, TEN)
    if what == "created":
        target.unlink()
    review.shadow.write(path, edited(TEN, 2))
    target.unlink(missing_ok=True)
    outside = review.root.parent / "outside"
    outside.mkdir()
    match what:
        case "directory":
            target.mkdir()
        case "symlink":
            target.symlink_to(outside / "a")
        case "fifo":
            os.mkfifo(target)
        case "created":
            target.write_bytes(b"mine\n")
        case "parent":
            target.parent.rmdir()
            target.parent.symlink_to(outside)
        case _:
            pass
    with pytest.raises((ReviewConflict, PathRefused)):
        review.shadow.resolve(path)
    assert review.state.changes[path].conflict
    assert list(outside.iterdir()) == []


def test_d10_undo_brings_back_bytes_modes_created_and_deleted_files(review):
    ids = proposed(review, 2, 8)
    review.put("gone", b"gone\n", 0o600)
    review.shadow.delete("gone")
    review.shadow.write("made", b"made\n")
    before = review.shadow.list_changes()
    review.shadow.resolve("a", (ids[0],))
    accept_everything(review.shadow)
    assert review.files() == {"a": edited(TEN, 2, 8), "made": b"made\n"}
    while review.state.verdicts:
        review.shadow.undo()
    assert review.files() == {"a": TEN, "gone": b"gone\n"}
    assert stat.S_IMODE((review.root / "gone").stat().st_mode) == 0o600
    assert [(change.path, change.hunks, change.pending) for change in review.shadow.list_changes()] == [
        (change.path, change.hunks, change.pending) for change in before
    ]


def test_undo_twice_takes_back_the_one_before_and_undo_of_one_in_between_merges(review):
    ids = proposed(review, 2, 5, 8)
    first = review.shadow.resolve("a", (ids[0],))[0]
    review.shadow.resolve("a", (ids[1],), "reject")
    review.shadow.resolve("a", (ids[2],))
    review.shadow.undo(first.id)
    assert review.disk("a") == edited(TEN, 8)
    assert review.ids("a") == [ids[0]]
    review.shadow.undo()
    review.shadow.undo()
    assert (review.disk("a"), review.shadow.read("a")) == (TEN, edited(TEN, 2, 5, 8))
    assert review.ids("a") == ids


def test_d10_undo_after_the_user_edited_the_same_place_is_a_conflict(review):
    proposed(review, 2)
    review.shadow.resolve("a")
    users = review.put("a", edited(TEN, 2, into=b"user")).read_bytes()
    with pytest.raises(ReviewConflict):
        review.shadow.undo()
    assert (review.disk("a"), len(review.state.verdicts)) == (users, 1)
    review.put("a", edited(edited(TEN, 2), 9, into=b"user"))
    review.shadow.undo()
    assert review.disk("a") == edited(TEN, 9, into=b"user")
    assert review.shadow.read("a") == edited(edited(TEN, 2), 9, into=b"user")


def test_undo_of_a_reject_after_further_edits_keeps_both(review):
    ids = proposed(review, 2, 8)
    review.shadow.resolve("a", (ids[0],), "reject")
    review.shadow.write("a", edited(TEN, 5, 8))
    review.shadow.undo()
    assert review.shadow.read("a") == edited(TEN, 2, 5, 8)
    assert [review.ids("a")[0], review.ids("a")[2]] == ids
    review.shadow.resolve("a", (ids[0],), "reject")
    review.shadow.write("a", edited(edited(TEN, 5, 8), 2, into=b"other"))
    with pytest.raises(ReviewConflict):
        review.shadow.undo()


def a_random_step(review: ReviewCase, chance: random.Random) -> None:
    path = chance.choice(["a", "b", "sub/c"])
    lines = [
        chance.choice([b"x\n", b"y\n", b"\n", b"z %d\n" % chance.randrange(9)]) for _ in range(chance.randrange(9))
    ]
    match chance.randrange(7):
        case 0 | 1:
            review.shadow.write(path, b"".join(lines))
        case 2:
            review.shadow.delete(path)
        case 3:
            review.put(path, b"".join(lines))
        case 4 | 5:
            ids = tuple(name for name in review.ids(path) if chance.random() < 0.5)
            review.shadow.resolve(path, ids, chance.choice(["accept", "reject"]))
        case _:
            review.shadow.undo()


def adds_up(review: ReviewCase, change: Change) -> bool:
    """Whether the hunks are where they say, on both sides."""
    base, pending = (
        b"" if state.kind == "absent" else BlobStore(review.session / "blobs").get(state.blob)
        for state in (change.counted_state, change.pending)
    )
    last = change.hunks[-1]
    if change.operation != "mode" and base != pending:
        old, new = len(split_lines(base)), len(split_lines(pending))
        assert old - (last.old_start + last.old_lines) == new - (last.new_start + last.new_lines)
        return select_hunks(base, pending, change.hunks) == pending
    return len(change.hunks) == 1


@given(st.integers(0, 1 << 32))
@settings(max_examples=60, deadline=None)
def test_d1_the_events_alone_give_the_same_review(seed):
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        review = ReviewCase(Path(place))
        for _ in range(25):
            contents = {path: review.disk(path) for path in ("a", "b", "sub/c")}
            try:
                a_random_step(review, chance)
            except AgentTuiError:
                assert {path: review.disk(path) for path in contents} == contents
        again = ReviewState()
        for event in review.events:
            again.apply(event)
        other = Shadow(review.workspace, BlobStore(review.session / "blobs"), review.emit, again)
        assert other.list_changes() == review.shadow.list_changes()
        assert [verdict.id for verdict in again.verdicts] == [verdict.id for verdict in review.state.verdicts]
        for change in other.list_changes():
            assert other.diff(change.path) == review.shadow.diff(change.path)
            assert change.hunks
            assert adds_up(review, change)
        assert not [name for name in review.files() if name.endswith(".tmp")]


def test_undoing_a_creation_takes_the_directories_made_for_it_and_no_others(review):
    review.put("kept/old.txt", b"old\n")
    for path in ("kept/a/b/new.txt", "kept/a/b/two.txt", "kept/c/new.txt"):
        review.shadow.write(path, b"x\n")
        review.shadow.resolve(path, verdict="accept")
    (review.root / "kept/c/mine.txt").write_text("mine\n")
    for _ in range(3):
        review.shadow.undo()
    assert not (review.root / "kept/a").exists()
    assert review.files() == {"kept/old.txt": b"old\n", "kept/c/mine.txt": b"mine\n"}
    assert sorted(review.state.changes) == ["kept/a/b/new.txt", "kept/a/b/two.txt", "kept/c/new.txt"]


def test_d3_an_undone_creation_stays_undone_when_the_disk_did_not_take_the_commit(tmp_path):
    class Died(BaseException):
        pass

    def die(step: str) -> None:
        if step == "cleaned":
            raise Died

    review = ReviewCase(tmp_path)
    review.shadow.write("made/deep/new.txt", b"x\n")
    review.shadow.resolve("made/deep/new.txt", verdict="accept")
    dying = ReviewCase(tmp_path, die)
    for event in review.events:
        dying.emit(event)
    with pytest.raises(Died):
        dying.shadow.undo()
    journal = dying.session / "journal.jsonl"
    *lines, commit = journal.read_bytes().splitlines(keepends=True)
    assert b'"commit"' in commit
    journal.write_bytes(b"".join(lines))
    after = ReviewCase(tmp_path)
    for event in dying.events:
        after.emit(event)
    assert after.shadow.recover() == ["Finished writing made/deep/new.txt."]
    assert not (after.root / "made").exists()
    assert sorted(after.state.changes) == ["made/deep/new.txt"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_d10_a_new_directory_goes_with_the_last_of_its_files_whichever_is_undone_last(review, order):
    for name in ("deep/er/a", "deep/er/b"):
        review.shadow.write(name, b"x\n")
    records = [review.shadow.resolve(name)[0] for name in ("deep/er/a", "deep/er/b")]
    review.shadow.undo(records[order[0]].id)
    assert (review.root / "deep/er").is_dir()
    review.shadow.undo(records[order[1]].id)
    assert not (review.root / "deep").exists()


def test_n16e_p7_a_file_with_other_names_is_parted_from_them_and_that_is_said_before_and_after(review):
    proposed(review, 2)
    (review.root / "other").hardlink_to(review.root / "a")
    assert "2 names (hard links): accepting changes this one only" in review.shadow.diff("a").note
    review.shadow.resolve("a")
    assert (review.disk("a"), review.disk("other")) == (edited(TEN, 2), TEN)
    (notice,) = [event for event in review.events if isinstance(event, Notice)]
    assert notice.message == "a had other names (hard links)."
    assert "its other names keep the old one" in notice.hint
