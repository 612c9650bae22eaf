"""A conflict is three sides; what the user chooses becomes a pending change over the file as it is on disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CommandRejected, ReviewConflict
from core.protocol.review import Choice
from core.shadow.hunks import split_lines
from core.shadow.merge import merge3, mergeable, stretches
from tests.unit.shadow.desk import Desk
from tests.unit.shadow.test_hunks import FILE
from tests.unit.shadow.test_view import TEN, edited

MINE, THEIRS, BOTH = Choice(take="mine"), Choice(take="theirs"), Choice(take="both")


def clash(desk: Desk, mine: bytes, theirs: bytes, base: bytes = TEN) -> None:
    desk.put("a", base)
    desk.shadow.write("a", theirs)
    desk.put("a", mine)
    desk.shadow.check_disk("a")


def two_clashes(desk: Desk) -> bytes:
    mine = TEN.replace(b"line 2\n", b"mine 2\n").replace(b"line 8\n", b"mine 8\n")
    clash(desk, mine, edited(TEN, 2, 5, 8))
    return mine


def test_the_three_sides_of_each_place_are_told_with_the_lines_above(desk):
    two_clashes(desk)
    sides = desk.shadow.conflicts.sides("a")
    first, second = sides.clashes
    assert (first.start, first.base, first.mine, first.theirs) == (2, ("line 2",), ("mine 2",), ("new 2",))
    assert (second.start, second.before) == (8, ("new 5", "line 6", "line 7"))
    assert (sides.whole, sides.problem) == (False, "")
    assert desk.shadow.conflicts.sides("nothing") is None


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ((MINE, THEIRS), TEN.replace(b"line 2", b"mine 2").replace(b"line 5", b"new 5").replace(b"line 8", b"new 8")),
        (
            (BOTH, Choice(take="text", text="own 8\nand more\n")),
            TEN.replace(b"line 2\n", b"mine 2\nnew 2\n")
            .replace(b"line 5", b"new 5")
            .replace(b"line 8\n", b"own 8\nand more\n"),
        ),
        (
            (THEIRS, Choice(take="text")),
            TEN.replace(b"line 2", b"new 2").replace(b"line 5", b"new 5").replace(b"line 8\n", b""),
        ),
    ],
)
def test_what_is_chosen_waits_over_the_file_as_it_is_and_can_be_accepted(desk, choices, expected):
    mine = two_clashes(desk)
    change = desk.shadow.conflicts.settle("a", choices)
    assert (change.conflict, desk.disk("a"), desk.shadow.read("a")) == ("", mine, expected)
    desk.shadow.resolve("a")
    assert desk.disk("a") == expected
    desk.shadow.undo()
    assert desk.disk("a") == mine


def test_p14_a_file_that_moves_on_after_settling_is_in_conflict_again(desk):
    two_clashes(desk)
    desk.shadow.conflicts.settle("a", (THEIRS, THEIRS))
    desk.put("a", edited(TEN, 2, 8).replace(b"new", b"later"))
    with pytest.raises(ReviewConflict):
        desk.shadow.resolve("a")
    assert desk.disk("a") == edited(TEN, 2, 8).replace(b"new", b"later")


def test_p14_sides_that_are_no_longer_what_was_shown_are_not_settled(desk):
    two_clashes(desk)
    shown = desk.shadow.conflicts.sides("a")
    desk.put("a", b"other\n")
    with pytest.raises(CommandRejected, match="moved on"):
        desk.shadow.conflicts.settle("a", (MINE, MINE), shown.mine.blob, shown.theirs.blob)
    desk.put("a", two_clashes(desk))
    with pytest.raises(CommandRejected, match="2 places"):
        desk.shadow.conflicts.settle("a", (MINE,))


def test_keeping_ones_own_everywhere_still_takes_what_did_not_clash(desk):
    mine = two_clashes(desk)
    desk.shadow.conflicts.settle("a", (MINE, MINE))
    assert desk.shadow.read("a") == mine.replace(b"line 5", b"new 5")


def test_p15_a_file_that_is_gone_is_decided_as_a_whole(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 2))
    (desk.root / "a").unlink()
    desk.shadow.check_disk("a")
    sides = desk.shadow.conflicts.sides("a")
    assert (sides.whole, sides.mine.kind, sides.clashes[0].mine) == (True, "absent", ("(no such file)",))
    with pytest.raises(CommandRejected, match="only be taken whole"):
        desk.shadow.conflicts.settle("a", (BOTH,))
    change = desk.shadow.conflicts.settle("a", (THEIRS,))
    assert (change.operation, desk.disk("a")) == ("create", None)
    desk.shadow.resolve("a")
    assert desk.disk("a") == edited(TEN, 2)


def test_p15_keeping_the_users_deletion_or_link_settles_the_change(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 2))
    (desk.root / "a").unlink()
    (desk.root / "a").symlink_to("elsewhere")
    desk.shadow.check_disk("a")
    assert desk.shadow.conflicts.sides("a").clashes[0].mine == ("(symbolic link to elsewhere)",)
    assert desk.shadow.conflicts.settle("a", (MINE,)) is None
    assert desk.state.changes == {}
    assert str((desk.root / "a").readlink()) == "elsewhere"


def test_p13_binaries_are_told_apart_by_size(desk):
    clash(desk, b"\0mine", b"\0their file", b"\0")
    (only,) = desk.shadow.conflicts.sides("a").clashes
    assert (only.mine, only.theirs) == (("(binary file of 5 bytes)",), ("(binary file of 11 bytes)",))
    desk.shadow.conflicts.settle("a", (THEIRS,))
    assert desk.shadow.read("a") == b"\0their file"


def test_a_directory_in_the_place_of_the_file_says_so(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 2))
    (desk.root / "a").unlink()
    (desk.root / "a").mkdir()
    desk.shadow.check_disk("a")
    assert "directory" in desk.shadow.conflicts.sides("a").problem


def test_crlf_and_a_missing_last_newline_survive_a_choice(desk):
    clash(desk, b"one\r\nmine", b"one\r\ntheirs", b"one\r\ntwo")
    desk.shadow.conflicts.settle("a", (BOTH,))
    assert desk.shadow.read("a") == b"one\r\nmine\r\ntheirs"
    assert desk.state.changes["a"].conflict == ""


def test_nothing_is_settled_where_there_is_no_conflict(desk):
    desk.put("a", TEN)
    desk.shadow.write("a", edited(TEN, 2))
    assert desk.shadow.conflicts.sides("a") is None
    with pytest.raises(CommandRejected, match="no conflict"):
        desk.shadow.conflicts.settle("a", (MINE,))


@given(FILE, FILE, FILE, st.booleans())
def test_stretches_of_one_side_give_that_sides_bytes_where_only_it_changed(base, mine, theirs, both):
    found = stretches(split_lines(base), split_lines(mine), split_lines(base) if both else split_lines(theirs))
    assert [each.start for each in found[1:]] == [each.end for each in found[:-1]]
    if both:
        assert b"".join(line for each in found for line in each.mine) == mine
        assert not any(each.clashes for each in found)
    elif mergeable(base, mine, theirs) and not any(each.clashes for each in found):
        assert merge3(base, mine, theirs) == b"".join(line for each in found for line in each.mine)
