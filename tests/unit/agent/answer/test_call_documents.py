from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.agent.answer.call_documents import build_edit_detail
from core.protocol.review import Change, FileState
from core.shadow.diff.hunks import compare_texts
from core.shadow.review.proposals import ShadowEdit
from core.tools.base import FileEditDetail

LINES = [f"line {number}\n" for number in range(200)]


CHANGE = Change(path="a", operation="edit", base=FileState(kind="absent"), pending=FileState(kind="absent"))


def detail_of(path: str, before: bytes | None, after: bytes | None) -> FileEditDetail:
    hunks = compare_texts(before or b"", after or b"")
    return build_edit_detail(path, ShadowEdit(change=CHANGE, before=before, after=after, hunks=hunks))


def edited(*numbers: int) -> bytes:
    return "".join(f"{line.rstrip()}!\n" if at in numbers else line for at, line in enumerate(LINES)).encode()


def test_only_lines_that_changed_are_counted():
    detail = detail_of("a.py", edited(), edited(3, 100, 198))
    assert (detail.operation, detail.added, detail.removed) == ("edit", 3, 3)
    assert detail.diff is not None
    assert (detail.diff.start_line, detail.diff.end_line) == (4, 199)


SOURCE = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n", ""]).map(lambda end: "\n".join(lines) + (end if lines else ""))
)


@given(SOURCE, SOURCE)
def test_a_diff_applied_by_its_lines_gives_the_new_text_and_loses_nothing(before, after):
    diff = detail_of("a.txt", before.encode(), after.encode()).diff
    if diff is None:
        assert before == after
        return
    lines = before.splitlines(keepends=True)
    assert "".join(lines[diff.start_line - 1 : diff.end_line]) == diff.old_string
    lines[diff.start_line - 1 : diff.end_line] = [diff.new_string]
    assert "".join(lines) == after
    assert diff.old_string or not before


def test_an_insertion_takes_in_the_line_before_it_or_behind_it():
    def region(before: str, after: str) -> tuple[str, str, int, int]:
        diff = detail_of("a.txt", before.encode(), after.encode()).diff
        assert diff is not None
        return diff.old_string, diff.new_string, diff.start_line, diff.end_line

    assert region("a\nb\n", "a\nx\nb\n") == ("a\n", "a\nx\n", 1, 1)
    assert region("a\n", "x\na\n") == ("a\n", "x\na\n", 1, 1)
    assert region("", "x\n") == ("", "x\n", 1, 1)


def test_a_new_file_and_one_that_goes_count_as_a_whole():
    assert (detail_of("a", None, b"1\n2\n").added, detail_of("a", b"1\n2\n", None).removed) == (2, 2)


def test_what_is_binary_is_described():
    assert detail_of("a", b"a\n", b"\0" * 3).content == "[binary, 3 bytes]"
