"""Subagents on the screen: a row for each, the plan's marks, the status bar, and whose a conflict is."""

from __future__ import annotations

from typing import Any

import pytest

from core.protocol import commands as cmd
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.documents import Plan, Todo
from core.protocol.messages import Usage
from core.protocol.review import Change, CompetingVersion, ConflictRegion, ConflictSides, FileState, Hunk
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.dialogs.conflict import ConflictView
from tui.review.messages import ConflictRequested
from tui.widgets.status_bar import StatusBar

PATH = ".cursor/plans/shop_01234567.plan.md"
TODOS = tuple(
    Todo(id=key, content=text, status="in_progress")
    for key, text in (
        ("rounding", "Round the gross price to cents, and say so in the docs of the function"),
        ("showing", "Show prices in euros"),
        ("docs", "Write the README"),
        ("rate", "gross() knows the rate"),
    )
)
PLAN = Plan(path=PATH, name="Shop", overview="Four things.", todos=TODOS, body="# Shop")
USAGE = Usage(prompt_tokens=12_000, completion_tokens=340, cost=0.0312)


def acts(*texts: str, last: str = "running") -> tuple[e.SubagentAction, ...]:
    done = tuple(e.SubagentAction(text=text, status="completed") for text in texts[:-1])
    return (*done, e.SubagentAction(text=texts[-1], status=last))  # type: ignore[arg-type]


def at_work() -> list[e.AnyEvent]:
    """Four at work, of which one has ended well, one badly, and one clashes."""
    started = [
        e.SubagentStarted(id=f"s{number}", todo=todo.id, plan=PATH, title=todo.content, model="scripted/demo")
        for number, todo in enumerate(TODOS)
    ]
    return [
        e.SessionStarted(workspace="shop", mode="agent", model="scripted/demo"),
        e.PlanUpdated(plan=PLAN),
        e.TodoChanged(todos=TODOS, plan=PATH),
        e.TurnStarted(prompt="Build the plan “Shop”.", mode="agent", model="scripted/demo"),
        *started,
    ]


def doing() -> list[e.AnyEvent]:
    return [
        e.SubagentProgressed(id="s0", acts=acts("read_file calc.py", "$ pytest -q tests"), count=2, changed=1),
        e.SubagentProgressed(id="s1", acts=acts("search_replace calc.py"), count=1),
    ]


def ended() -> list[e.AnyEvent]:
    return [
        e.SubagentFinished(
            id="s2",
            reason="done",
            said="The README says what it does.",
            acts=acts("read_file README.md", "write README.md", last="completed"),
            steps=3,
            usage=USAGE,
            duration_ms=6_200,
        ),
        e.SubagentMerging(id="s2"),
        e.SubagentMerged(id="s2", paths=("README.md",)),
        e.SubagentFinished(
            id="s1", reason="failed", message="The model is gone. Try again.", acts=acts("grep x"), steps=1
        ),
        e.SubagentFinished(
            id="s3", reason="done", said="It knows.", acts=acts("write calc.py", last="completed"), steps=2
        ),
        e.SubagentMerged(
            id="s3", paths=("calc.py",), conflicts=("calc.py",), notes=("Its state of git was left out.",)
        ),
    ]


async def test_each_has_one_row_that_says_what_it_is_at_and_then_what_came_of_it(stage):
    async with stage(at_work(), size=(200, 40)) as on:
        for event in doing():
            await on.emit(event)
        status = on.screen.query_one(StatusBar)
        assert "4 running" in status.render().plain
        assert any("◌ rounding · $ pytest -q tests · 1 file" in line for line in on.lines())
        assert any("◌ docs · Write the README" in line for line in on.lines())
        for event in ended():
            await on.emit(event)
        screen_text = "\n".join(on.lines())
        assert "▸ docs · The README says what it does. · 1 file · 6.2 s" in screen_text
        assert "✕ showing · The model is gone. Try again." in screen_text
        assert "▸ rate · It knows. · conflict" in screen_text
        assert "1 running" in status.render().plain
        assert on.screen.state.model_choices.sum_usage().cost == pytest.approx(0.0312)
        await on.pilot.press("ctrl+up", "enter")
        screen_text = "\n".join(on.lines())
        assert "✓ write calc.py" in screen_text
        assert "in conflict: calc.py" in screen_text
        assert "Its state of git was left out." in screen_text


@pytest.mark.parametrize(("size", "keys"), [((120, 40), ("ctrl+t",)), ((60, 16), ()), ((80, 24), ("ctrl+up", "enter"))])
def test_subagents_look_as_they_did(snap_compare: Any, monkeypatch: pytest.MonkeyPatch, size: Any, keys: Any):
    monkeypatch.setattr("tui.widgets.status_bar.FRAME_INTERVAL", 3_600.0)
    client = ScriptedClient(at_work())

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest(model="scripted/demo"))

    async def play(pilot: Any) -> None:
        for event in [*doing(), *ended()]:
            while app.main.state.seq < len(client.log):
                await pilot.pause(0.01)
            client.emit(event)
        while app.main.state.seq < len(client.log):
            await pilot.pause(0.01)
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            app.key_filter.keystrokes.flush()

    assert snap_compare(app, terminal_size=size, run_before=play)


CLASH = ConflictSides(
    path="calc.py",
    base=FileState(blob="b"),
    mine=FileState(blob="m"),
    theirs=FileState(blob="t"),
    clashes=(
        ConflictRegion(start=7, base=("    a",), mine=("    b",), theirs=("    c",), before=("def gross(price):",)),
    ),
    mine_is="rounding",
    theirs_is="rate",
)


async def test_a_clash_of_two_todos_is_settled_in_the_dialog_that_names_them(stage):
    hunks = tuple(
        Hunk(id=todo_id, old_start=at, old_lines=1, new_start=at, new_lines=1, todo=todo_id)
        for todo_id, at in (("rounding", 7), ("showing", 12))
    )
    change = Change(
        path="calc.py",
        operation="edit",
        base=FileState(blob="b"),
        pending=FileState(blob="m"),
        hunks=hunks,
        conflict="rate changed the same place in another way.",
        competing_versions=(
            CompetingVersion(base=FileState(blob="b"), theirs=FileState(blob="t"), by="s3", todo="rate"),
        ),
    )
    answers = {q.ConflictQuery: q.ConflictAnswer(sides=CLASH)}
    async with stage([*at_work(), e.ChangeProposed(change=change)], answers=answers) as on:
        on.screen.post_message(ConflictRequested("calc.py"))
        await on.until(lambda: len(on.app.screen_stack) > 1)
        view = on.app.screen.query_one(ConflictView)
        await on.until(lambda: view.virtual_size.height)
        view_text = "\n".join(view.get_row_text(row) for row in range(view.virtual_size.height))
        assert "pending, for rounding" in view_text
        assert "for rate" in view_text
        await on.pilot.press("t", "ctrl+s")
        await on.until(lambda: on.sent(cmd.ConflictResolve))
        assert on.sent(cmd.ConflictResolve)[0].theirs == "t"


@pytest.mark.parametrize(
    ("typed", "workers"), [("/build parallel", 4), ("/build parallel 2", 2), ("/build parallel 9", None)]
)
async def test_how_many_build_at_once_is_said_with_the_command_or_by_its_key(stage, typed, workers):
    async with stage([*at_work()[:3]]) as on:
        on.prompt.text = typed
        await on.pilot.press("enter")
        if workers is None:
            await on.until(
                lambda: any("Choose from 1 to 4." in notification.message for notification in on.app._notifications)
            )
            await on.pilot.press("ctrl+t")
            await on.until(lambda: on.screen.query("TodoList:focus"))
            await on.pilot.press("P")
            workers = 4
        await on.until(lambda: on.sent(cmd.PlanBuild))
        assert on.sent(cmd.PlanBuild)[0].workers == workers
