"""Which diagnostics are new: by message, code and the line's text, wherever the line is now."""

from __future__ import annotations

from core.lsp.diagnostics import cut_diagnostics, find_new_diagnostics, format_diagnostics, sort_diagnostics
from core.protocol.language import Diagnostic

OLD = ["import os", "x = undefined", "y = 1"]


def at(line: int, message: str = "no such name", *, severity: str = "error", path: str = "a.py") -> Diagnostic:
    return Diagnostic(path=path, line=line, message=message, code="F821", severity=severity)  # type: ignore[arg-type]


def test_a_finding_whose_line_only_moved_is_not_new():
    now = ["# a comment", "", *OLD]
    assert find_new_diagnostics([at(4)], [at(2)], now, OLD) == []


def test_a_finding_on_a_line_that_was_touched_is_not_new():
    now = ["import os", "x = undefined  # touched", "y = 1"]
    assert find_new_diagnostics([at(2)], [at(2)], now, OLD) == []


def test_the_same_mistake_at_another_place_is_new_though_the_old_one_was_mended():
    now = ["import os", "x = 1", "y = 1", "z = undefined"]
    assert find_new_diagnostics([at(4)], [at(2)], now, OLD) == [at(4)]


def test_a_second_one_of_the_same_kind_is_new():
    now = [*OLD, "x = undefined"]
    assert find_new_diagnostics([at(2), at(4)], [at(2)], now, OLD) == [at(4)]


def test_without_the_texts_what_says_the_same_nearby_is_the_same():
    assert find_new_diagnostics([at(9), at(50)], [at(48)]) == [at(9)]


def test_errors_come_first_and_two_tools_that_mark_one_place_count_once():
    lint = Diagnostic(path="a.py", line=3, column=2, message="Undefined name", code="F821", source="ruff")
    types = Diagnostic(path="a.py", line=3, column=2, message="Name used when not defined", source="ty")
    warning = at(1, severity="warning")
    assert sort_diagnostics([warning, types, lint]) == [types, warning]


def test_a_model_is_told_twenty_in_a_line_each():
    rows = format_diagnostics([at(line, "first\nsecond line") for line in range(1, 26)])
    assert rows[0] == "  a.py:1:1: error: first [F821]"
    assert rows[20:] == ["  [... 5 more]"]


def test_of_two_that_say_the_same_the_nearest_one_is_the_old_one():
    assert find_new_diagnostics([at(1), at(8), at(9), at(30)], [at(10), at(29)]) == [at(1), at(8)]
    assert find_new_diagnostics([at(5), at(5), at(9)], [at(7), at(5)]) == [at(9)], "the upper one of two"


def test_thousands_of_findings_that_say_the_same_are_not_compared_each_with_each():
    compared = 0

    class Counted(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    many = [at(line, Counted("no such name")) for line in range(1, 2_001)]
    assert find_new_diagnostics([*many, at(9_000)], many) == [at(9_000)]
    assert compared < 20 * len(many)


def test_a_file_is_reported_with_a_bound_and_the_number_of_the_rest():
    diagnostics = [*(at(line) for line in range(1, 151)), *(at(line, severity="warning") for line in range(1, 31))]
    assert cut_diagnostics(diagnostics) == (tuple(diagnostics[:100]), 50, 30)
    assert cut_diagnostics(diagnostics[:3]) == (tuple(diagnostics[:3]), 0, 0)
