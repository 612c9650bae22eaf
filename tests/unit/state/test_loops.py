"""How a user writes a loop, and how one is described."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol import events as ev
from core.state.loops import LoopState, LoopWish, describe_loop, format_loop, list_loops, parse_duration, parse_loop


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("10m check the build", LoopWish("check the build", 600)),
        ("2 hours check the build", LoopWish("check the build", 7200)),
        ("check the deploy every 2 hours", LoopWish("check the deploy", 7200)),
        ("1d /review --runs 3", LoopWish("/review", 86_400, runs=3)),
        (
            "30s fix it --when tail -f app.log --prints ERROR",
            LoopWish("fix it", 30, command="tail -f app.log", pattern="ERROR"),
        ),
        ("fix it --when 'tail -f a.log' --prints \"no such\"", LoopWish("fix it", 60, "tail -f a.log", "no such")),
        ("look --when gh run list", LoopWish("look", 60, command="gh run list")),
    ],
)
def test_a_loop_is_read_as_it_is_meant(text, wish):
    assert parse_loop(text) == wish


@pytest.mark.parametrize(
    "text", ["", "10m", "check it", "5s check it", "8d check it", "--when x", "3ms x", "10m x --prints y"]
)
def test_a_loop_without_a_prompt_or_a_valid_interval_is_none(text):
    assert parse_loop(text) is None


@given(st.integers(10, 604_800))
def test_a_valid_number_of_seconds_is_a_duration(seconds):
    assert parse_duration(f"{seconds}s") == seconds


@given(st.text(max_size=60))
def test_any_text_is_a_loop_with_a_prompt_or_none(text):
    wish = parse_loop(text)
    assert wish is None or (wish.prompt.strip() and 10 <= wish.seconds <= 604_800)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"seconds": 600}, "every 10 minutes"),
        ({"seconds": 3600}, "every hour"),
        ({"seconds": 90}, "every 90 seconds"),
        ({"seconds": 60, "command": "make", "pattern": "FAIL"}, 'when `make` prints "FAIL"'),
        ({"seconds": 60, "command": "make"}, "when `make` prints something"),
    ],
)
def test_a_loop_is_described_by_what_sends_its_prompt(fields, words):
    assert describe_loop(ev.LoopStarted(id="loop_1", prompt="Check it", **fields)) == words


def test_loops_are_listed_with_their_runs():
    loop = ev.LoopStarted(id="loop_1", prompt="Check\nit", seconds=600, max_runs=5)
    assert list_loops([LoopState(loop=loop, runs=1)]) == "loop_1, every 10 minutes, 1 run so far: Check it"
    assert list_loops([]) == ""
    assert format_loop(loop) == "loop_1: the prompt is sent every 10 minutes, at most 5 times."
    assert format_loop(ev.LoopEnded(id="loop_1", reason="stopped", message="You stopped it.")).endswith(
        "You stopped it."
    )
