"""A file that was renamed and edited is one change: the rename and each of its hunks have their verdicts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import CommandRejected, ReviewConflict
from core.protocol.renames import find_renames, list_changes
from core.protocol.review import Change, ConflictChoice, Origin
from tests.support.verdicts import accept_everything, reject_everything
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase
from tests.unit.shadow.test_subagent_merge import Child

OLD = b"".join(b"line %d\n" % number for number in range(1, 31))
NEW = OLD.replace(b"line 5\n", b"LINE 5\n").replace(b"line 25\n", b"LINE 25\nmore\n")
FIRST = OLD.replace(b"line 5\n", b"LINE 5\n")
SECOND = OLD.replace(b"line 25\n", b"LINE 25\nmore\n")


@pytest.fixture
def edited(review) -> ReviewCase:
    return renamed(review)


def renamed(review: ReviewCase) -> ReviewCase:
    review.put("old.py", OLD)
    review.shadow.delete("old.py")
    review.shadow.write("pkg/new.py", NEW)
    return review


def change(review: ReviewCase) -> Change:
    return review.state.changes["pkg/new.py"]


def again(review: ReviewCase) -> ReviewCase:
    """Another one, from the events alone."""
    review_case = ReviewCase(review.root.parent)
    for event in review.events:
        review_case.emit(event)
    return review_case


def test_n16a_a_deletion_and_a_creation_by_tools_are_one_rename_with_the_changed_hunks(edited):
    assert find_renames(edited.state.changes) == {"pkg/new.py": "old.py"}
    (row,) = list_changes(edited.state.changes)
    assert (row.path, row.renamed_from, row.operation) == ("pkg/new.py", "old.py", "rename")
    assert (row.added, row.removed, [hunk.moves for hunk in row.hunks]) == (3, 2, [True, False, False])
    diff = edited.shadow.diff("pkg/new.py")
    assert [(line.kind, line.text) for line in diff.lines if line.kind in {"added", "removed"}] == [
        ("removed", "line 5"),
        ("added", "LINE 5"),
        ("removed", "line 25"),
        ("added", "LINE 25"),
        ("added", "more"),
    ]
    assert [line.old for line in diff.lines[:5]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("order", ["creation first", "deletion first", "a command", "a command, then an edit"])
def test_n16a_it_is_found_however_it_came_about(review, order):
    review.put("old.py", OLD)
    if order == "creation first":
        review.shadow.write("pkg/new.py", NEW)
        assert not find_renames(review.state.changes)
        review.shadow.delete("old.py")
    elif order == "deletion first":
        renamed(review)
    else:
        layer = Layer(review)
        layer.delete("old.py")
        layer.put("pkg/new.py", NEW if order == "a command" else OLD)
        layer.absorb()
        if order != "a command":
            review.shadow.write("pkg/new.py", NEW)
    assert find_renames(review.state.changes) == {"pkg/new.py": "old.py"}
    assert len(change(review).hunks) == 3


@pytest.mark.parametrize("said", ["pkg/new.py", "old.py", ""])
@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_n16a_as_a_whole_it_has_one_verdict_that_is_taken_back_whole(edited, said, verdict):
    before = change(edited)
    give_all = accept_everything if verdict == "accept" else reject_everything
    edited.shadow.resolve(said, (), verdict) if said else give_all(edited.shadow)
    assert edited.files() == ({"pkg/new.py": NEW} if verdict == "accept" else {"old.py": OLD})
    assert not edited.state.changes
    edited.shadow.undo()
    assert edited.files() == {"old.py": OLD}
    assert (change(edited), edited.state.verdicts) == (before, [])
    assert not (edited.root / "pkg").exists()


def test_n16a_accepting_a_hunk_accepts_the_rename_with_it_and_the_rest_waits_at_the_new_path(edited):
    before, ids = change(edited), edited.ids("pkg/new.py")
    edited.shadow.resolve("pkg/new.py", (ids[1],))
    assert edited.files() == {"pkg/new.py": FIRST}
    assert (change(edited).operation, edited.ids("pkg/new.py"), len(edited.state.changes)) == ("edit", ids[2:], 1)
    one, other = edited.state.verdicts
    assert (one.moved_with, other.moved_with) == (other.id, one.id)
    edited.shadow.undo()
    assert edited.files() == {"old.py": OLD}
    assert change(edited) == before
    edited.shadow.resolve("pkg/new.py", (ids[2],))
    edited.shadow.resolve("pkg/new.py", (), "reject")
    assert edited.files() == {"pkg/new.py": SECOND}
    edited.shadow.undo()
    edited.shadow.undo()
    assert change(edited) == before


def test_n16a_rejecting_a_hunk_leaves_the_old_text_in_its_place_under_the_new_name(edited):
    before, ids = change(edited), edited.ids("pkg/new.py")
    edited.shadow.resolve("pkg/new.py", (ids[1],), "reject")
    assert (edited.ids("pkg/new.py"), change(edited).operation) == ([ids[0], ids[2]], "rename")
    assert edited.shadow.read("pkg/new.py") == SECOND
    assert len(edited.state.changes) == 2
    edited.shadow.undo()
    assert change(edited) == before
    edited.shadow.resolve("pkg/new.py", (ids[1],), "reject")
    edited.shadow.resolve("pkg/new.py", (ids[2],), "reject")
    assert edited.ids("pkg/new.py") == ids[:1]
    assert edited.shadow.diff("pkg/new.py").note == "renamed, content unchanged"
    edited.shadow.resolve("pkg/new.py")
    assert edited.files() == {"pkg/new.py": OLD}
    for _ in range(3):
        edited.shadow.undo()
    assert (edited.files(), change(edited), edited.state.verdicts) == ({"old.py": OLD}, before, [])


def test_n16a_the_rename_can_be_accepted_by_itself_and_rejected_only_with_its_edits(edited):
    ids = edited.ids("pkg/new.py")
    edited.shadow.resolve("pkg/new.py", (ids[0],))
    assert edited.files() == {"pkg/new.py": OLD}
    assert edited.ids("pkg/new.py") == ids[1:]
    edited.shadow.undo()
    edited.shadow.resolve("pkg/new.py", (ids[0],), "reject")
    assert (edited.files(), edited.state.changes) == ({"old.py": OLD}, {})
    edited.shadow.undo()
    assert edited.ids("pkg/new.py") == ids


@pytest.mark.parametrize("touched", ["old.py", "pkg/new.py"])
@pytest.mark.parametrize("part", [False, True])
def test_n16a_what_the_user_changed_meanwhile_is_a_conflict_and_nothing_is_written(edited, touched, part):
    ids = edited.ids("pkg/new.py")
    edited.put(touched, OLD.replace(b"line 12", b"mine"))
    before = edited.files()
    with pytest.raises(ReviewConflict, match="Nothing was written"):
        edited.shadow.resolve("pkg/new.py", (ids[1],) if part else ())
    assert edited.files() == before
    assert sorted(edited.state.changes) == ["old.py", "pkg/new.py"]
    assert [change.operation for change in list_changes(edited.state.changes)] == ["delete", "create"]
    if touched == "old.py":
        edited.put("old.py", OLD)
    else:
        (edited.root / touched).unlink()
    for path in list(edited.state.changes):
        edited.shadow.check_disk(path)
    assert (find_renames(edited.state.changes), edited.ids("pkg/new.py")) == ({"pkg/new.py": "old.py"}, ids)
    edited.shadow.resolve("pkg/new.py", (ids[1],))
    assert edited.files() == {"pkg/new.py": FIRST}


def test_n16a_a_settled_conflict_of_the_old_file_makes_it_one_rename_of_that(edited):
    mine = OLD.replace(b"line 12\n", b"mine\n")
    edited.put("old.py", mine)
    edited.shadow.check_disk("old.py")
    edited.shadow.conflicts.resolve("old.py", [ConflictChoice(take="theirs")])
    edited.shadow.refresh_annotations()
    assert find_renames(edited.state.changes) == {"pkg/new.py": "old.py"}
    _, *hunks = edited.ids("pkg/new.py")
    assert len(hunks) == 3
    edited.shadow.resolve("pkg/new.py", (hunks[1],), "reject")  # the user's own line stays
    edited.shadow.resolve("pkg/new.py")
    assert edited.files() == {"pkg/new.py": NEW.replace(b"line 12\n", b"mine\n")}


def test_n16a_the_old_path_written_again_or_another_text_there_parts_them(edited):
    edited.shadow.write("old.py", b"quite another\n")
    assert (find_renames(edited.state.changes), change(edited).operation) == ({}, "create")
    edited.shadow.resolve("pkg/new.py")
    assert edited.files() == {"old.py": OLD, "pkg/new.py": NEW}


def test_n16a_a_hunk_of_a_rename_is_split_edited_and_commented_and_the_rename_is_not(edited):
    moves, first, second = edited.ids("pkg/new.py")
    for act in (
        lambda: edited.shadow.hunk_edits.edit("pkg/new.py", moves, "x\n"),
        lambda: edited.shadow.hunk_edits.read_text("pkg/new.py", moves),
    ):
        with pytest.raises(CommandRejected):
            act()
    assert edited.shadow.hunk_edits.read_text("pkg/new.py", first)[0] == "LINE 5\n"
    edited.shadow.hunk_edits.edit("pkg/new.py", first, "mine 5\n")
    assert find_renames(edited.state.changes) == {"pkg/new.py": "old.py"}
    edited.shadow.hunk_edits.split("pkg/new.py", second)
    assert len(edited.ids("pkg/new.py")) == 4
    edited.shadow.hunk_edits.comment("pkg/new.py", moves, "why?")
    edited.shadow.resolve("pkg/new.py", tuple(edited.ids("pkg/new.py")[1:2]))
    assert edited.files() == {"pkg/new.py": OLD.replace(b"line 5\n", b"mine 5\n")}


def test_n16a_a_rename_that_the_user_parts_is_two_changes_and_stays_so(edited):
    moves = edited.ids("pkg/new.py")[0]
    edited.shadow.hunk_edits.comment("pkg/new.py", moves, "no")
    edited.shadow.hunk_edits.split("pkg/new.py", moves)
    assert [change.operation for change in list_changes(edited.state.changes)] == ["delete", "create"]
    assert [hunk for _, hunk in edited.state.comments] == edited.ids("pkg/new.py")
    edited.shadow.write("pkg/new.py", NEW + b"end\n")
    assert not find_renames(edited.state.changes)
    edited.shadow.resolve("pkg/new.py")
    assert edited.files() == {"old.py": OLD, "pkg/new.py": NEW + b"end\n"}
    edited.shadow.undo()
    edited.shadow.resolve("old.py", (), "reject")
    assert edited.files() == {"old.py": OLD}


def test_n16a_modes_travel_with_the_rename(review):
    review.put("old.sh", OLD, 0o755)
    layer = Layer(review)
    layer.delete("old.sh")
    layer.put("new.sh", NEW, 0o644)
    layer.absorb()
    ids = review.ids("new.sh")
    review.shadow.resolve("new.sh", (ids[1],))
    assert (review.root / "new.sh").stat().st_mode & 0o777 == 0o755
    review.shadow.resolve("new.sh")
    assert (review.root / "new.sh").stat().st_mode & 0o777 == 0o644
    review.put("run", OLD, 0o644)
    layer = Layer(review)
    layer.delete("run")
    layer.put("go", OLD, 0o755)
    layer.absorb()
    assert find_renames(review.state.changes) == {"go": "run"}
    assert review.shadow.diff("go").note == "renamed, content unchanged; mode 0644 → 0755"


@pytest.mark.parametrize("undoing", [False, True])
def test_n16a_a_hunk_with_its_rename_is_one_transaction_whichever_step_it_dies_at(tmp_path, undoing):
    class Died(BaseException):
        pass

    def begun(place, step=lambda _: None) -> ReviewCase:
        review = renamed(ReviewCase(place))
        hunk = review.ids("pkg/new.py")[1]
        if undoing:
            review.shadow.resolve("pkg/new.py", (hunk,))
        dying = ReviewCase(place, step)
        for event in review.events:
            dying.emit(event)
        return dying

    def act(review: ReviewCase) -> None:
        _ = review.shadow.undo() if undoing else review.shadow.resolve("pkg/new.py", (review.ids("pkg/new.py")[1],))

    steps: list[str] = []
    act(begun(tmp_path / "whole", steps.append))
    assert len(steps) > 4
    for at in range(1, len(steps) + 1):
        seen: list[str] = []

        def die(step: str, at: int = at, seen: list[str] = seen) -> None:
            seen.append(step)
            if len(seen) == at:
                raise Died

        dying = begun(tmp_path / str(at), die)
        with pytest.raises(Died):
            act(dying)
        after = again(dying)
        after.shadow.recover()
        accepted = after.files() == {"pkg/new.py": FIRST}
        assert accepted or after.files() == {"old.py": OLD}
        assert len(after.state.verdicts) == (2 if accepted else 0)
        assert find_renames(after.state.changes) == ({} if accepted else {"pkg/new.py": "old.py"})
        assert len(after.ids("pkg/new.py")) == (1 if accepted else 3)


def test_n16a_a_checkpoint_brings_an_edited_rename_back(edited):
    from core.protocol.events import CheckpointCreated

    before = dict(edited.state.changes)
    generated = edited.shadow.layers.freeze("c", 1)
    edited.emit(CheckpointCreated(id="c", seq=1, generated=generated))
    edited.shadow.resolve("pkg/new.py", (edited.ids("pkg/new.py")[1],))
    edited.shadow.write("pkg/new.py", b"else\n")
    edited.shadow.checkpoints.restore("c")
    assert (edited.files(), edited.state.changes) == ({"old.py": OLD}, before)
    accept_everything(edited.shadow)
    assert edited.files() == {"pkg/new.py": NEW}


def test_n16a_the_rename_of_a_subagent_is_one_in_its_parent(review):
    review.put("old.py", OLD)
    child = Child(review, "one")
    child.shadow.delete("old.py")
    child.shadow.write("pkg/new.py", NEW)
    assert child.join(review).conflicts == ()
    assert find_renames(review.state.changes) == {"pkg/new.py": "old.py"}
    second = Child(review, "two")
    second.shadow.write("pkg/new.py", NEW.replace(b"line 15\n", b"LINE 15\n"))
    assert second.join(review).conflicts == ()
    assert (find_renames(review.state.changes), len(review.ids("pkg/new.py"))) == ({"pkg/new.py": "old.py"}, 4)
    review.shadow.resolve("pkg/new.py")
    assert review.files() == {"pkg/new.py": NEW.replace(b"line 15\n", b"LINE 15\n")}


def test_n16a_gits_rules_decide_which_files_belong_together(review):
    texts = {f"{name}.txt": b"".join(b"%d of %s\n" % (n, name.encode()) for n in range(40)) for name in "abcd"}
    for path, data in texts.items():
        review.put(path, data)
        review.shadow.delete(path)
    review.shadow.write("x/a.txt", texts["a.txt"][:-60])  # of the same name
    review.shadow.write("b2.txt", texts["b.txt"] + b"one more\n")
    review.shadow.write("c2.txt", texts["c.txt"][: len(texts["c.txt"]) // 3])  # less than a half
    review.shadow.write("d2.txt", texts["d.txt"])
    assert find_renames(review.state.changes) == {"x/a.txt": "a.txt", "b2.txt": "b.txt", "d2.txt": "d.txt"}


@given(st.integers(0, 1 << 32))
@settings(max_examples=40, deadline=None)
def test_n16a_any_verdicts_in_any_order_and_all_undone_come_back_and_the_events_alone_say_the_same(
    tmp_path_factory, seed
):
    dice = random.Random(seed)
    review = renamed(ReviewCase(tmp_path_factory.mktemp("review")))
    review.put("other.py", OLD + b"z\n")
    begun, files = dict(review.state.changes), review.files()
    for _ in range(dice.randrange(1, 6)):
        if not review.state.changes:
            break
        path = dice.choice(sorted(review.state.changes))
        ids = review.ids(path)
        chosen = tuple(dice.sample(ids, dice.randrange(1, len(ids) + 1)))
        before = {file_path: data for file_path, data in review.files().items() if file_path.endswith("new.py")}
        review.shadow.resolve(path, chosen, dice.choice(["accept", "reject"]))
        assert not {"old.py", "pkg/new.py"} <= review.files().keys(), before
        seen = again(review)
        assert (seen.state.changes, seen.state.verdicts) == (review.state.changes, review.state.verdicts)
    while review.state.verdicts:
        review.shadow.undo()
    assert (review.files(), review.state.changes) == (files, begun)


def test_n16a_origin_and_todo_of_a_rename_are_kept(review):
    review.put("old.py", OLD)
    origin = Origin(call="c", tool="write", todo="t")
    review.shadow.delete("old.py", origin)
    review.shadow.write("pkg/new.py", NEW, origin)
    assert change(review).origin == origin
    assert {hunk.todo for hunk in change(review).hunks} == {"t"}
