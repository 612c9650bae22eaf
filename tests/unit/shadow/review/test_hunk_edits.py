"""Whatever is split, edited, judged and taken back, in any order: all hunks give the pending bytes, none the base."""

from __future__ import annotations

import random
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import CommandRejected, ReviewConflict
from core.protocol.events import ChangeResolved, CheckRecorded, HunkEdited
from core.protocol.review import Check, Origin
from core.shadow.diff.alignment import find_pieces, find_regions
from core.shadow.diff.hunks import (
    apply_hunks,
    compute_hunks,
    halve_hunk,
    reinsert_hunks,
    remove_hunks,
    replace_hunk,
    select_hunks,
    split_lines,
)
from tests.unit.shadow.diff.test_hunks import FILE
from tests.unit.shadow.project_fixture import Desk
from tests.unit.shadow.test_shadow import TEN, edited

BLOCK = b"".join(b"new %d\n" % number for number in range(6))


def cut(base, pending, every, chance):
    """One hunk cut at a random line, as `Rework.split` does it."""
    hunk = chance.choice(every)
    old = split_lines(base)[hunk.old_start - 1 :][: hunk.old_lines]
    new = split_lines(pending)[hunk.new_start - 1 :][: hunk.new_lines]
    at = chance.randint(0, max(len(old), len(new)))
    parts = find_pieces(old, new) if chance.random() < 0.3 else halve_hunk(old, new, at, "utf-8")
    return replace_hunk(every, hunk, parts, old, new)


def is_exact(base, pending, every):
    return (
        select_hunks(base, pending, every) == pending
        and select_hunks(base, pending, ()) == base
        and len({each.id for each in every}) == len(every)
        and all(one.old_start + one.old_lines <= other.old_start for one, other in pairwise(every))
        and all(one.new_start + one.new_lines <= other.new_start for one, other in pairwise(every))
        and all(each.old_lines or each.new_lines for each in every)
    )


@given(FILE, FILE, st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_splitting_judging_and_undoing_is_exact_in_any_order(base, pending, chance):
    every = compute_hunks(base, pending)
    for _ in range(6):
        if not every:
            break
        every = cut(base, pending, every, chance)
        assert is_exact(base, pending, every)
        verdict = chance.choice(["accept", "reject"])
        chosen = [each for each in every if chance.random() < 0.4]
        left = remove_hunks(every, {each.id for each in chosen}, verdict)
        kept = chosen if verdict == "accept" else [each for each in every if each not in chosen]
        middle = select_hunks(base, pending, kept)
        after = (middle, pending) if verdict == "accept" else (base, middle)
        assert is_exact(*after, left)
        if left and chance.random() < 0.5:
            left = cut(*after, left, chance)
        if chance.random() < 0.6:
            every = reinsert_hunks(left, chosen, verdict)
        else:
            (base, pending), every = after, left
        assert is_exact(base, pending, every)


@given(FILE, FILE, FILE, st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_comparing_anew_is_exact_whatever_the_hunks_were_before(base, pending, later, chance):
    every = compute_hunks(base, pending)
    if every and chance.random() < 0.7:
        every = cut(base, pending, every, chance)
    assert is_exact(base, later, compute_hunks(base, later, every))
    assert is_exact(later, pending, compute_hunks(later, pending, every))


def test_a_gap_that_is_gone_keeps_no_hunks_apart():
    base = b"x\nx\ny\ny\n\n\nx\n"
    before = compute_hunks(base, b"y\n")
    assert is_exact(base, b"z\n", compute_hunks(base, b"z\n", before))


@given(FILE, FILE, FILE, st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_an_edited_hunk_leaves_the_others_as_they_are(base, pending, text, chance):
    every = compute_hunks(base, pending)
    if not every:
        return
    hunk = chance.choice(every)
    whole = split_lines(pending)
    lines = [line for line in split_lines(text) if line.endswith(b"\n")]
    whole[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_lines] = lines
    if split_lines(b"".join(whole)) != whole:
        return
    old = split_lines(base)[hunk.old_start - 1 :][: hunk.old_lines]
    now = replace_hunk(every, hunk, find_regions(old, lines), old, lines)
    assert is_exact(base, b"".join(whole), now)
    assert {each.id for each in every} - {hunk.id} <= {each.id for each in now}


def proposal(desk: Desk, base: bytes = TEN, pending: bytes = TEN + BLOCK) -> str:
    desk.put("a", base)
    desk.shadow.write("a", pending, Origin(turn="t", todo="d", tool="write"))
    return desk.ids("a")[0]


def test_a_hunk_is_split_in_the_middle_and_each_part_is_accepted_by_itself(desk):
    desk.shadow.hunk_edits.split("a", proposal(desk))
    first, second = desk.ids("a")
    desk.shadow.resolve("a", (second,))
    assert desk.disk("a") == TEN + b"new 3\nnew 4\nnew 5\n"
    desk.shadow.undo()
    assert (desk.disk("a"), desk.ids("a")) == (TEN, [first, second])
    desk.shadow.resolve("a", (first,), "reject")
    assert desk.shadow.read("a") == TEN + b"new 3\nnew 4\nnew 5\n"


def test_a_hunk_is_split_at_the_line_that_is_named(desk):
    change = desk.shadow.hunk_edits.split("a", proposal(desk), 5)
    assert [each.new_lines for each in change.hunks] == [4, 2]


def test_a_hunk_falls_apart_at_its_unchanged_lines_first(desk):
    old = b"".join(b"old(%d) {\n" % number for number in range(20)) + b"\n"
    old += b"".join(b"was(%d) {\n" % number for number in range(20)) + b"tail\n"
    only = proposal(desk, old, old.replace(b"old", b"new").replace(b"was", b"is"))
    assert len(desk.ids("a")) == 1
    change = desk.shadow.hunk_edits.split("a", only)
    assert [each.old_lines for each in change.hunks] == [20, 20]
    desk.shadow.write("a", desk.shadow.read("a") + b"more\n")
    assert desk.ids("a")[:-1] == [each.id for each in change.hunks]


@pytest.mark.parametrize("line", [1, 7, -1])
def test_a_line_outside_of_the_hunk_is_refused(desk, line):
    with pytest.raises(CommandRejected, match="a hunk of 6 lines"):
        desk.shadow.hunk_edits.split("a", proposal(desk), line)


def test_what_can_not_be_divided_says_so(desk):
    with pytest.raises(CommandRejected, match="can't be split"):
        desk.shadow.hunk_edits.split("a", proposal(desk, b"one\n", b"two\n"))
    desk.shadow.write("b", b"\0\1")
    with pytest.raises(CommandRejected, match="can't be split"):
        desk.shadow.hunk_edits.split("b", desk.ids("b")[0])
    with pytest.raises(CommandRejected, match="no pending hunk"):
        desk.shadow.hunk_edits.split("a", "nothing")
    with pytest.raises(CommandRejected, match="Nothing is pending"):
        desk.shadow.hunk_edits.split("zzz", "nothing")


def test_a_split_outlives_an_edit_of_the_agent_elsewhere(desk):
    desk.shadow.hunk_edits.split("a", proposal(desk))
    before = desk.ids("a")
    desk.shadow.write("a", edited(TEN, 3) + BLOCK)
    assert desk.ids("a")[1:] == before
    assert apply_hunks(TEN, edited(TEN, 3) + BLOCK, ()) == TEN


def test_an_edit_changes_the_pending_bytes_only_and_is_marked_as_the_users(desk):
    hunk = proposal(desk)
    desk.emit(CheckRecorded(check=Check(call="c", command="pytest", exit_code=0)))
    change = desk.shadow.hunk_edits.edit("a", hunk, "mine\n")
    assert (desk.shadow.read("a"), desk.disk("a")) == (TEN + b"mine\n", TEN)
    assert (change.origin, change.check) == (Origin(turn="t", todo="d", tool="you", over="write"), None)
    assert isinstance(desk.events[-1], HunkEdited)
    assert desk.events[-1].excerpt == "+mine"
    desk.shadow.resolve("a")
    assert desk.disk("a") == TEN + b"mine\n"


def test_an_edit_back_to_the_base_leaves_nothing_pending(desk):
    hunk = proposal(desk, TEN, edited(TEN, 4))
    desk.shadow.hunk_edits.edit("a", hunk, "line 4\n")
    assert desk.state.changes == {}
    assert isinstance(desk.events[-2], ChangeResolved)


def test_p8_an_edit_keeps_the_line_endings_of_the_file_and_the_bytes_of_other_lines(desk):
    base = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    hunk = proposal(desk, base, b"\xef\xbb\xbfONE\r\n\xff\xfe!\r\nthree\r\n")
    text, _ = desk.shadow.hunk_edits.read_text("a", hunk)
    assert text == "ONE\nÿþ!\n"
    desk.shadow.hunk_edits.edit("a", hunk, text.replace("ONE", "1\n1½"))
    assert desk.shadow.read("a") == b"\xef\xbb\xbf1\r\n1\xc2\xbd\r\n\xff\xfe!\r\nthree\r\n"


def test_only_the_last_line_of_a_file_may_be_without_newline(desk):
    hunk = proposal(desk, TEN, edited(TEN, 4))
    desk.shadow.hunk_edits.edit("a", hunk, "four")
    assert desk.shadow.read("a") == TEN.replace(b"line 4\n", b"four\n")
    desk.shadow.write("b", b"x\n")
    desk.shadow.hunk_edits.edit("b", desk.ids("b")[0], "y")
    assert desk.shadow.read("b") == b"y"


def test_utf_16_is_edited_in_its_own_encoding(desk):
    base = "eins\r\nzwei\r\n".encode("utf-16")
    hunk = proposal(desk, base, "EINS\r\nzwei\r\n".encode("utf-16"))
    desk.shadow.hunk_edits.edit("a", hunk, "äh\nso\n")
    assert desk.shadow.read("a") == "äh\r\nso\r\nzwei\r\n".encode("utf-16")


def test_a_deletion_and_an_empty_new_file_can_be_edited_and_a_binary_can_not(desk):
    desk.put("a", b"one\ntwo\n")
    desk.shadow.delete("a")
    desk.shadow.hunk_edits.edit("a", desk.ids("a")[0], "one\n")
    assert desk.shadow.read("a") == b"one\n"
    assert desk.state.changes["a"].operation == "edit"
    desk.shadow.write("new", b"")
    desk.shadow.hunk_edits.edit("new", desk.ids("new")[0], "text\n")
    desk.shadow.write("bin", b"\0")
    with pytest.raises(CommandRejected, match="binary file"):
        desk.shadow.hunk_edits.edit("bin", desk.ids("bin")[0], "text")
    desk.shadow.resolve("")
    assert desk.files() == {"a": b"one\n", "new": b"text\n", "bin": b"\0"}


def test_comments_are_state_and_are_replaced_and_removed(desk):
    hunk = proposal(desk, TEN, edited(TEN, 4))
    desk.shadow.hunk_edits.comment("a", hunk, "why?")
    (comment,) = desk.state.comments.values()
    assert (comment.start, comment.lines, comment.excerpt) == (4, 1, "-line 4\n+new 4")
    desk.shadow.hunk_edits.comment("a", hunk, "because?")
    assert [each.text for each in desk.state.comments.values()] == ["because?"]
    desk.shadow.resolve("a")
    desk.shadow.hunk_edits.comment("a", hunk, "")
    assert desk.state.comments == {}
    with pytest.raises(CommandRejected, match="no comment"):
        desk.shadow.hunk_edits.comment("a", hunk, " ")


def test_a_comment_stays_with_what_became_of_its_hunk(desk):
    hunk = proposal(desk)
    desk.shadow.hunk_edits.comment("a", hunk, "why?")
    desk.shadow.hunk_edits.split("a", hunk)
    first, _ = desk.ids("a")
    assert [(each.hunk, each.lines) for each in desk.state.comments.values()] == [(first, 3)]
    desk.shadow.hunk_edits.edit("a", first, "mine\n")
    (comment,) = desk.state.comments.values()
    assert (comment.hunk, comment.excerpt, comment.text) == (desk.ids("a")[0], "+mine", "why?")


@given(st.integers())
@settings(max_examples=25, deadline=None)
def test_any_order_of_splits_edits_verdicts_and_undos_ends_at_what_was_shown(seed):
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        desk = Desk(Path(place))
        desk.put("a", TEN)
        desk.shadow.write("a", edited(TEN, 2, 5, 8) + BLOCK)
        for _ in range(12):
            one_step(desk, chance)
            base = desk.disk("a")
            change = desk.state.changes.get("a")
            pending = desk.shadow.read("a")
            if change is not None:
                assert is_exact(base, pending, change.hunks)
        if "a" in desk.state.changes:
            ending = chance.choice(["accept", "reject"])
            wanted = desk.shadow.read("a") if ending == "accept" else desk.disk("a")
            desk.shadow.resolve("a", (), ending)
            assert desk.disk("a") == desk.shadow.read("a") == wanted


def one_step(desk: Desk, chance: random.Random) -> None:
    ids = desk.ids("a")
    try:
        match chance.choice(["split", "edit", "accept", "reject", "undo", "agent"]):
            case "undo":
                desk.shadow.undo()
            case "agent":
                lines = split_lines(desk.shadow.read("a"))
                lines.insert(chance.randint(0, len(lines)), b"agent %d\n" % chance.randint(0, 3))
                desk.shadow.write("a", b"".join(lines))
            case "split" if ids:
                desk.shadow.hunk_edits.split("a", chance.choice(ids))
            case "edit" if ids:
                text = "".join(f"mine {chance.randint(0, 3)}\n" for _ in range(chance.randint(0, 4)))
                desk.shadow.hunk_edits.edit("a", chance.choice(ids), text)
            case "accept" | "reject" as verdict if ids:
                desk.shadow.resolve("a", (chance.choice(ids),), verdict)
    except (CommandRejected, ReviewConflict):
        pass  # nothing to split, nothing to undo, or another edit in the same place: refused, with no effect


def test_what_came_from_a_command_is_known_beside_the_users_edit_and_after_it_is_rejected_or_undone(desk):
    origin = Origin(turn="t", call="c", tool="run_terminal_cmd", command="make")
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 3) + BLOCK, origin)
    first, last = desk.ids("a")[0], desk.ids("a")[-1]
    assert first != last
    edited_one = desk.shadow.hunk_edits.edit("a", last, "mine\n")
    assert edited_one.origin == Origin(turn="t", call="c", tool="you", command="make", over="run_terminal_cmd")
    assert [each.yours for each in edited_one.hunks] == [False, True]
    desk.shadow.resolve("a", (edited_one.hunks[-1].id,), "reject", "")
    assert desk.shadow.state.changes["a"].origin == origin
    desk.shadow.undo("")
    assert [each.yours for each in desk.shadow.state.changes["a"].hunks] == [False, True]
    assert desk.shadow.state.changes["a"].origin == edited_one.origin
    desk.shadow.resolve("a", (), "accept", "")
    assert "a" not in desk.shadow.state.changes
    desk.shadow.undo("")
    assert desk.shadow.state.changes["a"].origin.command == "make"
