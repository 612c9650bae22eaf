from __future__ import annotations

import re
from dataclasses import replace as replaced

import pytest
from msgspec.structs import replace
from textual import on
from textual.pilot import Pilot

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.debug import ComparedLocation, Evidence, Hypothesis, Probe, ProbeRecord, ProbeRun
from core.protocol.documents import Option, Question
from core.protocol.queries import ProbeLogAnswer, ProbeLogQuery
from tests.support import recorded
from tests.tui.panes_case import PaneApp
from tui.ask.messages import AnswersSubmitted
from tui.debug import board
from tui.debug.board import BoardRows, DebugBoard, LogFilterInput
from tui.debug.run_comparison import format_comparison
from tui.state import ViewState, show_event
from tui.state.view import DebugView
from tui.widgets.status_bar import StatusBar

CITED = (
    Evidence(run="r1", line=1, text='[H1] prices.py:6: key {"key":"tea","currency":"eur"}'),
    Evidence(run="r1", line=3, text='[H1] prices.py:6: key {"key":"tea","currency":"usd"}'),
)
OPEN = (
    Hypothesis(
        id="H1", statement="The key of the cache leaves the currency out: the first price wins, whatever is asked for"
    ),
    Hypothesis(id="H2", statement="The rate is looked up wrongly", expects="A rate other than 1 and 2."),
    Hypothesis(id="H3", statement="The cache is filled before the call"),
)
JUDGED = (
    replace(OPEN[0], state="confirmed", evidence=CITED, reason="The same key for both currencies."),
    replace(OPEN[1], state="rejected", evidence=CITED[:1]),
    replace(OPEN[2], state="inconclusive"),
)
RECORDS = (
    ProbeRecord(
        line=1, hypothesis_id="H1", location="prices.py:6", message="key", data='{"key":"tea","currency":"eur"}'
    ),
    ProbeRecord(line=2, hypothesis_id="H2", location="prices.py:13", message="rate", data='{"rate":1,"of":"a b"}'),
    ProbeRecord(line=3, location="output", message="[@click=app.bell]AssertionError[/]: 3\x1b[2J"),
)
AFTER = (
    replace(RECORDS[0], data='{"key":["tea","eur"],"currency":"eur"}'),
    replace(RECORDS[0], line=3, data='{"key":["tea","usd"],"currency":"usd"}'),
)
R1 = ProbeRun(id="r1", command="python3 check.py", exit_code=1, records=3, counts={"H1": 1, "H2": 1}, broken=2)
R2 = ProbeRun(id="r2", command="python3 check.py", exit_code=0, records=2, after_fix=True, left=12_000)
PLACES = (
    ComparedLocation(
        side="differs", hypothesis="H1", location="prices.py:6", message="key", first=RECORDS[:1], second=AFTER,
        first_count=1, second_count=2,
    ),
    ComparedLocation(
        side="same", hypothesis="H2", location="prices.py:13", message="rate", first_count=1, second_count=1,
    ),
    ComparedLocation(side="first", hypothesis="", location="output", message="", first=RECORDS[2:], first_count=5),
)  # fmt: skip
PROBES = {name: Probe(id=name, path="prices.py", line=6, code="log()") for name in ("p1", "p2")}
ASKED = ev.ReproduceRequested(run="r1", steps=("Start the shop", "Look at the price of the tea in USD: it says 3"))
CHOICES = {"fixed": "Mark as fixed", "broken": "Still broken", "proceed": "Proceed"}
OPTIONS = tuple(Option(id=name, label=label) for name, label in CHOICES.items())
STEPS = ev.QuestionAsked(
    id="a1", call="c", questions=(Question(id="reproduce", text="Please reproduce the fault", options=OPTIONS[2:]),)
)
GONE = ev.QuestionAsked(
    id="a2",
    call="c",
    questions=(
        Question(
            id="fixed",
            text="Is the fault gone?\n\nr2, after the fix: exit code 0 of `pytest`\nr1, before it: exit code 1",
            options=OPTIONS,
        ),
    ),
)
SUPPOSED = {each.id: each for each in OPEN}
FOUND = {each.id: each for each in JUDGED}
MENDED = DebugView(hypotheses=FOUND, probes=PROBES, runs={"r1": R1, "r2": R2})
STAGES = {
    "supposed": DebugView(hypotheses=SUPPOSED),
    "probed": DebugView(hypotheses=SUPPOSED, probes=PROBES),
    "asked": DebugView(
        hypotheses=SUPPOSED, probes=PROBES, reproduction=ASKED, question=STEPS, live_records=list(RECORDS[:2])
    ),
    "live": DebugView(
        hypotheses=SUPPOSED, probes=PROBES, live_records=list(RECORDS),
        reproduction=ev.ReproduceRequested(run="r1", command="python3 check.py"),
    ),
    "judged": DebugView(hypotheses=FOUND, probes=PROBES, runs={"r1": R1}),
    "mended": replaced(MENDED, question=GONE),
    "gone": replaced(
        MENDED, probes={}, fix_verdict=ev.FixJudged(run="r2", outcome="fixed"), probe_check=ev.ProbesChecked(files=3)
    ),
    "broken": replaced(
        MENDED, fix_verdict=ev.FixJudged(run="r2", outcome="broken", taken_back=("prices.py",)),
        probe_check=ev.ProbesChecked(files=3, left=("dist/bundle.js",)), probes={},
    ),
    "unboxed": DebugView(hypotheses=SUPPOSED, can_probe=False),
}  # fmt: skip


class BoardApp(PaneApp):
    """`total`: how many records the log of a run has."""

    total = len(RECORDS)

    def __init__(self) -> None:
        super().__init__(lambda _: DebugBoard(self.load))

    async def load(self, query: ProbeLogQuery) -> ProbeLogAnswer:
        self.loads.append(" ".join(filter(None, (query.run, query.compare_with, query.hypothesis, query.words))))
        if query.compare_with:
            return ProbeLogAnswer(run=query.run, total=2, compare_with=query.compare_with, places=PLACES, records=AFTER)
        return ProbeLogAnswer(run=query.run, total=self.total, records=RECORDS)

    @on(AnswersSubmitted)
    def answered(self, event: AnswersSubmitted) -> None:
        self.posted.append(event)


async def shown(pilot: Pilot[None], view: DebugView | None = None) -> str:
    board = pilot.app.query_one(DebugBoard)
    if view is not None:
        board.show(view)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    rows = pilot.app.query_one(BoardRows)
    return "\n".join(rows.render_line(y).text.rstrip() for y in range(rows.size.height))


async def test_hypotheses_show_their_verdict_and_what_it_cites():
    async with BoardApp().run_test(size=(70, 40)) as pilot:
        assert "Nothing to debug yet" in await shown(pilot, DebugView())
        text = await shown(pilot, STAGES["judged"])
        for verdict in ("● H1 confirmed · 2 lines", "✕ H2 rejected · 1 line\n", "◐ H3 inconclusive"):
            assert verdict in text
        assert "r1:3 prices.py:6: key  key=tea currency=usd" in text
        assert "→ The same key" in text
        assert "2 probes in place" in text


async def test_the_log_of_the_run_that_ended_last_comes_up_and_is_foreign_text():
    app = BoardApp()
    async with app.run_test(size=(70, 40)) as pilot:
        text = await shown(pilot, STAGES["judged"])
        assert app.loads == ["r1"]
        assert 'r1:2 H2 prices.py:13 rate  rate=1 of="a b"' in text
        assert "[@click=app.bell]AssertionError[/]: 3" in text
        assert "\x1b" not in text
        assert "▸r1 exit code 1 · 3 lines (H1 1, H2 1) · 2 unreadable" in text


async def test_a_card_stands_first_and_is_answered_by_key_and_by_mouse_once_it_was_seen(monkeypatch):
    app = BoardApp()
    async with app.run_test(size=(70, 40)) as pilot:
        text = await shown(pilot, STAGES["asked"])
        assert text.startswith(" Reproduce r1  waiting for you\n   1. Start the shop\n")
        assert "Log of r1  live" in text
        assert "r1:2 H2" in text
        pilot.app.query_one(DebugBoard).focus()
        await pilot.press("p")
        assert app.posted == []
        monkeypatch.setattr(board, "GRACE_SECONDS", 0.0)
        await pilot.press("f", "b", "p", "p")
        lines = (await shown(pilot, STAGES["mended"])).split("\n")
        row = next(number for number, line in enumerate(lines) if "Still broken" in line)
        await pilot.click(BoardRows, offset=(lines[row].index("Still"), row))
        assert [(message.id, message.answers[0].options) for message in app.posted] == [
            ("a1", ("proceed",)),
            ("a2", ("broken",)),
        ]
        assert "Is the bug gone?" not in await shown(pilot)


@pytest.mark.parametrize(("key", "option"), [("f", "fixed"), ("b", "broken")])
async def test_a_fix_is_judged_by_key(monkeypatch, key, option):
    monkeypatch.setattr(board, "GRACE_SECONDS", 0.0)
    app = BoardApp()
    async with app.run_test(size=(70, 40)) as pilot:
        await shown(pilot, STAGES["mended"])
        app.query_one(DebugBoard).focus()
        await pilot.press(key)
        assert [(message.id, message.answers[0].options) for message in app.posted] == [("a2", (option,))]


async def test_a_live_log_is_followed_to_its_end_and_says_when_no_more_of_it_is_shown():
    async with BoardApp().run_test(size=(62, 14)) as pilot:
        for count in (3, 30, 500):
            logged = [ProbeRecord(line=number, message="m") for number in range(1, count + 1)]
            text = await shown(pilot, replaced(STAGES["live"], live_records=logged))
            assert f"r1:{count} m" in text
        await pilot.press("home")
        assert "Log of r1  its first 500 lines" in await shown(pilot, replaced(STAGES["live"], live_records=logged[:]))


async def test_a_filter_and_a_hypothesis_narrow_the_log():
    app = BoardApp()
    async with app.run_test(size=(70, 40)) as pilot:
        await shown(pilot, STAGES["judged"])
        app.query_one(DebugBoard).focus()
        await pilot.press("slash", *"rate", "enter")
        text = await shown(pilot)
        assert "1 with “rate”" in text
        assert "r1:1 H1" not in text
        assert pilot.app.focused is pilot.app.query_one(BoardRows)
        assert app.loads == ["r1"]
        app.total = 5_000
        await shown(pilot, replaced(STAGES["judged"], runs={"r3": replace(R1, id="r3")}))
        await pilot.press("slash", *"tea")
        assert "4,999 more" in await shown(pilot)
        assert app.loads[-1] == "r3 tea"
        app.total = 3
        await shown(pilot, replaced(STAGES["judged"], runs={"r1": R1}))
        await pilot.press("escape", "h")
        text = await shown(pilot)
        assert not pilot.app.query_one(LogFilterInput).display
        assert "r1:1 H1" in text
        assert "r1:2 H2" not in text


async def test_two_runs_are_seen_side_by_side():
    app = BoardApp()
    async with app.run_test(size=(70, 40)) as pilot:
        await shown(pilot, STAGES["mended"])
        pilot.app.query_one(DebugBoard).focus()
        await pilot.press("v")
        text = await shown(pilot)
        assert app.loads[-1] == "r2 r1"
        assert "≠ H1 prices.py:6 key  1 → 2 lines" in text
        assert "= H2 prices.py:13 rate  1 line\n" in text
        assert '   r1 key=tea currency=eur\n   r2 key=["tea","eur"] currency=eur' in text
        await pilot.resize_terminal(90, 40)
        assert re.search(r'key=tea currency=eur +│ key=\["tea","eur"\] currency=eur', await shown(pilot))
        await pilot.press("v", "n")
        await shown(pilot)
        assert app.loads[-1] == "r1"


LOOKS = [
    *((stage, (62, 36)) for stage in STAGES),
    *((stage, size) for stage in ("asked", "mended", "gone") for size in ((80, 21), (60, 13))),
]


@pytest.mark.parametrize(("stage", "size"), LOOKS, ids=[f"{stage}-{size[0]}" for stage, size in LOOKS])
def test_each_stage_looks_as_it_did(snap_compare, stage, size):
    async def before(pilot: Pilot[None]) -> None:
        await shown(pilot, STAGES[stage])

    assert snap_compare(BoardApp(), terminal_size=size, run_before=before)


BROUGHT_UP = [("v", (62, 36)), ("v", (110, 30)), ("v", (60, 13)), ("/tea", (62, 36))]


@pytest.mark.parametrize(("keys", "size"), BROUGHT_UP, ids=["stacked", "beside", "small", "found"])
def test_what_keys_bring_up_looks_as_it_did(snap_compare, keys, size):
    async def before(pilot: Pilot[None]) -> None:
        await shown(pilot, STAGES["gone"])
        pilot.app.query_one(DebugBoard).focus()
        await pilot.press(*keys)
        pilot.app.query_one(LogFilterInput).cursor_blink = False
        await shown(pilot)

    assert snap_compare(BoardApp(), terminal_size=size, run_before=before)


FIXED = ev.FixJudged(run="r1", outcome="fixed")


def test_the_screen_folds_debugging_and_drops_probes_with_the_turn_and_the_mode():
    events = [
        ev.ModeChanged(mode="debug"),
        ev.HypothesesSet(hypotheses=OPEN),
        ev.ProbeAdded(probe=PROBES["p1"]),
        ASKED,
        ev.ProbeLogged(run="r1", records=RECORDS),
        ev.RunRecorded(run=R1),
        FIXED,
        ev.ProbesChecked(files=1),
    ]
    for end in (ev.TurnFinished(reason="interrupted"), ev.ModeChanged(mode="ask")):
        state = ViewState()
        topics = [
            show_event(state, ev.Envelope(seq=seq, session="s", at=1, event=event))
            for seq, event in enumerate(events, 1)
        ]
        assert topics[1:] == [frozenset({"debug"})] * 7
        assert state.debug.fix_verdict == FIXED
        assert (list(state.debug.probes), len(state.debug.live_records), list(state.debug.runs)) == (["p1"], 3, ["r1"])
        assert "debug" in show_event(state, ev.Envelope(seq=9, session="s", at=1, event=end))
        assert (state.debug.probes, state.debug.reproduction, state.debug.live_records) == ({}, None, [])
        assert list(state.debug.hypotheses) == ["H1", "H2", "H3"]


DEBUGGING = [
    *recorded.opening("debug"),
    ev.TurnStarted(prompt="find it", mode="debug", model="m"),
    ev.HypothesesSet(hypotheses=OPEN),
]


async def test_what_the_card_asks_is_asked_once_and_its_keys_answer_it(stage, monkeypatch):
    monkeypatch.setattr(board, "GRACE_SECONDS", 0.0)
    async with stage(DEBUGGING) as on:
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "debug")
        await on.emit(GONE)
        bar = on.screen.query_one("#question")
        await on.until(lambda: not bar.display and on.panes.side.has_focus_within)
        assert "waiting for you" not in on.screen.query_one(StatusBar).render().plain
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        assert "waiting for you" in on.screen.query_one(StatusBar).render().plain
        await on.pilot.press("f2", "f")
        await on.until(lambda: on.sent(cmd.QuestionReply))
        [answer] = on.sent(cmd.QuestionReply)[0].answers
        assert answer.options == ("fixed",)
        assert on.prompt.text == ""


@pytest.mark.parametrize("size", [(170, 40), (60, 16)])
async def test_where_no_board_is_seen_the_bar_asks(stage, size):
    async with stage(DEBUGGING, size=size) as on:
        if size[0] >= 100:
            await on.until(lambda: on.panes.side is not None and on.panes.side.current == "debug")
        await on.emit(GONE)
        await on.until(lambda: on.screen.query("#question"))
        if size[0] >= 100:
            await on.pilot.press("ctrl+r")
        await on.until(lambda: on.screen.query_one("#question").display)
        assert on.screen.query_one("#question").region.area


@pytest.mark.parametrize("text", ["", "why"])
async def test_a_card_that_comes_up_after_the_bar_takes_over_unless_an_answer_is_being_written(stage, text):
    async with stage([*recorded.opening("debug"), DEBUGGING[-2]]) as on:
        await on.emit(GONE)
        await on.until(lambda: on.screen.query("#question") and on.screen.query_one("#question").has_focus_within)
        await on.pilot.press(*text)
        await on.emit(DEBUGGING[-1])
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "debug")
        bar = on.screen.query_one("#question")
        await on.until(lambda: bar.display is bool(text))
        await on.pilot.pause()
        assert bar.has_focus_within is bool(text)
        assert on.panes.side.get_pane("debug").has_focus_within is not bool(text)
        assert on.screen.query_one("#question-own").value == text


def test_two_runs_are_given_away_as_markdown():
    fenced = replace(PLACES[2], first=(replace(RECORDS[2], message="```\x1b[2J"),))
    log = ProbeLogAnswer(run="r2", compare_with="r1", places=(*PLACES[:2], fenced))
    assert format_comparison(log, {"r1": R1, "r2": R2}) == (
        "### r1 and r2: 1 place with other values, 1 only in r1, 1 the same\n\n"
        "| | r1 | r2 |\n|---|---|---|\n"
        "| command | `python3 check.py` | `python3 check.py` |\n"
        "| ended | exit code 1 | exit code 0, after the fix |\n"
        "| lines | 3 | 2 |\n\n"
        "≠ **H1** `prices.py:6 key` (1 → 2 lines)\n"
        "```diff\n"
        '- {"key":"tea","currency":"eur"}\n'
        '+ {"key":["tea","eur"],"currency":"eur"}\n'
        '+ {"key":["tea","usd"],"currency":"usd"}\n'
        "```\n\n"
        "= **H2** `prices.py:13 rate` (1 line)\n\n"
        "− `output` (5 → 0 lines)\n"
        "````diff\n"
        "- ```\n"
        "````\n"
    )


async def test_the_comparison_is_copied_by_a_key_and_by_a_command(stage):
    compared = ProbeLogAnswer(run="r2", compare_with="r1", places=PLACES)
    runs = [ev.RunRecorded(run=R1), ev.RunRecorded(run=R2)]
    async with stage([*DEBUGGING, *runs], answers={ProbeLogQuery: compared}) as on:
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "debug")
        on.screen.controllers.copying.action_copy("runs")
        await on.until(
            lambda: any("press v on the debug board" in notification.message for notification in on.app._notifications)
        )
        on.panes.side.get_pane("debug").focus()
        await on.pilot.press("v")
        await on.until(lambda: on.panes.side.get_pane("debug").format_comparison())
        await on.pilot.press("y")
        await on.until(lambda: on.app.clipboard.startswith("### r1 and r2"))
        on.app._clipboard = ""
        on.screen.controllers.copying.action_copy("runs")
        assert on.app.clipboard.startswith("### r1 and r2")
