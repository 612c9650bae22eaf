"""The list of hunks, those to look at first: its order, its folds, what is new, and verdicts on its rows."""

from __future__ import annotations

from msgspec.structs import replace
from textual.pilot import Pilot

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.review import ChangeDiff
from tests.tui.proof_case import CHECKED, GAP, NEVER_RAN, UNNOTICED, build_proof, evidence_of, show_proof
from tests.tui.review_case import ADDED, CASES, PRICES, REMOVED, TESTS, ReviewApp, diff_of
from tests.tui.test_review import resolved, settle, without
from tui.review import messages
from tui.review.change_list import ChangeList
from tui.review.descriptions import NOT_ASKED_FOR
from tui.review.diff.view import DiffView
from tui.review.hunk_rows import HunkOrder
from tui.review.proof_view import ReviewProof

TITLES = ["never ran", "runs, nothing notices", "used, not checked", "checked", "test"]


def drawn(app: ReviewApp) -> list[str]:
    view = app.query_one(ChangeList)
    return [view.render_line(y).text.rstrip() for y in range(view.count_rows())]


def verdicts(app: ReviewApp) -> list[str]:
    """The verdict words of the rows in the list, in their order."""
    words = [line.split("  ", 1)[1].strip()[2:].split("  ")[0] for line in drawn(app) if ":" in line.split("  ")[0]]
    return [word.strip() for word in words]


def progress(app: ReviewApp) -> str:
    return str(app.query_one(".review--progress").render())


async def listed(pilot: Pilot[None], app: ReviewApp) -> None:
    await settle(pilot)
    show_proof(app, build_proof())
    await settle(pilot, "l")


async def test_the_list_begins_with_what_is_to_look_at_and_folds_what_needs_no_test():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot, app)
        assert verdicts(app) == TITLES
        assert drawn(app)[-1].strip() == "▸ folded 1 import · 1 annotation"
        assert app.query_one(ChangeList).cursor == 0
        assert "3 to look at · 1 checked · 1 test · 2 folded" in progress(app)
        assert "412 tests passed, 4.1 s, canary noticed" in progress(app)


async def test_enter_unfolds_what_needs_no_test_and_goes_to_the_hunk_of_a_row():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot, app)
        await settle(pilot, "G", "enter")
        folded = [line.strip(" ▌").split()[0] for line in drawn(app)[-3:]]
        assert folded == ["▾", "src/shop/prices.py:5", "src/shop/prices.py:10"]
        await settle(pilot, "enter")
        assert drawn(app)[-1].strip(" ▌").startswith("▸ folded")
        view = await settle(pilot, "g", "j", "enter")
        assert view.display
        assert (view.page.path, view.current) == (PRICES.change.path, 2)


async def test_a_hunk_whose_lines_are_not_loaded_yet_is_reached_from_the_list():
    many = [diff_of(f"src/{number:03}.py", [("-+", "a=>b"), (" ", "\n" * 60), ("-+", "c=>d")]) for number in range(80)]
    app = ReviewApp(many)
    async with app.run_test(size=(120, 20)) as pilot:
        await settle(pilot)
        proof = build_proof(evidence_of(many[60], 1, executed="none"))
        show_proof(app, proof)
        assert "src/060.py" not in app.loads
        view = await settle(pilot, "l", "g", "enter")
        assert (view.page.path, view.current) == ("src/060.py", 1)
        assert "never ran" in "\n".join(view.render_line(y).text for y in range(20))


async def test_late_evidence_changes_words_in_place_and_the_order_is_made_again_when_the_list_opens():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot, app)
        gap = replace(CHECKED, path=PRICES.change.path, hunk=NEVER_RAN.hunk)
        show_proof(app, build_proof(gap))
        assert verdicts(app) == ["checked", *TITLES[1:]]
        await settle(pilot, "l", "l")
        assert verdicts(app) == ["runs, nothing notices", "used, not checked", "checked", "checked", "test"]


async def test_a_hunk_that_goes_leaves_the_others_where_they_are_and_a_new_one_comes_last():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot, app)
        app.diffs[PRICES.change.path] = without(PRICES, 2)
        app.diffs["new.py"] = diff_of("new.py", [("-+", "=>x = 1")])
        proof = build_proof(evidence_of(app.diffs["new.py"], 0, executed="none"))
        show_proof(app, proof)
        assert verdicts(app) == ["never ran", "used, not checked", "checked", "test", "never ran"]


def test_groups_by_intent_stay_outer_and_what_was_not_asked_for_comes_first():
    changes = [PRICES.change, ADDED.change, TESTS.change]
    intents = {PRICES.change.path: "“Round”", ADDED.change.path: NOT_ASKED_FOR, TESTS.change.path: "“Round”"}
    proof = ReviewProof()
    proof.update(build_proof(), changes, version=1)
    order = HunkOrder()
    order.arrange([ADDED.change, PRICES.change, TESTS.change], intents, proof)
    assert [(section.intent, len(section.listed), len(section.folded)) for section in order.sections] == [
        (NOT_ASKED_FOR, 1, 0),
        ("“Round”", 3, 2),
    ]
    assert order.sections[1].listed[0] == (NEVER_RAN.path, NEVER_RAN.hunk)


async def test_headings_stand_over_their_hunks_and_the_cursor_passes_them():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        intents = {diff.change.path: f"“{diff.change.path[-9:]}”" for diff in CASES}
        app.pane.browser.set_review((), intents)
        show_proof(app, build_proof())
        await settle(pilot, "l", "g")
        change_list = app.query_one(ChangeList)
        assert drawn(app)[0].strip() == "“prices.py”"
        assert change_list.cursor == 1
        await settle(pilot, *"jjj", "k")
        assert change_list.current_row.kind != "group"


async def test_without_evidence_files_are_listed_and_capital_l_lists_the_hunks():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "l")
        names = [row.name for row in app.query_one(ChangeList)._rows]
        assert names == ["src/shop", *sorted(diff.change.path for diff in CASES)]
        await settle(pilot, "L")
        assert len(drawn(app)) == 7
        assert "+1 −1" in drawn(app)[0]
        await settle(pilot, "L")
        assert len(drawn(app)) == 5
        await settle(pilot, "l", "L")
        assert len(drawn(app)) == 5


async def test_a_verdict_on_a_row_is_one_on_its_hunk():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot, app)
        await settle(pilot, "r", "a")
        assert resolved(app) == [
            (NEVER_RAN.path, (NEVER_RAN.hunk,), "reject", ""),
            (UNNOTICED.path, (UNNOTICED.hunk,), "accept", ""),
        ]
        assert "…" in drawn(app)[0]


async def test_a_verdict_on_a_fold_is_one_on_what_is_folded_but_protected_files_and_deletions():
    gone = replace(REMOVED, change=replace(REMOVED.change, path="src/gone.py"))
    app = ReviewApp([PRICES, gone])
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        show_proof(app, build_proof(evidence_of(gone, 0, "docs")))
        await settle(pilot, "l", "G", "a")
        assert resolved(app) == [(PRICES.change.path, tuple(hunk.id for hunk in PRICES.change.hunks[:2]), "accept", "")]
        assert any("1 hunk of protected" in notification.message for notification in app._notifications)


def edited(diff: ChangeDiff) -> ChangeDiff:
    hunk = replace(diff.change.hunks[0], id="other")
    return replace(diff, change=replace(diff.change, hunks=(hunk,), pending=replace(diff.change.pending, blob="z")))


async def test_semicolon_lists_what_is_new_since_the_last_visit_and_escape_shows_all():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "semicolon")
        assert [one.message for one in app._notifications] == ["This is your first look at these changes."]
        app.set_focus(None)
        await settle(pilot)
        app.pane.focus()
        await settle(pilot, "semicolon")
        assert [one.message for one in app._notifications][1:] == ["Nothing is new since you last looked."]
        app.diffs[TESTS.change.path] = edited(TESTS)
        app.pane.set_changes(app.changes)
        await settle(pilot, "semicolon")
        (row,) = drawn(app)
        assert row.split()[0].lstrip("▌") == "tests/test_prices.py:2"
        assert "new since you last looked: 1 of 7 hunks" in progress(app)
        await settle(pilot, "escape")
        assert len(drawn(app)) > 1
        assert "since you last looked" not in progress(app)
        await settle(pilot, "semicolon", "semicolon")
        assert len(drawn(app)) > 1


async def test_escape_ends_a_filter_by_words_too():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "/", *"test", "enter")
        assert len(drawn(app)) == 1
        await settle(pilot, "escape")
        assert len(drawn(app)) == 5


async def test_keys_on_a_row_ask_for_its_hunk():
    app = ReviewApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot, app)
        show_proof(app, build_proof(GAP))
        await settle(pilot, "t", "j", "j", "n", "p")
        commands = [posted for posted in app.posted if isinstance(posted, c.HunkTestRequest | c.MutantDismiss)]
        assert commands == [
            c.HunkTestRequest(path=NEVER_RAN.path, hunk=NEVER_RAN.hunk),
        ]
        proofs = [(one.change.path, one.hunk) for one in app.posted if isinstance(one, messages.ProofRequested)]
        assert proofs == [(REMOVED.change.path, REMOVED.change.hunks[0].id)]


async def test_the_progress_of_a_proof_stands_before_the_counts():
    app = ReviewApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        show_proof(app, build_proof(), e.ProofProgressed(command="pytest -q", finished=12, total=20))
        assert "looked into 12/20" in progress(app)
        assert "3 to look at" in progress(app)
        await settle(pilot, "l")
        assert progress(app).strip().startswith("looked into 12/20")
        show_proof(app, build_proof(), e.ProofProgressed(command="pytest -q"))
        assert "the check runs" in progress(app)
        show_proof(app, build_proof())
        assert "looked" not in progress(app)
        assert pilot.app.query_one(DiffView).display is False
