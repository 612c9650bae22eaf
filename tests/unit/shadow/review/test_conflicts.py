"""A conflict is three sides; what the user chooses becomes a pending change over the file as it is on disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CommandRejected, ReviewConflict
from core.protocol.review import ConflictChoice
from core.shadow.diff.three_way_merge import is_mergeable, merge_three_way, split_chunks
from tests.unit.shadow.diff.test_hunks import FILE
from tests.unit.shadow.review_case import ReviewCase
from tests.unit.shadow.test_shadow import TEN, edited

MINE, THEIRS, BOTH = ConflictChoice(take="mine"), ConflictChoice(take="theirs"), ConflictChoice(take="both")


def clash(review: ReviewCase, mine: bytes, theirs: bytes, base: bytes = TEN) -> None:
    review.put("a", base)
    review.shadow.write("a", theirs)
    review.put("a", mine)
    review.shadow.check_disk("a")


def two_clashes(review: ReviewCase) -> bytes:
    mine = TEN.replace(b"line 2\n", b"mine 2\n").replace(b"line 8\n", b"mine 8\n")
    clash(review, mine, edited(TEN, 2, 5, 8))
    return mine


def test_the_three_sides_of_each_place_are_told_with_the_lines_above(review):
    two_clashes(review)
    sides = review.shadow.conflicts.read_sides("a")
    first, second = sides.clashes
    assert (first.start, first.base, first.mine, first.theirs) == (2, ("line 2",), ("mine 2",), ("new 2",))
    assert (second.start, second.before) == (8, ("new 5", "line 6", "line 7"))
    assert (sides.whole, sides.problem) == (False, "")
    assert review.shadow.conflicts.read_sides("nothing") is None


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ((MINE, THEIRS), TEN.replace(b"line 2", b"mine 2").replace(b"line 5", b"new 5").replace(b"line 8", b"new 8")),
        (
            (BOTH, ConflictChoice(take="text", text="own 8\nand more\n")),
            TEN.replace(b"line 2\n", b"mine 2\nnew 2\n")
            .replace(b"line 5", b"new 5")
            .replace(b"line 8\n", b"own 8\nand more\n"),
        ),
        (
            (THEIRS, ConflictChoice(take="text")),
            TEN.replace(b"line 2", b"new 2").replace(b"line 5", b"new 5").replace(b"line 8\n", b""),
        ),
    ],
)
def test_what_is_chosen_waits_over_the_file_as_it_is_and_can_be_accepted(review, choices, expected):
    mine = two_clashes(review)
    change = review.shadow.conflicts.resolve("a", choices)
    assert (change.conflict, review.disk("a"), review.shadow.read("a")) == ("", mine, expected)
    review.shadow.resolve("a")
    assert review.disk("a") == expected
    review.shadow.undo()
    assert review.disk("a") == mine


def test_p14_a_file_that_moves_on_after_settling_is_in_conflict_again(review):
    two_clashes(review)
    review.shadow.conflicts.resolve("a", (THEIRS, THEIRS))
    review.put("a", edited(TEN, 2, 8).replace(b"new", b"later"))
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    assert review.disk("a") == edited(TEN, 2, 8).replace(b"new", b"later")


@pytest.mark.parametrize("changed", ["our_blob", "their_blob"])
def test_p14_choices_about_another_version_of_either_side_are_refused(review, changed):
    mine = two_clashes(review)
    sides = review.shadow.conflicts.read_sides("a")
    side_blobs = {"our_blob": sides.mine.blob, "their_blob": sides.theirs.blob}
    with pytest.raises(CommandRejected, match="has changed since"):
        review.shadow.conflicts.resolve("a", (THEIRS, THEIRS), **(side_blobs | {changed: "0" * 64}))
    assert review.disk("a") == mine
    assert review.state.changes["a"].conflict
    assert review.shadow.conflicts.resolve("a", (THEIRS, THEIRS), **side_blobs).conflict == ""


def test_p14_sides_that_are_no_longer_what_was_shown_are_not_settled(review):
    two_clashes(review)
    sides = review.shadow.conflicts.read_sides("a")
    review.put("a", b"other\n")
    with pytest.raises(CommandRejected, match="has changed since"):
        review.shadow.conflicts.resolve("a", (MINE, MINE), sides.mine.blob, sides.theirs.blob)
    review.put("a", two_clashes(review))
    with pytest.raises(CommandRejected, match="2 places"):
        review.shadow.conflicts.resolve("a", (MINE,))


def test_keeping_ones_own_everywhere_still_takes_what_did_not_clash(review):
    mine = two_clashes(review)
    review.shadow.conflicts.resolve("a", (MINE, MINE))
    assert review.shadow.read("a") == mine.replace(b"line 5", b"new 5")


def test_p15_a_file_that_is_gone_is_decided_as_a_whole(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 2))
    (review.root / "a").unlink()
    review.shadow.check_disk("a")
    sides = review.shadow.conflicts.read_sides("a")
    assert (sides.whole, sides.mine.kind, sides.clashes[0].mine) == (True, "absent", ("(no such file)",))
    with pytest.raises(CommandRejected, match="only be taken whole"):
        review.shadow.conflicts.resolve("a", (BOTH,))
    change = review.shadow.conflicts.resolve("a", (THEIRS,))
    assert (change.operation, review.disk("a")) == ("create", None)
    review.shadow.resolve("a")
    assert review.disk("a") == edited(TEN, 2)


def test_p15_keeping_the_users_deletion_or_link_settles_the_change(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 2))
    (review.root / "a").unlink()
    (review.root / "a").symlink_to("elsewhere")
    review.shadow.check_disk("a")
    assert review.shadow.conflicts.read_sides("a").clashes[0].mine == ("(symbolic link to elsewhere)",)
    assert review.shadow.conflicts.resolve("a", (MINE,)) is None
    assert review.state.changes == {}
    assert str((review.root / "a").readlink()) == "elsewhere"


def test_p13_binaries_are_told_apart_by_size(review):
    clash(review, b"\0mine", b"\0their file", b"\0")
    (only,) = review.shadow.conflicts.read_sides("a").clashes
    assert (only.mine, only.theirs) == (("(binary file of 5 bytes)",), ("(binary file of 11 bytes)",))
    review.shadow.conflicts.resolve("a", (THEIRS,))
    assert review.shadow.read("a") == b"\0their file"


def test_a_directory_in_the_place_of_the_file_says_so(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 2))
    (review.root / "a").unlink()
    (review.root / "a").mkdir()
    review.shadow.check_disk("a")
    assert "directory" in review.shadow.conflicts.read_sides("a").problem


def test_crlf_and_a_missing_last_newline_survive_a_choice(review):
    clash(review, b"one\r\nmine", b"one\r\ntheirs", b"one\r\ntwo")
    review.shadow.conflicts.resolve("a", (BOTH,))
    assert review.shadow.read("a") == b"one\r\nmine\r\ntheirs"
    assert review.state.changes["a"].conflict == ""


def test_nothing_is_settled_where_there_is_no_conflict(review):
    review.put("a", TEN)
    review.shadow.write("a", edited(TEN, 2))
    assert review.shadow.conflicts.read_sides("a") is None
    with pytest.raises(CommandRejected, match="not in conflict"):
        review.shadow.conflicts.resolve("a", (MINE,))


@given(FILE, FILE, FILE, st.booleans())
def test_stretches_of_one_side_give_that_sides_bytes_where_only_it_changed(base, mine, theirs, both):
    chunks = split_chunks(base, mine, base if both else theirs)
    assert [chunk.start for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
    if both:
        assert b"".join(line for chunk in chunks for line in chunk.mine) == mine
        assert not any(chunk.clashes for chunk in chunks)
    elif is_mergeable(base, mine, theirs) and not any(chunk.clashes for chunk in chunks):
        assert merge_three_way(base, mine, theirs) == b"".join(line for chunk in chunks for line in chunk.mine)


def fifty(*numbers: int, into: bytes = b"new") -> bytes:
    lines = [b"line %d\n" % number for number in range(1, 201)]
    for number in numbers:
        lines[number - 1] = into + b" %d\n" % number
    return b"".join(lines)


PLACES = range(2, 201, 4)


def one_of_fifty_clashes(review: ReviewCase) -> list[str]:
    """Fifty hunks, of which the one at line 98 clashes; the user has also changed line 4. The ids."""
    review.put("a", fifty())
    review.shadow.write("a", fifty(*PLACES))
    review.put("a", fifty(98, into=b"mine").replace(b"line 4\n", b"fourth\n", 1))
    review.shadow.check_disk("a")
    return review.ids("a")


def clashing_ids(review: ReviewCase) -> list[str]:
    return [hunk.id for hunk in review.state.changes["a"].hunks if hunk.clashes]


def test_n16e_one_clash_among_fifty_hunks_is_one_hunk_and_the_others_can_be_accepted(review):
    ids = one_of_fifty_clashes(review)
    assert len(ids) == 50
    assert clashing_ids(review) == [ids[24]]
    for hunk_id in (ids[3], ids[49]):
        review.shadow.resolve("a", (hunk_id,))
    expected_content = fifty(98, into=b"mine").replace(b"line 4\n", b"fourth\n", 1)
    assert review.disk("a") == expected_content.replace(b"line 14\n", b"new 14\n").replace(b"line 198\n", b"new 198\n")
    with pytest.raises(ReviewConflict, match="same place"):
        review.shadow.resolve("a", (ids[24],))
    with pytest.raises(ReviewConflict, match="same place"):
        review.shadow.resolve("a", (ids[5], ids[24]))
    clean = review.state.changes["a"].clean_hunks
    review.shadow.resolve("a", tuple(hunk.id for hunk in clean))
    everything = fifty(*(line_number for line_number in PLACES if line_number != 98)).replace(
        b"line 98\n", b"mine 98\n"
    )
    assert review.disk("a") == everything.replace(b"line 4\n", b"fourth\n", 1)
    assert review.ids("a") == [ids[24]]
    review.shadow.conflicts.resolve("a", (ConflictChoice(take="theirs"),))
    review.shadow.resolve("a")
    assert review.disk("a") == fifty(*PLACES).replace(b"line 4\n", b"fourth\n", 1)


def test_n16a_a_clean_hunk_of_a_file_in_conflict_can_be_taken_back_once_it_is_settled(review):
    ids = one_of_fifty_clashes(review)
    review.shadow.resolve("a", (ids[3],))
    with pytest.raises(ReviewConflict):
        review.shadow.undo()
    review.shadow.conflicts.resolve("a", (ConflictChoice(take="mine"),))
    review.shadow.undo()
    review.shadow.conflicts.resolve("a", (ConflictChoice(take="theirs"),))
    (first, settled) = review.state.verdicts
    review.shadow.undo(first.id)
    assert review.disk("a") == fifty(98, into=b"mine").replace(b"line 4\n", b"fourth\n", 1)
    assert ids[3] in review.ids("a")
    assert settled.settled is not None


def test_n16e_undo_after_settling_opens_that_conflict_again_and_no_other_hunk(review):
    ids = one_of_fifty_clashes(review)
    review.shadow.resolve("a", (ids[0],))
    before, disk = review.state.changes["a"], review.disk("a")
    review.shadow.conflicts.resolve("a", (ConflictChoice(take="mine"),))
    assert review.state.changes["a"].conflict == ""
    review.shadow.undo()
    assert (review.state.changes["a"], review.disk("a")) == (before, disk)
    assert [verdict.hunks[0].id for verdict in review.state.verdicts] == [ids[0]]


def test_n16e_a_settled_conflict_that_was_changed_since_is_not_undone_and_nothing_else_either(review):
    one_of_fifty_clashes(review)
    review.shadow.conflicts.resolve("a", (ConflictChoice(take="theirs"),))
    review.shadow.write("a", fifty(*PLACES, 4))
    pending = review.state.changes["a"]
    with pytest.raises(ReviewConflict, match="conflict was settled"):
        review.shadow.undo()
    assert review.state.changes["a"] == pending


def test_n16a_settling_everything_in_favour_of_the_file_can_be_undone(review):
    review.put("a", b"one\n")
    review.shadow.write("a", b"two\n")
    review.put("a", b"mine\n")
    review.shadow.check_disk("a")
    review.shadow.conflicts.resolve("a", (ConflictChoice(take="mine"),))
    assert review.state.changes == {}
    review.shadow.undo()
    assert review.state.changes["a"].conflict
