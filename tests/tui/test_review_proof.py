"""Proof of what waits: the output of a check, accepting what tests have proven, and one count everywhere."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import Check, FileState, VerdictRecord
from tests.tui.review_case import PRICES
from tests.tui.test_review_dialogs import diff, proposed, reviewing
from tests.tui.test_review_list import change
from tui.state import ViewState
from tui.state.fold import show_event

TESTED = Check(call="c7", command="pytest -q", exit_code=0, kind="tests")


@pytest.mark.parametrize(("call", "said"), [("c7", "2 passed in 0.1s"), ("other", "Its output is no longer")])
async def test_p_shows_the_output_of_the_check_and_what_it_proves(stage, clock, call, said):
    ran = d.TerminalCommandMetadata(command="pytest -q", exit_code=0, output="2 passed in 0.1s", tool_call_id=call)
    check = replace(TESTED, command="pytest -q" if call == "c7" else "pytest -q tests")
    proof_event = e.DocumentFinished(document=d.TerminalCommandDocument(id="f9", sequence=1, metadata=ran))
    events = [*proposed(change("src/a.py", check=check)), proof_event]
    async with stage(events, answers={q.DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("p")
        await on.until(lambda: on.app.screen is not on.screen)
        await on.pilot.pause(0.05)
        page = "\n".join(str(widget.render()) for widget in on.app.screen.query("Static"))
        assert "✓ tests passed" in page
        assert f"$ {check.command}" in page
        assert said in page


async def test_p_says_how_to_get_a_proof_where_there_is_none(stage, clock):
    async with stage(proposed(change("src/a.py")), answers={q.DiffQuery: diff("src/a.py")}) as on:
        await reviewing(on, clock)
        await on.pilot.press("p")
        await on.until(lambda: on.app._notifications)
        (notice,) = (notification.message for notification in on.app._notifications)
        assert notice.startswith("No check has run on src/a.py in this state. Tests,")


async def test_the_tab_counts_what_waits_as_the_status_line_does(stage, clock):
    async with stage(proposed(PRICES.change), size=(160, 40), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewing(on, clock)
        assert "Review 4" in str(on.screen.query_one("#side-title").render())
        assert on.screen.state.pending_hunk_count == 4


async def test_a_review_begins_anew_with_the_turn_after_all_is_judged():
    def verdict(number: int) -> e.VerdictGiven:
        state = FileState()
        verdict_record = VerdictRecord(
            id=f"v{number}",
            path=PRICES.change.path,
            verdict="accept",
            hunks=PRICES.change.hunks[:1],
            base_before=state,
            base_after=state,
            pending_before=state,
            pending_after=state,
        )
        return e.VerdictGiven(verdict=verdict_record)

    view = ViewState()
    turn = e.TurnStarted(prompt="go", mode="agent", model="m")
    log = [
        *(turn, e.ChangeProposed(change=PRICES.change), verdict(1), verdict(2), turn, verdict(3)),
        *(e.VerdictUndone(id="v2", path=PRICES.change.path), e.ChangeResolved(path=PRICES.change.path), turn),
    ]
    seen = []
    for seq, event in enumerate(log, 1):
        show_event(view, e.Envelope(session="s", seq=seq, turn=f"t{seq}", at=0, event=event))
        seen.append([verdict_record.id for verdict_record in view.judged])
    assert seen[5:] == [["v1", "v2", "v3"], ["v1", "v3"], ["v1", "v3"], []]
