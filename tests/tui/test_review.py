from __future__ import annotations

import gc

import pytest
from msgspec.structs import replace
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from core.protocol.commands import HunkResolve, VerdictUndo
from core.protocol.review import ChangeDiff
from tests.tui.review_case import ADDED, CASES, PRICES, TESTS, ReviewApp, diff_of
from tui.review.browser import GRACE
from tui.review.diff.verdicts import ANSWER_TIMEOUT
from tui.review.diff.view import CONFLICT_HINTS, DiffView
from tui.review.pane import ReviewPane

IDS = [hunk.id for hunk in PRICES.change.hunks]


async def settle(pilot: Pilot[None], *keys: str) -> DiffView:
    await pilot.press(*keys)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return pilot.app.query_one(DiffView)


def without(diff: ChangeDiff, *hunks: int) -> ChangeDiff:
    left = [hunk for index, hunk in enumerate(diff.change.hunks) if index not in hunks]
    numbers = {index: left.index(hunk) for index, hunk in enumerate(diff.change.hunks) if hunk in left}
    rows = [replace(line, hunk=numbers.get(line.hunk, -1)) for line in diff.lines if line.hunk not in hunks]
    return replace(diff, change=replace(diff.change, hunks=tuple(left)), lines=tuple(rows))


def text_of(view: DiffView) -> str:
    return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))


def resolved(app: ReviewApp) -> list[tuple[str, tuple[str, ...], str, str]]:
    return [(e.path, e.hunks, e.verdict, e.reason) for e in app.posted if isinstance(e, HunkResolve)]


async def test_j_and_k_walk_the_hunks_across_files_and_stop_at_the_ends():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "k")
        assert (view.diff.change.path, view.current) == (PRICES.change.path, 0)
        view = await settle(pilot, "j", "j", "j")
        assert view.current == 3
        view = await settle(pilot, "j")
        assert (view.diff.change.path, view.current) == (ADDED.change.path, 0)
        view = await settle(pilot, "k")
        assert (view.diff.change.path, view.current) == (PRICES.change.path, 3)


async def test_brackets_go_from_file_to_file():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "]", "]", "]", "]")
        assert view.diff.change.path == TESTS.change.path
        view = await settle(pilot, "[")
        assert view.diff.change.path == CASES[2].change.path


@pytest.mark.parametrize(("key", "verdict"), [("a", "accept"), ("r", "reject")])
async def test_a_verdict_names_the_hunk_and_goes_on_to_the_next(key, verdict):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "j", key)
        assert resolved(app) == [(PRICES.change.path, (IDS[1],), verdict, "")]
        assert view.current == 2
        assert f"{verdict}ing…" in text_of(view)
        await settle(pilot, key, key)
        assert [resolution[1] for resolution in resolved(app)] == [(IDS[1],), (IDS[2],), (IDS[3],)]
        assert view.current == 0


async def test_the_last_verdict_of_a_file_leads_to_the_next_file():
    app = ReviewApp([ADDED, TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "a")
        assert view.diff.change.path == TESTS.change.path
        await settle(pilot, "a", "a", "a")
        assert [resolution[0] for resolution in resolved(app)] == [ADDED.change.path, TESTS.change.path]


@pytest.mark.parametrize(("key", "verdict"), [("A", "accept"), ("R", "reject")])
async def test_capitals_judge_what_is_left_of_the_file(key, verdict):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "a", key)
        assert resolved(app)[1] == (PRICES.change.path, tuple(IDS[1:]), verdict, "")
        assert view.diff.change.path == ADDED.change.path


@pytest.mark.parametrize("key", ["a", "r", "A", "R", "w", "u", "s", "e", "c", "b"])
async def test_keys_sleep_for_half_a_second_after_the_pane_appears(key):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.pane.browser.start_grace()
        app.pace = 0.0
        app.now += GRACE - 0.01
        await settle(pilot, key)
        assert app.posted == []
        assert not app.query_one(Input).display
        app.now += 0.02
        await settle(pilot, key)
        assert app.posted or app.query_one(Input).display


async def test_the_grace_also_starts_when_the_first_change_arrives_and_covers_the_mouse():
    app = ReviewApp([])
    async with app.run_test(size=(120, 40)) as pilot:
        app.diffs = {PRICES.change.path: PRICES}
        app.pane.set_changes(app.changes)
        view = await settle(pilot)
        head = view.find_hunk_rows(0)[0]
        await pilot.click(DiffView, offset=(view.size.width - 22, head))
        assert app.posted == []
        app.now += GRACE
        await pilot.click(DiffView, offset=(view.size.width - 22, head))
        await pilot.pause()
        assert resolved(app)[0][2] == "accept"


async def test_a_click_on_reject_rejects_and_a_click_on_a_line_selects():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        await pilot.click(DiffView, offset=(30, view.find_hunk_rows(2)[0] + 1))
        await pilot.pause()
        assert view.current == 2
        app.now += 1
        await pilot.click(DiffView, offset=(view.size.width - 5, view.find_hunk_rows(2)[0]))
        await pilot.pause()
        assert resolved(app) == [(PRICES.change.path, (IDS[2],), "reject", "")]


async def test_w_asks_why_and_rejects_with_the_reason():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "w", *"a bug", "enter")
        assert resolved(app) == [(PRICES.change.path, (IDS[0],), "reject", "a bug")]
        assert app.query_one(DiffView).has_focus
        view = await settle(pilot, "w", "r", "escape")
        assert len(resolved(app)) == 1
        assert view.has_focus


async def test_u_asks_for_undo_and_shift_o_shows_the_file_at_the_hunk():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "j", "j", "O", "u")
        opened, undone = app.posted
        assert (opened.path, opened.line) == (PRICES.change.path, PRICES.change.hunks[2].new_start)
        assert undone == VerdictUndo()


async def test_a_refusal_and_silence_make_hunks_judgeable_again():
    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "a", "a")
        assert len(resolved(app)) == 1
        app.pane.reopen(TESTS.change.path)
        await settle(pilot, "a")
        assert len(resolved(app)) == 2
        app.now += ANSWER_TIMEOUT + 1
        await settle(pilot, "a")
        assert len(resolved(app)) == 3


async def test_v_shows_two_columns_only_where_there_is_room():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "j", "v")
        assert view.is_split
        assert "│" in text_of(view)
        assert view.current == 1
        await pilot.resize_terminal(90, 40)
        await pilot.pause()
        assert not view.is_split
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert view.is_split
        await settle(pilot, "v")
        assert not view.is_split


async def test_g_and_capital_g_and_pages_scroll():
    app = ReviewApp([diff_of("a.py", [(" ", "\n".join(map(str, range(200)))), ("-+", "x=>y")])])
    async with app.run_test(size=(80, 20)) as pilot:
        view = await settle(pilot)
        assert view.scroll_offset.y > 150
        await settle(pilot, "g")
        assert view.scroll_offset.y == 0
        await settle(pilot, "pagedown")
        assert view.scroll_offset.y > 10
        await settle(pilot, "G")
        assert view.scroll_offset.y == view.max_scroll_y


async def test_the_cursor_and_the_place_stay_when_the_change_is_revised():
    app = ReviewApp()
    async with app.run_test(size=(120, 20)) as pilot:
        view = await settle(pilot, "j", "j")
        place = view.find_hunk_rows(2)[0] - view.scroll_offset.y
        app.diffs[PRICES.change.path] = without(PRICES, 0)
        app.pane.set_changes(app.changes)
        await settle(pilot)
        assert view.diff.change.hunks[view.current].id == IDS[2]
        assert view.find_hunk_rows(view.current)[0] - view.scroll_offset.y == place


async def test_an_accepted_hunk_that_is_gone_leaves_the_cursor_on_the_next():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "a")
        app.diffs[PRICES.change.path] = without(PRICES, 0)
        app.pane.set_changes(app.changes)
        await settle(pilot)
        assert view.diff.change.hunks[view.current].id == IDS[1]


async def test_a_settled_file_gives_way_to_the_next_and_the_last_to_a_calm_text():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        del app.diffs[PRICES.change.path]
        app.pane.set_changes(app.changes)
        view = await settle(pilot)
        assert view.diff.change.path == ADDED.change.path
        app.pane.set_changes(())
        await settle(pilot, "a", "j", "A", "O", "c", "w", "s", "e", "l", "t", "b")
        assert "Nothing to review" in text_of(view)
        assert app.posted == []


async def test_a_change_that_is_gone_or_unreadable_is_told_in_words():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        changes = app.changes
        app.diffs.clear()
        app.pane.set_changes(changes[1:])
        view = await settle(pilot)
        assert "Nothing pending in this file" in text_of(view)

        async def fail(*_: object) -> ChangeDiff | None:
            raise OSError("the engine \x1b[31mended")

        app.pane.browser.loader.load = fail
        app.pane.set_changes(tuple(replace(change, added=change.added + 1) for change in changes))
        await settle(pilot)
        assert "Can't show this change" in text_of(view)
        assert "the engine ␛[31mended" in text_of(view)


async def test_a_conflict_says_why_and_what_to_do():
    diff = replace(TESTS, change=replace(TESTS.change, conflict="The file on disk was changed at line 2."))
    app = ReviewApp([diff])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        conflict_text = str(app.query_one(".review--conflict").render())
        assert "changed at line 2" in conflict_text
        assert "r to reject" in conflict_text
        assert "! conflict" in text_of(view)


async def test_n16a_of_a_file_in_conflict_only_the_hunk_that_clashes_is_refused():
    hunks = tuple(replace(hunk, clashes=index == 1) for index, hunk in enumerate(PRICES.change.hunks))
    diff = replace(PRICES, change=replace(PRICES.change, conflict="It was changed at line 2.", hunks=hunks))
    app = ReviewApp([diff])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        conflict_text = str(app.query_one(".review--conflict").render())
        assert "Conflict in 1 of 4 hunks; you can accept the others: It was changed at line 2." in conflict_text
        view = await settle(pilot, "a", "a")
        assert resolved(app) == [(diff.change.path, (IDS[0],), "accept", "")]
        assert (view.current, view.hints) == (1, CONFLICT_HINTS)
        view = await settle(pilot, "j", "A")
        assert resolved(app)[1:] == [(diff.change.path, (IDS[2], IDS[3]), "accept", "")]
        await settle(pilot, "r")
        assert resolved(app)[2:] == [(diff.change.path, (IDS[1],), "reject", "")]


async def test_every_size_down_to_forty_by_ten_shows_the_hunk_and_its_chips():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        for width, height in ((60, 16), (40, 10), (20, 5), (120, 40)):
            await pilot.resize_terminal(width, height)
            view = await settle(pilot)
            assert all(view.render_line(y).cell_length == view.size.width for y in range(view.size.height))
            if width >= 40:
                assert "hunk 1/4" in text_of(view)
                assert "✓" in text_of(view)


async def test_hostile_paths_and_lines_show_as_text_t1_p10():
    name = "src/\x1b]0;x\x07\u202egnp[/red]\n.py"
    diff = diff_of(name, [("-+", "[@click=app.quit]a[/]\x1b[2J=>[/nope]\u200b\x9b31m")])
    app = ReviewApp([replace(diff, change=replace(diff.change, conflict="[/x]\x1b[2J"))])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "v", "v")
        view_text = text_of(view)
        assert view_text.replace("\n", "").isprintable()
        assert "[@click=app.quit]a[/]" in view_text
        await pilot.click(DiffView, offset=(20, 1))
        await settle(pilot, "r")
        assert resolved(app)[0][0] == name


async def test_copied_text_has_neither_gutter_nor_signs():
    from textual.geometry import Offset
    from textual.selection import Selection

    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        text, _ = view.get_selection(Selection(Offset(0, 1), Offset(11, 3))) or ("", "")
        assert text == "def test_total():\n    assert "


async def test_a_large_diff_draws_only_what_is_seen():
    from tests.tui.panes_speed import large_diff

    app = ReviewApp([large_diff(10_000)])
    drawn: list[int] = []
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        render_row = view.render_row
        view.render_row = lambda row, width, shift: (drawn.append(row), render_row(row, width, shift))[1]
        assert view.count_rows() > 10_000
        await settle(pilot, "pagedown")
        assert 0 < len(set(drawn)) < 200
        assert view._strips.maxsize == 600


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark", "nord"])
async def test_added_and_removed_lines_differ_from_context_in_every_theme(theme):
    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        app.theme = theme
        view = await settle(pilot)
        backs = {
            view._get_shown(y)[1].left >= 0 and view._get_shown(y)[1].right >= 0: {
                str(segment.style.bgcolor) for segment in view.render_line(y) if segment.style
            }
            for y in range(1, view.count_rows())
            if view._get_shown(y)[1].kind == "line"
        }
        assert backs[True] != backs[False]
        assert all(sign in text_of(view) for sign in (" - ", " + "))


async def test_a_pane_that_is_still_being_put_together_has_the_focus_once_it_is_there():
    async def load(*_: object) -> None:
        return None

    app: App[None] = App()
    async with app.run_test() as pilot:
        pane = ReviewPane(load)
        mounted = app.mount(pane)
        pane.focus()
        await mounted
        await pilot.pause()
        assert app.focused is pane.query_one(DiffView)


@pytest.mark.slow
async def test_changes_that_come_faster_than_they_can_be_shown_leave_no_question_unasked(recwarn):
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        for number in range(5):
            app.pane.set_changes(app.changes[number % 2 :])
            app.pane.action_move_file(1)
        await pilot.pause()
        app.pane.set_changes(app.changes)
        app.pane.set_changes(())
    gc.collect()
    assert [warning for warning in recwarn if "never awaited" in str(warning.message)] == []


async def test_the_mark_of_a_line_that_goes_on_is_not_covered_by_the_scrollbar():
    app = ReviewApp()
    async with app.run_test(size=(60, 16)) as pilot:
        view = await settle(pilot, "z", "j", "j")
        assert view.show_vertical_scrollbar
        cut = [line for line in text_of(view).split("\n") if "each.price" in line]
        assert cut
        assert all(line[: view.row_width].endswith("›") for line in cut)
