"""Relations between paths that the engine and the screen derive alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol.paths import are_apart, is_below, is_named_by, list_parents

PATHS = st.lists(st.sampled_from(("a", "b", "a b", "é", ".")), min_size=1, max_size=6).map("/".join)


@pytest.mark.parametrize(
    ("path", "parents"),
    [
        ("", []),
        ("a", []),
        ("a/b", ["a"]),
        ("a/b/c", ["a", "a/b"]),
        ("a/b/", ["a", "a/b"]),
        ("/a/b", ["", "/a"]),
    ],
)
def test_parents_come_outermost_first_without_the_root(path, parents):
    assert list_parents(path) == parents


@given(PATHS)
def test_parents_are_what_cutting_names_off_the_end_gives(path):
    parents, rest = [], path
    while rest := rest.rpartition("/")[0]:
        parents.append(rest)
    assert list_parents(path) == parents[::-1]


@given(PATHS, PATHS)
def test_paths_are_apart_unless_one_is_the_other_or_above_it(one, other):
    assert are_apart(one, other) == (one != other and one not in list_parents(other) and other not in list_parents(one))


@given(PATHS, PATHS)
def test_a_path_is_below_itself_the_project_and_its_parents(path, directory):
    assert is_below(path, directory) == (directory in {".", path} or directory in list_parents(path))


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("src", ["src", "src/a.py", "src/x/b.md"]),
        ("*.md", ["src/x/b.md", "README.md"]),
        ("src/*", ["src/a.py", "src/x/b.md"]),
        ("src/a.py", ["src/a.py"]),
        (".", ["src", "src/a.py", "src/x/b.md", "README.md", "srcs/c"]),
        ("src/", []),
        ("", []),
    ],
)
def test_an_entry_names_a_path_a_directory_or_a_pattern_that_crosses_them(entry, named):
    paths = ("src", "src/a.py", "src/x/b.md", "README.md", "srcs/c")
    assert [path for path in paths if is_named_by(path, entry)] == named
