"""The lines of a hunk that ran, and the tests that executed them."""

from __future__ import annotations

import pytest

from core.proof.runs.executed_lines import find_execution, list_executable_lines, list_script_lines
from core.proof.runs.records import ANY_TEST, IMPORT, RunRecord
from core.protocol.review import Hunk

TEXT = "x = 1\n\n\ndef f(a):\n    if a:\n        return (\n            1\n        )\n    return 2\n"
LINES = {
    IMPORT: {"a.py": frozenset({1, 4})},
    "test_f": {"a.py": frozenset({5, 6, 7})},
    "test_g": {"a.py": frozenset({5})},
    ANY_TEST: {"a.py": frozenset({5})},
}


@pytest.mark.parametrize(
    ("start", "count", "executed", "tests", "not_run"),
    [
        (1, 1, "import", set(), ()),
        (4, 1, "import", set(), ()),
        (5, 2, "all", {"test_f", "test_g"}, ()),
        (5, 5, "part", {"test_f", "test_g"}, (9,)),
        (9, 1, "none", set(), (9,)),
        (8, 1, "all", {"test_f"}, ()),
        (2, 2, "import", set(), ()),
        (6, 0, "all", {"test_f", "test_g"}, ()),
        (10, 0, "unknown", set(), ()),
    ],
)
def test_what_ran_of_a_hunk(start, count, executed, tests, not_run):
    hunk = Hunk(id="0" * 16, old_start=start, old_lines=1, new_start=start, new_lines=count)
    execution = find_execution(RunRecord(LINES), "a.py", hunk, list_executable_lines("a.py", TEXT))
    assert (execution.executed, execution.tests, execution.not_run) == (executed, tests, not_run)


def test_nothing_is_known_without_a_record_or_in_another_language():
    hunk = Hunk(id="0" * 16, old_start=1, old_lines=1, new_start=1, new_lines=1)
    assert find_execution(RunRecord(), "a.py", hunk, {1}).executed == "unknown"
    assert find_execution(RunRecord(LINES), "a.py", hunk, None).executed == "unknown"
    assert list_executable_lines("a.py", "x = (\n") is None
    assert list_executable_lines("a.lua", "x = 1\n") is None


def test_statements_of_javascript_can_be_executed_and_types_can_not():
    text = (
        "import a from 'a';\n\ninterface A {\n  b: string;\n}\nconst f = () => {\n  return (\n    1\n  );\n};\nf();\n"
    )
    assert list_script_lines({"a.ts": text.encode(), "a.txt": b"x"}) == {"a.ts": {6, 7, 11}}
