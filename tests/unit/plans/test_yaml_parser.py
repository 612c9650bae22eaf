# ruff: noqa: E501 (a table of lines)
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.plans.plan_file import render_new_plan
from core.plans.yaml_parser import YamlError, parse_events, parse_plain
from core.protocol.documents import Plan, Todo
from tests.support.plan_files import PLAN_FILES


def front(text: str) -> str:
    return text.removeprefix("\ufeff").replace("---\r\n", "---\n").split("---\n")[1]


def both(text: str) -> tuple[object, object]:
    try:
        return parse_plain(text), parse_events(text)
    except YamlError:
        return parse_plain(text), None


@pytest.mark.parametrize("name", PLAN_FILES)
def test_it_agrees_with_the_parser_or_has_no_answer(name):
    quick, slow = both(front(PLAN_FILES[name]))
    assert quick in (None, slow)


@pytest.mark.parametrize(
    "name", ["as we write it", "without dependencies", "dashes in the first column", "crlf", "comments everywhere"]
)
def test_the_usual_files_need_no_parser(name):
    assert parse_plain(front(PLAN_FILES[name])) is not None


lines = st.lists(
    st.sampled_from(
        [
            "a: b", "a:", "b: 'x'", 'c: "y" # z', "  - id: x", "    k: v", "- id: y", "  k: w", "- x", "  - [a]", "d: [a, b]",
            "# c", "", "  # c", "e: a: b", "f: x #y", "g: x # y", "    more", "h: null", "  - null", "i: ~", "j: -1", "k: [1]",
            "l:  two", "m : x", "n:x", "'q': r", "- - x", "-", "o: |", "p: >-", "    text", "q: &a x", "r: *a", "s: [a", "t: {}",
            "u: 'it''s'", "v: x'y", "w: (a) [b] {c}", "x: a,b", "y: 'a' b", "z: 1.5:3", "...", "a1: x:", "b1: 'x'# y",
        ]
    ),
    max_size=9,
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(lines)
def test_whatever_is_written_it_agrees_with_the_parser_or_has_no_answer(rows):
    quick, slow = both("\n".join(rows) + "\n")
    assert quick in (None, slow)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=30), st.lists(st.text(max_size=30).filter(str.strip), max_size=3))
def test_it_agrees_on_what_we_write(overview, contents):
    todos = tuple(
        Todo(id=f"t{n}", content=content, dependencies=("t0",) * (n > 0)) for n, content in enumerate(contents)
    )
    text = render_new_plan(
        Plan(
            path="p",
            name="Name",
            overview=overview.replace("\r", ""),
            todos=tuple(t for t in todos if "\r" not in t.content),
        )
    )
    quick, slow = both(front(text))
    assert quick in (None, slow)
