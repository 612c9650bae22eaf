"""The dialog of the rules: which the agent was told, which not, why, and reading one."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList, Static

from core.protocol.commands import TurnSubmit
from core.protocol.events import LoadedRule
from core.protocol.queries import FileQuery, RulesAnswer, RulesQuery
from tests.support import recorded

RULES = (
    LoadedRule(path="../AGENTS.md", kind="agents_md", size=40, reason="applies to every file", position=1),
    LoadedRule(path=".cursor/rules/tests.mdc", kind="globs", size=1, reason="no file in use matches tests/**"),
    LoadedRule(
        path=".cursor/rules/style.mdc", kind="always", size=900, reason="always", position=2, note="cut at 32 KiB"
    ),
    LoadedRule(path="memory/note_1", kind="memory", size=9, reason="memory: a note you accepted", position=3),
)


def said(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


def rows(on):
    options = on.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(index).prompt).split() for index in range(options.option_count)]


async def test_rules_that_were_told_come_first_and_each_says_why(stage):
    async with stage(recorded.opening(), answers={RulesQuery: RulesAnswer(rules=RULES)}) as on:
        await on.open_listing("/rules", "RulesDialog")
        assert [row[:2] for row in rows(on)] == [
            ["1", "../AGENTS.md"],
            ["2", ".cursor/rules/style.mdc"],
            ["3", "memory/note_1"],
            ["-", ".cursor/rules/tests.mdc"],
        ]
        assert said(on, "sum") == "3 active rules, 1 inactive; later rules win"
        assert said(on, "reason") == "Why: applies to every file"
        await on.pilot.press("j")
        await on.until(lambda: said(on, "reason") == "Why: always · cut at 32 KiB")
        await on.pilot.press("down", "down", "up", "k", "k", "k")
        await on.until(lambda: said(on, "reason") == "Why: no file in use matches tests/**")


@pytest.mark.parametrize("key", ["enter", "o"])
async def test_a_rule_of_the_project_is_read_in_the_preview_and_others_say_where_they_are(stage, key):
    async with stage(recorded.opening(), answers={RulesQuery: RulesAnswer(rules=RULES)}) as on:
        await on.open_listing("/rules", "RulesDialog")
        await on.pilot.press(key)
        assert said(on, "reason") == "Outside the project: ../AGENTS.md"
        await on.pilot.press("j", "j", key)
        await on.until(lambda: "/memory" in said(on, "reason"))
        await on.pilot.press("k", key)
        await on.until(lambda: on.app.screen is on.screen)
        await on.until(lambda: any(isinstance(query, FileQuery) for query in on.client.queries))
        assert on.client.queries[-1].path == ".cursor/rules/style.mdc"


@pytest.mark.parametrize(
    ("found", "words"),
    [(RulesAnswer(rules=()), "No rules here."), (RulesAnswer(rules=(), is_trusted=False), "is not trusted")],
)
async def test_where_there_are_none_it_says_what_to_do(stage, found, words):
    async with stage(recorded.opening(), answers={RulesQuery: found}) as on:
        await on.open_listing("/rules", "RulesDialog")
        await on.pilot.press("enter", "j")
        assert words in said(on, "reason") + said(on, "notes")


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_the_dialog_is_left_by_a_key(stage, key):
    async with stage(recorded.opening(), answers={RulesQuery: RulesAnswer(rules=RULES)}) as on:
        await on.open_listing("/rules", "RulesDialog")
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus


@pytest.mark.parametrize(("typed", "text"), [("/init", "/init"), ("/init  mind the tests ", "/init mind the tests")])
async def test_writing_instructions_is_a_prompt_of_its_own(stage, typed, text):
    async with stage(recorded.opening()) as on:
        on.prompt.text = typed
        on.prompt.action_send()
        await on.until(lambda: on.sent(TurnSubmit))
        assert on.sent(TurnSubmit)[0].text == text
        assert on.prompt.text == ""
