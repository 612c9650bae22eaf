from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from core.protocol import events as ev
from core.protocol.debug import ComparedPlace, Evidence, Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.queries import ProbeLog
from tests.tui.panes_case import PaneApp
from tui.debug_fold import DebugView
from tui.state import ViewState
from tui.widgets.board import BoardLine, BoardRows, DebugBoard

CITED = (
    Evidence(run="r1", line=1, text='[H1] prices.py:6: key {"key":"tea","currency":"eur"}'),
    Evidence(run="r1", line=3, text='[H1] prices.py:6: key {"key":"tea","currency":"usd"}'),
)
OPEN = (
    Hypothesis(
        id="H1", statement="The key of the cache leaves the currency out: the first price wins, whatever is asked for"
    ),
    Hypothesis(id="H2", statement="The rate is looked up wrongly"),
    Hypothesis(id="H3", statement="The cache is filled before the call"),
)
JUDGED = (
    replace(OPEN[0], state="confirmed", evidence=CITED),
    replace(OPEN[1], state="rejected", evidence=CITED[:1]),
    replace(OPEN[2], state="inconclusive"),
)
RECORDS = (
    ProbeRecord(
        line=1, hypothesis_id="H1", location="prices.py:6", message="key", data='{"key":"tea","currency":"eur"}'
    ),
    ProbeRecord(line=2, hypothesis_id="H2", location="prices.py:13", message="rate", data='{"rate":1}'),
    ProbeRecord(line=3, location="output", message="[@click=app.bell]AssertionError[/]: 3\x1b[2J"),
)
R1 = ProbeRun(id="r1", command="python3 check.py", exit_code=1, records=3, counts={"H1": 1, "H2": 1}, broken=2)
R2 = ProbeRun(id="r2", command="python3 check.py", exit_code=0, records=2, after_fix=True)
PLACES = (
    ComparedPlace(
        side="differs", hypothesis="H1", location="prices.py:6", message="key", first=RECORDS[:1], second=RECORDS[:1]
    ),
    ComparedPlace(side="same", hypothesis="H2", location="prices.py:13", message="rate"),
)
PROBES = {name: Probe(id=name, path="prices.py", line=6, code="log()") for name in ("p1", "p2")}
ASKED = ev.ReproduceRequested(run="r1", steps=("Start the shop", "Look at the price in USD"))
STAGES = {
    "supposed": DebugView(hypotheses={each.id: each for each in OPEN}),
    "asked": DebugView(
        hypotheses={each.id: each for each in OPEN}, probes=PROBES, reproducing=ASKED, live=list(RECORDS[:2])
    ),
    "judged": DebugView(hypotheses={each.id: each for each in JUDGED}, probes=PROBES, runs={"r1": R1}),
    "mended": DebugView(hypotheses={each.id: each for each in JUDGED}, runs={"r1": R1, "r2": R2}),
}


def board_app() -> PaneApp:
    async def load(run: str, other: str) -> ProbeLog:
        app.loads.append(f"{run} {other}".strip())
        return ProbeLog(run=run, records=RECORDS, compare_with=other, places=PLACES if other else ())

    app = PaneApp(lambda _: DebugBoard(load))
    return app


async def shown(pilot: Pilot[None], view: DebugView | None = None) -> str:
    board = pilot.app.query_one(DebugBoard)
    if view is not None:
        board.set_debug(view)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    rows = pilot.app.query_one(BoardRows)
    return "\n".join(rows.render_line(y).text.rstrip() for y in range(rows.size.height))


async def test_hypotheses_show_their_verdict_and_what_it_cites():
    async with board_app().run_test(size=(70, 40)) as pilot:
        assert "Nothing is debugged yet" in await shown(pilot, DebugView())
        text = await shown(pilot, STAGES["judged"])
        assert "● H1 confirmed · 2 lines" in text
        assert "✕ H2 rejected · 1 line\n" in text
        assert "◐ H3 inconclusive" in text
        assert "r1:3 [H1] prices.py:6: key" in text
        assert "2 probes in place" in text


async def test_the_log_of_the_run_that_ended_last_comes_up_and_is_foreign_text():
    app = board_app()
    async with app.run_test(size=(70, 40)) as pilot:
        text = await shown(pilot, STAGES["judged"])
        assert app.loads == ["r1"]
        assert "r1:2 H2 prices.py:13 rate" in text
        assert "[@click=app.bell]AssertionError[/]: 3" in text
        assert "\x1b" not in text
        assert "▸r1 exit code 1 · 3 lines (H1 1, H2 1) · 2 broken" in text


async def test_the_steps_are_a_card_and_what_is_logged_comes_live():
    async with board_app().run_test(size=(70, 40)) as pilot:
        text = await shown(pilot, STAGES["asked"])
        assert "Reproduce r1" in text
        assert "2. Look at the price in USD" in text
        assert "Log of r1  live" in text
        assert "r1:2 H2" in text


async def test_a_filter_and_a_hypothesis_narrow_the_log():
    async with board_app().run_test(size=(70, 40)) as pilot:
        await shown(pilot, STAGES["judged"])
        pilot.app.query_one(DebugBoard).focus()
        await pilot.press("slash", *"rate", "enter")
        text = await shown(pilot)
        assert "1 with “rate”" in text
        assert "r1:1 H1" not in text
        assert pilot.app.focused is pilot.app.query_one(BoardRows)
        await pilot.press("slash", "escape", "h")
        text = await shown(pilot)
        assert not pilot.app.query_one(BoardLine).display
        assert "r1:1 H1" in text
        assert "r1:2 H2" not in text


async def test_two_runs_are_seen_side_by_side():
    app = board_app()
    async with app.run_test(size=(70, 40)) as pilot:
        await shown(pilot, STAGES["mended"])
        pilot.app.query_one(DebugBoard).focus()
        await pilot.press("v")
        text = await shown(pilot)
        assert app.loads[-1] == "r2 r1"
        assert "≠ H1 prices.py:6 key" in text
        assert "= H2 prices.py:13 rate" in text
        assert "│ r2" in text
        await pilot.press("v", "n")
        await shown(pilot)
        assert app.loads[-1] == "r1"


@pytest.mark.parametrize("stage", list(STAGES))
def test_each_stage_looks_as_it_did(snap_compare, stage):
    async def before(pilot: Pilot[None]) -> None:
        await shown(pilot, STAGES[stage])

    assert snap_compare(board_app(), terminal_size=(70, 32), run_before=before)


def test_comparing_looks_as_it_did(snap_compare):
    async def before(pilot: Pilot[None]) -> None:
        await shown(pilot, STAGES["mended"])
        pilot.app.query_one(DebugBoard).focus()
        await pilot.press("v")
        await shown(pilot)

    assert snap_compare(board_app(), terminal_size=(70, 32), run_before=before)


def test_the_screen_folds_debugging_and_drops_probes_with_the_turn_and_the_mode():
    told = [
        ev.ModeChanged(mode="debug"),
        ev.HypothesesSet(hypotheses=OPEN),
        ev.ProbeAdded(probe=PROBES["p1"]),
        ASKED,
        ev.ProbeLogged(run="r1", records=RECORDS),
        ev.RunRecorded(run=R1),
    ]
    for end in (ev.TurnFinished(reason="interrupted"), ev.ModeChanged(mode="ask")):
        state = ViewState()
        topics = [state.apply(ev.Envelope(seq=seq, session="s", at=1, event=each)) for seq, each in enumerate(told, 1)]
        assert topics[1:] == [frozenset({"debug"})] * 5
        assert (list(state.debug.probes), len(state.debug.live), list(state.debug.runs)) == (["p1"], 3, ["r1"])
        assert "debug" in state.apply(ev.Envelope(seq=9, session="s", at=1, event=end))
        assert (state.debug.probes, state.debug.reproducing, state.debug.live) == ({}, None, [])
        assert list(state.debug.hypotheses) == ["H1", "H2", "H3"]
