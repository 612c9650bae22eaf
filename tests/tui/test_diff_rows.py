from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.protocol.review import ChangeDiff, DiffLine, FileState, Hunk
from tests.tui.review_case import ADDED, PRICES, REMOVED, change_of, diff_of
from tui.review.diff.layout import (
    MAX_LINE_LENGTH,
    Remarks,
    clean_lines,
    describe_whole_file,
    find_matching_hunk,
    layout_diff,
)

HOSTILE = "a\x1b[31m\tb\x1b]52;c;x\x07 \u202eright\u202c\x00\r\u2028 [@click=app.quit]x[/]"


def shape(diff: ChangeDiff, *, two: bool = False) -> list[tuple[str, int, int]]:
    page = layout_diff(diff, clean_lines(diff), is_split=two)
    return [(row.kind, row.left, row.right) for row in page.rows]


def hunk(id_: str, start: int, count: int = 1) -> Hunk:
    return Hunk(id=id_, old_start=start, old_lines=count, new_start=start, new_lines=count)


def test_each_hunk_has_a_head_and_all_lines_stand_in_order():
    page = layout_diff(PRICES, clean_lines(PRICES))
    assert [page.rows[head].kind for head in page.head_rows] == ["hunk"] * 4
    line_indexes = [row.right if row.right >= 0 else row.left for row in page.rows if row.kind == "line"]
    assert line_indexes == [index for index, line in enumerate(PRICES.lines) if line.kind != "gap"]
    for index, (head, tail) in enumerate(zip(page.head_rows, page.end_rows, strict=True)):
        assert {row.hunk for row in page.rows[head:tail]} == {index}


def test_two_columns_pair_old_and_new_from_the_top_of_a_hunk():
    diff = diff_of("a", [("-+", "one\ntwo=>uno\ndue\ntre"), (" ", "end")])
    assert shape(diff, two=True) == [
        ("hunk", -1, -1), ("line", 0, 2), ("line", 1, 3), ("line", -1, 4), ("line", 5, 5),
    ]  # fmt: skip


def test_one_column_shows_old_lines_before_new_ones():
    diff = diff_of("a", [("-+", "one=>uno"), ("⋯", "7")])
    assert shape(diff) == [("hunk", -1, -1), ("line", 0, -1), ("line", -1, 1), ("gap", -1, -1)]


def test_n16a_a_file_that_only_moved_is_told_in_words_and_not_by_its_lines():
    change = change_of("new", [replace(hunk("h", 1), moves=True)], [], operation="rename", renamed_from="old")
    page = layout_diff(ChangeDiff(change=change, lines=(), note="renamed, content unchanged"), [])
    assert [row.text for row in page.rows] == ["", "renamed from old", "renamed, content unchanged"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"binary": True}, "binary file: 100 bytes → 120 bytes"),
        ({"pending": FileState(mode=0o755)}, "mode 644 → 755"),
        ({"operation": "create", "base": FileState(kind="absent"), "pending": FileState()}, "a new empty file"),
        ({"operation": "delete", "pending": FileState(kind="absent")}, "the file is deleted (100 bytes)"),
        ({"pending": FileState(kind="symlink")}, "file → symbolic link"),
        ({"operation": "rename", "renamed_from": "old\x1b[2Jname"}, "renamed from old␛[2Jname"),
    ],
)
def test_a_change_without_lines_is_told_in_words(more, words):
    change = change_of("a", [hunk("h", 0)], [], **more)
    diff = ChangeDiff(change=change, lines=())
    assert words in describe_whole_file(change)
    assert layout_diff(diff, []).rows[0].kind == "hunk"
    assert words in [row.text for row in layout_diff(diff, []).rows]


def test_a_cut_diff_says_that_a_verdict_counts_for_all_of_it():
    diff = ChangeDiff(change=ADDED.change, lines=ADDED.lines, truncated=True, note="first 2 of 9 lines")
    notes = [row.text for row in layout_diff(diff, clean_lines(diff)).rows if row.kind == "note"]
    assert notes[0] == "first 2 of 9 lines"
    assert "verdict applies to all" in notes[1]


def test_hostile_lines_lose_their_power_and_keep_their_marks_t1_t4():
    start = HOSTILE.index("right")
    line = DiffLine(kind="added", old=0, new=1, text=HOSTILE, hunk=0, marks=((start, start + 5),))
    safe_line = clean_lines(ChangeDiff(change=ADDED.change, lines=(line,)))[0]
    assert safe_line.text[slice(*safe_line.marks[0])] == "right"
    assert safe_line.text.isprintable()
    assert "[@click=app.quit]x[/]" in safe_line.text


def test_an_endless_line_is_cut_and_says_so():
    line = DiffLine(kind="added", old=0, new=1, text="x" * 1_000_000, hunk=0)
    text = clean_lines(ChangeDiff(change=ADDED.change, lines=(line,)))[0].text
    assert len(text) < MAX_LINE_LENGTH + 50
    assert "992,000 more characters" in text


@pytest.mark.parametrize(
    ("now", "at"),
    [
        (["a", "b", "c"], "b"),
        (["a", "c"], "c"),
        (["a"], "a"),
        (["x", "a", "b2", "c"], "b2"),
        (["a", "b2", "c"], "b2"),
    ],
)
def test_the_cursor_stays_as_near_as_it_can(now, at):
    starts = {"x": 1, "a": 10, "b": 20, "b2": 20, "c": 30}
    before = [hunk(name, starts[name]) for name in ("a", "b", "c")]
    hunks = [hunk(name, starts[name]) for name in now]
    assert hunks[find_matching_hunk(before, 1, hunks)].id == at


def test_nothing_left_means_no_cursor():
    assert find_matching_hunk([hunk("a", 1)], 0, []) == -1


def test_a_note_on_a_binary_file_stands_in_its_hunk_and_only_there():
    diff = ChangeDiff(change=change_of("a", [hunk("h", 0)], [], binary=True), lines=(), note="binary file, 1 → 2 bytes")
    assert [(row.hunk, row.text) for row in layout_diff(diff, []).rows[1:]] == [(0, "binary file, 1 → 2 bytes")]


def test_words_about_a_change_are_broken_into_rows_and_never_cut():
    note = "This diff is very long; the rest is not shown. A verdict applies to all of it."
    diff = replace(REMOVED, note=note)
    comments = {REMOVED.change.hunks[0].id: "Why is this gone? It is used."}
    page = layout_diff(diff, clean_lines(diff), Remarks(comments), room=30)
    text_rows = [row for row in page.rows if row.kind in {"note", "rest", "comment"}]
    assert all(len(row.text) <= 30 for row in text_rows)
    assert [row.kind for row in text_rows] == ["comment", "note", "rest", "rest"]
    assert " ".join(row.text for row in text_rows if row.kind != "comment") == note
