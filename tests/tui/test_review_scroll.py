"""All files in one scroll: headers that stay, lines that are loaded when they come near, hunks that fold."""

from __future__ import annotations

from msgspec.structs import replace
from textual import events
from textual.geometry import Offset

from core.protocol.queries import HunkAnswer
from core.protocol.review import Bulk, ChangeDiff, Check, FileState, Origin, VerdictRecord
from tests.tui.review_case import ADDED, PRICES, TESTS, ReviewApp, diff_of
from tests.tui.test_review import resolved, settle, text_of, without
from tests.tui.test_review_list import change
from tui.review import messages
from tui.review.change_list import ChangeList
from tui.review.descriptions import NOT_ASKED_FOR, UserRequests, arrange_by_intent
from tui.review.diff.verdicts import Progress, describe_settled, draw_meter
from tui.review.diff.view import DiffView
from tui.review.hunk_editor import EditorContext, HunkEditor

STATE = FileState()
TESTED = Check(call="c", command="pytest -q", exit_code=0, kind="tests")


def record(diff: ChangeDiff, *hunks: int, verdict: str = "accept") -> VerdictRecord:
    return VerdictRecord(
        id=f"v{hunks}",
        path=diff.change.path,
        verdict=verdict,  # type: ignore[arg-type]
        hunks=tuple(diff.change.hunks[index] for index in hunks),
        base_before=STATE,
        base_after=STATE,
        pending_before=STATE,
        pending_after=STATE,
    )


def judged(app: ReviewApp, *records: VerdictRecord) -> None:
    app.pane.browser.set_review(records, {})
    app.pane.set_changes(app.changes)


def many_files(count: int) -> list[ChangeDiff]:
    body = "\n".join(f"line {index}" for index in range(80))
    return [diff_of(f"src/{number:03}.py", [(" ", body), ("-+", f"old=>new {number}")]) for number in range(count)]


async def test_files_stand_below_each_other_and_the_header_of_the_first_one_stays():
    app = ReviewApp([PRICES, ADDED, TESTS])
    async with app.run_test(size=(120, 24)) as pilot:
        view = await settle(pilot)
        view_text = text_of(view)
        assert view_text.index("src/shop/prices.py") < view_text.index("hunk 1/4")
        view.scroll_to(y=12, animate=False)
        await settle(pilot)
        assert "src/shop/prices.py" in view.render_line(0).text
        assert "src/shop/prices.py" not in text_of(view).split("\n", 1)[1]
        view.scroll_end(animate=False)
        await settle(pilot)
        view_text = text_of(view)
        assert view_text.index("rounding.py") < view_text.index("tests/test_prices.py")


async def test_only_files_that_come_near_are_loaded():
    diffs = many_files(300)
    app = ReviewApp(diffs)
    async with app.run_test(size=(100, 30)) as pilot:
        view = await settle(pilot)
        assert len(set(app.loads)) < 5
        view.scroll_to(y=view.max_scroll_y // 2, animate=False)
        await settle(pilot)
        assert len(set(app.loads)) < 12
        assert any(line.startswith("  ") and "line" in line for line in text_of(view).split("\n"))
        await settle(pilot, *"]" * 3)
        assert view.diff is not None
        assert view.diff.change.path == "src/003.py"


async def test_what_is_read_does_not_move_when_lines_above_it_come():
    app = ReviewApp(many_files(40))
    async with app.run_test(size=(100, 30)) as pilot:
        view = await settle(pilot)
        page = view.pages[20]
        view.scroll_to(y=view._tops[20], animate=False)
        await settle(pilot)
        assert view.find_page(view.scroll_offset.y) == (page, 0)


async def test_a_hunk_of_another_file_is_judged_where_it_was_clicked():
    app = ReviewApp([TESTS, ADDED])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        row = next(y for y in range(view.size.height) if "PLACES = 2" in view.render_line(y).text)
        await pilot.click(DiffView, offset=(30, row))
        await settle(pilot, "a")
        assert resolved(app) == [(ADDED.change.path, (ADDED.change.hunks[0].id,), "accept", "")]


async def test_a_judged_hunk_folds_to_a_row_in_its_place_and_the_meter_drains():
    app = ReviewApp([PRICES, TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.diffs[PRICES.change.path] = without(PRICES, 0, 1)
        judged(app, record(PRICES, 0), record(PRICES, 1, verdict="reject"))
        view = await settle(pilot)
        rows = text_of(view).split("\n")
        written = next(y for y, row in enumerate(rows) if row.strip() == "✓ written prices.py:5")
        rejected = next(y for y, row in enumerate(rows) if row.strip() == "✕ rejected prices.py:10 · u")
        assert written < rejected < next(y for y, row in enumerate(rows) if "hunk 1/2" in row)
        meter = str(app.query_one(".review--progress").render())
        assert "2/5" in meter
        assert "░" in meter
        assert "▓" in meter


async def test_a_settled_file_leaves_its_rows_where_it_was():
    app = ReviewApp([PRICES, ADDED, TESTS])
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot)
        del app.diffs[ADDED.change.path]
        judged(app, record(ADDED, 0))
        view_text = text_of(await settle(pilot))
        assert (
            view_text.index("hunk 4/4")
            < view_text.index("✓ written rounding.py:1 · u")
            < view_text.index("test_prices.py")
        )


async def test_an_empty_review_says_what_became_of_it():
    app = ReviewApp([PRICES])
    async with app.run_test(size=(100, 20)) as pilot:
        await settle(pilot)
        app.diffs.clear()
        judged(app, record(PRICES, 0, 1, 2), record(PRICES, 3, verdict="reject"))
        view_text = text_of(await settle(pilot))
        assert "Accepted 3, rejected 1" in view_text
        assert "u undo" in view_text
        bulk = Bulk(root="node_modules", kind="generated", files=3, bytes=9)
        app.pane.browser.set_surroundings((bulk,), {}, {}, ({}, {}))
        judged(app, record(PRICES, 0))
        assert "Accepted 1" in text_of(await settle(pilot))
        assert "1 in bulk (l)" in str(app.query_one(".review--progress").render())
        await settle(pilot, "l")
        assert app.query_one(ChangeList).display
    assert describe_settled(Progress(), can_commit=False) == ""


def test_the_meter_is_never_empty_before_the_last_hunk_and_never_full_after_the_first():
    def drawn(*counts: int) -> str:
        return "".join(text for text, _ in draw_meter(Progress(*counts), 60))

    assert "░" not in drawn(0, 0, 500)
    assert drawn(1, 0, 499).count("░") == drawn(499, 0, 1).count("▓") == 1
    assert drawn(3, 1, 0).count("▓") == 0
    assert draw_meter(Progress(1, 0, 2), 12) == [(" 1/3 ", "bold")]


async def test_few_changes_get_as_much_context_as_there_is_room_for():
    asked: list[int] = []

    class Roomy(ReviewApp):
        async def load(self, path: str, context: int) -> ChangeDiff | None:
            asked.append(context)
            lines = "\n".join(f"line {index}" for index in range(context))
            return diff_of(path, [(" ", lines), ("-+", "a=>b"), (" ", lines)])

    app = Roomy([TESTS])
    async with app.run_test(size=(100, 40)) as pilot:
        view = await settle(pilot)
        assert len(asked) < 6
        assert asked[-1] > 10
        assert view.size.height - 4 < view.count_rows() <= view.size.height


async def test_a_drag_that_begins_in_the_number_column_copies_whole_lines():
    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        row = next(y for y in range(view.size.height) if "def test_total" in view.render_line(y).text)
        await pilot.mouse_down(DiffView, offset=(2, row))
        await pilot._post_mouse_events([events.MouseMove], widget=DiffView, offset=(40, row + 3), button=1)
        await pilot.mouse_up(DiffView, offset=(40, row + 3))
        await pilot.pause()
        text = app.screen.get_selected_text() or ""
        assert text.split("\n")[0] == "def test_total():"
        assert "hunk" not in text
        assert "+" not in text


async def test_a_pane_without_the_focus_is_dim():
    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        head = view.find_hunk_rows(0)[0]
        bright = [segment.style for segment in view.render_line(head)]
        app.set_focus(None)
        await settle(pilot)
        assert [segment.style for segment in view.render_line(head)] != bright


async def test_capital_p_asks_for_what_tests_have_proven_and_p_for_the_proof():
    proven = replace(PRICES, change=replace(PRICES.change, check=TESTED))
    compiled = replace(TESTS, change=replace(TESTS.change, check=replace(TESTED, kind="syntax")))
    protected = replace(ADDED, change=replace(ADDED.change, check=TESTED, protected=True))
    app = ReviewApp([proven, compiled, protected])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot, "P", "p")
        asked = [request for request in app.posted if isinstance(request, messages.ProvenVerdictRequested)]
        assert [[change.path for change in one.changes] for one in asked] == [[PRICES.change.path]]
        proofs = [message.change.path for message in app.posted if isinstance(message, messages.ProofRequested)]
        assert proofs == [PRICES.change.path]
        assert "✓ passed" in view.render_line(0).text
        assert "✓ compiled" in text_of(view)


async def test_a_click_on_the_mark_of_a_check_shows_its_proof_and_on_another_mark_it_does_not():
    proven = replace(PRICES, change=replace(PRICES.change, check=TESTED))
    app = ReviewApp([proven])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        place = view.render_line(0).text.index("passed")
        await pilot.click(DiffView, offset=(place, 0))
        assert [message.change.path for message in app.posted if isinstance(message, messages.ProofRequested)] == [
            PRICES.change.path
        ]
        app.diffs[PRICES.change.path] = replace(proven, change=replace(proven.change, risk="runs automatically"))
        app.pane.set_changes(app.changes)
        view = await settle(pilot)
        place = view.render_line(0).text.index("runs")
        await pilot.click(DiffView, offset=(place, 0))
        assert len(app.posted) == 1


def test_files_stand_by_what_they_were_changed_for_and_what_nobody_asked_for_first():
    wishes = UserRequests(
        {"t1": "Round half up in prices", "t2": "Add a page"}, {"t1": 1, "t2": 2}, {"d": "Write the page"}
    )
    changes = (
        change("a.py", origin=Origin(turn="t2", todo="d")),
        change("lock.json", origin=Origin(turn="t1", command="npm install")),
        change("prices.py", origin=Origin(turn="t1", command="sed -i s/a/b/ prices.py")),
        change("zz/AGENTS.md", protected=True, origin=Origin(turn="t2", todo="d")),
    )
    ordered_changes, names = arrange_by_intent(changes, wishes)
    assert [ordered_change.path for ordered_change in ordered_changes] == [
        "lock.json",
        "prices.py",
        "zz/AGENTS.md",
        "a.py",
    ]
    assert list(names.values()) == [
        "todo “Write the page”",
        NOT_ASKED_FOR,
        "“Round half up in prices”",
        "todo “Write the page”",
    ]
    assert arrange_by_intent(changes[:1], wishes) == (changes[:1], {})


async def test_an_intent_stands_above_its_first_file():
    app = ReviewApp([PRICES, ADDED, TESTS])
    async with app.run_test(size=(120, 60)) as pilot:
        app.pane.browser.set_review((), dict.fromkeys((PRICES.change.path, ADDED.change.path), "“Round”"))
        app.pane.set_changes(app.changes)
        view_text = text_of(await settle(pilot))
        assert view_text.count("“Round”") == 1
        assert view_text.index("“Round”") < view_text.index("prices.py")


async def test_the_text_of_a_removed_file_is_copied_from_where_it_was_marked():
    app = ReviewApp([TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        view = await settle(pilot)
        from textual.selection import Selection

        row = next(y for y in range(view.size.height) if "== 0.0" in view.render_line(y).text)
        text, _ = view.get_selection(Selection(Offset(-5, row), Offset(-2, row + 1))) or ("", "")
        assert text == "    assert total([]) == 0.0\n"


async def test_a_hunk_is_edited_in_colours_between_the_lines_around_it():
    app = ReviewApp([PRICES])
    async with app.run_test(size=(100, 30)) as pilot:
        view = await settle(pilot, "j")
        hunk = PRICES.change.hunks[1]
        text = "        self.items: list[Item] = []\n"
        await app.pane.edit_hunk(
            HunkAnswer(path=PRICES.change.path, hunk=hunk.id, text=text, start=10, language="python")
        )
        await settle(pilot)
        above, below = (str(widget.render()) for widget in app.query(EditorContext))
        assert above.split("\n")[0].strip() == PRICES.change.path
        assert above.split("\n")[-1] == " 9      def __init__(self) -> None:"
        assert below.split("\n")[0].strip() == "11"
        editor = app.query_one(HunkEditor)
        row = editor.render_line(0)
        assert row.text.startswith("10          self.items")
        assert len({segment.style.color for segment in row if segment.style and segment.text.strip()}) > 1
        await pilot.press("escape")
        await settle(pilot)
        assert view.display
        assert not any(widget.display for widget in app.query(EditorContext))
