"""Layers of commands: what a layer means for the review, what is kept beside it, and what a crash leaves."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core.errors import ReviewConflict, StateError
from core.filesystem.overlay_support import is_whiteout
from core.filesystem.removal import remove_tree
from core.protocol.events import LayersChanged
from core.shadow.content.blob_store import BlobStore
from core.shadow.layers import layer_store as layers_module
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from tests.support.verdicts import accept_everything
from tests.unit.shadow.command_layer import ORIGIN, Layer
from tests.unit.shadow.overlay_mount import needs_mounts, run
from tests.unit.shadow.review_case import ReviewCase


def can_make_whiteouts() -> bool:
    return layers_module.can_hold_upper(Path("/tmp")) or layers_module.can_hold_upper(layers_module.SHARED_MEMORY)


pytestmark = pytest.mark.skipif(
    "not __import__('tests.unit.shadow.layers.test_layer_store', fromlist=['x']).can_make_whiteouts()"
)


def operations(review: ReviewCase) -> dict[str, str]:
    return {change.path: change.operation for change in review.shadow.list_changes()}


def roots(review: ReviewCase) -> dict[str, tuple[int, int]]:
    return {bulk.root: (bulk.files, bulk.deleted) for bulk in review.state.bulks}


def again(review: ReviewCase) -> Shadow:
    """The shadow of the same session after a restart."""
    review.state = state = ReviewState()
    for event in review.events:
        state.apply(event)
    shadow = Shadow(review.workspace, BlobStore(review.session / "blobs"), review.emit, state)
    review.shadow = shadow
    return shadow


def test_s2_what_a_command_wrote_is_a_change_and_the_project_is_as_it_was(review):
    review.put("a", b"one\n")
    before = review.files()
    layer = Layer(review)
    layer.put("a", b"two\n")
    layer.put("new/b", b"b\n", 0o755)
    effects = layer.absorb()
    assert (effects.created, effects.edited, effects.deleted) == (("new/b",), ("a",), ())
    assert operations(review) == {"a": "edit", "new/b": "create"}
    assert review.state.changes["new/b"].origin == ORIGIN
    assert (review.shadow.read("a"), review.shadow.stat("new/b").mode) == (b"two\n", 0o755)
    assert review.files() == before
    assert review.events[-1] == effects


def test_s3_a_removed_tree_is_the_deletion_of_each_of_its_files(review):
    for path in ("src/a", "src/deep/b", "src/deep/c"):
        review.put(path, path.encode())
    layer = Layer(review)
    layer.delete("src")
    effects = layer.absorb()
    assert effects.deleted == ("src/a", "src/deep/b", "src/deep/c")
    assert (review.shadow.stat("src"), review.shadow.list_dir()) == (None, ())
    (pending,) = review.shadow.prepare_lowers()
    assert is_whiteout((pending / "src").lstat())
    review.shadow.resolve("src/deep/b", verdict="reject")
    assert [entry.name for entry in review.shadow.list_dir("src")] == ["deep"]
    accept_everything(review.shadow)
    assert review.files() == {"src/deep/b": b"src/deep/b"}


def test_a_replaced_directory_is_what_went_and_what_is_there(review):
    review.put("d/old", b"old")
    review.put("d/same", b"same")
    layer = Layer(review)
    layer.replace("d")
    layer.put("d/same", b"same")
    layer.put("d/new", b"new")
    layer.absorb()
    assert operations(review) == {"d/new": "create", "d/old": "delete"}


def test_what_was_only_copied_up_is_no_change(review):
    review.put("a", b"one\n", 0o600)
    review.put("out/x", b"x")
    layer = Layer(review)
    layer.put("a", b"one\n", 0o600)
    effects = layer.absorb()
    assert (effects.edited, review.state.changes, review.state.layers) == ((), {}, ())
    assert not list(review.shadow.layers.location.glob("layer*"))


def test_a_mode_is_a_change_and_setuid_is_dropped_with_a_note(review):
    review.put("tool", b"#!/bin/sh\n")
    layer = Layer(review)
    layer.put("tool", b"#!/bin/sh\n", 0o4755)
    effects = layer.absorb()
    assert (operations(review), review.state.changes["tool"].pending.mode) == ({"tool": "mode"}, 0o755)
    assert any("setuid" in note for note in effects.notes)


def test_special_files_are_dropped_with_a_note(review):
    layer = Layer(review)
    os.mkfifo(layer.dirs.upper / "pipe")
    (effects,) = [layer.absorb()]
    assert (review.state.changes, effects.created) == ({}, ())
    assert effects.notes[0].startswith("pipe: not kept")


def test_p10_names_of_any_bytes_come_through(review):
    names = [b"new\nline", b"\x1b[31mred", b"bad\xff\xfe", "bidi\u202e".encode(), b"-rf"]
    layer = Layer(review)
    for name in names:
        Path(os.fsdecode(os.fsencode(layer.dirs.upper) + b"/" + name)).write_bytes(b"text")
    layer.absorb()
    accept_everything(review.shadow)
    assert sorted(os.fsencode(path.name) for path in review.root.iterdir()) == sorted(names)


def test_a_link_is_stored_as_it_is_and_not_followed_out(review):
    layer = Layer(review)
    (layer.dirs.upper / "l").symlink_to("/etc/passwd")
    layer.absorb()
    assert review.state.changes["l"].pending.kind == "symlink"
    with pytest.raises(Exception, match=r"outside|leads out"):
        review.shadow.read("l")


def test_a_file_that_moved_is_called_so(review):
    review.put("old.py", b"x = 1\n")
    layer = Layer(review)
    layer.delete("old.py")
    layer.put("new.py", b"x = 1\n")
    layer.absorb()
    assert operations(review) == {"new.py": "rename", "old.py": "delete"}
    assert review.state.changes["new.py"].renamed_from == "old.py"


def test_p14_a_base_that_the_user_changed_meanwhile_is_a_conflict(review):
    review.put("a", b"one\n")
    layer = Layer(review)
    layer.put("a", b"two\n")
    review.put("a", b"mine\n")
    layer.absorb()
    assert "while the command ran" in review.state.changes["a"].conflict
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    assert review.disk("a") == b"mine\n"


def test_two_commands_at_once_are_merged_and_the_same_place_is_a_conflict(review):
    review.put("a", b"".join(b"line %d\n" % n for n in range(9)))
    review.put("b", b"x\n")
    first, second = Layer(review), Layer(review)
    text = (review.root / "a").read_bytes()
    first.put("a", text.replace(b"line 1\n", b"first\n"))
    second.put("a", text.replace(b"line 7\n", b"second\n"))
    first.put("b", b"one\n")
    second.put("b", b"two\n")
    assert first.dirs.upper != second.dirs.upper
    first.absorb()
    second.absorb()
    assert review.shadow.read("a") == text.replace(b"line 1\n", b"first\n").replace(b"line 7\n", b"second\n")
    assert "while the command ran" in review.state.changes["b"].conflict


def test_generated_files_are_kept_beside_the_review_and_read_through(review):
    review.put(".gitignore", b"*.log\nout/\n")
    layer = Layer(review)
    for path in ("node_modules/m/i.js", "out/o", "a.log", "src/__pycache__/x.pyc"):
        layer.put(path, path.encode())
    effects = layer.absorb()
    assert (effects.generated, review.state.changes) == (4, {})
    assert roots(review) == {"**/*.log": (1, 0), "**/__pycache__": (1, 0), "node_modules": (1, 0), "out": (1, 0)}
    assert review.shadow.read("node_modules/m/i.js") == b"node_modules/m/i.js"
    assert [entry.name for entry in review.shadow.list_dir("node_modules")] == ["m"]
    assert isinstance(review.events[-2], LayersChanged)


def test_what_git_tracks_is_never_generated(review):
    from git import Repo

    review.put(".gitignore", b"out/\n")
    review.put("out/kept", b"kept")
    repo = Repo.init(review.root)
    repo.git.add("-f", "out/kept")
    layer = Layer(review)
    layer.put("out/kept", b"changed")
    layer.put("out/other", b"other")
    layer.absorb()
    assert (operations(review), roots(review)) == ({"out/kept": "edit"}, {"out": (1, 0)})


def test_p4_a_bulk_is_accepted_undone_and_rejected(review):
    review.put(".gitignore", b"out/\n")
    review.put("out/a", b"old", 0o600)
    review.put("out/gone", b"gone")
    before = review.files()
    layer = Layer(review)
    layer.put("out/a", b"new", 0o755)
    layer.put("out/deep/b", b"b")
    layer.delete("out/gone")
    layer.absorb()
    review.shadow.resolve_bulk("out")
    assert review.files() == {".gitignore": b"out/\n", "out/a": b"new", "out/deep/b": b"b"}
    assert stat.S_IMODE((review.root / "out/a").stat().st_mode) == 0o755
    assert (review.state.bulks, review.state.layers) == ((), ())
    review.shadow.undo()
    assert review.files() == before
    assert stat.S_IMODE((review.root / "out/a").stat().st_mode) == 0o600
    assert review.shadow.read("out/a") == b"new"
    review.shadow.resolve_bulk("out", "reject")
    assert (review.shadow.read("out/a"), review.files()) == (b"old", before)
    review.shadow.undo()
    assert review.shadow.read("out/a") == b"new"


def test_p15_a_bulk_over_files_that_the_user_changed_is_a_conflict(review):
    review.put(".gitignore", b"out/\n")
    review.put("out/a", b"old")
    layer = Layer(review)
    layer.put("out/a", b"new")
    layer.put("out/b", b"b")
    layer.absorb()
    review.put("out/a", b"mine")
    with pytest.raises(ReviewConflict, match="out/a changed in the project"):
        review.shadow.resolve_bulk("out")
    assert review.files() == {".gitignore": b"out/\n", "out/a": b"mine"}
    assert [bulk.conflict for bulk in review.state.bulks] == [
        "out/a changed in the project since the command; nothing was written."
    ]


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("accepts", [True, False])
def test_d6_a_bulk_verdict_cut_off_anywhere_is_finished_or_taken_back(tmp_path, accepts):
    number = 0
    while True:
        number += 1
        left = [number]

        def step(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Died

        review = ReviewCase(tmp_path / str(number))
        review.put(".gitignore", b"out/\n")
        for path in ("out/a", "out/gone/x"):
            review.put(path, b"old")
        before = review.files()
        layer = Layer(review)
        layer.put("out/a", b"new")
        layer.put("out/b", b"b")
        layer.delete("out/gone")
        layer.absorb()
        after = {".gitignore": b"out/\n", "out/a": b"new", "out/b": b"b"}
        if not accepts:
            review.shadow.resolve_bulk("out")
        dying = Shadow(review.workspace, BlobStore(review.session / "blobs"), review.emit, review.state, step=step)
        try:
            dying.resolve_bulk("out") if accepts else dying.undo()
        except Died:
            shadow = again(review)
            shadow.recover()
            assert review.files() in (before, after)
            assert bool(review.state.bulks) == (review.files() == before)
            assert bool(review.state.verdicts) == (review.files() == after)
            assert shadow.read("out/a") == b"new"
        else:
            break
    assert number > 4


def test_the_pending_layer_is_replaced_never_written_and_rebuilt_without_its_record(review):
    review.put("a", b"one\n")
    review.shadow.write("a", b"two\n")
    (pending,) = review.shadow.prepare_lowers()
    first = (pending / "a").stat().st_ino
    held = (pending / "a").open("rb")
    review.shadow.write("a", b"three\n")
    review.shadow.prepare_lowers()
    assert (held.read(), (pending / "a").read_bytes()) == (b"two\n", b"three\n")
    held.close()
    (review.shadow.layers.location / "pending.json").unlink()
    (pending / "a").write_bytes(b"not what is pending")
    (fresh,) = again(review).prepare_lowers()
    assert (fresh / "a").read_bytes() == b"three\n"
    assert first


def test_a_command_that_runs_keeps_the_pending_layer_that_it_began_with(review):
    review.put("a", b"one\n")
    review.shadow.write("a", b"two\n")
    layer = Layer(review)
    (under,) = review.shadow.prepare_lowers()
    review.shadow.write("a", b"three\n")
    (now,) = review.shadow.prepare_lowers()
    assert ((under / "a").read_bytes(), (now / "a").read_bytes()) == (b"two\n", b"three\n")
    review.shadow.drop_layer(layer.dirs)
    review.shadow.write("a", b"four\n")
    review.shadow.prepare_lowers()
    assert not under.exists()


def test_d11_what_a_crash_left_is_swept(review):
    layer = Layer(review)
    (layer.dirs.work / "work").mkdir(mode=0o000)
    layer.delete("x")
    deep = layer.dirs.upper
    for _ in range(120):
        deep = deep / ("d" * 20)
        deep.mkdir()
    review.put("kept", b"")
    review.shadow.write("kept", b"pending")
    (pending,) = review.shadow.prepare_lowers()
    os.close(review.shadow.layers._locks[layer.dirs.id])
    again(review).recover()
    assert not layer.dirs.upper.parent.exists()
    assert pending.is_dir()


def test_d5_s14_a_layer_that_is_in_use_is_locked_and_not_swept(review):
    layer = Layer(review)
    again(review).recover()
    assert layer.dirs.upper.is_dir()


def test_d4_no_room_is_a_clear_error_and_nothing_is_left(review, monkeypatch):
    review.shadow.drop_layer(review.shadow.open_layer())
    monkeypatch.setattr(layers_module, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(StateError, match="MB are free"):
        review.shadow.open_layer()
    monkeypatch.undo()
    layer = Layer(review)
    layer.put("node_modules/x", b"x" * 100_000)
    layer.absorb()
    review.shadow.layers.quota = 50_000
    with pytest.raises(StateError, match="the limit is"):
        review.shadow.open_layer()
    assert not [
        path
        for path in review.shadow.layers.location.iterdir()
        if path.name not in review.state.layers and path.is_dir()
    ]


def test_layers_in_memory_where_the_state_can_hold_none(review, monkeypatch):
    monkeypatch.setattr(layers_module, "can_hold_upper", lambda directory: directory != review.session / "layers")
    review.put("a", b"one\n")
    layer = Layer(review)
    try:
        assert layers_module.SHARED_MEMORY in layer.dirs.upper.parents
        assert stat.S_IMODE(review.shadow.layers.location.stat().st_mode) == 0o700
        layer.put("node_modules/x", b"x")
        layer.put("a", b"two\n")
        layer.absorb()
        assert again(review).read("node_modules/x") == b"x"
        remove_tree(review.shadow.layers.location)
        shadow = again(review)
        assert "lost with the memory" in " ".join(shadow.recover())
        assert (shadow.read("node_modules/x"), shadow.read("a"), review.state.bulks) == (None, b"two\n", ())
    finally:
        layers_module.remove_location(review.session / "layers")


@needs_mounts
def test_n4_a_file_that_a_command_shut_is_kept_so_that_it_can_be_read_again(review):
    review.put(".gitignore", b"out/\n")
    recorded = run(review, "mkdir out; echo one > out/a; echo s > out/s; chmod 000 out/a; chmod 4050 out/s")
    assert "out/a, out/s: kept readable for its owner, without its restrictive mode." in recorded.notes
    run(review, "rm -f out/a; echo two > out/a; chmod 000 out/a", "c2")
    review.shadow.resolve_bulk("out")
    assert (review.root / "out/a").read_bytes() == b"two\n"
    assert [(review.root / name).stat().st_mode & 0o7777 for name in ("out/a", "out/s")] == [0o400, 0o450]
