from __future__ import annotations

import pytest
from rich.cells import cell_len

from tui.chat.tool_call_rows import highlight_code
from tui.widgets.markdown_rows import render_markdown

LONG = "a long explanation that is certainly much wider than any column of a window, and goes on"
TABLE = f"""\
| name | what it is<br>and more | since |
|---|---|---|
| `first` | {LONG} | 1.0 |
| 日本 | **bold** words | 2.0 |
"""


def columns(width: int) -> list[list[str]]:
    rows = [row.text for row in render_markdown(TABLE, width, highlight_code)]
    assert max(map(cell_len, rows)) <= width
    return [[part.strip() for part in row.split("│")] for row in rows if "│" in row]


@pytest.mark.parametrize("width", [30, 58, 78, 118])
def test_the_cells_of_a_table_wrap_within_their_columns(width):
    table_rows = columns(width)
    names, texts, since = ([part for part in column if part] for column in zip(*table_rows, strict=True))
    assert names == ["name", "first", "日本"]
    assert since == ["since", "1.0", "2.0"]
    assert " ".join(texts) == f"what it is and more {LONG} bold words"


def test_a_table_with_too_many_columns_shows_each_cell_with_its_heading():
    table = "|" + "|".join("abcdefgh") + "|\n" + "|-" * 8 + "|\n" + ("|" + "|".join("12345678") + "|\n") * 2
    rows = [row.text for row in render_markdown(table, 40, highlight_code)]
    record = [f"{name}: {value}" for name, value in zip("abcdefgh", "12345678", strict=True)]
    assert rows == [*record, "", *record]


def test_the_columns_of_a_table_are_aligned_as_it_says():
    table = "| left | right | middle |\n|:--|--:|:-:|\n| a | 1 | x |\n| bbbb | 22222 | y |\n"
    rows = [row.text for row in render_markdown(table, 60, highlight_code)]
    assert rows[2:] == ["a    │     1 │   x", "bbbb │ 22222 │   y"]


def test_tasks_of_a_list_have_boxes_and_what_is_struck_out_is():
    rows = render_markdown("- [ ] open\n- [x] ~~done~~\n1. [ ] counted\n- [no] task", 60, highlight_code)
    assert [row.text for row in rows] == ["☐ open", "☑ done", "", "1. ☐ counted", "", "• [no] task"]
    assert ("done", "struck") in rows[1].pieces


def test_a_fence_with_a_diff_has_the_colours_of_one():
    rows = render_markdown("```diff\n@@ -1 +1 @@\n-old\n+new\n same\n```", 60, highlight_code)
    assert [row.pieces[-1] for row in rows] == [
        ("@@ -1 +1 @@", "muted"),
        ("-old", "removed"),
        ("+new", "added"),
        (" same", ""),
    ]
