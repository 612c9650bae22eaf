"""The table of mutations is true: each place stands in the source as it says, and its test is there and listed."""

from __future__ import annotations

import ast

import pytest

from tests.contract.source_tree import ROOT, Module
from tests.mutations.place import apply_mutation, format_row
from tests.mutations.places import PLACES

PAGE = ROOT / "docs" / "dev" / "testing.md"
each_place = pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)


def test_there_are_fifty_places_and_no_two_are_the_same():
    assert len(PLACES) == 50
    assert len({(place.file, place.old) for place in PLACES}) == len({place.name for place in PLACES}) == len(PLACES)


@each_place
def test_a_place_can_be_broken_and_is_python_then(place):
    source = (ROOT / place.file).read_text(encoding="utf-8")
    broken = ast.parse(apply_mutation(place, source))
    assert ast.dump(broken) != ast.dump(ast.parse(source))


@each_place
def test_the_test_of_a_place_is_there_and_the_page_lists_both(place):
    path, _, name = place.test.partition("::")
    assert name in {function.name for function in Module(ROOT / path).functions}
    assert format_row(place) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("count", [0, 2])
def test_a_snippet_that_does_not_stand_there_once_is_an_error_that_says_so(count):
    place = PLACES[0]
    with pytest.raises(ValueError, match=rf"{place.file} has {count} times, and not once"):
        apply_mutation(place, place.old * count)
