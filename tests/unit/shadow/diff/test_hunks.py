"""Hunks are exact, and a hunk that waits stays the same while others come and go."""

from __future__ import annotations

import random
from collections.abc import Collection
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.shadow.diff.alignment import find_regions
from core.shadow.diff.hunks import compute_hunks, reinsert_hunks, remove_hunks, select_hunks
from core.shadow.diff.text_lines import split_lines
from tests.support.work import lines_run

LINE = st.sampled_from([b"a\n", b"b\r\n", b"\n", b"}\n", b"  x\n", b"lone\rcr\n", b"\xfe\x00\xff\n", "é\n".encode()])
LAST = st.sampled_from([b"", b"end", b"a", b"\r"])
FILE = st.builds(lambda lines, last: b"".join(lines) + last, st.lists(LINE, max_size=25), LAST)
WIDE = "".join(f"Zeile {number} \u0a0a\r\n" for number in range(9))


def apply_hunks(base: bytes, pending: bytes, ids: Collection[str]) -> bytes:
    """Return `base` with the named hunks of `compute_hunks(base, pending)` applied."""
    return select_hunks(base, pending, [hunk for hunk in compute_hunks(base, pending) if hunk.id in ids])


@given(FILE | st.binary(max_size=60), FILE | st.binary(max_size=60))
@settings(max_examples=400)
def test_all_hunks_give_the_pending_bytes_and_none_the_base(base, pending):
    hunks = compute_hunks(base, pending)
    assert apply_hunks(base, pending, {hunk.id for hunk in hunks}) == pending
    assert apply_hunks(base, pending, ()) == base
    assert len({hunk.id for hunk in hunks}) == len(hunks)
    assert bool(hunks) == (base != pending)


@given(FILE, FILE, st.randoms(use_true_random=False))
@settings(max_examples=400)
def test_any_subset_one_at_a_time_in_any_order_gives_the_same_as_at_once(base, pending, chance):
    every = compute_hunks(base, pending)
    chosen = [candidate.id for candidate in every if chance.random() < 0.6]
    expected = select_hunks(base, pending, [candidate for candidate in every if candidate.id in chosen])
    left, now = every, base
    for name in chance.sample(chosen, len(chosen)):
        now = select_hunks(now, pending, [candidate for candidate in left if candidate.id == name])
        left = remove_hunks(left, {name}, "accept")
        assert [candidate.id for candidate in left] == [
            candidate.id for candidate in every if candidate.id in {hunk.id for hunk in left}
        ]
    assert now == expected
    assert select_hunks(now, pending, left) == pending


@given(FILE, FILE, st.randoms(use_true_random=False))
@settings(max_examples=400)
def test_rejecting_moves_the_pending_side_and_can_be_taken_back_exactly(base, pending, chance):
    every = compute_hunks(base, pending)
    for verdict in ("accept", "reject"):
        out = {hunk.id for hunk in every if chance.random() < 0.5}
        left = remove_hunks(every, out, verdict)
        assert reinsert_hunks(left, [hunk for hunk in every if hunk.id in out], verdict) == every
    rest = remove_hunks(every, out, "reject")
    smaller = select_hunks(base, pending, [hunk for hunk in every if hunk.id not in out])
    assert select_hunks(base, smaller, rest) == smaller
    assert select_hunks(base, smaller, ()) == base


@given(FILE, FILE)
def test_hunks_never_touch_each_other(base, pending):
    hunks = compute_hunks(base, pending)
    for one, other in pairwise(hunks):
        assert other.old_start > one.old_start + one.old_lines
        assert other.new_start > one.new_start + one.new_lines


@given(st.binary(max_size=80) | FILE | st.just(WIDE.encode("utf-16")) | st.just(b"\xfe\xff" + WIDE.encode("utf-16-be")))
def test_lines_joined_are_the_bytes(data):
    lines = split_lines(data)
    assert b"".join(lines) == data
    assert all(lines)


def test_p8_utf_16_is_split_at_its_own_newlines_only():
    lines = split_lines(WIDE.encode("utf-16"))
    assert len(lines) == 9
    assert lines[1].decode("utf-16-le") == "Zeile 1 \u0a0a\r\n"


def test_ids_stay_while_other_edits_come():
    base = b"".join(b"line %d\n" % number for number in range(40))
    first = base.replace(b"line 5\n", b"five\n").replace(b"line 30\n", b"thirty\n")
    before = compute_hunks(base, first)
    after = compute_hunks(base, first.replace(b"line 12\n", b"twelve\ntwelve b\n"), before)
    assert [hunk.id for hunk in before] == [after[0].id, after[2].id]


def test_the_later_one_of_two_equal_hunks_keeps_its_id_when_the_first_is_gone():
    base = b"".join(b"line %d\n" % number if number % 10 else b"x = 1\n" for number in range(40))
    pending = base.replace(b"x = 1\n", b"x = 2\n")
    before = compute_hunks(base, pending)
    assert len({hunk.id for hunk in before}) == 4
    accepted = select_hunks(base, pending, before[:1])
    left = remove_hunks(before, {before[0].id}, "accept")
    again = compute_hunks(accepted, pending.replace(b"line 25\n", b"other\n"), left)
    assert {hunk.id for hunk in left} < {hunk.id for hunk in again}


def test_changes_that_touch_are_one_hunk_and_one_common_line_keeps_two_apart():
    assert len(compute_hunks(b"a\nb\nc\n", b"A\nB\nc\n")) == 1
    assert len(compute_hunks(b"a\nb\nc\n", b"A\nb\nC\n")) == 2
    assert len(compute_hunks(b"a\n\nc\n", b"A\n\nC\n")) == 2


def test_an_inserted_function_is_one_block_from_its_head_to_the_blank_line():
    old = "def a():\n    return 1\n\n\ndef c():\n    return 3\n"
    new = "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\ndef c():\n    return 3\n"
    (only,) = find_regions(split_lines(old.encode()), split_lines(new.encode()))
    assert split_lines(new.encode())[only[2]] == b"def b():\n"


def test_a_rewrite_is_not_torn_apart_at_blank_lines_and_brackets():
    old = b"".join(b"old(%d) {\n  first;\n}\n\n" % number for number in range(300))
    new = b"".join(b"new[%d] {\n  other;\n}\n\n" % number for number in range(300))
    assert len(compute_hunks(old, new)) <= 2


def test_a_moved_block_leaves_the_rest_of_a_file_of_equal_lines_alone():
    chance = random.Random(7)
    old = [chance.choice([b"a\n", b"b\n", b"\n", b"}\n"]) for _ in range(4_000)]
    new = list(old)
    for place in chance.sample(range(4_000), 60):
        new[place] = b"new %d\n" % place
    hunks = compute_hunks(b"".join(old), b"".join(new))
    assert sum(hunk.new_lines for hunk in hunks) < 200


def scattered(count: int) -> tuple[bytes, bytes]:
    chance = random.Random(1)
    old = [b"line %d\n" % number if number % 4 else b"\n" for number in range(count)]
    new = list(old)
    for place in chance.sample(range(count), count // 10):
        new[place] = b"changed %d\n" % place
    return b"".join(old), b"".join(new)


def rewritten(count: int) -> tuple[bytes, bytes]:
    old = b"".join(b"old %d\n" % number if number % 3 else b"    }\n" for number in range(count))
    return old, old.replace(b"old", b"new")


@pytest.mark.parametrize("files", [scattered, rewritten])
def test_the_work_for_two_files_grows_with_their_length_and_hardly_faster(files):
    few, many = (lines_run(partial(compute_hunks, *files(count))) for count in (2_500, 10_000))
    assert many < 4 * 1.5 * few
    assert many < 60 * 10_000
