"""A hunk falls apart between statements and never within one; parts join again, and any of them give an exact file."""

from __future__ import annotations

import ast
import random
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import CommandRejected
from core.protocol.review import Hunk
from core.shadow.diff.hunk_parts import HunkSide, find_parts
from core.shadow.diff.hunks import compute_hunks, join_hunks, reinsert_hunks, remove_hunks, replace_hunk, select_hunks
from core.shadow.diff.text_lines import split_lines
from tests.unit.shadow.review.test_hunk_edits import is_exact
from tests.unit.shadow.review_case import ReviewCase

ROOT = Path(__file__).resolve().parents[4]
PATHS = (
    *("core/shadow/diff/hunks.py", "core/shadow/review/verdicts.py", "tui/review/pane.py", "tui/app.tcss"),
    *("docs/review.md", "pyproject.toml", "Makefile", "docs/stream.schema.json", "tests/slow_tests.txt"),
)
MODULE = '''\
"""A module."""

import os
import re


def one(a,
        b):
    """Return it.

    In two paragraphs.
    """
    x = 1
    y = f(

        2,
    )

    if x:
        return 1
    else:
        return 2


# about two
@decorated
def two():
    return """text

    text"""
LAST = 1
'''


@cache
def read_versions(path: str) -> tuple[bytes, ...]:
    """The last versions of a file of this project, the one that is there last."""

    def run(*args: str) -> bytes:
        return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, check=False).stdout

    revisions = run("log", "-n", "12", "--format=%H", "--", path).decode().split()
    return (b"", *(run("show", f"{revision}:{path}") for revision in reversed(revisions)), (ROOT / path).read_bytes())


def list_parts(path: str, base: bytes, pending: bytes, hunk: Hunk) -> tuple[HunkSide, HunkSide, list]:
    old = HunkSide(path, split_lines(base), hunk.old_start - 1, hunk.old_lines, "utf-8")
    new = HunkSide(path, split_lines(pending), hunk.new_start - 1, hunk.new_lines, "utf-8")
    return old, new, find_parts(old, new)


def split(path: str, base: bytes, pending: bytes, every: tuple[Hunk, ...], hunk: Hunk) -> tuple[Hunk, ...]:
    old, new, parts = list_parts(path, base, pending, hunk)
    return replace_hunk(every, hunk, parts, old.own_lines, new.own_lines) if parts else every


def texts(path: str, text: str, start: int = 0, size: int = 0) -> list[str]:
    """The parts of new lines, one level down."""
    lines = split_lines(text.encode())
    nothing = HunkSide(path, (), 0, 0, "utf-8")
    parts = find_parts(nothing, HunkSide(path, lines, start, size or len(lines), "utf-8"))
    return [b"".join(lines[start + b0 : start + b1]).decode() for _, _, b0, b1 in parts]


@given(st.sampled_from(PATHS), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_any_subset_of_the_parts_of_real_changes_gives_an_exact_file(path, chance):
    versions = read_versions(path)
    base, pending = sorted(chance.sample(range(len(versions)), 2))
    base, pending = versions[base], versions[pending]
    every = compute_hunks(base, pending)
    for _ in range(4):
        if not every:
            return
        every = split(path, base, pending, every, chance.choice(every))
        assert is_exact(base, pending, every)
    chosen = [hunk for hunk in every if chance.random() < 0.5]
    at_once, now, left = select_hunks(base, pending, chosen), base, every
    for hunk in chance.sample(chosen, len(chosen)):
        (current,) = (candidate for candidate in left if candidate.id == hunk.id)
        now, left = select_hunks(now, pending, [current]), remove_hunks(left, {hunk.id}, "accept")
    assert now == at_once
    assert select_hunks(now, pending, left) == pending
    assert reinsert_hunks(left, chosen, "accept") == every
    rest = remove_hunks(every, {hunk.id for hunk in every if hunk not in chosen}, "reject")
    assert select_hunks(base, at_once, rest) == at_once


@given(st.sampled_from(PATHS), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_parts_that_are_joined_are_the_hunk_of_before(path, chance):
    versions = read_versions(path)
    base, pending = chance.choice([*pairwise(versions)])
    every = compute_hunks(base, pending)
    for hunk in every[:5]:
        apart = split(path, base, pending, every, hunk)
        parts = [part for part in apart if part not in every and part.old_start >= hunk.old_start]
        if len(apart) > len(every):
            index = every.index(hunk)
            parts = apart[index : index + 1 + len(apart) - len(every)]
            assert join_hunks(apart, parts, base, pending) == every


@given(st.sampled_from(PATHS[:3]), st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_no_part_of_new_code_begins_within_a_statement_or_a_string(path, chance):
    source = chance.choice(read_versions(path)[1:])
    inside = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt | ast.Constant) and not hasattr(node, "body") and node.end_lineno is not None
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }
    todo = list(compute_hunks(b"", source))
    while todo:
        hunk = todo.pop()
        _, _, parts = list_parts(path, b"", source, hunk)
        starts = {hunk.new_start + b0 for _, _, b0, _ in parts[1:]}
        assert not starts & inside
        every = split(path, b"", source, (hunk,), hunk) if parts else ()
        todo += chance.sample(every, min(len(every), 6))


def test_a_new_module_falls_into_its_paragraphs_then_statements_then_those_of_functions():
    parts = texts("a.py", MODULE)
    assert "".join(parts) == MODULE
    assert [part.split("\n")[0] for part in parts] == ['"""A module."""', "import os", "def one(a,", "# about two"]
    assert texts("a.py", MODULE, 2, 4) == ["import os\n", "import re\n\n\n"]
    function = MODULE.split("\n").index("def one(a,")
    first, second = texts("a.py", MODULE, function, 18)
    assert second.startswith("    if x:")
    lines = first.count("\n")
    assert [part.split("\n")[0] for part in texts("a.py", MODULE, function, lines)] == [
        "def one(a,", "    x = 1", "    y = f(",
    ]  # fmt: skip
    assert texts("a.py", MODULE, function, lines)[0].rstrip().endswith('"""')
    assert texts("a.py", MODULE, function + 7, 4) == []  # one call over several lines, with a blank one


def test_a_comment_and_a_decorator_stay_with_what_they_are_about():
    *_, last = texts("a.py", MODULE)
    assert last.startswith("# about two\n@decorated\ndef two():")
    start = MODULE.split("\n").index("# about two")
    assert [part.split("\n")[0] for part in texts("a.py", MODULE, start, 7)] == ["# about two", "LAST = 1"]


@pytest.mark.parametrize(
    ("path", "text", "starts"),
    [
        (
            "a.js",
            "function a() {\n  let y = 1;\n  return {\n a: 1,\n b: 2,\n };\n}\nconst b = 1;\n",
            ["function a() {", "const b = 1;"],
        ),
        ("a.json", '{\n "a": 1,\n "b": [\n  1\n ],\n "c": 2\n}\n', ["{", ' "b": [', ' "c": 2']),
        ("a.rs", "fn a() {\n    b();\n}\n#[test]\nfn c() {}\n", ["fn a() {", "#[test]"]),
        ("a.go", "package a\n\nfunc b() {\n\tc()\n\n\td()\n}\n", ["package a", "func b() {"]),
        ("a.md", "# T\n\nPara one\ngoes on\n\n- a\n- b\n", ["# T", "Para one", "- a"]),
        ("a.conf", "[one]\n  a\n  b\n[two]\n  c\n", ["[one]", "[two]"]),
        ("a.conf", "begin {\n  a\n}\nbegin {\n  b\n}\n", ["begin {", "begin {"]),
    ],
)
def test_other_languages_fall_apart_where_theirs_do(path, text, starts):
    assert [part.split("\n")[0] for part in texts(path, text)] == starts


def test_old_statements_go_with_the_new_ones_that_begin_alike():
    old = "def a():\n    return 1\n\n\ndef b():\n    return 2\n"
    new = "def a():\n    return 10\n\n\ndef new():\n    return 0\n\n\ndef b():\n    return 20\n"
    sides = [split_lines(old.encode()), split_lines(new.encode())]
    parts = find_parts(*(HunkSide("a.py", lines, 0, len(lines), "utf-8") for lines in sides))
    assert parts == [(0, 4, 0, 4), (4, 4, 4, 8), (4, 6, 8, 10)]


def test_a_last_line_without_an_ending_stays_in_the_last_part():
    lines = split_lines(b"a = 1\nb = 2\nc = 3")
    gone = split_lines(b"x = 1")
    sides = (HunkSide("a.py", gone, 0, 1, "utf-8"), HunkSide("a.py", lines, 0, 3, "utf-8"))
    assert find_parts(*sides) == [(0, 0, 0, 1), (0, 0, 1, 2), (0, 1, 2, 3)]


def test_very_many_statements_become_no_more_parts_than_anyone_would_judge():
    assert 50 < len(texts("a.py", "".join(f"a{number} = {number}\n" for number in range(1_000)))) <= 101


def propose(review: ReviewCase) -> str:
    review.put("a.py", b"# base\n")
    review.shadow.write("a.py", b"# base\n" + MODULE.encode())
    (only,) = review.ids("a.py")
    return only


def test_parts_are_joined_level_by_level_and_the_hunk_is_the_one_of_before(review):
    only = propose(review)
    edits = review.shadow.hunk_edits
    edits.split("a.py", only)
    parts = review.ids("a.py")
    assert len(parts) == 4
    edits.split("a.py", parts[2])
    assert len(review.ids("a.py")) == 5
    assert review.state.last_split == ("a.py", review.ids("a.py")[2])
    edits.join(*review.state.last_split)
    assert review.ids("a.py") == parts
    edits.join(*review.state.last_split)
    assert review.ids("a.py") == [only]
    assert review.state.last_split is None
    with pytest.raises(CommandRejected, match="not part of a split"):
        edits.join("a.py", only)


def test_a_verdict_is_undone_before_a_split_that_is_older_and_after_one_that_is_newer(review):
    edits = review.shadow.hunk_edits
    edits.split("a.py", propose(review))
    first, second, *_ = review.ids("a.py")
    assert review.state.last_split == ("a.py", first)
    review.shadow.resolve("a.py", (first,))
    assert review.state.last_split is None
    edits.split("a.py", second)
    assert review.state.last_split == ("a.py", review.ids("a.py")[0])
    edits.join(*review.state.last_split)
    assert review.state.last_split is None
    review.shadow.undo()
    assert review.state.last_split == ("a.py", first)


def test_parts_with_a_judged_one_between_them_are_not_joined_over_it(review):
    edits = review.shadow.hunk_edits
    edits.split("a.py", propose(review))
    first, second, third, fourth = review.ids("a.py")
    review.shadow.resolve("a.py", (second,))
    with pytest.raises(CommandRejected, match="not part of a split"):
        edits.join("a.py", first)
    edits.join("a.py", third)
    assert len(review.ids("a.py")) == 2
    assert fourth not in review.ids("a.py")
    review.shadow.resolve("a.py")
    assert review.disk("a.py") == b"# base\n" + MODULE.encode()


def test_the_comments_of_joined_parts_are_one_comment_of_the_hunk(review):
    edits = review.shadow.hunk_edits
    edits.split("a.py", only := propose(review))
    first, second, *_ = review.ids("a.py")
    edits.comment("a.py", first, "why?")
    edits.comment("a.py", second, "sorted, please")
    edits.join("a.py", first)
    assert {key: comment.text for key, comment in review.state.comments.items()} == {
        ("a.py", only): "why?\nsorted, please"
    }


def test_a_statement_over_several_lines_is_split_only_where_the_user_says(review):
    review.put("a.py", b"")
    review.shadow.write("a.py", b"x = f(\n    1,\n    2,\n)\n")
    (only,) = review.ids("a.py")
    with pytest.raises(CommandRejected, match="can't be split") as refused:
        review.shadow.hunk_edits.split("a.py", only)
    assert "one statement" in refused.value.hint
    assert len(review.shadow.hunk_edits.split("a.py", only, 3).hunks) == 2


def test_a_random_walk_over_real_text_ends_at_what_was_shown(review):
    chance = random.Random(7)
    *_, base, pending = read_versions("core/shadow/diff/hunks.py")
    review.put("a.py", base[:4_000])
    review.shadow.write("a.py", pending)
    for _ in range(60):
        ids = review.ids("a.py")
        try:
            match chance.choice(["split", "split", "join", "accept", "reject", "undo"]):
                case "undo":
                    review.shadow.undo()
                case "accept" | "reject" as verdict if len(ids) > 1:
                    review.shadow.resolve("a.py", (chance.choice(ids),), verdict)
                case "split" | "join" as verb:
                    getattr(review.shadow.hunk_edits, verb)("a.py", chance.choice(ids))
        except CommandRejected:
            continue
        change = review.state.changes["a.py"]
        assert is_exact(review.disk("a.py"), review.shadow.read("a.py"), change.hunks)
    review.shadow.resolve("a.py")
    assert review.disk("a.py") == review.shadow.read("a.py")
