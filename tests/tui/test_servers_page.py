"""The dialog of the MCP servers: switches, restart, and the yes to a server of the project."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from core.protocol.commands import ServerControl, TurnSubmit
from core.protocol.queries import IdleAnswer, IdleQuery, ServerRow, ServersAnswer, ServersQuery, ServerToolRow
from tests.support import recorded
from tui.dialogs.listings import servers


def server(name, state, **more):
    place = {
        "source": "~/.config/agent-tui/mcp.json",
        "entry": 'command: ["python3", "server.py"]',
        "digest": "d",
    } | more
    return ServerRow(name=name, state=state, **place)


TOOLS = (
    ServerToolRow(name="read", description="Reads [b]a file.", tokens=120, is_reading=True),
    ServerToolRow(name="write", description="Writes a file.", tokens=80, is_on=False),
)
THEIRS = server("theirs", "unasked", source=".mcp.json", is_project=True, variables=("TOKEN",))
FOUND = ServersAnswer(
    servers=(
        server("files", "running", tools=TOOLS, log="it began\n"),
        THEIRS,
        server("broken", "failed", problem="It ended (exit code 3). Its log ends: no licence"),
        server("quiet", "off"),
    ),
    problems=(".mcp.json: no JSON",),
)
ANSWERS = {ServersQuery: FOUND, IdleQuery: IdleAnswer(seq=1)}


def said(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


def rows(on):
    options = on.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(index).prompt).split() for index in range(options.option_count)]


def page(on):
    return "\n".join(str(widget.content) for widget in on.app.screen.query(Static))


def controls(on):
    return [(command.server, command.action, command.tool, command.digest) for command in on.sent(ServerControl)]


async def test_each_server_says_how_it_goes_and_unfolds_to_its_tools(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/mcp", "ServersDialog")
        assert [row[:3] for row in rows(on)] == [
            ["+", "files", "running"],
            ["?", "theirs", "needs"],
            ["!", "broken", "failed"],
            ["-", "quiet", "off"],
        ]
        assert said(on, "sum") == "4 servers, 1 tool on: 120 tokens"
        assert said(on, "notes") == ".mcp.json: no JSON"
        await on.pilot.press("enter")
        await on.until(lambda: rows(on)[1][:3] == ["+", "read", "120"])
        assert rows(on)[2] == ["-", "write", "80", "tokens", "off"]
        await on.pilot.press("j")
        await on.until(lambda: said(on, "reason") == "It claims to change nothing. Reads [b]a file.")
        await on.pilot.press("o")
        await on.until(lambda: len(rows(on)) == 4)
        await on.pilot.press("down", "down")
        await on.until(lambda: "Its log ends: no licence" in said(on, "reason"))
        await on.pilot.press("up", "k", "k")
        await on.until(lambda: "quiet" in rows(on)[on.app.screen.marked])


async def test_a_server_whose_tools_nobody_knows_is_started_to_show_them(stage):
    idle = ServersAnswer(servers=(server("files", "idle"), server("other", "idle")))
    async with stage(recorded.opening(), answers={**ANSWERS, ServersQuery: idle}) as on:
        await on.open_listing("/mcp", "ServersDialog")
        on.client.answers[ServersQuery] = ServersAnswer(servers=(server("files", "running", tools=TOOLS),))
        await on.pilot.press("enter")
        await on.until(lambda: len(rows(on)) == 3)
        assert rows(on)[1][:2] == ["+", "read"]
        assert controls(on) == [("files", "restart", "", "d")]


async def test_a_server_that_is_being_started_is_looked_at_until_it_runs_and_the_mark_stays(stage, monkeypatch):
    monkeypatch.setattr(servers, "LOOK_AGAIN", 0.01)
    starting = ServersAnswer(servers=(server("other", "off"), server("files", "starting")))
    async with stage(recorded.opening(), answers={**ANSWERS, ServersQuery: starting}) as on:
        await on.open_listing("/mcp", "ServersDialog")
        await on.pilot.press("j")
        on.client.answers[ServersQuery] = ServersAnswer(
            servers=(server("other", "off"), server("files", "running", tools=TOOLS))
        )
        await on.until(lambda: rows(on)[1][:3] == ["+", "files", "running"])
        assert on.app.screen.marked == 1
        assert controls(on) == []


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["space"], ("files", "off", "", "d")),
        (["k", "space"], ("quiet", "on", "", "d")),
        (["enter", "j", "space"], ("files", "off", "read", "d")),
        (["o", "j", "j", "space"], ("files", "on", "write", "d")),
        (["r"], ("files", "restart", "", "d")),
        (["s"], ("files", "stop", "", "d")),
    ],
)
async def test_a_server_and_a_tool_are_switched_ended_and_started_by_keys(stage, keys, expected):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/mcp", "ServersDialog")
        for key in keys:
            await on.pilot.press(key)
            await on.pilot.pause()
        await on.until(lambda: controls(on) == [expected])


async def test_a_server_of_the_project_is_allowed_after_all_of_its_entry_was_shown(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/mcp", "ServersDialog")
        await on.pilot.press("j", "y")
        await on.until(lambda: type(on.app.screen).__name__ == "ServerConsentDialog")
        assert 'command: ["python3", "server.py"]' in page(on)
        assert "It gets your variables TOKEN." in page(on)
        assert "Sandboxed, no network" in page(on)
        assert controls(on) == []
        await on.asked()
        await on.pilot.press("y")
        await on.until(lambda: controls(on) == [("theirs", "allow", "", "d")])


async def test_a_yes_is_taken_back_by_the_same_key_and_ones_own_configuration_is_a_yes(stage):
    allowed = server("theirs", "idle", source=".mcp.json", is_project=True)
    answers = {**ANSWERS, ServersQuery: ServersAnswer(servers=(allowed, server("mine", "idle"), server("no", "off")))}
    async with stage(recorded.opening(), answers=answers) as on:
        await on.open_listing("/mcp", "ServersDialog")
        await on.pilot.press("j", "y")
        await on.until(lambda: "so it is already allowed" in said(on, "reason"))
        assert controls(on) == []
        await on.pilot.press("k", "y")
        await on.until(lambda: controls(on) == [("theirs", "withdraw", "", "d")])


async def test_the_entry_and_the_end_of_the_log_are_a_page(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/mcp", "ServersDialog")
        await on.pilot.press("l")
        await on.until(lambda: "it began" in page(on))
        assert 'command: ["python3", "server.py"]' in page(on)
        await on.pilot.press("escape")
        await on.until(lambda: type(on.app.screen).__name__ == "ServersDialog")


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_where_there_are_none_it_says_so_and_is_left_by_a_key(stage, key):
    async with stage(recorded.opening(), answers={ServersQuery: ServersAnswer()}) as on:
        await on.open_listing("/mcp", "ServersDialog")
        await on.pilot.press("space", "enter", "y", "r", "s", "l")
        assert "No MCP servers here." in said(on, "reason")
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus
        assert controls(on) == []


async def test_a_prompt_of_a_server_is_sent_though_the_screen_does_not_know_it(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.text = "/mcp__files__tell all"
        on.prompt.action_send()
        await on.until(lambda: on.sent(TurnSubmit))
        assert on.sent(TurnSubmit)[0].text == "/mcp__files__tell all"


async def test_a_tool_that_changed_is_marked_shown_beside_what_it_said_and_switched_on_with_its_server(stage):
    text = {"text": "- write: Now so.", "before": "- write: Once so."}
    tool = ServerToolRow(name="write", tokens=5, is_on=False, is_held=True, **text)
    answers = {**ANSWERS, ServersQuery: ServersAnswer(servers=(server("files", "idle", tools=(tool,)),))}
    async with stage(recorded.opening(), answers=answers) as on:
        await on.open_listing("/mcp", "ServersDialog")
        assert rows(on)[1] == ["!", "write", "5", "tokens", "changed"]
        await on.pilot.press("j")
        await on.until(lambda: "Its description has changed" in said(on, "reason"))
        await on.pilot.press("l")
        await on.until(lambda: "Before:" in page(on))
        assert "Now so." in page(on)
        assert "Once so." in page(on)
        await on.pilot.press("escape")
        await on.until(lambda: type(on.app.screen).__name__ == "ServersDialog")
        await on.pilot.press("space", "k", "space")
        await on.until(lambda: controls(on) == [("files", "on", "write", "d"), ("files", "on", "", "d")])


async def test_i5_a_tool_whose_words_are_odd_is_marked_and_shown_in_whole(stage):
    tool = ServerToolRow(name="write", tokens=5, text="- write: IMPORTANT. The end.", flags=("it urges",))
    answers = {**ANSWERS, ServersQuery: ServersAnswer(servers=(server("files", "idle", tools=(tool,)),))}
    async with stage(recorded.opening(), answers=answers) as on:
        await on.open_listing("/mcp", "ServersDialog")
        assert rows(on)[1][:2] == ["!", "write"]
        await on.pilot.press("j")
        await on.until(lambda: said(on, "reason") == "Check its description: it urges.")
        await on.pilot.press("l")
        await on.until(lambda: "IMPORTANT. The end." in page(on))
        assert "! it urges" in page(on)
