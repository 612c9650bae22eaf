from __future__ import annotations

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.queries import DiffAnswer, DiffQuery
from core.protocol.review import ChangeDiff, VerdictRecord
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tests.tui.review_case import ADDED, PRICES, TESTS, ReviewApp
from tests.tui.test_review import IDS, settle, text_of, without
from tests.tui.test_review_dialogs import reviewing
from tui.review.diff.view import DiffView


def shown(app: ReviewApp) -> tuple[str, int]:
    view = app.query_one(DiffView)
    return view.diff.change.path, view.current


def moved_on(app: ReviewApp, *diffs: ChangeDiff) -> None:
    app.diffs = {diff.change.path: diff for diff in diffs}
    app.pane.set_changes(app.changes)


async def test_after_an_undo_the_cursor_is_on_the_hunk_that_came_back():
    app = ReviewApp([PRICES, TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "j", "j", "a")
        moved_on(app, without(PRICES, 2), TESTS)
        await settle(pilot, "]", "u")
        assert shown(app)[0] == TESTS.change.path
        moved_on(app, PRICES, TESTS)
        await settle(pilot)
        assert shown(app) == (PRICES.change.path, 2)
        assert app.query_one(DiffView).diff.change.hunks[2].id == IDS[2]


async def test_after_an_undo_of_a_whole_file_it_is_shown_again():
    app = ReviewApp([ADDED, TESTS])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "a")
        moved_on(app, TESTS)
        await settle(pilot, "u")
        moved_on(app, ADDED, TESTS)
        await settle(pilot)
        assert shown(app) == (ADDED.change.path, 0)


async def test_what_the_agent_adds_without_an_undo_does_not_move_the_cursor():
    app = ReviewApp([PRICES])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "j")
        moved_on(app, PRICES, TESTS)
        await settle(pilot)
        assert shown(app) == (PRICES.change.path, 1)


async def test_files_stand_by_path_whatever_the_order_of_their_events(stage):
    events = [e.ChangeProposed(change=recorded.change(path)) for path in ("z.py", "a.py", "m.py")]
    async with stage(recorded.opening()) as on:
        await on.emit(*events)
        await on.until(lambda: on.panes.side is not None)
        await on.emit(e.ChangeResolved(path="a.py"), e.ChangeProposed(change=recorded.change("a.py")))
        review = on.panes.side.get_pane("review")
        assert [change.path for change in review.browser.changes] == ["a.py", "m.py", "z.py"]


async def test_a_refused_verdict_can_be_given_again(stage):
    def refuse(_: ScriptedClient, command: c.AnyCommand) -> c.Reply | None:
        refusal = c.Reject(code="hunk_unknown", message="That hunk was deleted.")
        return refusal if isinstance(command, c.HunkResolve) else None

    path = PRICES.change.path
    async with stage(recorded.opening(), react=refuse, answers={DiffQuery: DiffAnswer(diff=PRICES)}) as on:
        await on.emit(e.ChangeProposed(change=PRICES.change))
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.panes.side is not None and on.panes.side.get_pane("review"))
        review = on.panes.side.get_pane("review")
        await on.until(lambda: on.screen.query_one(DiffView).diff is not None)
        review._clock = lambda: 1e9
        await on.pilot.press("a")
        await on.until(lambda: on.sent(c.HunkResolve))
        await on.until(lambda: not review._sent.hunks.get(path))
        assert [notification.message for notification in on.app._notifications] == ["That hunk was deleted."]


async def test_a_change_that_can_not_be_read_says_why(stage):
    async with stage(recorded.opening()) as on:
        await on.emit(e.ChangeProposed(change=PRICES.change))
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.screen.query(DiffView))
        await on.until(lambda: (text := text_of(on.screen.query_one(DiffView))) and "scripted" in text)
        assert "nothing is scripted for that" in text_of(on.screen.query_one(DiffView))
        assert "Nothing to review" not in text_of(on.screen.query_one(DiffView))


async def test_u_joins_what_was_split_last_unless_a_verdict_is_newer(stage, clock):
    change, ids = PRICES.change, tuple(IDS)
    texts = {"base_before": change.base, "base_after": change.base}
    texts |= {"pending_before": change.pending, "pending_after": change.pending}
    record = VerdictRecord(id="v1", path="src/other.py", verdict="accept", hunks=(), **texts)
    events = [*recorded.opening(), e.ChangeProposed(change=change), e.ChangeRevised(change=change, parts=ids[1:3])]
    async with stage(events, size=(120, 40), answers={DiffQuery: DiffAnswer(diff=PRICES)}) as on:
        await reviewing(on, clock)
        await on.pilot.press("u")
        await on.until(lambda: on.sent(c.HunkJoin))
        (join,) = on.sent(c.HunkJoin)
        assert (join.path, join.hunk) == (change.path, ids[1])
        await on.emit(e.VerdictGiven(verdict=record))
        await on.pilot.press("u")
        await on.until(lambda: on.sent(c.VerdictUndo))
        await on.emit(e.VerdictUndone(id="v1", path="src/other.py"))
        await on.pilot.press("u")
        await on.until(lambda: len(on.sent(c.HunkJoin)) == 2)
        assert len(on.sent(c.VerdictUndo)) == 1
