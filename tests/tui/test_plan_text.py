from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.protocol.documents import Todo
from core.protocol.events import TodoVerified
from core.protocol.review import Comment
from tests.tui.panes_case import PLAN, plan_app
from tui.plan.panel import PlanPanel
from tui.plan.text_view import LOST_COMMENTS, PlanText, PlanTextRow, layout_text
from tui.plan.todo_edits import move_todo_to
from tui.plan.todo_list import TodoList
from tui.plan.todo_rows import TodoFacts, count_rows, render_todo

LONG = "more `code` of a line that is quite long and has to be wrapped"
LINES = st.one_of(
    st.sampled_from(("# Head", "some words", LONG, "- item", "  - deeper", "", "```", "x = 1", "| a | b |", "|---|")),
    st.sampled_from(("> said", "---", "1. one", "\t", "ß→漢字", "<b>")),
)
BODIES = st.lists(LINES, min_size=1, max_size=25).map("\n".join)


def said(text: str, start: int, excerpt: str) -> Comment:
    lines = excerpt.count("\n") + 1
    return Comment(path="p", hunk=text, text=text, start=start, lines=lines, excerpt=excerpt, on_plan=True)


def drawn(row: PlanTextRow) -> str:
    return "".join(text for text, _ in row.pieces)


@settings(max_examples=120, deadline=None)
@given(BODIES, st.data(), st.integers(12, 70))
def test_every_comment_stands_once_below_its_lines_or_at_the_end_if_they_are_gone(body, data, width):
    lines = body.split("\n")
    start = data.draw(st.integers(1, len(lines)))
    last = data.draw(st.integers(start, len(lines)))
    here = said("here", start, "\n".join(lines[start - 1 : last]))
    lost_comment = said("gone", start, "this line was never there")
    rows = layout_text(body, (here, lost_comment), width)
    assert [drawn(row).strip() for row in rows if row.comment and "▸" in drawn(row)] == ["▸ here", "▸ gone"]
    at = next(number for number, row in enumerate(rows) if drawn(row).strip() == "▸ here")
    before = [row.first for row in rows[:at] if row.first]
    assert all(row.first >= start or not row.first for row in rows[at + 1 :])
    assert not before or before[-1] <= here.find_line(body) + here.lines - 1
    assert any(drawn(row) == LOST_COMMENTS for row in rows)
    stops = [row.stop for row in rows if row.stop]
    assert sorted(set(stops)) == list(range(1, max(stops) + 1))
    assert all(0 <= row.first <= row.last <= len(lines) for row in rows)


@settings(max_examples=80, deadline=None)
@given(BODIES, st.lists(LINES, max_size=4), st.data())
def test_a_comment_finds_its_lines_again_after_an_edit_elsewhere(body, new, data):
    lines = body.split("\n")
    unique = [
        number for number, line in enumerate(lines, start=1) if line and lines.count(line) == 1 and line not in new
    ]
    for number in unique:
        comment = said("c", number, lines[number - 1])
        at = data.draw(st.integers(0, len(lines)))
        edited = [*lines[:at], *new, *lines[at:]]
        assert edited[comment.find_line("\n".join(edited)) - 1] == lines[number - 1]
        assert comment.find_line("\n".join([*lines[: number - 1], *lines[number:]])) == 0


TODOS = st.builds(
    Todo,
    id=st.sampled_from("abc"),
    content=st.text(st.sampled_from("ab 漢\n"), max_size=200),
    status=st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
    dependencies=st.lists(st.sampled_from("xyz"), max_size=3, unique=True).map(tuple),
    verify=st.sampled_from(["", "make test"]),
)


@settings(max_examples=120, deadline=None)
@given(TODOS, st.integers(20, 60))
def test_the_height_of_a_todo_is_known_without_drawing_it(todo, width):
    others = {"x": Todo(id="x", content="", status="completed"), "y": Todo(id="y", content="")}
    proof = TodoVerified(id="a", command="make test", exit_code=1)
    facts = TodoFacts(others, {todo.id: proof} if proof else {})
    assert count_rows(todo, facts, width) == len(render_todo(todo, facts, width))


@given(st.lists(st.sampled_from("abcdef"), unique=True, min_size=2), st.data())
def test_a_todo_that_is_dropped_stands_where_the_other_was(keys, data):
    todos = tuple(Todo(id=key, content=key) for key in keys)
    key, target = data.draw(st.sampled_from(keys)), data.draw(st.sampled_from(keys))
    after = [todo.id for todo in move_todo_to(todos, key, target)]
    assert after.index(key) == keys.index(target)
    assert [todo_id for todo_id in after if todo_id != key] == [todo_id for todo_id in keys if todo_id != key]
    assert move_todo_to(todos, key, "z") == todos


KEPT = said("Once per what?", 5, "- `Basket.total` rounds once")
LOST = said("Is this still so?", 2, "Floats are fine.")


async def reading(pilot, *comments: Comment) -> PlanText:
    pilot.app.query_one(PlanPanel).show(PLAN, (), comments=comments)
    text = pilot.app.query_one(PlanText)
    text.focus()
    await pilot.pause()
    return text


async def test_lines_are_marked_and_commented_from_the_keyboard():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        text = await reading(pilot)
        await pilot.press("j", "j", "J", "c", *"Why", "enter", "k", "c", "escape", "c", "enter")
        await pilot.press(*"ewndo/", "escape")  # no todo is marked in the text
        (comment,) = app.posted
        assert (comment.start, comment.excerpt) == (5, "- `Basket.total` rounds once\n- the receipt shows it")
        assert (comment.path, comment.text, comment.id) == (PLAN.path, "Why", "")
        text.focus()
        await pilot.press("G", "c", *"x", "enter", "S", "enter")
        assert app.posted[1].excerpt == "Decimal('0.01')"
        assert type(app.posted[2]).__name__ == "CommentsRequested"
        assert not text.has_focus


@pytest.mark.parametrize(
    ("keys", "first", "count"),
    [
        ("j", 3, 1),
        ("down down up", 3, 1),
        ("down shift+down", 3, 3),
        ("j j J shift+up", 5, 1),
        ("end", 9, 1),
        ("end home", 1, 1),
        ("j j k", 3, 1),
        ("j J", 3, 3),
        ("j j j K", 5, 2),
        ("j j J K", 5, 1),
        ("pagedown", 5, 1),
        ("G pageup", 3, 1),
        ("G", 9, 1),
        ("G g", 1, 1),
    ],
)
async def test_the_cursor_goes_by_lines_by_screenfuls_and_to_both_ends_and_marks(keys, first, count):
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        text = await reading(pilot)
        text.styles.height = 6
        await pilot.pause()
        await pilot.press(*keys.split())
        start, excerpt = text.get_marked_lines()
        assert (start, excerpt.count("\n") + 1) == (first, count)


async def test_a_comment_is_changed_and_removed_where_it_stands():
    app = plan_app()
    async with app.run_test(size=(60, 40)) as pilot:
        text = await reading(pilot, KEPT, LOST)
        lines = [text.get_row_text(row) for row in range(text.count_rows())]
        assert lines.index("  ▸ Once per what?") == lines.index("• Basket.total rounds once") + 1
        assert lines[-3:] == [LOST_COMMENTS, "  Floats are fine.", "  ▸ Is this still so?"]
        await pilot.press("j", "j", "j", "c", *"!", "enter", "d", "G", "delete")
        asked = [(message.id, message.text) for message in app.posted]
        assert asked == [("Once per what?", "Once per what?!"), ("Once per what?", ""), ("Is this still so?", "")]


async def test_the_mouse_marks_lines_and_a_double_click_comments_them():
    app = plan_app()
    async with app.run_test(size=(60, 40)) as pilot:
        text = await reading(pilot)
        await pilot.click(text, offset=(4, 5))
        assert text.get_marked_lines() == (5, "- `Basket.total` rounds once")
        await pilot.click(text, offset=(4, 6), shift=True)
        assert text.get_marked_lines()[1].endswith("- the receipt shows it")
        await pilot.click(text, offset=(4, 3), times=2)
        await pilot.press(*"So", "enter")
        assert app.posted[-1].excerpt == "Floats lose cents. **Decimal** does not:"


async def test_the_cursor_stays_when_the_plan_is_updated_and_not_in_another_plan():
    app = plan_app()
    async with app.run_test(size=(60, 40)) as pilot:
        text = await reading(pilot)
        await pilot.press("j", "j")
        app.query_one(PlanPanel).show(replace(PLAN, body=f"{PLAN.body}\nmore"), ())
        assert text.get_marked_lines()[0] == 5
        app.query_one(PlanPanel).show(replace(PLAN, path="other.plan.md"), ())
        await pilot.pause()
        assert text.get_marked_lines()[0] == 1
        assert app.query_one(TodoList).has_focus


async def commented(pilot) -> None:
    text = await reading(pilot, KEPT, LOST)
    await pilot.press("j", "j", "J")
    assert text.current_comment is not None


async def writing(pilot) -> None:
    await reading(pilot)
    await pilot.press("E", "down", "down", *"New. ")


def test_comments_look_as_they_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(120, 40), run_before=commented)


def test_comments_in_a_small_window_look_as_they_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(60, 16), run_before=commented)


def test_the_editor_looks_as_it_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(60, 16), run_before=writing)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("# Exact prices\n\nDecimal.\n", "Decimal."),
        ("\n## exact Prices ##\n\nDecimal.\n", "Decimal."),
        ("# Plan: *Exact* `prices`\n\nDecimal.\n", "Decimal."),
        ("Exact prices\n============\n\nDecimal.\n", "Decimal."),
        ("# Exact prices and more\n\nDecimal.\n", "Exact prices and more"),
        ("Exact prices\n\nDecimal.\n", "Exact prices"),
        ("", ""),
    ],
)
def test_a_first_heading_that_says_the_title_is_not_said_again(body, shown):
    rows = layout_text(body, (), 60, title="Exact prices")
    assert "".join(drawn(row) for row in rows[:1]).strip() == shown
    if shown == "Decimal.":
        assert rows[0].first == next(at for at, line in enumerate(body.split("\n"), 1) if line == "Decimal.")
