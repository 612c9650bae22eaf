"""Patterns of rules as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.rules.file_text import parse_patterns, split_front_matter
from core.config.rules.globs import matches


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


@given(st.text(alphabet="ab/*?{},[]!.-\\^$(|", max_size=30), st.text(alphabet="ab/.", max_size=30))
def test_no_pattern_fails(pattern, path):
    assert matches(pattern, path) in {True, False}
