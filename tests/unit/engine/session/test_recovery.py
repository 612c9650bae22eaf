"""A history that was cut off anywhere has one result for each call, right behind the message that made it."""

from __future__ import annotations

import pytest

from core.engine.session.recovery import INTERRUPTED_RESULT, complete_results
from core.protocol.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from tests.support.history import faults

ASKED = UserMessage(content="Do it")
ONE, TWO = (ToolCall(id=name, name="read_file", arguments="{}") for name in ("one", "two"))
CALLS = AssistantMessage(content="I look.", tool_calls=(ONE, TWO))
GOT_ONE, GOT_TWO = (ToolMessage(call_id=name, content=f"got {name}") for name in ("one", "two"))


def lost(call: str) -> ToolMessage:
    return ToolMessage(call_id=call, content=INTERRUPTED_RESULT, is_error=True)


@pytest.mark.parametrize(
    ("history", "mended"),
    [
        ([ASKED, CALLS, GOT_ONE, GOT_TWO], [ASKED, CALLS, GOT_ONE, GOT_TWO]),
        ([ASKED, CALLS], [ASKED, CALLS, lost("one"), lost("two")]),
        ([ASKED, CALLS, GOT_ONE], [ASKED, CALLS, GOT_ONE, lost("two")]),
        ([ASKED, CALLS, GOT_ONE, ASKED], [ASKED, CALLS, GOT_ONE, lost("two"), ASKED]),
        ([ASKED, CALLS, GOT_ONE, GOT_ONE, GOT_TWO], [ASKED, CALLS, GOT_ONE, GOT_TWO]),
        ([ASKED, GOT_ONE, CALLS, GOT_ONE, GOT_TWO], [ASKED, CALLS, GOT_ONE, GOT_TWO]),
        ([ASKED, CALLS, GOT_ONE, ASKED, GOT_TWO], [ASKED, CALLS, GOT_ONE, lost("two"), ASKED]),
    ],
    ids=["whole", "no result", "one of two", "in the middle", "twice", "before its call", "too late"],
)
def test_each_call_has_one_result_behind_its_message(history: list[Message], mended: list[Message]):
    messages = complete_results(history)
    assert messages == mended
    assert faults(messages) == []
    assert complete_results(messages) == messages
