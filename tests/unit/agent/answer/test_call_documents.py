from __future__ import annotations

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


def test_a_new_file_and_one_that_goes_count_as_a_whole():
    assert (detail_of("a", None, b"1\n2\n").added, detail_of("a", b"1\n2\n", None).removed) == (2, 2)


def test_what_is_binary_is_described():
    assert detail_of("a", b"a\n", b"\0" * 3).content == "[binary, 3 bytes]"
