"""Patterns of paths as they are found in projects, and what each reading of them matches: the table beside this file.

Its columns are the pattern, the readings that agree, and those of the paths in its first line that match. "rules" are
globs of rules, skills and hooks, "allow" and "deny" permissions, "search" the arguments of tools.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.config.rules.globs import matches
from core.errors import ToolInputInvalid
from core.permissions.rules import compile_path_pattern
from core.tools.builtin.reading.search_scope import compile_glob

HEAD, *ROWS = [
    line.split("\t") for line in Path(__file__).with_name("path_patterns.tsv").read_text(encoding="utf-8").splitlines()
]
PATHS = HEAD[2].split(" ")
READINGS: dict[str, Callable[[str, str], bool]] = {
    "rules": matches,
    "allow": lambda pattern, path: compile_path_pattern(pattern).fullmatch(path) is not None,
    "deny": lambda pattern, path: compile_path_pattern(pattern, is_wide=True).fullmatch(path) is not None,
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
