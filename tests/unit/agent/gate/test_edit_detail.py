from __future__ import annotations

from core.agent.gate.edit_detail import build_edit_detail

LINES = [f"line {number}\n" for number in range(200)]


def edited(*numbers: int) -> bytes:
    return "".join(f"{line.rstrip()}!\n" if at in numbers else line for at, line in enumerate(LINES)).encode()


def test_only_lines_that_changed_are_counted():
    detail = build_edit_detail("a.py", edited(), edited(3, 100, 198))
    assert (detail.operation, detail.added, detail.removed) == ("edit", 3, 3)
    assert detail.diff is not None
    assert (detail.diff.start_line, detail.diff.end_line) == (4, 199)


def test_a_new_file_and_one_that_goes_count_as_a_whole():
    assert (build_edit_detail("a", None, b"1\n2\n").added, build_edit_detail("a", b"1\n2\n", None).removed) == (2, 2)


def test_what_is_binary_is_described():
    assert build_edit_detail("a", b"a\n", b"\0" * 3).content == "[binary, 3 bytes]"
