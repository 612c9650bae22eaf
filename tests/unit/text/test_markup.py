from __future__ import annotations

import pytest

from core.text.markup import MAX_FENCE_LINE, Fence, choose_fence, dedent_line, parse_opening_fence, track_fence


@pytest.mark.parametrize(
    ("line", "fence"),
    [
        ("```python", Fence("```", 0, "python")),
        ("  ~~~~ ", Fence("~~~~", 2)),
        ("- ```sh", Fence("```", 2, "sh")),
        ("``` a`b", None),
        ("``", None),
    ],
)
def test_a_fence_opens_with_three_or_more_marks(line, fence):
    assert parse_opening_fence(line) == fence


def test_a_fence_stays_open_until_as_many_of_its_marks_stand_alone():
    fence = track_fence(None, "````md")
    for line in ("```", "~~~~", "```` x"):
        assert track_fence(fence, line) == fence
    assert track_fence(fence, " ````` ") is None


def test_no_line_beyond_the_longest_opens_a_fence():
    assert track_fence(None, "```" + "x" * (MAX_FENCE_LINE - 3)) is not None
    assert track_fence(None, "```" + "x" * (MAX_FENCE_LINE - 2)) is None


def test_a_line_in_a_fence_loses_the_indentation_of_the_fence_alone():
    assert dedent_line("    code", 2) == "  code"
    assert dedent_line(" code", 2) == "code"
    assert dedent_line("\tcode", 2) == "code"


@pytest.mark.parametrize(("text", "least", "marks"), [("", 3, 3), ("a ``` b ```` c", 3, 5), ("a`", 1, 2), ("a", 1, 1)])
def test_a_fence_is_longer_than_every_run_of_backticks_in_its_text(text, least, marks):
    assert choose_fence(text, least) == "`" * marks
