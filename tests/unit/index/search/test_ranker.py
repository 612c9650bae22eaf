"""The ranker: what several lists found becomes one order, and what a question names comes first."""

from __future__ import annotations

import pytest

from core.index.search.query import parse_query
from core.index.search.ranker import MAX_DEFINITIONS, Candidate, RankerInput, rank


def place(path, start=1, symbol="", defines=()):
    return Candidate(path, start, start + 5, symbol, "function", defines)


def order(text, candidates, *lists, definitions=None):
    ranker_input = RankerInput(
        lists=[(keys, 1.0) for keys in lists],
        candidates=candidates,
        definitions=definitions or {},
        rarity=lambda _word: 1.0,
    )
    return [key for key, _score in rank(parse_query(text), ranker_input)]


def test_what_two_lists_have_comes_before_what_only_one_has():
    candidates = {number: place(f"src/f{number}.py") for number in range(4)}
    assert order("where is the till closed", candidates, [0, 1, 2], [3, 2])[0] == 2


@pytest.mark.parametrize(("defined", "gains"), [(MAX_DEFINITIONS, True), (MAX_DEFINITIONS + 1, False)])
def test_a_name_that_is_defined_nearly_everywhere_tells_nothing(defined, gains):
    candidates = {number: place(f"src/f{number}.py") for number in range(20)}
    keys = range(19, 19 - defined, -1)
    ranked_keys = order("load_orders fails", candidates, list(range(20)), definitions={"load_orders": keys})
    assert (ranked_keys[0] in keys) is gains


def test_equals_stand_by_path_and_line():
    candidates = {1: place("b.py"), 2: place("a.py", 9), 3: place("a.py", 1)}
    assert order("close_till", candidates, definitions={"close_till": (1, 2, 3)})[0] == 3


def test_tests_lose_unless_they_are_asked_for():
    candidates = {1: place("tests/test_till.py"), 2: place("src/till.py")}
    assert order("how is it closed again", candidates, [1, 2])[0] == 2
    assert order("which test covers how it is closed", candidates, [1, 2])[0] == 1


def test_many_files_come_before_many_places_of_one():
    candidates = {number: place("src/till.py", number * 10) for number in range(4)} | {9: place("src/mail.py")}
    assert order("how is it shut", candidates, [0, 1, 2, 3, 9])[1] == 9
