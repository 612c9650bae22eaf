"""What a session pays for in every request: its system prompt and its tool list."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from core.agent.turn.prompt_setup import build_native_prefix, render_tags_prompt
from core.edit_formats import EditFormat
from core.modes import Access
from core.prompts import render
from core.tools.toolset import Toolset
from tests.support.tokens import list_tokens, tokens

TOOLS = Toolset()

MOST = 6_500
MOST_IN_TAGS = 4_000
MOST_SHORT = 2_500
HEADROOM = 0.05  # The share of a budget that stays free, so that a new tool fits.


def has_headroom(count: int, budget: int) -> bool:
    return count <= budget * (1 - HEADROOM)


@pytest.mark.parametrize("edits", get_args(EditFormat))
def test_system_prompt_and_tools_leave_the_window_to_the_work(edits):
    prefix = build_native_prefix(TOOLS, (), edits)
    assert has_headroom(tokens(prefix.system) + list_tokens(prefix.tools), MOST)


def test_the_prompt_of_the_tags_dialect_leaves_the_window_to_the_work():
    assert has_headroom(tokens(render_tags_prompt(TOOLS, ())), MOST_IN_TAGS)


@pytest.mark.parametrize("edits", get_args(EditFormat))
def test_a_small_window_gets_a_short_prompt_and_few_tools(edits):
    prefix = build_native_prefix(TOOLS, (), edits, short=True)
    assert has_headroom(tokens(prefix.system) + list_tokens(prefix.tools), MOST_SHORT)


def test_a_small_window_gets_a_short_prompt_in_tags():
    assert has_headroom(tokens(render_tags_prompt(TOOLS, (), short=True)), MOST_SHORT)


def test_what_the_short_prompts_say_there_is_beside_their_lists_is_all_there_is():
    for name in ("system_short", "dialects/tags_short"):
        mentioned_tools = set(
            re.findall(r"`(\w+)`", re.search(r"More(?: tools)?,? ?.*", render(name, rules=[], tools=[]))[0])
        )
        in_tags = name == "dialects/tags_short"
        missing = {
            tool for tool in TOOLS.listed if not (in_tags and TOOLS[tool].access in {Access.EXEC, Access.JOB})
        } - {*TOOLS.essential}
        assert mentioned_tools - {"call_tool"} == missing
