"""Which old file a new one was, by git's rules: the same content, the same name, or at least one half."""

from __future__ import annotations

import pytest

from core.shadow.review.rename_pairs import MAX_COMPARED_BYTES as LIMIT
from core.shadow.review.rename_pairs import compute_similarity, count_pieces, match_identical, match_similar

OLD = b"".join(b"line %d\n" % number for number in range(1, 31))


def test_n16a_copies_belong_to_what_ends_in_the_same_names():
    removed_files = {"a/x/__init__.py": "1", "a/y/__init__.py": "1", "a/z.py": "2", "q": "3", "r": "3"}
    new = {"b/x/__init__.py": "1", "b/y/__init__.py": "1", "zz.py": "2", "s": "3"}
    assert match_identical(removed_files, new) == {
        "b/x/__init__.py": "a/x/__init__.py",
        "b/y/__init__.py": "a/y/__init__.py",
        "zz.py": "a/z.py",
    }


def test_n16a_similarity_is_the_share_of_the_longer_file():
    assert compute_similarity(count_pieces(OLD), count_pieces(OLD)) == 1
    assert compute_similarity(count_pieces(b"a\nb\n"), count_pieces(b"b\r\nc\n")) == 0.5
    assert compute_similarity(count_pieces(b""), count_pieces(b"")) == 0
    assert compute_similarity(count_pieces(OLD), count_pieces(OLD + OLD)) == 0.5


@pytest.mark.parametrize(("score", "is_found"), [(0.5, True), (0.499, False)])
def test_n16a_half_of_a_file_is_enough_for_a_rename_and_less_is_not(score, is_found):
    assert match_similar({"a": 10}, {"c": 10}, lambda *_: score) == ({"c": "a"} if is_found else {})


@pytest.mark.parametrize(("score", "is_found"), [(0.75, True), (0.749, False)])
def test_n16a_of_files_of_one_name_the_better_pair_is_left_to_others_below_three_quarters(score, is_found):
    scores = {("x/a.py", "y/a.py"): score, ("x/a.py", "y/b.py"): 0.9}
    pairs = match_similar({"x/a.py": 10}, {"y/a.py": 10, "y/b.py": 10}, lambda old, new: scores[old, new])
    assert pairs == {"y/a.py" if is_found else "y/b.py": "x/a.py"}


def test_n16a_the_work_of_comparing_is_bounded_and_what_is_of_one_name_is_found_all_the_same():
    removed_files = {f"a/{number}": 100 for number in range(60)}
    new = {f"b/{number + 59}": 100 for number in range(60)}
    asked = list[tuple[str, str]]()

    def score(old: str, path: str) -> float:
        asked.append((old, path))
        return 1.0

    assert match_similar(removed_files, new, score) == {"b/59": "a/59"}
    assert len(asked) == 1
    moved = [{f"{top}/{number}/index.ts": 100 for number in range(60)} for top in ("a", "b")]
    assert match_similar(*moved, score) == {f"b/{number}/index.ts": f"a/{number}/index.ts" for number in range(60)}
    few = (
        {f"a/{number}": LIMIT for number in range(10)},
        {f"b/{number + 20}": LIMIT for number in range(10)},
    )
    asked.clear()
    assert (match_similar(*few, score), asked) == ({}, [])
    assert match_similar({"a": 10, "b": 30}, {"c": 20, "d": 61}, score) == {"c": "a"}
    assert asked == [("a", "c"), ("b", "c")]
    assert match_similar({"a": LIMIT + 1}, {"c": LIMIT + 1}, score) == {}
