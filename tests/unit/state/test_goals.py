"""How a user writes a goal."""

from __future__ import annotations

import pytest

from core.state.goals import GoalWish, parse_wish, unquote


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("the tests pass", GoalWish("the tests pass")),
        ("it works --check make test --rounds 3", GoalWish("it works", "make test", 3)),
        ("it works --check 'test -f a && test -f b'", GoalWish("it works", "test -f a && test -f b")),
        ('"it works" --check "make test"', GoalWish("it works", "make test")),
        ("it works --check grep 'x = 3' a.py", GoalWish("it works", "grep 'x = 3' a.py")),
        ("it works --check 'a' && 'b'", GoalWish("it works", "'a' && 'b'")),
        ("--check make", None),
        ("", None),
    ],
)
def test_a_goal_is_read_as_it_is_meant(text, wish):
    assert parse_wish(text) == wish


@pytest.mark.parametrize("text", ["'", "''", "'a", "a'", "'a'b'", ""])
def test_quotes_that_are_not_around_the_whole_text_stay(text):
    assert unquote(text) == text
