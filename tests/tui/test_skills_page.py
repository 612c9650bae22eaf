"""The dialog of the skills, and the page of what a command would send."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from core.protocol.commands import TurnSubmit
from core.protocol.queries import (
    CommandPreviewAnswer,
    CommandPreviewQuery,
    FileQuery,
    LoadedSkill,
    RefusedAnswer,
    SkillsAnswer,
    SkillsQuery,
    SkippedExtension,
)
from tests.support import recorded


def skill(name, state, reason, **more):
    place = {"path": f".claude/skills/{name}/SKILL.md", "scope": "project", "source": ".claude"} | more
    return LoadedSkill(name=name, description=f"About {name}", state=state, reason=reason, **place)


FOUND = SkillsAnswer(
    skills=(
        skill("pdf", "offered", "its name and description are listed"),
        skill("mine", "hidden", "only you can call it: /mine", path="~/.claude/skills/mine/SKILL.md", scope="user"),
        skill("odd", "offered", "its name and description are listed", note="unknown key 'x'"),
    ),
    skipped=(SkippedExtension(path=".claude/skills/bad/SKILL.md", reason="it has no description"),),
)


def said(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


def page(on):
    return "\n".join(str(widget.content) for widget in on.app.screen.query(Static))


async def test_each_skill_says_why_it_is_told_and_a_file_that_is_none_why_not(stage):
    async with stage(recorded.opening(), answers={SkillsQuery: FOUND}) as on:
        await on.open_listing("/skills", "SkillsDialog")
        options = on.app.screen.query_one(OptionList)
        rows = [str(options.get_option_at_index(index).prompt).split()[:2] for index in range(options.option_count)]
        assert rows == [["+", "pdf"], ["-", "mine"], ["+", "odd"], ["!", ".claude/skills/bad/SKILL.md"]]
        assert said(on, "sum") == "3 skills, 2 offered; the agent opens one when it fits"
        assert said(on, "reason") == "Why: its name and description are listed · About pdf"
        await on.pilot.press("j")
        await on.until(lambda: said(on, "reason") == "Why: only you can call it: /mine · About mine")
        await on.pilot.press("down")
        await on.until(lambda: "unknown key 'x'" in said(on, "reason"))
        await on.pilot.press("up", "k", "k")
        await on.until(lambda: said(on, "reason") == "Not a skill: it has no description")


@pytest.mark.parametrize("key", ["enter", "o"])
async def test_a_skill_of_the_project_is_read_in_the_preview_and_others_say_where_they_are(stage, key):
    async with stage(recorded.opening(), answers={SkillsQuery: FOUND}) as on:
        await on.open_listing("/skills", "SkillsDialog")
        await on.pilot.press("j", key)
        await on.until(lambda: "Outside the project: ~/.claude/skills/mine/SKILL.md" in said(on, "reason"))
        await on.pilot.press("k", key)
        await on.until(lambda: any(isinstance(query, FileQuery) for query in on.client.queries))
        assert on.client.queries[-1].path == ".claude/skills/pdf/SKILL.md"


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_where_there_are_none_it_says_what_makes_one_and_is_left_by_a_key(stage, key):
    async with stage(recorded.opening(), answers={SkillsQuery: SkillsAnswer()}) as on:
        await on.open_listing("/skills", "SkillsDialog")
        assert "No skills here." in said(on, "reason")
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus


async def test_what_a_command_would_send_is_shown_with_what_would_run(stage):
    answer = CommandPreviewAnswer(
        path=".claude/commands/commit.md", text="Now: !`git status`\nCommit [b].", runs=("git status",)
    )
    async with stage(recorded.opening(), answers={CommandPreviewQuery: answer}) as on:
        on.prompt.text = "/explain commit the fix"
        on.prompt.action_send()
        await on.until(lambda: "Commit [b]." in page(on))
        assert "runs sandboxed when sent; its changes are dropped: git status" in page(on)
        (asked,) = [query for query in on.client.queries if isinstance(query, CommandPreviewQuery)]
        assert asked.text == "/commit the fix"


async def test_a_command_that_is_none_is_told(stage):
    refused = RefusedAnswer(code="command_unknown", message="'/x' is not a call.")
    async with stage(recorded.opening(), answers={CommandPreviewQuery: refused}) as on:
        for typed, notice in (("/explain x", "'/x' is not a call."), ("/explain", "Usage: /explain COMMAND")):
            on.prompt.text = typed
            on.prompt.action_send()
            await on.until(
                lambda notice=notice: any(notice in notification.message for notification in on.app._notifications)
            )
        assert on.sent(TurnSubmit) == []
