from __future__ import annotations

from core.edits.formats.patch import apply_patch
from core.text.lines import Splice, apply_splices


def test_splices_are_made_from_front_to_back_and_those_at_one_place_in_their_order():
    splices = [Splice(4, 5, "E"), Splice(2, 2, "z"), Splice(2, 2, "a"), Splice(0, 1, "")]
    assert apply_splices("abcdefg", splices) == "bzacdEfg"
    assert apply_splices("abcdefg", splices[:3], 2, 6) == "zacdEf"


def test_hunks_of_a_patch_that_only_add_lines_at_the_end_stay_in_their_order():
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n+second\n@@\n+first\n*** End Patch\n"
    assert apply_patch("start\n", patch, "a.txt") == "start\nsecond\nfirst\n"
