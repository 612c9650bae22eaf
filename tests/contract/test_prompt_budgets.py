"""What a session pays for in every request: its system prompt and its tool list."""

from __future__ import annotations

from typing import get_args

import pytest

from core.agent.prefix import system_prompt
from core.agent.speaking import tags_prompt
from core.config import EditFormat
from core.prompts import tool_text
from core.tools.registry import tool_specs
from tests.support.tokens import list_tokens, tokens

MOST = 7_000
MOST_IN_TAGS = 4_500
MARGIN = 500  # what other makers' tokenisers may count more


@pytest.mark.parametrize("edits", get_args(EditFormat))
def test_system_prompt_and_tools_leave_the_window_to_the_work(edits):
    assert tokens(system_prompt(())) + list_tokens(tool_specs(tool_text, edits)) <= MOST - MARGIN


def test_the_prompt_of_the_tags_dialect_leaves_the_window_to_the_work():
    assert tokens(tags_prompt(())) <= MOST_IN_TAGS - MARGIN
