"""The roster and the list of kinds: their keys, and how they look."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import OptionList, Static

from core.protocol import commands as cmd
from core.protocol import events as e
from core.protocol.queries import AgentsAnswer, AgentsQuery, FileQuery, LoadedAgent, SkippedExtension
from tests.support import recorded
from tests.support.scripted_client import SESSION, ScriptedClient
from tests.tui.test_crew import USAGE, acts
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.dialogs.listings.agents import SubagentDialog
from tui.roster import AgentList, RosterEntry, list_entries, render_entry
from tui.state import ViewState, show_event

PARTS = (
    ("explore", "Find who rounds"),
    ("generalPurpose", "Round the gross price to cents, and say so in the docs"),
    ("reviewer", "Read the change"),
    ("generalPurpose", "Write the README"),
    ("generalPurpose", "Make gross() know the rate"),
)
KINDS = AgentsAnswer(
    agents=(
        LoadedAgent(
            name="reviewer",
            description="Reads a change and says what is wrong with it.",
            source=".claude",
            path=".claude/agents/reviewer.md",
            model="fast",
            tools=("grep", "read_file"),
        ),
        LoadedAgent(
            name="odd",
            description="Odd.",
            source=".claude",
            path=".claude/agents/odd.md",
            refusal="unknown key 'allowed-tools': did you mean 'tools'?",
        ),
        LoadedAgent(name="generalPurpose", description="Does a whole piece of work by itself.", source="built in"),
        LoadedAgent(name="explore", description="Finds out.", source="built in", model="small", is_readonly=True),
    ),
    skipped=(SkippedExtension(path=".claude/agents/none.md", reason="its front matter has no name and description"),),
)


def team() -> list[e.AnyEvent]:
    """Events: one asks, one works, one is stopped, one is done, one clashes."""
    return [
        e.SessionStarted(workspace="shop", mode="agent", model="scripted/demo"),
        e.TurnStarted(prompt="Round the prices.", mode="agent", model="scripted/demo"),
        *(
            e.SubagentStarted(id=f"sub_{number}", agent=kind, title=title, model="scripted/demo")
            for number, (kind, title) in enumerate(PARTS)
        ),
        e.ApprovalRequested(id="ap", call="c", kind="command", subject="npm ci", subagent="sub_0"),
        e.SubagentFinished(id="sub_2", reason="interrupted", acts=acts("grep round"), steps=4, usage=USAGE),
        e.SubagentFinished(
            id="sub_3",
            reason="done",
            said="It is written.",
            acts=acts("write"),
            steps=3,
            duration_ms=6_200,
            usage=USAGE,
        ),
        e.SubagentMerged(id="sub_3", paths=("README.md",)),
        e.SubagentFinished(id="sub_4", reason="done", said="It knows.", acts=acts("write"), steps=2),
        e.SubagentMerged(id="sub_4", paths=("calc.py",), conflicts=("calc.py",)),
    ]


def at_it() -> list[e.AnyEvent]:
    return [
        e.SubagentProgressed(id="sub_0", acts=acts("$ npm ci"), count=1, steps=2),
        e.SubagentProgressed(
            id="sub_1", acts=acts("read_file calc.py", "$ pytest -q"), count=2, steps=7, changed=2, usage=USAGE
        ),
    ]


def rows(on: Any) -> list[str]:
    agent_list = on.screen.query_one(AgentList)
    return [agent_list.render_line(y).text.rstrip() for y in range(agent_list.size.height)]


async def test_each_has_a_sign_what_it_is_at_and_what_it_has_used(stage):
    async with stage(team(), size=(160, 40)) as on:
        for event in at_it():
            await on.emit(event)
        await on.pilot.press("f9")
        await on.until(lambda: on.screen.query(AgentList) and rows(on)[0])
        lines = rows(on)
        assert lines[0].startswith(" ? explore · Find who rounds")
        assert "waiting for you: $ npm ci" in lines[1]
        assert lines[2].startswith(" ◌ generalPurpose · Round the gross price")
        assert "$ pytest -q · 2 files" in lines[3]
        assert lines[4].startswith(" ⊘ reviewer · Read the change")
        assert "4 steps · $0.0312" in lines[4]
        assert "README" in lines[6]
        assert "6.2 s" in lines[6]
        assert "1 file · It is written." in lines[7]
        assert lines[8].startswith(" ! generalPurpose · Make gross()")
        assert "in conflict: calc.py" in lines[9]


def test_of_one_at_work_the_time_stands_in_whole_seconds():
    view = ViewState()
    begun = [
        e.SubagentStarted(id="s", agent="explore", title="Look"),
        e.SubagentProgressed(id="s", steps=2, duration_ms=3_900),
    ]
    for seq, event in enumerate(begun, 1):
        show_event(view, e.Envelope(seq=seq, session="x", at=seq, event=event))
    [entry] = list_entries(view)
    assert (entry.facts, entry.elapsed) == (("2 steps",), "3 s")
    assert render_entry(entry, 1, 40)[1][0][0] == " 3 s "
    asked = e.ApprovalRequested(id="ap", call="c", kind="command", subject="npm ci", subagent="s")
    show_event(view, e.Envelope(seq=3, session="x", at=3, event=asked))
    assert list_entries(view)[0].elapsed == ""


def test_a_long_name_leaves_room_for_what_was_used():
    title = "Measure how long it takes to format very many costs in a row"
    entry = RosterEntry("sub_1", title, "generalPurpose", "working", "", ("2 steps", "1.5 s", "18.5k tokens"))
    left, right = ("".join(text for text, _ in part) for part in render_entry(entry, 0, 40))
    assert (left, right) == (" ◌ generalPurpose · Measure ho…", "2 steps ")


async def test_who_asks_is_marked_when_the_pane_is_opened(stage):
    async with stage(team(), size=(160, 40)) as on:
        await on.pilot.press("f9")
        await on.until(lambda: on.screen.query(AgentList) and rows(on)[0])
        agent_list = on.screen.query_one(AgentList)
        assert (agent_list.cursor, agent_list.current.id) == (0, "sub_0")
        await on.pilot.press("j")
        await on.emit(e.SubagentProgressed(id="sub_0", acts=acts("$ npm ci"), count=1, steps=3))
        assert agent_list.cursor == 1, "it was moved by hand"


async def test_keys_move_open_and_stop_and_what_has_ended_is_not_stopped(stage):
    async with stage(team(), size=(160, 40)) as on:
        await on.pilot.press("f9")
        await on.until(lambda: on.screen.query(AgentList) and rows(on)[0])
        agent_list = on.screen.query_one(AgentList)
        for down, up in (("j", "k"), ("down", "up")):
            await on.pilot.press("home", down, down, up)
            assert agent_list.cursor == 1
        await on.pilot.press("x")
        await on.until(lambda: [command.session for command in on.sent(cmd.TurnInterrupt)] == ["sub_1"])
        await on.pilot.press("end", "x")
        assert agent_list.cursor == 4
        assert len(on.sent(cmd.TurnInterrupt)) == 1
        await on.pilot.press("g", "o")
        await on.until(lambda: isinstance(on.app.screen, SubagentDialog))
        await on.pilot.press("x")
        await on.until(lambda: [command.session for command in on.sent(cmd.TurnInterrupt)] == ["sub_1", "sub_0"])
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.press("enter")
        await on.until(lambda: isinstance(on.app.screen, SubagentDialog))
        await on.pilot.press("q")
        await on.until(lambda: on.app.screen is on.screen)
        await on.pilot.press("o")
        await on.until(lambda: isinstance(on.app.screen, SubagentDialog))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)


async def test_the_pane_says_how_there_come_to_be_any(stage):
    async with stage(size=(120, 40)) as on:
        await on.pilot.press("f9")
        await on.until(lambda: on.screen.query(AgentList))
        await on.pilot.pause()
        assert any("No subagents yet" in row for row in rows(on))


async def test_a_kind_says_what_is_wrong_and_goes_into_the_prompt(stage):
    async with stage(answers={AgentsQuery: KINDS}) as on:
        await on.open_listing("/agents", "AgentsDialog")
        options = on.app.screen.query_one(OptionList)
        marks = [str(options.get_option_at_index(index).prompt).split()[:2] for index in range(options.option_count)]
        assert [" ".join(mark) for mark in marks][:4] == ["+ reviewer", "- odd", "+ generalPurpose", "+ explore"]
        reason = on.app.screen.query_one("#listing-reason", Static)
        assert "Tools: grep, read_file." in str(reason.content)
        await on.pilot.press("j", "@")
        await on.until(lambda: "It can't start" in str(reason.content))
        await on.pilot.press("down", "o")
        await on.until(lambda: "It is built in." in str(reason.content))
        await on.pilot.press("k", "up", "enter")
        await on.until(lambda: on.prompt.text == "@agent-reviewer ")
        on.prompt.text = ""
        await on.open_listing("/agents", "AgentsDialog")
        await on.pilot.press("o")
        await on.until(lambda: any(isinstance(q, FileQuery) and "reviewer" in q.path for q in on.client.queries))
        for leave in ("escape", "q"):
            await on.open_listing("/agents", "AgentsDialog")
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=str)
def test_the_roster_looks_as_it_did(snap_compare: Any, monkeypatch: pytest.MonkeyPatch, size: Any):
    monkeypatch.setattr("tui.widgets.status_bar.FRAME_INTERVAL", 3_600.0)
    client = ScriptedClient(team())

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest(model="scripted/demo"))

    async def play(pilot: Any) -> None:
        while app.main.state.seq < len(client.log):
            await pilot.pause(0.01)
        for event in at_it():
            client.emit(event)
        await pilot.press("f9")
        while not app.screen.query(AgentList):
            await pilot.pause(0.01)

    assert client.log[0].session == SESSION
    assert snap_compare(app, terminal_size=size, run_before=play)


@pytest.mark.parametrize("size", [(60, 16), (120, 40)], ids=str)
def test_the_kinds_look_as_they_did(looks, size):
    assert looks(recorded.opening(), size, keys=["slash", *"agents", "enter", "j"], answers={AgentsQuery: KINDS})
