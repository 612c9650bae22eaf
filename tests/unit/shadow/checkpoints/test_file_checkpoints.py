"""Going back to a checkpoint: pending changes, accepted files, what commands left; what the user changed stays."""

from __future__ import annotations

import pytest

from core.errors import CommandRejected
from core.protocol.events import CheckpointCreated
from core.shadow.checkpoints.file_checkpoints import BULK_GONE, EDITED_SINCE, NOT_KEPT
from tests.unit.shadow.overlay_mount import needs_mounts, output, run
from tests.unit.shadow.project_fixture import Desk

TEN = b"".join(b"%d\n" % number for number in range(10))


def checkpoint(desk: Desk, name: str) -> str:
    generated = desk.shadow.checkpoints.freeze(name, len(desk.events))
    desk.emit(CheckpointCreated(id=name, seq=len(desk.events), prompt=name, generated=generated))
    return name


def pending(desk: Desk) -> dict[str, bytes | None]:
    return {path: desk.shadow.read(path) for path in sorted(desk.state.changes)}


def test_d10_what_waited_waits_again_and_what_was_accepted_is_taken_back(desk):
    desk.put("a", TEN)
    desk.put("gone", b"bye\n")
    desk.put("run", b"x\n", 0o755)
    (desk.root / "link").symlink_to("a")
    desk.shadow.write("a", TEN.replace(b"3", b"three"))
    changes, files = dict(desk.state.changes), desk.files()
    checkpoint(desk, "one")
    desk.shadow.resolve("a")
    desk.shadow.write("a", TEN.replace(b"3", b"THREE"))
    desk.shadow.write("made/deep/new", b"new\n")
    desk.shadow.delete("gone")
    desk.shadow.delete("link")
    desk.shadow.write("run", b"y\n", mode=0o644)
    desk.shadow.resolve("")
    desk.shadow.write("later", b"later\n")
    assert desk.disk("gone") is None
    assert desk.disk("made/deep/new") == b"new\n"
    restored = desk.shadow.checkpoints.restore("one")
    assert restored.left == ()
    assert set(restored.files) == {"a", "gone", "link", "made/deep/new", "run", "later"}
    assert desk.files() == files
    assert not (desk.root / "made").exists()
    assert (desk.root / "run").stat().st_mode & 0o777 == 0o755
    assert (desk.root / "link").is_symlink()
    assert desk.state.changes == changes
    assert desk.state.verdicts == []


def test_d10_a_restore_is_taken_back_by_the_checkpoint_before_it(desk):
    desk.put("a", TEN)
    checkpoint(desk, "one")
    desk.shadow.write("a", TEN.replace(b"3", b"three").replace(b"8", b"eight"))
    desk.shadow.resolve("a", (desk.ids("a")[0],))
    desk.shadow.write("new", b"new\n")
    files, changes, verdicts = desk.files(), dict(desk.state.changes), list(desk.state.verdicts)
    checkpoint(desk, "before")
    desk.shadow.checkpoints.restore("one")
    assert (desk.files(), desk.state.changes, desk.state.verdicts) == ({"a": TEN}, {}, [])
    assert desk.shadow.checkpoints.restore("before").left == ()
    assert (desk.files(), desk.state.changes, desk.state.verdicts) == (files, changes, verdicts)


def test_d10_what_the_user_changed_elsewhere_in_the_file_stays(desk):
    desk.put("a", TEN)
    checkpoint(desk, "one")
    desk.shadow.write("a", TEN.replace(b"3", b"three"))
    desk.shadow.resolve("a")
    desk.put("a", (desk.disk("a") or b"").replace(b"8", b"mine"))
    assert desk.shadow.checkpoints.restore("one").left == ()
    assert desk.disk("a") == TEN.replace(b"8", b"mine")


def test_d10_a_file_that_the_user_changed_in_the_same_place_is_left_alone_and_named(desk):
    desk.put("a", TEN)
    desk.put("b", TEN)
    checkpoint(desk, "one")
    for path in ("a", "b"):
        desk.shadow.write(path, TEN.replace(b"3", b"three"))
    desk.shadow.resolve("")
    desk.put("a", TEN.replace(b"3", b"mine"))
    restored = desk.shadow.checkpoints.restore("one")
    assert [(each.path, each.reason) for each in restored.left] == [("a", EDITED_SINCE)]
    assert desk.disk("a") == TEN.replace(b"3", b"mine")
    assert desk.disk("b") == TEN
    assert [each.path for each in desk.state.verdicts] == ["a"]


def test_d10_a_file_that_the_user_removed_since_is_left_alone(desk):
    desk.put("a", TEN)
    checkpoint(desk, "one")
    desk.shadow.write("a", b"other\n")
    desk.shadow.resolve("")
    (desk.root / "a").unlink()
    restored = desk.shadow.checkpoints.restore("one")
    assert [each.path for each in restored.left] == ["a"]
    assert desk.files() == {}


def test_d10_what_waits_again_over_the_users_edit_is_merged_or_a_conflict(desk):
    for path in ("merged", "clash"):
        desk.put(path, TEN)
        desk.shadow.write(path, TEN.replace(b"3", b"three"))
    checkpoint(desk, "one")
    for path in ("merged", "clash"):
        desk.shadow.resolve(path, verdict="reject")
    desk.put("merged", TEN.replace(b"8", b"mine"))
    desk.put("clash", TEN.replace(b"3", b"mine"))
    assert desk.shadow.checkpoints.restore("one").left == ()
    assert desk.shadow.read("merged") == TEN.replace(b"3", b"three").replace(b"8", b"mine")
    assert desk.state.changes["merged"].conflict == ""
    assert "edited in the same place" in desk.state.changes["clash"].conflict
    assert desk.disk("clash") == TEN.replace(b"3", b"mine")


def test_d10_a_verdict_that_was_undone_since_is_given_again(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", TEN.replace(b"3", b"three"))
    desk.shadow.resolve("")
    files, verdicts = desk.files(), list(desk.state.verdicts)
    checkpoint(desk, "one")
    desk.shadow.undo()
    assert desk.disk("a") == TEN
    desk.shadow.checkpoints.restore("one")
    assert (desk.files(), desk.state.verdicts, desk.state.changes) == (files, verdicts, {})


def test_d10_a_directory_and_a_file_change_places_and_back(desk):
    desk.put("d/x", b"x\n")
    desk.put("f", b"f\n")
    checkpoint(desk, "one")
    desk.shadow.delete("d/x")
    desk.shadow.write("d", b"a file\n")
    desk.shadow.delete("f")
    desk.shadow.write("f/y", b"below\n")
    desk.shadow.resolve("")
    assert desk.files() == {"d": b"a file\n", "f/y": b"below\n"}
    assert desk.shadow.checkpoints.restore("one").left == ()
    assert desk.files() == {"d/x": b"x\n", "f": b"f\n"}


def test_an_unknown_checkpoint_is_refused(desk):
    with pytest.raises(CommandRejected):
        desk.shadow.checkpoints.plan("none")


def test_a_plan_changes_nothing_and_says_what_would_be(desk):
    desk.put("a", TEN)
    checkpoint(desk, "one")
    desk.shadow.write("a", b"other\n")
    desk.shadow.resolve("")
    desk.shadow.write("b", b"b\n")
    count, files = len(desk.events), desk.files()
    steps = {each.path: each for each in desk.shadow.checkpoints.plan("one")}
    assert set(steps) == desk.shadow.checkpoints.find_changed_paths("one") == {"a", "b"}
    assert (steps["a"].target.size, steps["a"].now, steps["b"].change) == (len(TEN), None, None)
    assert (len(desk.events), desk.files()) == (count, files)


# What commands left.


def ignoring(desk: Desk) -> None:
    desk.put(".gitignore", b"out/\n")


def everything(desk: Desk) -> str:
    return output(desk, 'find . -type f | sort | while read -r f; do echo "$f"; cat "$f"; done')


@needs_mounts
def test_d10_generated_files_come_back_as_they_were(desk):
    ignoring(desk)
    run(desk, "mkdir out; echo 1 > out/a; echo 1 > out/b; chmod 700 out")
    seen, bulks = everything(desk), desk.state.bulks
    checkpoint(desk, "one")
    run(desk, "echo 2 > out/a; rm out/b; echo 2 > out/c; echo new > reviewed")
    assert desk.shadow.read("out/a") == b"2\n"
    assert desk.shadow.checkpoints.find_changed_bulks("one") == ("out",)
    desk.shadow.checkpoints.restore("one")
    assert everything(desk) == seen
    assert output(desk, "stat -c %a out").strip() == "700"
    assert desk.state.bulks == bulks
    assert desk.state.changes == {}


@needs_mounts
def test_d10_an_accepted_bulk_is_taken_back_and_a_restore_of_that_accepts_it_again(desk):
    ignoring(desk)
    desk.put("out/a", b"0\n")
    checkpoint(desk, "one")
    run(desk, "echo 1 > out/a; mkdir out/d; echo 1 > out/d/b; ln -s a out/l")
    desk.shadow.resolve_bulk("out")
    files = desk.files()
    checkpoint(desk, "two")
    assert desk.shadow.checkpoints.restore("one").left == ()
    assert desk.files() == {".gitignore": b"out/\n", "out/a": b"0\n"}
    assert desk.state.bulks == ()
    checkpoint(desk, "three")
    assert desk.shadow.checkpoints.restore("two").left == ()
    assert desk.files() == files
    assert (desk.root / "out/l").is_symlink()
    assert desk.state.bulks == ()
    desk.shadow.undo()
    assert desk.files() == {".gitignore": b"out/\n", "out/a": b"0\n"}
    assert [each.root for each in desk.state.bulks] == ["out"]


@needs_mounts
def test_d10_a_rejected_bulk_waits_again(desk):
    ignoring(desk)
    run(desk, "mkdir out; echo 1 > out/a")
    seen = everything(desk)
    checkpoint(desk, "one")
    desk.shadow.resolve_bulk("out", "reject")
    assert desk.shadow.read("out/a") is None
    desk.shadow.checkpoints.restore("one")
    assert everything(desk) == seen
    desk.shadow.resolve_bulk("out")
    assert desk.disk("out/a") == b"1\n"


@needs_mounts
def test_d10_a_bulk_that_the_user_changed_on_disk_is_left_alone_and_named(desk):
    ignoring(desk)
    checkpoint(desk, "one")
    run(desk, "mkdir out; echo 1 > out/a")
    desk.shadow.resolve_bulk("out")
    desk.put("out/a", b"mine\n")
    restored = desk.shadow.checkpoints.restore("one")
    assert [each.path for each in restored.left] == ["out"]
    assert desk.disk("out/a") == b"mine\n"


@needs_mounts
def test_a_checkpoint_whose_layers_were_given_up_says_so(desk):
    ignoring(desk)
    run(desk, "mkdir out; head -c 200000 /dev/zero > out/a")
    checkpoint(desk, "one")
    run(desk, "head -c 200000 /dev/urandom > out/a; echo x > reviewed")
    assert desk.shadow.checkpoints.describe_problem("one") == ""
    desk.shadow.layers.quota = 300_000
    desk.shadow.drop_layer(desk.shadow.open_layer())
    assert desk.shadow.checkpoints.describe_problem("one") == NOT_KEPT
    restored = desk.shadow.checkpoints.restore("one")
    assert [(each.path, each.reason) for each in restored.left] == [("out", NOT_KEPT)]
    assert desk.state.changes == {}


@needs_mounts
def test_hard_links_of_checkpoints_count_once_and_are_swept_with_nothing_lost(tmp_path):
    desk = Desk(tmp_path)
    ignoring(desk)
    run(desk, "mkdir out; head -c 400000 /dev/urandom > out/a; echo 1 > out/b")
    once = desk.shadow.layers.measure()
    for number in range(4):
        checkpoint(desk, f"c{number}")
        run(desk, f"echo {number} > out/b")
    assert desk.shadow.layers.measure() < once + 200_000
    large = desk.shadow.read("out/a")
    again = Desk(tmp_path)
    for event in desk.events:
        again.state.apply(event)
    again.shadow.recover()
    again.shadow.checkpoints.restore("c2")
    assert again.shadow.read("out/b") == b"1\n"
    assert again.shadow.read("out/a") == large


@needs_mounts
def test_a_bulk_taken_back_whose_content_is_gone_is_named(desk):
    ignoring(desk)
    run(desk, "mkdir out; echo 1 > out/a")
    desk.shadow.resolve_bulk("out")
    checkpoint(desk, "one")
    desk.shadow.undo()
    for each in desk.shadow.layers.place.glob("again-*"):
        (each / "verdict.json").unlink()
    restored = desk.shadow.checkpoints.restore("one")
    assert [each.reason for each in restored.left] == [BULK_GONE]
