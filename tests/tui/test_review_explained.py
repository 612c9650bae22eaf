"""No key of the review is silent: what a guard stops is said where the verdict would be."""

from __future__ import annotations

import pytest

from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.commands import HunkResolve
from tests.support import recorded
from tests.tui.review_case import ADDED, CASES, PRICES, REMOVED, TESTS, ReviewApp, diff_of
from tests.tui.test_hints import drawn
from tests.tui.test_review import resolved, settle, text_of, without
from tests.tui.test_review_dialogs import proposed, reviewing
from tests.tui.test_review_wrapping import LONG
from tui.review.browser import AT_END, NONE_SEEN, NOT_LOADED, NOT_YET, REVEALED
from tui.widgets.key_hints import KeyHints

TALL = diff_of(
    "src/tall.py",
    [("-+", "=>" + "\n".join(f"row {number}" for number in range(60))), (" ", "end"), ("⋯", "9"), ("-+", "a=>b")],
)


def read_head(view) -> str:
    return next(row for row in text_of(view).split("\n") if f"hunk {view.current + 1}/" in row)


@pytest.mark.parametrize("key", ["a", "r", "A", "R", "w", "s", "e", "c"])
async def test_a_key_that_only_brings_its_hunk_into_view_says_so_and_acts_when_it_is_pressed_again(key):
    app = ReviewApp([TALL])
    async with app.run_test(size=(60, 20)) as pilot:
        view = await settle(pilot)
        await settle(pilot, "j", "g")
        view.visibility.clear()
        view = await settle(pilot, "g", key)
        assert app.posted == []
        assert REVEALED in read_head(view)
        view = await settle(pilot, key)
        assert REVEALED not in text_of(view)
        assert app.posted or app.pane.query_one("ReviewInput").display


@pytest.mark.parametrize("key", ["a", "A", "u", "b", "P", "t", "n"])
async def test_a_key_that_comes_too_early_says_so(key):
    app = ReviewApp([PRICES])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.pace = 0.0
        app.pane.browser.restart_grace()
        view = await settle(pilot, key)
        assert app.posted == []
        assert NOT_YET in read_head(view)
        app.pace = 1.0
        view = await settle(pilot, "j")
        assert NOT_YET not in text_of(view)


async def test_a_press_of_the_mouse_brings_the_buttons_back():
    app = ReviewApp([PRICES])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "k")
        assert "accept a" not in read_head(view)
        await pilot.click(view, offset=(30, view.size.height - 2))
        view = await settle(pilot)
        assert "accept a" in text_of(view)


@pytest.mark.parametrize("key", ["J", "K", "w", "s", "e", "c", "z"])
async def test_a_key_about_a_hunk_says_in_the_list_that_one_has_to_be_open(key):
    app = ReviewApp([PRICES, TESTS])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, "l", key)
        assert "open a hunk first: enter" in str(app.pane.query_one(".review--progress").render())
        assert app.posted == []
        await settle(pilot, "j")
        assert "open a hunk first" not in str(app.pane.query_one(".review--progress").render())


@pytest.mark.parametrize(("key", "words"), [("k", AT_END[0]), ("left_square_bracket", AT_END[0])])
async def test_the_first_hunk_says_that_it_is_the_first(key, words):
    app = ReviewApp([PRICES, TESTS])
    async with app.run_test(size=(80, 24)) as pilot:
        assert words in read_head(await settle(pilot, key))


@pytest.mark.parametrize("key", ["j", "right_square_bracket"])
async def test_the_last_hunk_says_that_it_is_the_last(key):
    app = ReviewApp([PRICES, TESTS])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await settle(pilot, "right_square_bracket", key)
        assert AT_END[1] in read_head(view)


async def test_a_verdict_on_lines_that_are_not_loaded_says_so():
    app = ReviewApp([PRICES])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        page = app.pane.browser.diff_view.page
        page.problem, page.diff = "", None
        await settle(pilot, "a")
        assert app.posted == []
        assert app.pane.browser._explanation == NOT_LOADED


async def test_accepting_the_file_over_and_over_judges_all_files():
    many = [TALL, *CASES, LONG]
    app = ReviewApp(many)
    async with app.run_test(size=(60, 16)) as pilot:
        await settle(pilot)
        for _ in range(2 * len(many)):
            await settle(pilot, "A")
            for verdict in [command for command in app.posted if isinstance(command, HunkResolve)]:
                app.diffs.pop(verdict.path, None)
                app.pane.set_changes(app.changes)
            await settle(pilot)
        judged = [path for path, *_ in resolved(app)]
        assert judged == [diff.change.path for diff in many]


async def test_a_file_whose_next_hunk_was_in_view_for_long_enough_is_judged_by_the_next_stroke():
    app = ReviewApp([ADDED, TESTS, REMOVED])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.now += 5
        app.pace = 0.0
        await settle(pilot, "A", "A", "A")
        assert [path for path, *_ in resolved(app)] == [diff.change.path for diff in (ADDED, TESTS, REMOVED)]


async def test_the_foot_shows_wrap_only_where_a_changed_line_is_long():
    assert without(PRICES, 2).lines
    app = ReviewApp([LONG])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert ("review.wrap", "wrap") in app.pane.hints
        await settle(pilot, "z")
        assert ("review.wrap", "wrap") in app.pane.hints
    app = ReviewApp([PRICES])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert ("review.wrap", "wrap") not in app.pane.hints


@pytest.mark.parametrize(("size", "missing"), [((60, 16), True), ((200, 60), False)])
async def test_the_foot_names_accepting_what_is_proven_and_the_line_to_mark_where_there_is_room(stage, size, missing):
    events = [*recorded.opening(), e.ChangeProposed(change=PRICES.change)]
    async with stage(events, size=size, answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await on.pilot.press("ctrl+r")
        await on.until(lambda: "esc back" in str(on.screen.query_one("#side-hint").render()))
        foot = on.screen.query_one("#side-hint", KeyHints)
        await on.until(lambda: foot.size.height == len(str(foot.render()).split("\n")))
        text = "  ".join(drawn(foot))
        assert "a accept  r reject  j next  u undo" in text
        assert ("P accept proven" not in text, "J K mark line" not in text) == (missing, missing)
        assert ("f1 more" in text) == missing


async def test_all_hunks_that_were_in_view_are_offered_and_no_others():
    gone = diff_of("src/gone.py", [("-+", "a=>")], operation="delete")
    app = ReviewApp([PRICES, gone, TALL, TESTS])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await settle(pilot)
        await settle(pilot, "V")
        (event,) = app.offered
        assert [(verdict.path, len(verdict.hunks)) for verdict in event.verdicts] == [(PRICES.change.path, 2)]
        view = await settle(pilot, "j", "j", "j", "j", "j")
        assert (view.page.path, view.current) == (TALL.change.path, 0)
        await settle(pilot, "V")
        seen = {verdict.path: verdict.hunks for verdict in app.offered[-1].verdicts}
        assert list(seen) == [PRICES.change.path]  # the end of the tall one was not in view
        assert len(seen[PRICES.change.path]) == 4
        await settle(pilot, "j", "k", "V")
        seen = {verdict.path: verdict.hunks for verdict in app.offered[-1].verdicts}
        assert seen[TALL.change.path] == tuple(hunk.id for hunk in TALL.change.hunks)
        assert gone.change.path not in seen
        assert app.posted == []


async def test_where_nothing_was_in_view_the_key_says_so():
    app = ReviewApp([diff_of("src/gone.py", [("-+", "a=>")], operation="delete")])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await settle(pilot)
        await settle(pilot, "V")
        assert NONE_SEEN in read_head(view)
        assert app.offered == []


@pytest.mark.parametrize(("key", "sent"), [("y", [PRICES.change.path]), ("n", [])])
async def test_what_was_seen_is_accepted_after_one_question_with_counts(stage, clock, key, sent):
    async with stage(proposed(PRICES.change), size=(120, 60), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewing(on, clock)
        await on.until(lambda: on.panes.review.browser.diff_view.diff is not None)
        await on.pilot.pause()
        clock[0] += 5
        await on.pilot.press("V")
        await on.asked()
        text = str(on.app.screen.query_one(".dialog-title").render())
        assert "Accept 4 hunks in 1 file?" in text
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.pause(0.05)
        assert [command.path for command in on.sent(HunkResolve)] == sent
