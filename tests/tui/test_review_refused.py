"""Verdicts that nothing comes of, and lines that do not fit: what the review says where the cursor is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.app import App

from core.protocol.review import ConflictChoice, ConflictRegion
from tests.tui.review_case import PRICES, TESTS, ReviewApp, diff_of
from tests.tui.test_review import settle, text_of
from tui.dialogs.conflict import ConflictView
from tui.review.diff.view import CONFLICT_HINTS, DiffView


async def test_what_is_in_conflict_is_not_accepted_and_the_cursor_stays_with_the_reason():
    why = "the file was at the same place."
    clash = replace(TESTS, change=replace(TESTS.change, conflict=why))
    app = ReviewApp([clash, PRICES])
    async with app.run_test(size=(80, 24)) as pilot:
        view = await settle(pilot, "a", "A")
        assert not app.posted
        assert app.pane.browser._get_path() == TESTS.change.path
        assert f"Not accepted: {why}" in str(app.query_one(".review--conflict").render())
        assert view.hints == CONFLICT_HINTS
        assert "resolve t" in text_of(view)
        assert "accept" not in text_of(view)
        await settle(pilot, "l", "a")
        assert not app.posted
        assert f"{TESTS.change.path}: Not accepted" in str(app.query_one(".review--conflict").render())
        await settle(pilot, "enter", "r")
        assert [message.verdict for message in app.posted] == ["reject"]


@pytest.mark.parametrize("refuse", ["conflict", "fault"])
async def test_a_verdict_that_nothing_comes_of_brings_the_cursor_back_to_what_was_judged(refuse):
    app = ReviewApp([TESTS, PRICES])
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, "a")
        assert app.pane.browser._get_path() == PRICES.change.path
        if refuse == "conflict":
            app.diffs[TESTS.change.path] = replace(TESTS, change=replace(TESTS.change, conflict="It was edited."))
            app.pane.set_changes(app.changes)
        app.pane.show_refused({TESTS.change.path: "The disk is full."})
        await settle(pilot)
        assert app.pane.browser._get_path() == TESTS.change.path
        assert not app.pane._sent.hunks
        expected_text = "Not accepted: It was edited." if refuse == "conflict" else "Not done: The disk is full."
        assert expected_text in str(app.query_one(".review--conflict").render())
        app.pane.show_refused({PRICES.change.path: "Of an earlier day."})
        assert app.pane.browser._get_path() == TESTS.change.path


async def test_a_long_line_is_marked_where_it_is_cut_and_arrows_home_and_end_move_along_it():
    long = "x = " + "1234567890" * 20
    app = ReviewApp([diff_of("long.py", [(" ", "short"), ("-+", f"=>{long}")])])
    async with app.run_test(size=(80, 24)) as pilot:

        def line(view: DiffView) -> str:
            return next(row for row in text_of(view).split("\n") if "1234567890" in row)

        view = await settle(pilot, "z")
        assert line(view).endswith("›")
        assert sum("›" in row for row in text_of(view).split("\n")) == 1
        await settle(pilot, "right")
        assert view.scroll_offset.x >= view.get_line_width() // 2
        assert ("‹" in line(view), "›" in line(view)) == (True, True)
        await settle(pilot, "end")
        assert line(view).endswith("67890")
        assert "›" not in line(view)
        end = view.scroll_offset.x
        await settle(pilot, "left")
        assert 0 < view.scroll_offset.x < end
        await settle(pilot, "home")
        assert view.scroll_offset.x == 0
        assert "x = 123" in line(view)


async def test_the_line_that_is_read_in_a_tall_hunk_stays_while_a_reason_is_typed():
    app = ReviewApp([diff_of("a.py", [("-+", "=>" + "\n".join(f"row {number}" for number in range(60)))])])
    async with app.run_test(size=(80, 20)) as pilot:
        view = await settle(pilot, "G")
        assert "row 59" in text_of(view)
        await settle(pilot, "w")
        assert "row 59" in text_of(view)
        await settle(pilot, "escape", "pageup", "pageup")
        seen = text_of(view).split("\n")[0]
        assert "row 5" not in seen
        await settle(pilot, "w")
        assert text_of(view).split("\n")[0] == seen


async def test_a_place_in_conflict_shows_below_its_sides_what_the_file_will_say():
    clash = ConflictRegion(start=3, base=("base",), mine=("my line",), theirs=("their line", "and more"))
    app: App[None] = App()
    async with app.run_test(size=(60, 20)) as pilot:
        view = ConflictView()
        await app.mount(view)

        def result(choice: ConflictChoice | None) -> list[str]:
            view.show(clash, choice)
            rows = [view.render_line(y).text.strip() for y in range(view.size.height)]
            at = next(y for y, row in enumerate(rows) if row.removeprefix("✓ ") == "result")
            return [row for row in rows[at + 1 :] if row]

        await pilot.pause()
        assert result(None) == ["undecided: stays in conflict"]
        assert result(ConflictChoice(take="both")) == ["my line", "their line", "and more"]
        assert result(ConflictChoice(take="text", text="mine and theirs")) == ["mine and theirs"]
        tints = {}
        for y in range(view.size.height):
            strip = view.render_line(y)
            tints.setdefault(strip.text.strip(), next(iter(strip)).style.bgcolor)
        assert len({tints["my line"], tints["their line"], tints["base"]}) == 3
