"""A pattern with brackets stands for its characters, and for a directory that is called just so."""

from __future__ import annotations

import pytest

from core.text.path_patterns import matches
from core.tools.builtin.reading.search_scope import compile_glob, extract_name_part

CALLED_SO = [
    ("app/[id]/*.tsx", "app/[id]/page.tsx"),
    ("**/[id]/page.tsx", "src/app/[id]/page.tsx"),
    ("app/[...slug]/**", "app/[...slug]/a/b.ts"),
    ("app/[[...slug]]/page.tsx", "app/[[...slug]]/page.tsx"),
    ("app/[user-id]/page.tsx", "app/[user-id]/page.tsx"),
    ("app/(group)/[z-a]/*.ts", "app/(group)/[z-a]/x.ts"),
    ("app/@modal/(.)[id]/page.tsx", "app/@modal/(.)[id]/page.tsx"),
    ("pages/[id].tsx", "pages/[id].tsx"),
    ("[!a]/x", "[!a]/x"),
]


@pytest.mark.parametrize(("pattern", "path"), CALLED_SO)
def test_a_directory_that_is_called_like_a_set_is_found(pattern, path):
    assert compile_glob(pattern).fullmatch(path)
    assert matches(pattern, path)


@pytest.mark.parametrize("glob", [lambda p, x: compile_glob(p).fullmatch(x) is not None, matches])
def test_a_set_stands_for_one_of_its_characters(glob):
    assert glob("app/[id]/x", "app/i/x")
    assert not glob("app/[id]/x", "app/x/x")
    assert not glob("app/[id]/x", "app/id/x")
    assert glob("a/[!b]/x", "a/c/x")
    assert not glob("a/[!b]/x", "a/b/x")
    assert glob("a/[0-9].ts", "a/7.ts")


def test_ripgrep_is_asked_for_no_name_that_it_would_take_for_a_set():
    assert extract_name_part("pages/[id].tsx") == "*.tsx"
    assert extract_name_part("pages/a[b.tsx") == ""
    assert extract_name_part("src/*.py") == "*.py"
