"""The list of tools: what each costs, what is told, and why one is absent."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from core.protocol.queries import ToolsAnswer, ToolsQuery
from core.protocol.tools import ToolRow
from tests.support import recorded

FOUND = ToolsAnswer(
    mode="ask",
    tools=(
        ToolRow(name="read_file", access="read", state="listed", tokens=312, aliases=("Read", "open_file")),
        ToolRow(name="grep", access="read", state="listed", tokens=405, aliases=("Grep", "search_dir")),
        ToolRow(name="write", access="propose", state="absent", reason="ask mode does not grant it"),
        ToolRow(name="apply_patch", access="propose", state="callable", reason="an edit format of other models"),
        ToolRow(name="web_fetch", access="net", state="told", reason="sent beside the list"),
        ToolRow(
            name="mcp__git__log",
            access="external",
            state="told",
            reason="of the MCP server git",
            server="git",
            tokens=90,
        ),
    ),
)


async def test_those_in_each_request_come_first_and_one_that_is_absent_says_why(stage):
    async with stage(answers={ToolsQuery: FOUND}) as on:
        await on.open_listing("/tools", "ToolsDialog")
        options = on.app.screen.query_one(OptionList)
        rows = [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]
        names = ["read_file", "grep", "web_fetch", "mcp__git__log", "apply_patch", "write"]
        assert [row.split()[1] for row in rows] == names
        assert "in every request · 312 tokens" in rows[0]
        total = str(on.app.screen.query_one("#listing-sum", Static).content)
        assert total == "2 tools in every request, 717 tokens; 1 not in ask mode"
        reason = on.app.screen.query_one("#listing-reason", Static)
        assert "also called Read, open_file" in str(reason.content)
        await on.pilot.press("k")
        await on.until(lambda: "write ask mode does not grant it" in str(reason.content))
        await on.pilot.press("j", "down", "up")
        await on.until(lambda: "also called Read, open_file" in str(reason.content))
        for leave in ("escape", "q"):
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)
            await on.open_listing("/tools", "ToolsDialog")


async def test_the_rows_are_made_anew_for_another_width_and_the_mark_stays(stage):
    tools = (ToolRow(name=f"mcp__server__{'x' * 30}{n}", access="read", state="listed", tokens=90) for n in range(3))
    async with stage(answers={ToolsQuery: ToolsAnswer(mode="ask", tools=tuple(tools))}, size=(120, 40)) as on:
        await on.open_listing("/tools", "ToolsDialog")
        options = on.app.screen.query_one(OptionList)
        await on.pilot.press("j")
        wide = str(options.get_option_at_index(0).prompt)
        await on.pilot.resize_terminal(60, 16)
        await on.until(lambda: len(str(options.get_option_at_index(0).prompt)) < len(wide))
        assert options.highlighted == 1


@pytest.mark.parametrize("size", [(60, 16), (120, 40)], ids=str)
def test_the_tools_look_as_they_did(looks, size):
    assert looks(recorded.opening(), size, keys=["slash", *"tools", "enter"], answers={ToolsQuery: FOUND})
