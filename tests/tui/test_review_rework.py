"""What is done to a hunk before its verdict, from the keyboard: split, edit, comment; and what asks the screen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.events import Key

from core.protocol.commands import Command, HunkComment, HunkEdit, HunkResolve, HunkSplit
from core.protocol.queries import DiffQuery, HunkAnswer, HunkQuery
from core.protocol.review import Check, Comment, Origin
from tests.tui.review_case import PRICES, TESTS, ReviewApp, diff_of
from tests.tui.test_review import settle, text_of
from tests.tui.test_review_dialogs import diff, proposed, reviewing
from tests.tui.test_review_list import change
from tui.review import messages as review_messages
from tui.review.hunk_editor import EditorContext, HunkEditor, is_line_editable
from tui.review.pane import ReviewInput

PATH, HUNKS = PRICES.change.path, PRICES.change.hunks
TOLD = Comment(path=PATH, hunk=HUNKS[1].id, text="Why a list?", start=HUNKS[1].new_start, lines=1)


def wanted(app: ReviewApp) -> list[object]:
    return [command for command in app.posted if isinstance(command, Command) and not isinstance(command, HunkResolve)]


def around(app: ReviewApp, *comments: Comment) -> None:
    app.pane.browser.set_surroundings(
        (), {(comment.path, comment.hunk): comment for comment in comments}, {}, ({"t1": 3}, {"d": "Round half up"})
    )
    app.pane.set_changes(app.changes)


async def test_s_splits_the_hunk_where_it_falls_apart_or_at_the_marked_line():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "s")
        view = await settle(pilot, "j", "j", "J", "J", "J", "J", "s")
        assert wanted(app) == [HunkSplit(path=PATH, hunk=HUNKS[0].id), HunkSplit(path=PATH, hunk=HUNKS[2].id, line=2)]
        assert "▶" in text_of(view)
        view = await settle(pilot, "K", "K", "K", "K")
        assert view.marked_line == 1
        view = await settle(pilot, "shift+down", "shift+down", "shift+up")
        assert view.marked_line == 2
        await settle(pilot, "K")
        await settle(pilot, "s")
        assert wanted(app)[-1] == HunkSplit(path=PATH, hunk=HUNKS[2].id)


async def test_a_click_in_the_current_hunk_marks_its_line():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "j", "j", "j")
        row = view.find_hunk_rows(3)[0] - view.scroll_offset.y + 3
        await pilot.click(view, offset=(20, row))
        await pilot.pause()
        assert view.marked_line == 3


async def test_e_asks_for_the_text_and_what_is_saved_becomes_the_hunk():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "e")
        (asked,) = app.posted
        assert (asked.path, asked.hunk) == (PATH, HUNKS[0].id)
        await app.pane.edit_hunk(HunkAnswer(path=PATH, hunk=HUNKS[0].id, text="one\ntwo\n", start=5))
        await settle(pilot)
        editor = app.query_one(HunkEditor)
        assert (editor.text, editor.has_focus, editor.suffix) == ("one\ntwo", True, ".py")
        await settle(pilot, "a", "r", "end", "enter", *"xyz", "ctrl+s")
        assert wanted(app) == [HunkEdit(path=PATH, hunk=HUNKS[0].id, text="arone\nxyz\ntwo\n")]
        assert not editor.display
        assert app.pane.browser.diff_view.has_focus


async def test_what_is_typed_and_saved_in_one_burst_is_saved():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.pane.edit_hunk(HunkAnswer(path=PATH, hunk=HUNKS[0].id, text="one\n", start=5))
        await settle(pilot)
        for key in ("x", "y", "ctrl+s"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await settle(pilot)
        assert wanted(app) == [HunkEdit(path=PATH, hunk=HUNKS[0].id, text="xyone\n")]


@pytest.mark.parametrize("key", ["escape", "ctrl+s"])
async def test_leaving_the_editor_or_changing_nothing_leaves_the_hunk(key):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.pane.edit_hunk(HunkAnswer(path=PATH, hunk=HUNKS[0].id, text="one\n", start=5))
        await settle(pilot)
        await settle(pilot, *(["x"] if key == "escape" else []), key)
        assert wanted(app) == []
        assert app.pane.browser.diff_view.has_focus


LONG = diff_of(
    "src/long.py",
    [(" ", "\n".join(f"above = {at}" for at in range(100))), ("-+", "old=>one\ntwo"), (" ", "\n".join("z" * 80))],
)


@pytest.mark.parametrize("height", [12, 40, 60])
async def test_the_lines_around_an_edited_hunk_fill_the_pane_however_long_it_gets(height):
    app = ReviewApp([LONG])
    async with app.run_test(size=(120, height)) as pilot:
        text = "one\ntwo\n"
        await app.pane.edit_hunk(HunkAnswer(path="src/long.py", hunk=LONG.change.hunks[0].id, text=text, start=101))
        await settle(pilot)
        editor, browser = app.query_one(HunkEditor), app.pane.browser
        above, below = app.query(EditorContext)
        for _ in range(2):
            lines = [*str(above.render()).split("\n"), *editor.text.split("\n"), *str(below.render()).split("\n")]
            parts = above.size.height + editor.size.height + below.size.height
            assert len(lines) == parts >= browser.size.height - 3  # progress, origin, and what may be a warning
            assert lines[: above.size.height][-1] == "100  above = 99"
            assert str(below.render()).startswith("103  z")
            await settle(pilot, "enter", "enter")


async def test_the_lines_around_a_hunk_at_the_end_of_a_file_are_those_above_it():
    diff = diff_of("a.py", [(" ", "\n".join(f"n{at}" for at in range(100))), ("-+", "old=>new")])
    app = ReviewApp([diff])
    async with app.run_test(size=(120, 40)) as pilot:
        await app.pane.edit_hunk(HunkAnswer(path="a.py", hunk=diff.change.hunks[0].id, text="new\n", start=101))
        await settle(pilot)
        above, below = app.query(EditorContext)
        assert not below.display
        assert above.size.height + 1 >= app.pane.browser.size.height - 3


async def test_the_colours_of_an_edited_hunk_are_those_of_the_theme():
    def list_colours(editor: HunkEditor) -> set[object]:
        return {segment.style.color for segment in editor.render_line(0) if segment.style and segment.text.strip()}

    text = "if x: return 'x'\n"
    edited = HunkAnswer(path=PATH, hunk=HUNKS[0].id, text=text, start=5, language="python")
    colour_sets = []
    for switches in (True, False):
        app = ReviewApp()
        async with app.run_test(size=(120, 40)) as pilot:
            for theme in app.appearance.build_themes():
                app.register_theme(theme)
            app.theme = "agent-dark" if switches else "agent-light"
            await settle(pilot)
            await app.pane.edit_hunk(edited)
            await settle(pilot)
            before = list_colours(app.query_one(HunkEditor))
            app.theme = "agent-light"
            await settle(pilot)
            colour_sets.append(list_colours(app.query_one(HunkEditor)))
            assert (before != colour_sets[-1]) == switches
    assert colour_sets[0] == colour_sets[1]


@pytest.mark.parametrize("text", ["", "x", "x\n", "x\n\n", "\n"])
async def test_the_last_newline_comes_back_as_it_was(text):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.pane.edit_hunk(HunkAnswer(path=PATH, hunk=HUNKS[0].id, text=text, start=1))
        await settle(pilot)
        result = app.query_one(HunkEditor).result
        assert result == ("" if text == "\n" else text)


def test_text_with_other_line_endings_is_not_for_an_editor_of_lines():
    assert all(is_line_editable(text) for text in ("", "a", "a\nb\n", "\n\n"))
    assert not any(is_line_editable(text) for text in ("a\rb", "a\u2028b\n", "\x0c\n", "a\x85"))


async def test_c_comments_a_hunk_again_and_empty_removes_it():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "j", "c", *"why?", "enter")
        assert wanted(app) == [HunkComment(path=PATH, hunk=HUNKS[1].id, text="why?")]
        around(app, TOLD)
        view = await settle(pilot)
        assert "❝ Why a list?" in text_of(view)
        assert "1 comment (S to send)" in str(app.query_one(".review--progress").render())
        await settle(pilot, "c")
        assert app.query_one(ReviewInput).value == "Why a list?"
        await settle(pilot, *["backspace"] * 11, "enter")
        assert wanted(app)[-1] == HunkComment(path=PATH, hunk=HUNKS[1].id, text="")
        await settle(pilot, "k", "c", "enter", "c", "escape")
        assert len(wanted(app)) == 2
        assert view.has_focus


@pytest.mark.parametrize("height", range(14, 22))
async def test_a_comment_on_the_hunk_at_the_foot_of_the_view_is_seen(height):
    app = ReviewApp()
    async with app.run_test(size=(120, height)) as pilot:
        view = await settle(pilot, "j")
        around(app, TOLD)
        await settle(pilot)
        last = view.find_hunk_rows(1)[1] - 1
        assert view.current == 1
        assert view.get_row_text(last) == "Why a list?"
        assert last < view.scroll_offset.y + view.size.height


async def test_a_comment_stands_below_its_hunk_as_text_and_the_cursor_stays_in_view():
    app = ReviewApp()
    async with app.run_test(size=(120, 20)) as pilot:
        view = await settle(pilot, "j", "j")
        around(app, replace(TOLD, text="one [/red]\ntwo \x1b[2J"))
        await settle(pilot)
        assert view.current == 2
        assert view.scroll_offset.y <= view.find_hunk_rows(2)[0] < view.scroll_offset.y + view.size.height
        assert [row.text for row in view.page._layout.rows if row.kind == "comment"] == ["one [/red]", "two ␛[2J"]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("S", review_messages.CommentsRequested),
        ("b", review_messages.OriginVerdictRequested),
        ("t", review_messages.ConflictRequested),
    ],
)
async def test_keys_that_ask_the_screen_say_what_they_are_about(key, kind):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, key)
        (asked,) = app.posted
        assert isinstance(asked, kind)
        assert PATH in (getattr(asked, "path", PATH), asked.change.path if hasattr(asked, "change") else "")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"origin": Origin(tool="write", turn="t1")}, ["by write", "turn 3", "no check since"]),
        (
            {"origin": Origin(tool="you", todo="d", over="write")},
            ["edited by you · by write", "todo “Round half up”"],
        ),
        (
            {
                "origin": Origin(command="npm  run\nbuild", tool="run_terminal_cmd"),
                "check": Check(call="c", command="pytest -q", exit_code=0, kind="tests"),
            },
            ["by `npm run build`", "✓ tests passed since: `pytest -q`"],
        ),
        (
            {
                "origin": Origin(tool="write"),
                "check": Check(call="c", command="python -m compileall .", exit_code=0, kind="syntax"),
            },
            ["✓ compiled since, not tested: `python -m compileall .`"],
        ),
        (
            {"origin": Origin(tool="write"), "check": Check(call="c", command="make [x]", exit_code=2)},
            ["✗ failing: `make [x]` ended with 2"],
        ),
        (
            {"origin": Origin(tool="write"), "broken": "line 2: ')' is missing"},
            ["✗ does not parse: line 2: ')'"],
        ),
    ],
)
async def test_a_line_says_where_the_change_came_from_and_whether_it_was_checked(more, words):
    app = ReviewApp([replace(TESTS, change=replace(TESTS.change, **more))])
    async with app.run_test(size=(120, 40)) as pilot:
        around(app)
        await settle(pilot)
        origin_text = str(app.query_one(".review--origin").render())
        assert all(word in origin_text for word in words)


async def test_the_line_cuts_commands_once_and_leaves_nothing_half_said():
    long = "python3 -m py_compile anthropic/_files.py && sed -i s/a/b/ x && git status"
    more = {"origin": Origin(command=long, turn="t1"), "check": Check(call="c", command=long, exit_code=0)}
    app = ReviewApp([replace(TESTS, change=replace(TESTS.change, **more))])
    async with app.run_test(size=(80, 24)) as pilot:
        around(app)
        await settle(pilot)
        line = app.query_one(".review--origin")
        origin_text = str(line.render()).rstrip()
        assert len(origin_text) <= 80
        assert origin_text.count("…`") == 2
        assert origin_text.endswith("turn 3")
        await pilot.resize_terminal(50, 24)
        await settle(pilot)
        origin_text = str(line.render()).rstrip()
        assert origin_text.endswith("…`")
        assert len(origin_text) <= 50


async def test_a_protected_change_says_why_and_a_labelled_one_only_that():
    protected = replace(TESTS, change=replace(TESTS.change, protected=True, risk="runs automatically when git commits"))
    flagged = replace(PRICES, change=replace(PRICES.change, risk="runs whenever pytest starts here"))
    app = ReviewApp([protected, flagged])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        line = app.query_one(".review--risk")
        assert str(line.render()) == "! It runs automatically when git commits. Accept it on its own and confirm."
        await settle(pilot, "]")
        assert str(line.render()) == "! It runs whenever pytest starts here."


async def test_shrinking_the_window_keeps_the_lines_of_the_hunk_in_view():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "j", "j", "j")
        await pilot.resize_terminal(60, 16)
        await settle(pilot)
        assert view.current == 3
        top, height = view.scroll_offset.y, view.size.height
        head, end = view.find_hunk_rows(3)
        assert end - head <= height
        assert top <= head < end <= top + height


async def test_the_line_for_a_comment_says_what_it_is_for_again_and_shows_the_end_of_a_long_one(stage, clock):
    def drawn() -> str:
        line = on.screen.query_one(ReviewInput)
        rows = on.screen._compositor.render_strips()
        return rows[line.region.y].text.strip() if line.region else ""

    async with stage(proposed(change("src/a.py")), size=(60, 16), answers={DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("c")
        await on.until(lambda: drawn().startswith("Your comment."))
        await on.pilot.press("x", "backspace")
        await on.pilot.pause()
        assert drawn().startswith("Your comment.")
        await on.pilot.press(*"word " * 20, *"end")
        await on.pilot.pause()
        assert drawn().endswith("word end")


async def test_a_long_line_in_a_hunk_that_is_edited_takes_no_second_row_for_a_bar(stage, clock):
    text = HunkAnswer(path="src/a.py", hunk="h", text=f"{'long ' * 40}\n", start=4)
    answers = {DiffQuery: diff("src/a.py"), HunkQuery: text}
    async with stage(proposed(change("src/a.py")), size=(60, 16), answers=answers) as on:
        await reviewing(on, clock)
        await on.pilot.press("e")
        await on.until(lambda: on.screen.query("HunkEditor") and on.screen.query_one(HunkEditor).has_focus)
        await on.pilot.pause()
        assert on.screen.query_one(HunkEditor).outer_size.height == 1
