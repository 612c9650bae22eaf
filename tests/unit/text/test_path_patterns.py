"""Patterns of paths as they are found in projects, and what each reading of them matches: the table beside this file.

Its columns are the pattern, the readings that agree, and those of the paths in its first line that match. "rules" are
globs of rules, skills and hooks, "allow" and "deny" permissions, "search" the arguments of tools.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.rules.file_text import parse_patterns, split_front_matter
from core.errors import ToolInputInvalid
from core.text.path_patterns import compile_pattern, is_costly, matches
from core.tools.builtin.reading.search_scope import compile_glob

HEAD, *ROWS = [
    line.split("\t") for line in Path(__file__).with_name("path_patterns.tsv").read_text(encoding="utf-8").splitlines()
]
PATHS = HEAD[2].split(" ")
READINGS: dict[str, Callable[[str, str], bool]] = {
    "rules": matches,
    "allow": lambda pattern, path: compile_pattern(pattern, syntax="stars").fullmatch(path) is not None,
    "deny": lambda pattern, path: compile_pattern(pattern, below="named").fullmatch(path) is not None,
    "search": lambda pattern, path: compile_glob(pattern).fullmatch(path) is not None,
}


def list_matches(reading: str, pattern: str) -> str:
    try:
        return " ".join(path for path in PATHS if READINGS[reading](pattern, path))
    except ToolInputInvalid:
        return "refused"


@pytest.mark.parametrize("reading", READINGS)
def test_a_pattern_matches_what_the_table_says(reading):
    expected = {pattern: paths for pattern, readings, paths in ROWS if reading in readings.split(",")}
    assert {pattern: list_matches(reading, pattern) for pattern in expected} == expected
    assert len(expected) > 150


@pytest.mark.parametrize(
    ("globs", "yes", "no"),
    [
        ("*.py, *.pyi", ["a.py", "x/y/b.pyi"], ["a.pyc", "py"]),
        ("*.ts,*.tsx", ["a.ts", "x/b.tsx"], ["a.t", "x.tss"]),
        ("/*.ts", ["a.ts"], ["x/a.ts"]),
        ("./src/*.ts", ["src/a.ts"], ["a.ts", "src/x/a.ts"]),
        ('["src/**/*.ts", "lib/*.ts"]', ["src/a.ts", "src/x/y.ts", "lib/a.ts"], ["lib/x/a.ts", "a.ts"]),
        ("**/*.{js,jsx}", ["a.js", "x/a.jsx"], ["a.j", "a.ts"]),
        ("{src,lib}/**/*.{c,h}", ["src/a.c", "lib/x/b.h"], ["x/a.c"]),
        ("docs/", ["docs/a.md", "docs/x/a.md"], ["a/docs2"]),
        ("src/**", ["src/a", "src/x/b"], ["xsrc/a"]),
        ("tests/*", ["tests/a.py"], ["tests/unit/a.py"]),
        ("**/tests/**", ["tests/a", "x/tests/y/b"], ["tests"]),
        ("a?.c", ["ab.c"], ["a.c", "a/.c"]),
        ("test_[ab].py", ["test_a.py", "x/test_b.py"], ["test_c.py"]),
        ("[!.]*.py", ["a.py"], [".a.py"]),
        ("[slug].tsx", ["s.tsx"], ["slug.tsx"]),
        ("\n  - '*.py'\n  - \"tests/**\"", ["a.py", "tests/x.md"], ["x.md"]),
        ("a+b(c).py", ["a+b(c).py"], ["aab.py"]),
        ("**", ["a", "b/c"], []),
        ("", [], ["a"]),
    ],
)
def test_globs_as_people_write_them(globs, yes, no):
    front, _ = split_front_matter(f"---\nglobs: {globs}\nalwaysApply: false\n---\nText.")
    patterns = list(parse_patterns(front, "globs"))
    assert [path for path in (*yes, *no) if any(matches(pattern, path) for pattern in patterns)] == yes


@pytest.mark.parametrize("pattern", ["*a" * 40, "**/" * 40 + "x", "{" * 300 + "a", "[" * 300, "a" * 500, "[z-a]"])
def test_a_pattern_that_could_stall_the_matcher_matches_nothing(pattern):
    assert not matches(pattern, "a" * 200 + "b")


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*b", "**/a/**/a/**/a/**/a/**/a/b", "*a*a*b", "**/a/**/a/**/a/b"])
def test_no_pattern_is_tried_without_end(pattern):
    assert not matches(pattern, "a" * 250)
    assert not matches(pattern, "a/" * 100 + "c")


TEXTS = st.text(alphabet="ab/*?{},[]!.-\\^$(|", max_size=30)


@given(TEXTS, st.text(alphabet="ab/.", max_size=30))
def test_no_pattern_fails(pattern, path):
    assert matches(pattern, path) in {True, False}
    for syntax in ("stars", "full", "escapes"):
        for below in ("never", "named", "always"):
            assert compile_pattern(pattern, syntax=syntax, below=below).pattern


@given(st.lists(st.text(alphabet="ab[]{},!^-", min_size=1, max_size=6), min_size=1, max_size=4).map("/".join))
def test_a_path_matches_as_it_is_written(path):
    for below in ("never", "named", "always"):
        assert compile_pattern(path, below=below).fullmatch(path)
        assert below == "never" or compile_pattern(path, below=below).fullmatch(f"{path}/x")
    assert compile_pattern(path, syntax="stars").fullmatch(path)


PARTS = ("a", "b", "/", "{a,b}", "[ab]", "[!a]", "{", "]")


@given(
    st.lists(st.sampled_from((*PARTS, "*", "?", "**/")), min_size=1, max_size=6).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=6).map("".join),
)
def test_what_stars_alone_match_is_matched_with_sets_and_braces_too(pattern, path):
    for below in ("never", "named", "always"):
        is_matched = compile_pattern(pattern, syntax="stars", below=below).fullmatch(path) is not None
        assert not is_matched or compile_pattern(pattern, below=below).fullmatch(path)


@pytest.mark.parametrize(
    ("pattern", "costs"),
    [("src/**/*.py", False), ("*a*b*c", False), ("*a*b*c*d", True), ("**/" * 5 + "a", True), ("a" * 401, True)],
)
def test_a_pattern_that_takes_long_is_known_by_its_stars_and_its_length(pattern, costs):
    assert is_costly(pattern) is costs


@given(st.lists(st.sampled_from(["**/", "**", "*", "?", "a", "b", ".", "/", "a/"]), max_size=7).map("".join), TEXTS)
def test_stars_match_as_a_reader_tries_them_one_by_one(pattern, path):
    body = f"/a/{pattern}".rstrip("/")
    assert (compile_pattern(body, syntax="stars").fullmatch(path) is not None) == tries(body[1:], path)


@cache
def tries(pattern: str, path: str) -> bool:
    """Whether a pattern of stars matches, by trying all that each of them may take."""
    if pattern.startswith("**/"):
        rests = [path, *(path[end + 1 :] for end, letter in enumerate(path) if letter == "/")]
        return any(tries(pattern[3:], rest) for rest in rests)
    if pattern.startswith("*"):
        stars = len(pattern) - len(pattern.lstrip("*"))
        reach = len(path) if stars > 1 else len(path.partition("/")[0])
        return any(tries(pattern[stars:], path[end:]) for end in range(reach + 1))
    if not pattern or not path:
        return pattern == path
    return (pattern[0] == path[0] or (pattern[0] == "?" and path[0] != "/")) and tries(pattern[1:], path[1:])
