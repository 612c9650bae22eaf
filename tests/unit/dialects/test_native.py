"""The native dialect: text is text, and what other dialects wrote becomes function calls again."""

from __future__ import annotations

from msgspec.structs import replace

from core.dialects.native import NativeDialect
from core.dialects.tags import TagDialect
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, WireAnswer
from tests.support.heard import calls, prose
from tests.support.history import faults

CALL = ToolCall(id="1", name="run_terminal_cmd", arguments='{"command": "ls"}')


def test_tags_in_the_text_of_a_model_with_function_calls_do_nothing():
    text = "<execute_bash>ls</execute_bash>\n```bash\nls\n```"
    assert calls(lambda: NativeDialect().create_parser(), text) == []
    assert prose(lambda: NativeDialect().create_parser(), text) == text


def test_calls_that_stood_in_the_text_are_said_once():
    history = [
        UserMessage(content="Do it"),
        AssistantMessage(content="I look.\n<execute_bash>ls</execute_bash>", tool_calls=(CALL,), dialect="tags"),
        ToolMessage(call_id="1", content="a"),
        AssistantMessage(content="THOUGHT: so.\n```bash\nls\n```", tool_calls=(CALL,), dialect="command"),
        ToolMessage(call_id="1", content="a"),
    ]
    sent = NativeDialect().convert_history(history)
    assert [message.content for message in sent] == ["Do it", "I look.", "a", "THOUGHT: so.", "a"]
    assert faults(sent[:3]) == []


def test_a_history_without_dialects_is_sent_as_it_is():
    history = (UserMessage(content="a"), AssistantMessage(content="<execute_bash>", tool_calls=(CALL,)))
    assert NativeDialect().convert_history(history) == history


def test_an_answer_goes_back_as_it_came_only_where_its_text_is_still_what_came():
    wire = WireAnswer(wire="chat", items=({"role": "assistant"},))
    tagged = AssistantMessage(content="<execute_bash>ls</execute_bash>", tool_calls=(CALL,), dialect="tags", wire=wire)
    native = AssistantMessage(content="I look.", tool_calls=(replace(CALL, wire_id="call_1"),), wire=wire)
    plain, asked = AssistantMessage(content="Done.", wire=wire), UserMessage(content="a")
    history = (tagged, asked, native, asked, plain, asked, plain, plain)
    assert [message.wire for message in NativeDialect().convert_history(history)[::2]] == [None, wire, wire, wire]
    wire_answers = [
        message.wire for message in TagDialect().convert_history(history) if isinstance(message, AssistantMessage)
    ]
    assert wire_answers == [wire, None, wire, None]
