from __future__ import annotations

import ast
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.protocol.review import Change, Check, CheckKind, FileState
from core.state.checks import CHANGED_MARK, can_be_marked, get_check_words
from tui.review.descriptions import build_check_badges, describe_check

ROOT = Path(__file__).parents[3]
KINDS = get_args(CheckKind)
PATHS = [(), ("src",), ("src/a.py",)]


def check(kind: CheckKind = "tests", *paths: str) -> Check:
    return Check(call="c", command="pytest -q", exit_code=0, kind=kind, paths=paths)


def change(path: str, result: Check | None) -> Change:
    state = FileState(blob="1" * 64)
    return Change(path=path, operation="edit", base=state, pending=state, check=result)


@pytest.mark.parametrize(("kind", "paths"), list(product(KINDS, PATHS)))
def test_n30_no_kind_of_check_calls_a_file_tested(kind, paths):
    words = get_check_words(check(kind, *paths))
    assert "tested" not in " ".join(words).replace("not tested", "")
    assert ("since" in words.sentence) == (kind == "tests" or not paths)


@given(
    name=st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    ending=st.sampled_from([".md", ".rst", ".MD", ".adoc"]),
    kind=st.sampled_from(KINDS),
    code=st.integers(0, 3),
)
def test_n30_prose_has_no_mark_unless_the_command_named_it(name, ending, kind, code):
    path = f"docs/{name}{ending}"
    for result in (None, replace(check(kind), exit_code=code), replace(check(kind, "docs"), exit_code=code)):
        prose = change(path, result)
        assert not can_be_marked(prose)
        assert build_check_badges(prose) == []
        assert describe_check(prose)[0] == ""
        assert result is None or not result.covers(path)
    assert can_be_marked(change(path, check(kind, path)))


@pytest.mark.parametrize(
    "path", ["requirements.txt", "requirements-dev.txt", "CMakeLists.txt", "src/a.py", "data.json"]
)
def test_n30_what_a_check_may_depend_on_is_no_prose(path):
    assert can_be_marked(change(path, check("tests")))


@pytest.mark.parametrize("kind", KINDS)
def test_n30_a_judge_that_was_changed_by_the_same_change_is_named_in_the_mark(kind):
    judged = change("src/a.py", replace(check(kind), changed_here=("tests/test_a.py",)))
    assert build_check_badges(judged) == [(f" ✓ {CHANGED_MARK} ", "$text-warning")]
    assert "with tests or settings changed here (tests/test_a.py)" in describe_check(judged)[0]


def test_n30_no_text_of_the_program_calls_a_file_tested():
    texts = [
        (path.name, node.value)
        for folder in ("core", "tui")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert [entry for entry in texts if entry[1].strip(" ✓✗") in {"tested", "untested"}] == []
