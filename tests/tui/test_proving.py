"""Proofs over the whole screen: run, stopped by the first key, gone on with, shown, and accepted after one question."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from textual.widgets import OptionList, Static

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import Change, Check
from tests.support import recorded
from tests.tui.proof_case import CHECK, GAP, WEAKENED, recorded_proof
from tests.tui.review_case import CASES, PRICES
from tests.tui.test_review_dialogs import reviewing
from tui.dialogs.pages import ConfirmDialog, PageDialog
from tui.dialogs.picker import ActionPickerDialog
from tui.review.pane import ReviewPane

TURN = e.TurnStarted(prompt="Round the prices", mode="agent", model="m")
ENDED = e.TurnFinished(reason="done", steps=1)
RUNS = e.ProofProgressed(command="pytest -q", finished=1, total=5)
PAUSED = (e.ProofProgressed(command=""), e.ProofFinished(stopped=True))
DONE = (e.ProofProgressed(command=""), e.ProofFinished())


def opened(*more: e.AnyEvent, changes: Sequence[Change] = tuple(diff.change for diff in CASES)) -> list[e.AnyEvent]:
    return [*recorded.opening(), TURN, *(e.ChangeProposed(change=change) for change in changes), ENDED, *more]


def answers() -> dict[type, object]:
    return {q.DiffQuery: q.DiffAnswer(diff=PRICES)}


def page_text(on) -> str:
    return "\n".join(str(widget.render()) for widget in on.app.screen.query(Static))


@pytest.fixture
def quiet_soon(monkeypatch):
    monkeypatch.setattr("tui.screens.controllers.proof.QUIET_SECONDS", 0.01)


@pytest.fixture
def never_quiet(monkeypatch):
    monkeypatch.setattr("tui.screens.controllers.proof.QUIET_SECONDS", 3_600.0)


async def test_x_runs_the_check_over_each_hunk_and_stops_it(stage, clock):
    async with stage(opened(), answers=answers()) as on:
        await reviewing(on, clock)
        await on.pilot.press("x")
        await on.until(lambda: on.sent(c.ChangesProve))
        on.client.emit(RUNS)
        await on.until(lambda: on.screen.state.proving is not None)
        await on.pilot.press("x")
        await on.until(lambda: on.sent(c.ProofStop))
        assert len(on.sent(c.ChangesProve)) == len(on.sent(c.ProofStop)) == 1


async def test_the_first_key_stops_a_proof_once_and_it_goes_on_when_nobody_types(stage, quiet_soon):
    async with stage(opened(recorded_proof())) as on:
        on.client.emit(RUNS)
        await on.until(lambda: on.screen.state.proving is not None)
        await on.pilot.press(*"words")
        await on.until(lambda: on.sent(c.ProofStop))
        await on.emit(*PAUSED)
        await on.pilot.press("!")
        await on.until(lambda: on.sent(c.ChangesProve))
        assert len(on.sent(c.ProofStop)) == 1
        assert len(on.sent(c.ChangesProve)) == 1


@pytest.mark.parametrize("end", [DONE, PAUSED], ids=["ended", "paused"])
async def test_a_proof_goes_on_only_if_it_gave_way_and_no_turn_runs(stage, never_quiet, end):
    async with stage(opened(recorded_proof())) as on:
        on.client.emit(RUNS)
        await on.until(lambda: on.screen.state.proving is not None)
        await on.pilot.press("a")
        await on.until(lambda: on.sent(c.ProofStop))
        await on.emit(*end, *([TURN] if end is PAUSED else []))
        on.screen.controllers.proof._go_on()
        await on.pilot.pause()
        assert on.sent(c.ChangesProve) == []


async def test_what_the_user_stopped_stays_stopped_and_typing_alone_runs_nothing(stage, clock, quiet_soon):
    async with stage(opened(recorded_proof()), answers=answers()) as on:
        await on.pilot.press("a")
        await reviewing(on, clock)
        on.client.emit(RUNS)
        await on.until(lambda: on.screen.state.proving is not None)
        await on.pilot.press("x")
        await on.until(lambda: on.sent(c.ProofStop))
        await on.emit(*PAUSED)
        await on.pilot.press("escape", "b")
        await on.pilot.pause(0.05)
        assert on.sent(c.ChangesProve) == []


async def test_a_proof_that_something_else_stopped_goes_on_and_one_of_an_earlier_day_does_not(stage, quiet_soon):
    async with stage(opened(recorded_proof(), *PAUSED)) as on:
        await on.emit(e.CommentsSent())
        await on.pilot.pause(0.05)
        assert on.sent(c.ChangesProve) == []
        await on.emit(RUNS, PAUSED[0], e.ProofFinished(stopped=True))
        await on.until(lambda: on.sent(c.ChangesProve))
        assert len(on.sent(c.ChangesProve)) == 1


async def test_a_verdict_stops_a_proof_too(stage, clock, never_quiet):
    async with stage(opened(recorded_proof()), answers=answers()) as on:
        await reviewing(on, clock)
        on.client.emit(RUNS)
        await on.until(lambda: on.screen.state.proving is not None)
        await on.pilot.press("a")
        await on.until(lambda: on.sent(c.ProofStop) and on.sent(c.HunkResolve))
        assert len(on.sent(c.ProofStop)) == 1


@pytest.mark.parametrize(("key", "number"), [("y", 1), ("n", 0)])
async def test_capital_p_accepts_what_is_proven_after_one_question_with_counts(stage, clock, key, number):
    async with stage(opened(recorded_proof()), answers=answers()) as on:
        await reviewing(on, clock)
        await on.pilot.press("P")
        await on.asked()
        asked = page_text(on)
        assert "Accept 1 hunk that tests check and 2 that need no test?" in asked
        assert "Not: 2 to look at, 1 deletion, 1 test." in asked
        on.app.screen.grace_period._seconds = 0
        await on.pilot.press(key)
        await on.until(lambda: not isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.pause()
        assert len(on.sent(c.ProvenAccept)) == number


async def test_capital_p_offers_to_run_the_check_where_nothing_is_known(stage, clock):
    async with stage(opened(), answers=answers()) as on:
        await reviewing(on, clock)
        await on.pilot.press("P")
        await on.until(lambda: isinstance(on.app.screen, ActionPickerDialog) and on.app.screen.query(OptionList))
        assert "No check has looked into each hunk yet" in page_text(on)
        on.app.screen.grace_period._seconds = 0
        await on.pilot.pause()
        await on.pilot.press(*"each", "enter")
        await on.until(lambda: on.sent(c.ChangesProve))
        assert on.sent(c.ProvenAccept) == on.sent(c.ChangesVerify) == []


async def test_p_shows_all_that_is_known_of_the_hunk_and_of_the_check(stage, clock):
    check = replace(CHECK, weakened=(WEAKENED,), red_new=("tests/test_prices.py::test_new",))
    ran = d.TerminalCommandMetadata(command="pytest -q", exit_code=0, output="412 passed", tool_call_id="c7")
    output = e.DocumentFinished(document=d.TerminalCommandDocument(id="f9", sequence=1, metadata=ran))
    tested = replace(PRICES.change, check=Check(call="c7", command="pytest -q", exit_code=0, kind="tests"))
    loaded = {q.DiffQuery: q.DiffAnswer(diff=replace(PRICES, change=tested))}
    events = opened(recorded_proof(GAP, check=check), output, changes=[tested])
    async with stage(events, answers=loaded) as on:
        await reviewing(on, clock)
        await on.pilot.press("j", "j", "p")
        await on.until(lambda: isinstance(on.app.screen, PageDialog))
        await on.pilot.pause(0.05)
        text = page_text(on)
        lines = ["! checked, one gap", "tests/test_prices.py::test_total", ">= → > unnoticed", "assert 90 == 95"]
        receipt = ["412 tests passed, 4.1 s, canary noticed", "1 of 1 fail without the change", "31 runs, 19 s"]
        assert [part for part in (*lines, *receipt, "2 to look at", "412 passed") if part not in text] == []


async def test_the_command_shows_what_is_known_and_runs_what_it_is_told(stage):
    async with stage(opened(recorded_proof())) as on:
        for words in ("/proof", "/proof run", "/proof stop", "/proof nonsense"):
            on.prompt.text = words
            on.prompt.action_send()
            await on.pilot.pause()
            if words == "/proof":
                await on.until(lambda: isinstance(on.app.screen, PageDialog))
                assert "3 to look at · 1 checked · 1 test · 2 folded" in page_text(on)
                await on.pilot.press("escape")
        await on.until(lambda: any("Usage: /proof" in one.message for one in on.app._notifications))
        assert len(on.sent(c.ChangesProve)) == len(on.sent(c.ProofStop)) == 1


async def test_the_command_runs_the_check_where_nothing_is_known(stage):
    async with stage(opened()) as on:
        on.prompt.text = "/proof"
        on.prompt.action_send()
        await on.until(lambda: on.sent(c.ChangesProve))
        assert not isinstance(on.app.screen, PageDialog)


async def test_the_review_follows_the_evidence_of_the_session(stage, clock):
    async with stage(opened(), answers=answers(), size=(160, 40)) as on:
        await reviewing(on, clock)
        review = on.screen.query_one(ReviewPane)
        await on.emit(recorded_proof())
        await on.until(lambda: review.browser.proof.judgements)
        on.client.emit(RUNS)
        await on.until(lambda: "looked into 1/5" in str(on.screen.query_one(".review--progress").render()))
        assert review.browser.proof.summary.look_at == 3


def test_the_review_with_evidence_looks_as_it_did(looks):
    events = opened(recorded_proof(GAP, check=replace(CHECK, weakened=(WEAKENED,))))
    assert looks(events, size=(120, 40), keys=("ctrl+r", "l"), answers=answers())
