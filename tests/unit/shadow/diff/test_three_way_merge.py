"""Three-way merge: both sides' edits or a plain no."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.shadow.diff.three_way_merge import merge_three_way

FILE = st.builds(
    lambda lines, last: b"".join(lines) + last,
    st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n"]), max_size=12),
    st.sampled_from([b"", b"end"]),
)


@given(FILE, FILE)
def test_a_side_that_did_nothing_leaves_the_other_one(base, side):
    assert merge_three_way(base, base, side) == side
    assert merge_three_way(base, side, base) == side
    assert merge_three_way(base, side, side) == side


@given(FILE, FILE, FILE)
def test_it_does_not_matter_which_side_is_ours_unless_it_is_preferred(base, ours, theirs):
    assert merge_three_way(base, ours, theirs) == merge_three_way(base, theirs, ours)
    assert merge_three_way(base, ours, theirs, prefer_ours=True) is not None


@given(st.lists(st.integers(0, 59), max_size=9), st.lists(st.integers(0, 59), max_size=9))
def test_edits_of_lines_that_do_not_touch_are_all_taken(ours, theirs):
    lines = [b"line %d\n" % number for number in range(60)]
    mine, yours = {n for n in ours if n % 4 == 0}, {n for n in theirs if n % 4 == 2}

    def edited(*places: int) -> bytes:
        return b"".join(b"new %d\n" % n if n in places else line for n, line in enumerate(lines))

    assert merge_three_way(b"".join(lines), edited(*mine), edited(*yours)) == edited(*mine, *yours)


def test_edits_of_the_same_or_of_touching_lines_are_refused():
    assert merge_three_way(b"a\nb\nc\n", b"a\nX\nc\n", b"a\nY\nc\n") is None
    assert merge_three_way(b"a\nb\nc\n", b"a\nX\nc\n", b"a\nb\nY\n") is None
    assert merge_three_way(b"a\nb\n", b"a\nX\nb\n", b"a\nY\nb\n") is None


def test_the_preferred_side_wins_only_where_both_touch():
    base = b"".join(b"%d\n" % n for n in range(9))
    ours, theirs = base.replace(b"2\n", b"mine\n"), base.replace(b"2\n", b"yours\n").replace(b"7\n", b"seven\n")
    assert merge_three_way(base, ours, theirs, prefer_ours=True) == base.replace(b"2\n", b"mine\n").replace(
        b"7\n", b"seven\n"
    )


def test_binary_files_are_not_merged():
    assert merge_three_way(b"\0a\nb\nc\n", b"\0A\nb\nc\n", b"\0a\nb\nC\n") is None
