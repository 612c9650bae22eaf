"""Long changed lines wrap: all of a line that is judged is read, in one column and in two; what is cut scrolls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from core.protocol.language import Diagnostic
from core.protocol.review import ChangeDiff, DiffLine
from core.shadow.diff.diff_lines import MAX_WIDTH, build_diff
from core.shadow.diff.hunks import compute_hunks
from tests.tui.review_case import PRICES, ReviewApp, change_of, diff_of
from tests.tui.test_review import settle, text_of
from tui.review.diff.layout import MAX_LINE_ROWS, MAX_SENT, Remarks, break_line, clean_lines, layout_diff
from tui.review.diff.view import DiffView
from tui.widgets.text_rows import find_soft_breaks

CALL = "    record = build_record(customer, order, currency=order.currency, total=order.total(), note='{}')"
LONG = diff_of(
    "src/shop/records.py",
    [
        (" ", "def build(customer, order):  # " + "all that a record needs, in the order in which it is printed " * 3),
        ("-+", f"{CALL.format('as it was')}\n    return None=>{CALL.format('as it is now, and much longer ' * 4)}"),
        (" ", "    # " + "the end of the function, which nobody has touched " * 4),
        ("⋯", "12"),
        (" ", "def send(record):"),
        ("-+", "=>    return post('/records', record, " + "retry=True, " * 20 + ")"),
        (" ", ""),
    ],
)
HOSTILE = "価格" * 60 + "e\u0301" * 70 + "\tif\ta\x1b[31m\u202e\u200b🙂‍↔️ " + "👩‍👩‍👧‍👦" * 9 + " end"


def join_changed(view: DiffView, sign: str) -> str:
    """Return the text of the added or removed lines as it is seen, row by row."""
    text, is_inside, width = "", False, view.painter.measure_gutter(view.page)
    for row in text_of(view).split("\n"):
        gutter, code = row[:width], row[width:]
        is_inside = sign in gutter or ("↳" in gutter and is_inside)
        text += code if is_inside else ""
    return text


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_long_lines_look_as_they_did(snap_compare, size):
    async def painted(pilot: Pilot[None]) -> None:
        await settle(pilot)

    assert snap_compare(ReviewApp([LONG]), terminal_size=size, run_before=painted)


@pytest.mark.parametrize("keys", [("z",), ("v",)], ids=["cut", "columns"])
def test_cut_lines_and_two_columns_look_as_they_did(snap_compare, keys):
    async def painted(pilot: Pilot[None]) -> None:
        await settle(pilot, *keys)

    assert snap_compare(ReviewApp([LONG]), terminal_size=(120, 40), run_before=painted)


async def test_z_wraps_changed_lines_and_cuts_them_and_keeps_the_first_line_in_its_place():
    app = ReviewApp([LONG])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await settle(pilot)
        wrapped = text_of(view)
        assert "nobody has touched" in wrapped
        assert wrapped.count("›") == 2  # the unchanged lines
        assert wrapped.count("↳") >= 6
        head = view.find_hunk_rows(0)[0] - view.scroll_offset.y
        view = await settle(pilot, "z")
        assert "↳" not in text_of(view)
        assert text_of(view).count("›") == 5
        assert view.find_hunk_rows(0)[0] - view.scroll_offset.y == head
        assert text_of(await settle(pilot, "z")) == wrapped


async def test_all_characters_of_a_wrapped_line_are_seen_once_and_in_their_order():
    app = ReviewApp([LONG])
    async with app.run_test(size=(80, 40)) as pilot:
        view = await settle(pilot)
        seen = "".join(join_changed(view, "+").split())
        expected = "".join("".join(line.text for line in LONG.lines if line.kind == "added").split())
        assert seen == expected


async def test_a_wrapped_line_carries_marks_colours_and_the_background_of_its_kind_to_its_last_row():
    app = ReviewApp([LONG])
    async with app.run_test(size=(80, 40)) as pilot:
        view = await settle(pilot)
        rows = [y for y in range(view.size.height) if "↳" in view.render_line(y).text]
        backgrounds = {segment.style.bgcolor for segment in view.render_line(rows[0]) if segment.text.strip()}
        plain = {segment.style.bgcolor for segment in view.render_line(0) if segment.text.strip()}
        assert not plain & backgrounds
        marked = [segment.text for y in rows for segment in view.render_line(y) if segment.style.bold]
        assert any("much longer" in text for text in marked)
        colours = {segment.style.color for segment in view.render_line(rows[1]) if segment.text.strip()}
        assert len(colours) > 2


async def test_a_diagnostic_stands_below_the_last_row_of_its_line_and_underlines_it():
    column = len(CALL) - 10
    problem = Diagnostic(
        path=LONG.change.path,
        line=2,
        column=column,
        end_line=2,
        end_column=column + 4,
        severity="error",
        message="Too long",
    )
    rows = layout_diff(LONG, clean_lines(LONG), Remarks(diagnostics=[problem]), room=60, code_room=60).rows
    index = next(index for index, row in enumerate(rows) if row.kind == "diagnostic")
    line = next(index for index, line in enumerate(LONG.lines) if line.new == 2)
    assert (rows[index - 1].right, rows[index - 1].part > 0) == (line, True)


async def test_two_columns_wrap_each_side_and_keep_the_pairs_side_by_side():
    app = ReviewApp([LONG])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "v")
        rows = [row.split("│") for row in text_of(view).split("\n") if "│" in row]
        starts = [row for row in rows if "record = build" in row[0]]
        assert starts
        assert all("record = build" in right for _, right in starts)
        continued = [row for row in rows if "↳" in row[1]]
        assert any("↳" not in left and not left.strip(" ▌") for left, _ in continued)


async def test_arrows_scroll_the_marked_hunk_alone_and_the_next_hunk_begins_at_its_start():
    app = ReviewApp([LONG])
    async with app.run_test(size=(80, 24)) as pilot:
        before = text_of(await settle(pilot))
        view = await settle(pilot, "right")
        moved = [row for old, row in zip(before.split("\n"), text_of(view).split("\n"), strict=True) if row != old]
        assert len(moved) == 2  # the unchanged lines around it: a wrapped line has nothing to scroll to
        assert all("‹" in row for row in moved)
        view = await settle(pilot, "j")
        assert view.scroll_offset.x == 0
        await settle(pilot, "k", "z", "right")
        rows = text_of(view).split("\n")
        assert sum("‹" in row for row in rows) == 5
        assert next(row for row in rows if "post(" in row).rstrip().endswith("›")
        view = await settle(pilot, "end")
        assert "›" not in "".join(text_of(view).split("\n")[:8])
        await settle(pilot, "j")
        assert view.scroll_offset.x == 0


async def test_a_copied_selection_has_the_line_without_its_wraps():
    app = ReviewApp([diff_of("a.py", [("-+", "=>\tx = [" + "alpha, " * 40 + "]\nend")])])
    async with app.run_test(size=(60, 24)) as pilot:
        view = await settle(pilot)
        head = view.find_hunk_rows(0)[0] + 1
        last = view.find_hunk_rows(0)[1] - 1
        text, _ = view.get_selection(Selection(Offset(0, head), Offset(3, last)))
        assert text == "\tx = [" + "alpha, " * 40 + "]\nend"


@pytest.mark.parametrize("width", [2, 7, 40, 100])
def test_hostile_text_wraps_by_cells_and_never_between_a_letter_and_its_accent(width):
    line = DiffLine(kind="added", old=0, new=1, text=HOSTILE, hunk=0)
    clean = clean_lines(ChangeDiff(change=PRICES.change, lines=(line,)))[0]
    spans = find_soft_breaks(clean.text, width, 10_000)
    rows = [clean.text[start:end] for start, end in spans]
    assert "".join(rows) == clean.text
    assert clean.text.isprintable()
    assert all(cell_len(row) <= max(width, 2) for row in rows)
    assert not [row for row in rows if row[0] in "\u0301\u200d\ufe0f"]


@given(st.text(alphabet="ab ,(価\u0301é🙂", max_size=300), st.integers(2, 50), st.integers(1, 9))
def test_the_rows_of_a_line_are_its_text_in_order_up_to_their_bound(text, width, most):
    spans = find_soft_breaks(text, width, most)
    assert "".join(text[start:end] for start, end in spans) == text[: spans[-1][1] if spans else 0]
    assert len(spans) <= most
    assert all(cell_len(text[start:end]) <= width for start, end in spans)
    assert len(spans) == most or not spans or spans[-1][1] == len(text)


def build_minified(length: int) -> ChangeDiff:
    old, new = b"var a=1;\n", b"a" * length + b"\n"
    hunks = compute_hunks(old, new)
    return build_diff(change_of("dist/app.min.js", hunks, []), old, new)


def test_the_rows_of_a_minified_file_are_bounded_and_say_how_much_is_not_shown():
    assert MAX_SENT == MAX_WIDTH
    diff = build_minified(200_000)
    lines = clean_lines(diff)
    rows = layout_diff(diff, lines, room=30, code_room=30).rows
    wrapped = [row for row in rows if row.kind == "line" and row.right == 1]
    assert len(wrapped) == MAX_LINE_ROWS
    assert [row.text for row in rows if row.kind == "note"] == [
        f"{200_000 - 30 * MAX_LINE_ROWS:,} more characters of",
    ]


def test_a_line_that_the_engine_cut_is_shown_up_to_there_where_there_is_room():
    line = clean_lines(build_minified(200_000))[1]
    spans = break_line(line, 100)
    assert line.text[slice(*spans[-1])].endswith("… [198,000 more characters]")
    assert len(spans) < MAX_LINE_ROWS


async def test_a_narrow_window_says_how_many_characters_of_a_long_line_it_leaves_out():
    app = ReviewApp([build_minified(5_000)])
    async with app.run_test(size=(40, 16)) as pilot:
        view = await settle(pilot)
        await settle(pilot, "G")
        room = view.size.width - view.painter.measure_gutter(view.page) - 1
        assert f"{5_000 - room * MAX_LINE_ROWS:,} more characters of this" in text_of(view)


async def test_the_sign_of_a_missing_line_end_stands_at_the_end_of_the_last_row():
    text = "x" * 52
    old, new = b"y\n", text.encode()
    diff = build_diff(change_of("a.txt", compute_hunks(old, new), []), old, new)
    app = ReviewApp([diff])
    async with app.run_test(size=(60, 16)) as pilot:
        rows = text_of(await settle(pilot)).split("\n")
        assert sum("⊘ no newline" in row for row in rows) == 1
        assert not [row for row in rows if "›" in row]
