from __future__ import annotations

import pytest

from core.errors import ToolFailed
from core.mcp.tool_lists import PromptDefinition, assign_arguments

GREET = PromptDefinition(name="greet", arguments=("who", "how"), required=("who",))
TELL = PromptDefinition(name="tell")


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("Ada", {"who": "Ada"}),
        ("Ada warmly", {"who": "Ada", "how": "warmly"}),
        ('"Ada Lovelace" very warmly indeed', {"who": "Ada Lovelace", "how": "very warmly indeed"}),
        ("Ada it's fine", {"who": "Ada", "how": "it's fine"}),
    ],
)
def test_words_are_given_to_the_arguments_in_their_order_and_the_last_has_the_rest(text, given):
    assert assign_arguments(GREET, text) == given


def test_a_prompt_without_arguments_takes_none():
    assert assign_arguments(TELL, "") == {}
    with pytest.raises(ToolFailed, match="takes no arguments"):
        assign_arguments(TELL, "it")


def test_an_argument_that_is_missing_is_named():
    with pytest.raises(ToolFailed, match="greet needs who") as refused:
        assign_arguments(GREET, "")
    assert refused.value.hint == "Its arguments: <who> [how]."
