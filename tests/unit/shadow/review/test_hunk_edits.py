"""Whatever is split, edited, judged and taken back, in any order: all hunks give the pending bytes, none the base."""

from __future__ import annotations

import random
import stat
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import CommandRejected, ReviewConflict
from core.notebooks.editing import delete_cell, replace_source
from core.notebooks.notebook import parse_notebook
from core.protocol.events import ChangeResolved, CheckRecorded, HunkEdited
from core.protocol.review import Check, Origin
from core.shadow.diff.alignment import find_pieces, find_regions
from core.shadow.diff.hunks import (
    compute_hunks,
    halve_hunk,
    reinsert_hunks,
    remove_hunks,
    replace_hunk,
    select_hunks,
)
from core.shadow.diff.text_lines import split_lines
from tests.support.notebook_files import read_notebook, validate
from tests.support.verdicts import accept_everything
from tests.unit.shadow.diff.test_hunks import FILE, apply_hunks
from tests.unit.shadow.review_case import ReviewCase
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
        and len({hunk.id for hunk in every}) == len(every)
        and all(one.old_start + one.old_lines <= other.old_start for one, other in pairwise(every))
        and all(one.new_start + one.new_lines <= other.new_start for one, other in pairwise(every))
        and all(hunk.old_lines or hunk.new_lines for hunk in every)
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
        chosen = [hunk for hunk in every if chance.random() < 0.4]
        left = remove_hunks(every, {hunk.id for hunk in chosen}, verdict)
        applied_hunks = chosen if verdict == "accept" else [hunk for hunk in every if hunk not in chosen]
        middle = select_hunks(base, pending, applied_hunks)
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
    assert {other_hunk.id for other_hunk in every} - {hunk.id} <= {other_hunk.id for other_hunk in now}


def proposal(review: ReviewCase, base: bytes = TEN, pending: bytes = TEN + BLOCK) -> str:
    review.put("a", base)
    review.shadow.write("a", pending, Origin(turn="t", todo="d", tool="write"))
    return review.ids("a")[0]


def test_a_hunk_is_split_in_the_middle_and_each_part_is_accepted_by_itself(review):
    review.shadow.hunk_edits.split("a", proposal(review))
    first, second = review.ids("a")
    review.shadow.resolve("a", (second,))
    assert review.disk("a") == TEN + b"new 3\nnew 4\nnew 5\n"
    review.shadow.undo()
    assert (review.disk("a"), review.ids("a")) == (TEN, [first, second])
    review.shadow.resolve("a", (first,), "reject")
    assert review.shadow.read("a") == TEN + b"new 3\nnew 4\nnew 5\n"


def test_p6_a_part_of_a_new_file_is_written_with_the_mode_of_the_whole(review):
    review.shadow.write("new", TEN, None, 0o755)
    review.shadow.hunk_edits.split("new", review.ids("new")[0], 5)
    review.shadow.resolve("new", (review.ids("new")[0],))
    assert review.disk("new") == b"".join(TEN.splitlines(keepends=True)[:4])
    assert stat.S_IMODE((review.root / "new").stat().st_mode) == 0o755
    (rest,) = review.state.changes["new"].hunks
    assert (rest.new_lines, review.state.changes["new"].base.mode) == (6, 0o755)


def test_p6_a_part_of_a_deletion_leaves_the_file_its_mode(review):
    review.put("gone", TEN, 0o755)
    review.shadow.delete("gone")
    review.shadow.hunk_edits.split("gone", review.ids("gone")[0], 5)
    review.shadow.resolve("gone", (review.ids("gone")[0],), "reject")
    review.shadow.resolve("gone")
    assert review.disk("gone") == b"".join(TEN.splitlines(keepends=True)[:4])
    assert stat.S_IMODE((review.root / "gone").stat().st_mode) == 0o755


def test_a_hunk_is_split_at_the_line_that_is_named(review):
    change = review.shadow.hunk_edits.split("a", proposal(review), 5)
    assert [hunk.new_lines for hunk in change.hunks] == [4, 2]


def test_a_hunk_falls_apart_at_its_unchanged_lines_first(review):
    old = b"".join(b"old(%d) {\n" % number for number in range(20)) + b"\n"
    old += b"".join(b"was(%d) {\n" % number for number in range(20)) + b"tail\n"
    only = proposal(review, old, old.replace(b"old", b"new").replace(b"was", b"is"))
    assert len(review.ids("a")) == 1
    change = review.shadow.hunk_edits.split("a", only)
    assert [hunk.old_lines for hunk in change.hunks] == [20, 20]
    review.shadow.write("a", review.shadow.read("a") + b"more\n")
    assert review.ids("a")[:-1] == [hunk.id for hunk in change.hunks]


@pytest.mark.parametrize("line", [1, 7, -1])
def test_a_line_outside_of_the_hunk_is_refused(review, line):
    with pytest.raises(CommandRejected, match="a hunk of 6 lines"):
        review.shadow.hunk_edits.split("a", proposal(review), line)


def test_what_can_not_be_divided_says_so(review):
    with pytest.raises(CommandRejected, match="can't be split"):
        review.shadow.hunk_edits.split("a", proposal(review, b"one\n", b"two\n"))
    review.shadow.write("b", b"\0\1")
    with pytest.raises(CommandRejected, match="can't be split"):
        review.shadow.hunk_edits.split("b", review.ids("b")[0])
    with pytest.raises(CommandRejected, match="no pending hunk"):
        review.shadow.hunk_edits.split("a", "nothing")
    with pytest.raises(CommandRejected, match="Nothing is pending"):
        review.shadow.hunk_edits.split("zzz", "nothing")


def test_a_split_outlives_an_edit_of_the_agent_elsewhere(review):
    review.shadow.hunk_edits.split("a", proposal(review))
    before = review.ids("a")
    review.shadow.write("a", edited(TEN, 3) + BLOCK)
    assert review.ids("a")[1:] == before
    assert apply_hunks(TEN, edited(TEN, 3) + BLOCK, ()) == TEN


def test_an_edit_changes_the_pending_bytes_only_and_is_marked_as_the_users(review):
    hunk = proposal(review)
    review.emit(CheckRecorded(check=Check(call="c", command="pytest", exit_code=0)))
    change = review.shadow.hunk_edits.edit("a", hunk, "mine\n")
    assert (review.shadow.read("a"), review.disk("a")) == (TEN + b"mine\n", TEN)
    assert (change.origin, change.check) == (Origin(turn="t", todo="d", tool="you", over="write"), None)
    assert isinstance(review.events[-1], HunkEdited)
    assert review.events[-1].excerpt == "+mine"
    review.shadow.resolve("a")
    assert review.disk("a") == TEN + b"mine\n"


def test_an_edit_back_to_the_base_leaves_nothing_pending(review):
    hunk = proposal(review, TEN, edited(TEN, 4))
    review.shadow.hunk_edits.edit("a", hunk, "line 4\n")
    assert review.state.changes == {}
    assert isinstance(review.events[-2], ChangeResolved)


def test_p8_an_edit_keeps_the_line_endings_of_the_file_and_the_bytes_of_other_lines(review):
    base = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    hunk = proposal(review, base, b"\xef\xbb\xbfONE\r\n\xff\xfe!\r\nthree\r\n")
    text = review.shadow.hunk_edits.read_text("a", hunk).text
    assert text == "ONE\nÿþ!\n"
    review.shadow.hunk_edits.edit("a", hunk, text.replace("ONE", "1\n1½"))
    assert review.shadow.read("a") == b"\xef\xbb\xbf1\r\n1\xc2\xbd\r\n\xff\xfe!\r\nthree\r\n"


def test_only_the_last_line_of_a_file_may_be_without_newline(review):
    hunk = proposal(review, TEN, edited(TEN, 4))
    review.shadow.hunk_edits.edit("a", hunk, "four")
    assert review.shadow.read("a") == TEN.replace(b"line 4\n", b"four\n")
    review.shadow.write("b", b"x\n")
    review.shadow.hunk_edits.edit("b", review.ids("b")[0], "y")
    assert review.shadow.read("b") == b"y"


def test_utf_16_is_edited_in_its_own_encoding(review):
    base = "eins\r\nzwei\r\n".encode("utf-16")
    hunk = proposal(review, base, "EINS\r\nzwei\r\n".encode("utf-16"))
    review.shadow.hunk_edits.edit("a", hunk, "äh\nso\n")
    assert review.shadow.read("a") == "äh\r\nso\r\nzwei\r\n".encode("utf-16")


def test_a_deletion_and_an_empty_new_file_can_be_edited_and_a_binary_can_not(review):
    review.put("a", b"one\ntwo\n")
    review.shadow.delete("a")
    review.shadow.hunk_edits.edit("a", review.ids("a")[0], "one\n")
    assert review.shadow.read("a") == b"one\n"
    assert review.state.changes["a"].operation == "edit"
    review.shadow.write("new", b"")
    review.shadow.hunk_edits.edit("new", review.ids("new")[0], "text\n")
    review.shadow.write("bin", b"\0")
    with pytest.raises(CommandRejected, match="binary file"):
        review.shadow.hunk_edits.edit("bin", review.ids("bin")[0], "text")
    accept_everything(review.shadow)
    assert review.files() == {"a": b"one\n", "new": b"text\n", "bin": b"\0"}


def test_comments_are_state_and_are_replaced_and_removed(review):
    hunk = proposal(review, TEN, edited(TEN, 4))
    review.shadow.hunk_edits.comment("a", hunk, "why?")
    (comment,) = review.state.comments.values()
    assert (comment.start, comment.lines, comment.excerpt) == (4, 1, "-line 4\n+new 4")
    review.shadow.hunk_edits.comment("a", hunk, "because?")
    assert [stored_comment.text for stored_comment in review.state.comments.values()] == ["because?"]
    review.shadow.hunk_edits.comment("a", hunk, "")
    assert review.state.comments == {}
    with pytest.raises(CommandRejected, match="no comment"):
        review.shadow.hunk_edits.comment("a", hunk, " ")


def test_a_comment_stays_with_what_became_of_its_hunk(review):
    hunk = proposal(review)
    review.shadow.hunk_edits.comment("a", hunk, "why?")
    review.shadow.hunk_edits.split("a", hunk)
    first, _ = review.ids("a")
    assert [(stored_comment.hunk, stored_comment.lines) for stored_comment in review.state.comments.values()] == [
        (first, 3)
    ]
    review.shadow.hunk_edits.edit("a", first, "mine\n")
    (comment,) = review.state.comments.values()
    assert (comment.hunk, comment.excerpt, comment.text) == (review.ids("a")[0], "+mine", "why?")


@given(st.integers())
@settings(max_examples=25, deadline=None)
def test_any_order_of_splits_edits_verdicts_and_undos_ends_at_what_was_shown(seed):
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        review = ReviewCase(Path(place))
        review.put("a", TEN)
        review.shadow.write("a", edited(TEN, 2, 5, 8) + BLOCK)
        for _ in range(12):
            one_step(review, chance)
            base = review.disk("a")
            change = review.state.changes.get("a")
            pending = review.shadow.read("a")
            if change is not None:
                assert is_exact(base, pending, change.hunks)
        if "a" in review.state.changes:
            ending = chance.choice(["accept", "reject"])
            expected_content = review.shadow.read("a") if ending == "accept" else review.disk("a")
            review.shadow.resolve("a", (), ending)
            assert review.disk("a") == review.shadow.read("a") == expected_content


def one_step(review: ReviewCase, chance: random.Random) -> None:
    ids = review.ids("a")
    try:
        match chance.choice(["split", "join", "edit", "accept", "reject", "undo", "agent"]):
            case "undo":
                review.shadow.undo()
            case "agent":
                lines = split_lines(review.shadow.read("a"))
                lines.insert(chance.randint(0, len(lines)), b"agent %d\n" % chance.randint(0, 3))
                review.shadow.write("a", b"".join(lines))
            case "split" if ids:
                review.shadow.hunk_edits.split("a", chance.choice(ids))
            case "join" if ids:
                review.shadow.hunk_edits.join("a", chance.choice(ids))
            case "edit" if ids:
                text = "".join(f"mine {chance.randint(0, 3)}\n" for _ in range(chance.randint(0, 4)))
                review.shadow.hunk_edits.edit("a", chance.choice(ids), text)
            case "accept" | "reject" as verdict if ids:
                review.shadow.resolve("a", (chance.choice(ids),), verdict)
    except (CommandRejected, ReviewConflict):
        pass  # nothing to split, nothing to undo, or another edit in the same place: refused, with no effect


def test_what_came_from_a_command_is_known_beside_the_users_edit_and_after_it_is_rejected_or_undone(review):
    origin = Origin(turn="t", call="c", tool="run_terminal_cmd", command="make")
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 3) + BLOCK, origin)
    first, last = review.ids("a")[0], review.ids("a")[-1]
    assert first != last
    edited_one = review.shadow.hunk_edits.edit("a", last, "mine\n")
    assert edited_one.origin == Origin(turn="t", call="c", tool="you", command="make", over="run_terminal_cmd")
    assert [hunk.yours for hunk in edited_one.hunks] == [False, True]
    review.shadow.resolve("a", (edited_one.hunks[-1].id,), "reject", "")
    assert review.shadow.state.changes["a"].origin == origin
    review.shadow.undo("")
    assert [hunk.yours for hunk in review.shadow.state.changes["a"].hunks] == [False, True]
    assert review.shadow.state.changes["a"].origin == edited_one.origin
    review.shadow.resolve("a", (), "accept", "")
    assert "a" not in review.shadow.state.changes
    review.shadow.undo("")
    assert review.shadow.state.changes["a"].origin.command == "make"


def test_a_cell_of_a_notebook_is_not_split_and_its_source_is_what_is_edited(tmp_path):
    base = read_notebook("nbformat_4_5")
    review = ReviewCase(tmp_path)
    review.put("n.ipynb", base)
    notebook = parse_notebook("n.ipynb", base)
    review.shadow.write("n.ipynb", replace_source(notebook, notebook.cells[0], "# One\n\ntwo"))
    [hunk] = review.state.changes["n.ipynb"].hunks
    with pytest.raises(CommandRejected, match="accepted or rejected as a whole"):
        review.shadow.hunk_edits.split("n.ipynb", hunk.id)
    hunk_text = review.shadow.hunk_edits.read_text("n.ipynb", hunk.id)
    assert (hunk_text.text, hunk_text.start, hunk_text.language) == ("# One\n\ntwo", 1, "markdown")
    change = review.shadow.hunk_edits.edit("n.ipynb", hunk.id, '# Mine\n\n"two"')
    [mine] = change.hunks
    assert mine.yours
    pending = review.shadow.read("n.ipynb")
    assert parse_notebook("n.ipynb", pending).cells[0].source == '# Mine\n\n"two"'
    assert validate(pending)["cells"][1:] == validate(base)["cells"][1:]


def test_a_cell_that_is_gone_has_nothing_to_edit(tmp_path):
    base = read_notebook("nbformat_4_5")
    review = ReviewCase(tmp_path)
    review.put("n.ipynb", base)
    notebook = parse_notebook("n.ipynb", base)
    review.shadow.write("n.ipynb", delete_cell(notebook, notebook.cells[0]))
    [hunk] = review.state.changes["n.ipynb"].hunks
    with pytest.raises(CommandRejected, match="not one notebook cell"):
        review.shadow.hunk_edits.read_text("n.ipynb", hunk.id)


def test_a_text_in_an_encoding_of_its_own_is_shown_and_edited_in_it(review):
    base = "名称=测试\n端口=80\n".encode("gbk")
    hunk = proposal(review, base, "名称=测试\n端口=90\n".encode("gbk"))
    assert review.shadow.hunk_edits.read_text("a", hunk).text == "端口=90\n"
    review.shadow.hunk_edits.edit("a", hunk, "端口=91\n超时=30\n")
    assert review.shadow.read("a") == "名称=测试\n端口=91\n超时=30\n".encode("gbk")
    with pytest.raises(CommandRejected, match="GBK"):
        review.shadow.hunk_edits.edit("a", review.ids("a")[0], "端口=😀\n")


def test_no_second_encoding_is_brought_into_a_file_whose_own_can_not_be_told(review):
    hunk = proposal(review, b"x \xff\xfe\x80\x81\ny\n", b"x \xff\xfe\x80\x81\nz\n")
    with pytest.raises(CommandRejected, match="½"):
        review.shadow.hunk_edits.edit("a", hunk, "½\n")
    review.shadow.hunk_edits.edit("a", hunk, "w\n")
    assert review.shadow.read("a") == b"x \xff\xfe\x80\x81\nw\n"
