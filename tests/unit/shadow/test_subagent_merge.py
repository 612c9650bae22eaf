"""The work of several others taken into one shadow: what git merges is merged the same, and nothing is ever lost."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ReviewConflict
from core.protocol.events import ChangeProposed, CheckpointCreated, LayersChanged
from core.protocol.review import ConflictChoice, Origin
from core.shadow.layers.layer_files import link_tree
from core.shadow.subagent_merge import SubagentMerge, SubagentMergeResult, SubagentWork, copy_for_subagent
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase
from tests.unit.shadow.test_shadow import TEN, edited

BOTH, THEIRS, MINE = ConflictChoice(take="both"), ConflictChoice(take="theirs"), ConflictChoice(take="mine")


class Stopped(Exception):
    """The program dies here."""


class Child(ReviewCase):
    """Another session that begins with what is pending at a review now."""

    def __init__(self, review: ReviewCase, name: str) -> None:
        self.name, self.since = name, time.time_ns()
        place = review.session.parent.parent
        session = place / "state" / name
        layers = review.shadow.layers
        if layers.retained.layers:
            (session / "layers").mkdir(parents=True)
            for layer in layers.retained.layers:
                link_tree(layers.location / layer, session / "layers" / layer)
        super().__init__(place)
        self.session = session
        session.mkdir(exist_ok=True)
        self._begin(review)

    def _begin(self, review: ReviewCase) -> None:
        from core.shadow.content.blob_store import BlobStore
        from core.shadow.shadow import Shadow
        from core.state.review import ReviewState

        self.events, self.state = [], ReviewState()
        self.shadow = Shadow(self.workspace, BlobStore(self.session / "blobs"), self.emit, self.state)
        if review.shadow.layers.retained.layers:
            self.shadow.layers.write_record(review.shadow.layers.retained)
            self.emit(LayersChanged(layers=self.shadow.layers.retained.layers, bulks=review.state.bulks))
        for change in copy_for_subagent(review.state.changes.values()):
            for state in (change.base, change.pending):
                if state.kind != "absent":
                    self.shadow.blobs.put(review.shadow.blobs.get(state.blob))
            self.emit(ChangeProposed(change=change))
        generated = self.shadow.layers.freeze("begun", 0)
        self.emit(CheckpointCreated(id="begun", seq=0, prompt="", generated=generated))

    def join(self, review: ReviewCase, **more: object) -> SubagentMergeResult:
        work = SubagentWork(self.shadow, self.state.checkpoints["begun"], "begun")
        done = more.pop("done", ())
        origin = Origin(call=self.name, tool="subagent", todo=self.name)
        return SubagentMerge(review.shadow, work, **more).run(origin, started_ns=self.since, merged_paths=done)


def by_git(ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place) / name for name in ("ours", "base", "theirs")]
        for path, data in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(data)
        ran = subprocess.run(["git", "merge-file", "-p", *paths], capture_output=True, check=False)
        return ran.stdout if ran.returncode == 0 else None


EDIT = st.tuples(st.sampled_from(["put", "insert", "delete"]), st.integers(0, 11))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(EDIT, min_size=1, max_size=4), min_size=2, max_size=4))
def test_the_clean_union_is_that_of_git_and_where_they_clash_nothing_of_any_side_is_lost(plans):
    with tempfile.TemporaryDirectory() as place:
        review = ReviewCase(Path(place))
        lines = [b"%d\n" % number for number in range(12)]
        base = b"".join(lines)
        review.put("a.txt", base)
        children, new_lines = [], set[bytes]()
        for number, edits in enumerate(plans):
            child, mine = Child(review, f"todo{number}"), list(lines)
            for count, (kind, at) in enumerate(edits):
                new = b"todo%d new %d\n" % (number, count)
                mine[at] = b"" if kind == "delete" else new if kind == "put" else new + lines[at]
            data = b"".join(mine)
            new_lines.update(line for line in data.splitlines(keepends=True) if line not in lines)
            child.shadow.write("a.txt", data)
            children.append(child)
        ours, clean = base, True
        for child in children:
            theirs = child.shadow.read("a.txt")
            joined = child.join(review)
            if clean:
                merged = by_git(ours, base, theirs)
                clean = merged is not None
                assert (merged is None) == bool(joined.conflicts)
                if merged is not None:
                    ours = merged
                    assert (review.shadow.read("a.txt") or b"") == ours
                    assert (review.disk("a.txt"), review.state.changes.get("a.txt") is None) == (base, ours == base)
        while (sides := review.shadow.conflicts.read_sides("a.txt")) is not None:
            assert sides.theirs_is in {child.name for child in children}
            review.shadow.conflicts.resolve("a.txt", [BOTH] * len(sides.clashes), sides.mine.blob, sides.theirs.blob)
        assert new_lines <= set(review.shadow.read("a.txt").splitlines(keepends=True))
        if "a.txt" in review.state.changes:
            review.shadow.resolve("a.txt")
        assert review.disk("a.txt") == review.shadow.read("a.txt")


def test_each_hunk_knows_the_todo_that_it_was_made_for(review):
    review.put("a", TEN)
    one, two = Child(review, "one"), Child(review, "two")
    one.shadow.write("a", edited(TEN, 2))
    two.shadow.write("a", edited(TEN, 8))
    one.join(review)
    two.join(review)
    assert [hunk.todo for hunk in review.state.changes["a"].hunks] == ["one", "two"]
    review.shadow.resolve("a", (review.ids("a")[0],))
    review.put("a", b"more\n" + review.disk("a"))
    review.shadow.check_disk("a")
    assert [hunk.todo for hunk in review.state.changes["a"].hunks] == ["two"]


def clashing(review: ReviewCase) -> None:
    review.put("a", TEN)
    one, two, three = (Child(review, name) for name in ("one", "two", "three"))
    one.shadow.write("a", edited(TEN, 2, into=b"one"))
    two.shadow.write("a", edited(edited(TEN, 2, into=b"two"), 9, into=b"two"))
    three.shadow.write("a", edited(TEN, 2, into=b"three"))
    for child in (one, two, three):
        child.join(review)


def test_what_clashes_is_settled_by_hand_one_after_the_other_and_accepted_only_then(review):
    clashing(review)
    change = review.state.changes["a"]
    assert review.shadow.read("a") == edited(edited(TEN, 2, into=b"one"), 9, into=b"two")
    assert [(competing_version.by, competing_version.todo) for competing_version in change.competing_versions] == [
        ("two", "two"),
        ("three", "three"),
    ]
    assert change.conflict == "two and three changed the same place in another way."
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    review.put("a", b"the user's\n" + TEN)  # and the user goes on, elsewhere
    review.shadow.check_disk("a")
    assert [competing_version.by for competing_version in review.state.changes["a"].competing_versions] == [
        "two",
        "three",
    ]
    sides = review.shadow.conflicts.read_sides("a")
    assert [(clash.mine, clash.theirs) for clash in sides.clashes] == [(("one 2",), ("two 2",))]
    assert sides.theirs_is == "two"
    review.shadow.conflicts.resolve("a", [THEIRS])
    assert review.shadow.conflicts.read_sides("a").theirs_is == "three"
    review.shadow.conflicts.resolve("a", [ConflictChoice(take="text", text="all 2")])
    assert (review.state.changes["a"].conflict, review.state.changes["a"].competing_versions) == ("", ())
    review.shadow.resolve("a")
    assert review.disk("a") == b"the user's\n" + edited(TEN, 9, into=b"two").replace(b"line 2", b"all 2")


def test_a_rejected_change_takes_its_rivals_along_and_undoing_brings_them_back(review):
    clashing(review)
    before = review.state.changes["a"]
    [record] = review.shadow.resolve("a", (), "reject")
    assert (review.state.changes, record.competing_versions) == ({}, before.competing_versions)
    review.shadow.undo()
    assert review.state.changes["a"].competing_versions == before.competing_versions
    assert review.state.changes["a"].conflict == before.conflict
    review.shadow.write("a", TEN)  # the agent takes ours back: theirs is what is left
    assert review.shadow.read("a") == edited(edited(TEN, 2, into=b"two"), 9, into=b"two")
    assert [competing_version.todo for competing_version in review.state.changes["a"].competing_versions] == ["three"]


def test_files_that_are_made_removed_renamed_or_no_text_are_merged_or_in_conflict(review):
    for name, data in (("gone", b"1\n"), ("both", b"2\n"), ("old", b"moved\n"), ("bin", b"\0a"), ("x", b"run\n")):
        review.put(name, data)
    one, two = Child(review, "one"), Child(review, "two")
    one.shadow.write("new", b"new\n")
    one.shadow.delete("gone")
    one.shadow.delete("both")
    one.shadow.write("bin", b"\0one")
    one.shadow.write("x", b"run\n", mode=0o755)
    layer = Layer(one)
    layer.delete("old")
    layer.put("fresh", b"moved\n")
    layer.absorb()
    two.shadow.write("both", b"2\nand more\n")
    two.shadow.write("bin", b"\0two")
    two.shadow.write("x", b"run\nfast\n")
    assert one.join(review).conflicts == ()
    assert two.join(review).conflicts == ("bin", "both")
    changes = review.state.changes
    assert {path: change.operation for path, change in changes.items()} == {
        "new": "create", "gone": "delete", "both": "delete", "old": "delete", "fresh": "rename", "bin": "edit",
        "x": "edit",
    }  # fmt: skip
    assert (changes["x"].pending.mode, review.shadow.read("x")) == (0o755, b"run\nfast\n")
    assert changes["fresh"].renamed_from == "old"
    sides = review.shadow.conflicts.read_sides("both")
    assert (sides.whole, sides.mine_is, sides.theirs_is) == (True, "one", "two")
    review.shadow.conflicts.resolve("both", [THEIRS])
    review.shadow.conflicts.resolve("bin", [MINE])
    assert (review.shadow.read("both"), review.shadow.read("bin")) == (b"2\nand more\n", b"\0one")


def test_what_commands_left_beside_the_review_comes_along_and_the_state_of_git_only_once(review):
    review.put(".gitignore", b"out/\n")
    first = Layer(review)
    first.put("out/kept", b"before")
    first.put("out/stale", b"old")
    first.absorb()
    one, two = Child(review, "one"), Child(review, "two")
    for child, data in ((one, b"1"), (two, b"22")):
        layer = Layer(child)
        layer.put("out/shared", data)
        layer.put(f"out/{child.name}/own", data)
        layer.put(".git/refs/heads/main", data * 40)
        layer.put(f".git/objects/{data.hex()}", data)
        layer.absorb()
    deletion_layer = Layer(two)
    deletion_layer.delete("out/stale")
    deletion_layer.absorb()
    two.shadow.squash()
    assert one.join(review).notes == ()
    notes = " ".join(two.join(review).notes)
    assert "out/shared" in notes
    assert "git state (.git" in notes
    read = review.shadow.read
    assert [read(f"out/{name}") for name in ("kept", "shared", "one/own", "two/own", "stale")] == [
        b"before", b"22", b"1", b"22", None,
    ]  # fmt: skip
    assert (
        review.shadow.merged_tree.read(
            ".git/refs/heads/main", review.shadow.merged_tree.find_node(".git/refs/heads/main"), 99
        )
        == b"1" * 40
    )
    assert {bulk.root for bulk in review.state.bulks} == {"out", ".git"}
    assert one.shadow.read("out/stale") == b"old"


@pytest.mark.parametrize("at", ["a", "b", "c", "generated"])
def test_joined_once_wherever_it_is_cut_off_and_carried_on(review, at):
    review.put("a", TEN)
    review.put("b", TEN)
    review.put(".gitignore", b"out/\n")
    review.shadow.write("b", edited(TEN, 2, into=b"ours"))
    child = Child(review, "one")
    review.shadow.write("b", edited(TEN, 2, into=b"now ours"))
    child.shadow.write("a", edited(TEN, 2))
    child.shadow.write("b", edited(TEN, 2, into=b"theirs"))
    child.shadow.write("c", b"made\n")
    layer = Layer(child)
    layer.put("out/x", b"x")
    layer.absorb()

    def die(step: str) -> None:
        if step == at:
            raise Stopped

    with pytest.raises(Stopped):
        child.join(review, step=die)
    done = {path for path in ("a", "b", "c") if path <= at or at == "generated"}
    child.join(review, done=done)
    assert (review.shadow.read("a"), review.shadow.read("c")) == (edited(TEN, 2), b"made\n")
    assert review.shadow.read("b") == edited(TEN, 2, into=b"now ours")
    assert [competing_version.by for competing_version in review.state.changes["b"].competing_versions] == ["one"]
    assert [(bulk.root, bulk.files) for bulk in review.state.bulks] == [("out", 1)]


@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_a_verdict_on_what_it_began_with_holds_and_its_own_work_waits(review, verdict):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 2))
    child = Child(review, "one")
    review.shadow.resolve("a", (), verdict)
    child.shadow.check_disk("a")
    child.shadow.write("a", edited(child.shadow.read("a"), 8))
    child.join(review)
    disk = edited(TEN, 2) if verdict == "accept" else TEN
    assert (review.disk("a"), review.shadow.read("a")) == (disk, edited(disk, 8))
    assert [hunk.todo for hunk in review.state.changes["a"].hunks] == ["one"]


def test_what_has_no_place_here_is_refused_and_taken_over_when_it_has(review):
    child = Child(review, "one")
    child.shadow.write("x", b"a file\n")
    child.shadow.write("y", b"y\n")
    review.shadow.write("x/in", b"below a directory\n")
    joined = child.join(review)
    assert (joined.refused, joined.paths) == (("x",), ("x", "y"))
    assert "could not be merged" in joined.notes[0]
    review.shadow.resolve("x/in", (), "reject")
    assert child.join(review, done={"y"}).refused == ()
    assert {path: review.shadow.read(path) for path in review.state.changes} == {"x": b"a file\n", "y": b"y\n"}


def test_n28_what_others_built_from_text_that_did_not_come_along_is_older_than_what_is_pending(review):
    review.put(".gitignore", b"out/\n")
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 2))
    review.shadow.prepare_lowers()
    child = Child(review, "one")
    review.shadow.write("a", edited(TEN, 2, 5))
    (before,) = review.shadow.prepare_lowers()
    child.shadow.write("a", edited(TEN, 8))
    layer = Layer(child)
    built = layer.put("out/app", b"built from the child's a")
    assert built.stat().st_mtime_ns >= (before / "a").stat().st_mtime_ns
    layer.absorb()
    origin = Origin(call="one", tool="subagent", todo="one")
    work = SubagentWork(child.shadow, child.state.checkpoints["begun"], "begun")
    SubagentMerge(review.shadow, work).run(origin, started_ns=child.since, without=("a",))
    pending, lower = review.shadow.prepare_lowers()
    assert (pending / "a").read_bytes() == edited(TEN, 2, 5)
    assert (pending / "a").stat().st_mtime_ns >= (lower / "out/app").stat().st_mtime_ns


def test_n29_what_was_set_aside_for_others_is_not_removed_from_the_users_directory(review):
    review.put(".gitignore", b"out/\n")
    layer = Layer(review)
    layer.put("out/one", b"v1")
    layer.absorb()
    review.put("out/one", b"v2")
    child = Child(review, "one")
    layer = Layer(child)
    assert [verdict.superseded for verdict in child.state.verdicts] == [True]
    layer.put("out/more", b"new")
    layer.absorb()
    child.join(review)
    assert review.shadow.read("out/more") == b"new"
    review.shadow.follow_project()
    assert review.shadow.read("out/one") == b"v2"
