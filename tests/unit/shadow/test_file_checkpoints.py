"""Going back to a checkpoint: pending changes, accepted files, what commands left; what the user changed stays."""

from __future__ import annotations

import pytest

from core.errors import CommandRejected
from core.protocol.events import CheckpointCreated
from core.shadow.file_checkpoints import BULK_GONE, EDITED_SINCE, NOT_KEPT
from tests.support.verdicts import accept_everything
from tests.unit.shadow.overlay_mount import needs_mounts, output, run
from tests.unit.shadow.review_case import ReviewCase

TEN = b"".join(b"%d\n" % number for number in range(10))


def checkpoint(review: ReviewCase, name: str) -> str:
    generated = review.shadow.layers.freeze(name, len(review.events))
    review.emit(CheckpointCreated(id=name, seq=len(review.events), prompt=name, generated=generated))
    return name


def pending(review: ReviewCase) -> dict[str, bytes | None]:
    return {path: review.shadow.read(path) for path in sorted(review.state.changes)}


def test_d10_what_waited_waits_again_and_what_was_accepted_is_taken_back(review):
    review.put("a", TEN)
    review.put("gone", b"bye\n")
    review.put("run", b"x\n", 0o755)
    (review.root / "link").symlink_to("a")
    review.shadow.write("a", TEN.replace(b"3", b"three"))
    changes, files = dict(review.state.changes), review.files()
    checkpoint(review, "one")
    review.shadow.resolve("a")
    review.shadow.write("a", TEN.replace(b"3", b"THREE"))
    review.shadow.write("made/deep/new", b"new\n")
    review.shadow.delete("gone")
    review.shadow.delete("link")
    review.shadow.write("run", b"y\n", mode=0o644)
    accept_everything(review.shadow)
    review.shadow.write("later", b"later\n")
    assert review.disk("gone") is None
    assert review.disk("made/deep/new") == b"new\n"
    restored = review.shadow.checkpoints.restore("one")
    assert restored.left == ()
    assert set(restored.files) == {"a", "gone", "link", "made/deep/new", "run", "later"}
    assert review.files() == files
    assert not (review.root / "made").exists()
    assert (review.root / "run").stat().st_mode & 0o777 == 0o755
    assert (review.root / "link").is_symlink()
    assert review.state.changes == changes
    assert review.state.verdicts == []


def test_d10_a_restore_is_taken_back_by_the_checkpoint_before_it(review):
    review.put("a", TEN)
    checkpoint(review, "one")
    review.shadow.write("a", TEN.replace(b"3", b"three").replace(b"8", b"eight"))
    review.shadow.resolve("a", (review.ids("a")[0],))
    review.shadow.write("new", b"new\n")
    files, changes, verdicts = review.files(), dict(review.state.changes), list(review.state.verdicts)
    checkpoint(review, "before")
    review.shadow.checkpoints.restore("one")
    assert (review.files(), review.state.changes, review.state.verdicts) == ({"a": TEN}, {}, [])
    assert review.shadow.checkpoints.restore("before").left == ()
    assert (review.files(), review.state.changes, review.state.verdicts) == (files, changes, verdicts)


def test_d10_what_the_user_changed_elsewhere_in_the_file_stays(review):
    review.put("a", TEN)
    checkpoint(review, "one")
    review.shadow.write("a", TEN.replace(b"3", b"three"))
    review.shadow.resolve("a")
    review.put("a", (review.disk("a") or b"").replace(b"8", b"mine"))
    assert review.shadow.checkpoints.restore("one").left == ()
    assert review.disk("a") == TEN.replace(b"8", b"mine")


def test_d10_a_file_that_the_user_changed_in_the_same_place_is_left_alone_and_named(review):
    review.put("a", TEN)
    review.put("b", TEN)
    checkpoint(review, "one")
    for path in ("a", "b"):
        review.shadow.write(path, TEN.replace(b"3", b"three"))
    accept_everything(review.shadow)
    review.put("a", TEN.replace(b"3", b"mine"))
    restored = review.shadow.checkpoints.restore("one")
    assert [(skipped_path.path, skipped_path.reason) for skipped_path in restored.left] == [("a", EDITED_SINCE)]
    assert review.disk("a") == TEN.replace(b"3", b"mine")
    assert review.disk("b") == TEN
    assert [verdict.path for verdict in review.state.verdicts] == ["a"]


def test_d10_a_file_that_the_user_removed_since_is_left_alone(review):
    review.put("a", TEN)
    checkpoint(review, "one")
    review.shadow.write("a", b"other\n")
    accept_everything(review.shadow)
    (review.root / "a").unlink()
    restored = review.shadow.checkpoints.restore("one")
    assert [skipped_path.path for skipped_path in restored.left] == ["a"]
    assert review.files() == {}


def test_d10_what_waits_again_over_the_users_edit_is_merged_or_a_conflict(review):
    for path in ("merged", "clash"):
        review.put(path, TEN)
        review.shadow.write(path, TEN.replace(b"3", b"three"))
    checkpoint(review, "one")
    for path in ("merged", "clash"):
        review.shadow.resolve(path, verdict="reject")
    review.put("merged", TEN.replace(b"8", b"mine"))
    review.put("clash", TEN.replace(b"3", b"mine"))
    assert review.shadow.checkpoints.restore("one").left == ()
    assert review.shadow.read("merged") == TEN.replace(b"3", b"three").replace(b"8", b"mine")
    assert review.state.changes["merged"].conflict == ""
    assert "at the same place" in review.state.changes["clash"].conflict
    assert review.disk("clash") == TEN.replace(b"3", b"mine")


def test_d10_a_verdict_that_was_undone_since_is_given_again(review):
    review.put("a", TEN)
    review.shadow.write("a", TEN.replace(b"3", b"three"))
    accept_everything(review.shadow)
    files, verdicts = review.files(), list(review.state.verdicts)
    checkpoint(review, "one")
    review.shadow.undo()
    assert review.disk("a") == TEN
    review.shadow.checkpoints.restore("one")
    assert (review.files(), review.state.verdicts, review.state.changes) == (files, verdicts, {})


def test_d10_a_directory_and_a_file_change_places_and_back(review):
    review.put("d/x", b"x\n")
    review.put("f", b"f\n")
    checkpoint(review, "one")
    review.shadow.delete("d/x")
    review.shadow.write("d", b"a file\n")
    review.shadow.delete("f")
    review.shadow.write("f/y", b"below\n")
    accept_everything(review.shadow)
    assert review.files() == {"d": b"a file\n", "f/y": b"below\n"}
    assert review.shadow.checkpoints.restore("one").left == ()
    assert review.files() == {"d/x": b"x\n", "f": b"f\n"}


def test_an_unknown_checkpoint_is_refused(review):
    with pytest.raises(CommandRejected):
        review.shadow.checkpoints.plan("none")


def test_a_plan_changes_nothing_and_says_what_would_be(review):
    review.put("a", TEN)
    checkpoint(review, "one")
    review.shadow.write("a", b"other\n")
    accept_everything(review.shadow)
    review.shadow.write("b", b"b\n")
    count, files = len(review.events), review.files()
    steps = {step.path: step for step in review.shadow.checkpoints.plan("one")}
    assert set(steps) == review.shadow.checkpoints.find_changed_paths("one") == {"a", "b"}
    assert (steps["a"].target.size, steps["a"].now, steps["b"].change) == (len(TEN), None, None)
    assert (len(review.events), review.files()) == (count, files)


# What commands left.


def ignoring(review: ReviewCase) -> None:
    review.put(".gitignore", b"out/\n")


def everything(review: ReviewCase) -> str:
    return output(review, 'find . -type f | sort | while read -r f; do echo "$f"; cat "$f"; done')


@needs_mounts
def test_d10_generated_files_come_back_as_they_were(review):
    ignoring(review)
    run(review, "mkdir out; echo 1 > out/a; echo 1 > out/b; chmod 700 out")
    seen, bulks = everything(review), review.state.bulks
    checkpoint(review, "one")
    run(review, "echo 2 > out/a; rm out/b; echo 2 > out/c; echo new > reviewed")
    assert review.shadow.read("out/a") == b"2\n"
    assert review.shadow.checkpoints.find_changed_bulks("one") == ("out",)
    review.shadow.checkpoints.restore("one")
    assert everything(review) == seen
    assert output(review, "stat -c %a out").strip() == "700"
    assert review.state.bulks == bulks
    assert review.state.changes == {}


@needs_mounts
def test_d10_an_accepted_bulk_is_taken_back_and_a_restore_of_that_accepts_it_again(review):
    ignoring(review)
    review.put("out/a", b"0\n")
    checkpoint(review, "one")
    run(review, "echo 1 > out/a; mkdir out/d; echo 1 > out/d/b; ln -s a out/l")
    review.shadow.resolve_bulk("out")
    files = review.files()
    checkpoint(review, "two")
    assert review.shadow.checkpoints.restore("one").left == ()
    assert review.files() == {".gitignore": b"out/\n", "out/a": b"0\n"}
    assert review.state.bulks == ()
    checkpoint(review, "three")
    assert review.shadow.checkpoints.restore("two").left == ()
    assert review.files() == files
    assert (review.root / "out/l").is_symlink()
    assert review.state.bulks == ()
    review.shadow.undo()
    assert review.files() == {".gitignore": b"out/\n", "out/a": b"0\n"}
    assert [bulk.root for bulk in review.state.bulks] == ["out"]


@needs_mounts
def test_d10_a_rejected_bulk_waits_again(review):
    ignoring(review)
    run(review, "mkdir out; echo 1 > out/a")
    seen = everything(review)
    checkpoint(review, "one")
    review.shadow.resolve_bulk("out", "reject")
    assert review.shadow.read("out/a") is None
    review.shadow.checkpoints.restore("one")
    assert everything(review) == seen
    review.shadow.resolve_bulk("out")
    assert review.disk("out/a") == b"1\n"


@needs_mounts
def test_d10_a_bulk_that_the_user_changed_on_disk_is_left_alone_and_named(review):
    ignoring(review)
    checkpoint(review, "one")
    run(review, "mkdir out; echo 1 > out/a")
    review.shadow.resolve_bulk("out")
    review.put("out/a", b"mine\n")
    restored = review.shadow.checkpoints.restore("one")
    assert [skipped_path.path for skipped_path in restored.left] == ["out"]
    assert review.disk("out/a") == b"mine\n"


@needs_mounts
def test_a_checkpoint_whose_layers_were_given_up_says_so(review):
    ignoring(review)
    run(review, "mkdir out; head -c 200000 /dev/zero > out/a")
    checkpoint(review, "one")
    run(review, "head -c 200000 /dev/urandom > out/a; echo x > reviewed")
    assert review.shadow.checkpoints.describe_problem("one") == ""
    review.shadow.layers.quota = 300_000
    review.shadow.drop_layer(review.shadow.open_layer())
    assert review.shadow.checkpoints.describe_problem("one") == NOT_KEPT
    restored = review.shadow.checkpoints.restore("one")
    assert [(skipped_path.path, skipped_path.reason) for skipped_path in restored.left] == [("out", NOT_KEPT)]
    assert review.state.changes == {}


@needs_mounts
def test_hard_links_of_checkpoints_count_once_and_are_swept_with_nothing_lost(tmp_path):
    review = ReviewCase(tmp_path)
    ignoring(review)
    run(review, "mkdir out; head -c 400000 /dev/urandom > out/a; echo 1 > out/b")
    once = review.shadow.layers.measure()
    for number in range(4):
        checkpoint(review, f"c{number}")
        run(review, f"echo {number} > out/b")
    assert review.shadow.layers.measure() < once + 200_000
    large = review.shadow.read("out/a")
    again = ReviewCase(tmp_path)
    for event in review.events:
        again.state.apply(event)
    again.shadow.recover()
    again.shadow.checkpoints.restore("c2")
    assert again.shadow.read("out/b") == b"1\n"
    assert again.shadow.read("out/a") == large


@needs_mounts
def test_a_bulk_taken_back_whose_content_is_gone_is_named(review):
    ignoring(review)
    run(review, "mkdir out; echo 1 > out/a")
    review.shadow.resolve_bulk("out")
    checkpoint(review, "one")
    review.shadow.undo()
    for path in review.shadow.layers.location.glob("again-*"):
        (path / "verdict.json").unlink()
    restored = review.shadow.checkpoints.restore("one")
    assert [skipped_path.reason for skipped_path in restored.left] == [BULK_GONE]
