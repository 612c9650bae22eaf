"""The dialog of the hooks: what runs when, from where, how it ended; and the question that shows their commands."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from core.protocol.events import HookRan, TrustStated
from core.protocol.queries import FileQuery, HookRow, HooksAnswer, HooksQuery
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.ask.trust_bar import TrustBar
from tui.bridge import SessionRequest
from tui.dialogs.listings.tools import HooksDialog

LAST = HookRan(
    id="1", event="preToolUse", command="guard", source="a", outcome="denied", duration_ms=1234, message="no git here"
)
HOOKS = (
    HookRow(
        id="1",
        event="preToolUse",
        matcher="Bash",
        command="python3 .claude/hooks/guard.py",
        source=".claude/settings.json",
        trust="trusted",
        timeout=60,
        last=LAST,
    ),
    HookRow(
        id="2", event="stop", command="~/.cursor/hooks/done.sh", source="~/.cursor/hooks.json", trust="yours", timeout=5
    ),
    HookRow(
        id="3",
        event="afterFileEdit",
        command="./format.sh\x1b[31m",
        source=".cursor/hooks.json",
        trust="held",
        fails_closed=True,
        problem="its script does not exist: format.sh",
    ),
)


def said(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


def rows(on):
    options = on.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]


async def test_hooks_are_listed_with_how_they_ended_and_where_they_stand(stage):
    problems = tuple(f".cursor/hooks.json: problem {n}" for n in range(5))
    answer = HooksAnswer(hooks=HOOKS, problems=problems)
    async with stage(recorded.opening(), answers={HooksQuery: answer}) as on:
        await on.open_listing("/hooks", "HooksDialog")
        assert said(on, "sum") == "3 hooks, 1 of them not trusted"
        assert [row.split()[0] for row in rows(on)] == ["preToolUse", "stop", "!"]
        assert rows(on)[0].split("  ")[-1].startswith("python3 .claude/hooks/")
        assert ["denied · 1,234 ms" in rows(on)[0], "not run yet" in rows(on)[1]] == [True, True]
        assert "\x1b" not in "".join(rows(on))
        assert (
            said(on, "reason") == ".claude/settings.json (the project's, trusted) · at most 60 s · output: no git here"
        )
        assert said(on, "notes").endswith("and 2 more: agent-tui hooks list")
        await on.pilot.press("k")
        await on.until(lambda: "its script does not exist" in said(on, "reason"))
        assert "not trusted, so it does not run" in said(on, "reason")
        assert "fails closed" in said(on, "reason")


async def test_the_file_of_a_hook_of_the_project_is_read_in_the_preview(stage):
    async with stage(recorded.opening(), answers={HooksQuery: HooksAnswer(hooks=HOOKS)}) as on:
        await on.open_listing("/hooks", "HooksDialog")
        await on.pilot.press("j", "enter")
        assert said(on, "reason") == "Outside the project: ~/.cursor/hooks.json"
        await on.pilot.press("up", "down", "o")
        assert said(on, "reason") == "Outside the project: ~/.cursor/hooks.json"
        await on.pilot.press("k", "o")
        await on.until(lambda: any(isinstance(query, FileQuery) for query in on.client.queries))
        assert on.client.queries[-1].path == ".claude/settings.json"


async def test_without_hooks_the_page_says_where_to_begin(stage):
    async with stage(recorded.opening(), answers={HooksQuery: HooksAnswer(hooks=())}) as on:
        await on.open_listing("/hooks", "HooksDialog")
        assert "/help hooks" in said(on, "reason")
        await on.pilot.press("enter", "j")
        for leave in ("escape", "q"):
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)
            await on.open_listing("/hooks", "HooksDialog")


async def test_the_question_about_a_project_shows_what_its_hooks_would_run(stage):
    hooks = tuple(f"stop: ./hook-{n}.sh\u202e" for n in range(8))
    asked = TrustStated(state="asked", directory="/p", holds=(".cursor/hooks.json",), hooks=hooks)
    async with stage([*recorded.opening(), asked]) as on:
        await on.until(lambda: on.screen.query_one(TrustBar).display)
        text = str(on.screen.query_one(TrustBar).content)
        assert "It has hooks, which would run sandboxed" in text
        assert "stop: ./hook-5.sh" in text
        assert "and 2 more: agent-tui hooks list" in text
        assert "\u202e" not in text


@pytest.mark.parametrize("size", [(60, 16), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("shown", ["list", "question"])
def test_hooks_and_the_question_about_them_look_as_they_did(snap_compare, size, shown):
    asked = TrustStated(
        state="asked",
        directory="/home/me/shop",
        changed=(".cursor/hooks.json",),
        hooks=("- preToolUse: ./old.sh", "+ afterFileEdit [Write]: npx prettier --write ."),
    )
    events = [*recorded.opening(), *([asked] if shown == "question" else [])]
    client = ScriptedClient(events, answers={HooksQuery: HooksAnswer(hooks=HOOKS)})

    async def connect() -> ScriptedClient:
        return client

    app = AgentApp(connect, SessionRequest(model="scripted/demo"))

    async def look(pilot: Pilot[Any]) -> None:
        while app.main.state.seq < len(client.log):
            await pilot.pause(0.01)
        if shown == "list":
            app.main.controllers.pages.action_show_hooks()
            while not isinstance(app.screen, HooksDialog):
                await pilot.pause(0.01)
        await pilot.pause(0.1)

    assert snap_compare(app, terminal_size=size, run_before=look)
