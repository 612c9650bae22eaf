"""Tools that come with a mode: told of with it, called through `call_tool`, and the same as any other at the gate."""

from __future__ import annotations

import json

import pytest

from core.config.settings import ModelSettings, Settings
from core.protocol import events as ev
from core.protocol.documents import ToolCallDocument
from core.protocol.messages import AssistantMessage
from core.tools.toolset import Toolset
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults

TOOLS = Toolset()

THREE = {"hypotheses": [{"statement": f"Cause {number}"} for number in (1, 2, 3)]}
WRAPPED = ("call_tool", {"name": "hypotheses_set", "arguments": json.dumps(THREE)})


def sent(case: Case, number: int) -> str:
    return "\n".join(getattr(message, "content", "") for message in case.model.requests[number].messages)


@pytest.mark.parametrize("called", [WRAPPED, ("hypotheses_set", THREE)], ids=["wrapped", "by its own name"])
async def test_a_tool_of_a_mode_is_called_through_call_tool_or_by_its_name(tmp_path, called):
    case = Case(tmp_path, calls(called), says("So."), mode="debug")
    await case.turn()
    assert [event.tool for event in case.of(ev.ToolFinished)] == ["hypotheses_set"]
    assert case.of(ev.ToolFinished)[0].status == "completed", case.results()
    requested = case.of(ev.ToolRequested)[0]
    assert (requested.tool, json.loads(requested.arguments)) == ("hypotheses_set", THREE)
    assert len(case.of(ev.HypothesesSet)) == 1
    documents = [
        event.document for event in case.of(ev.DocumentFinished) if isinstance(event.document, ToolCallDocument)
    ]
    assert [document.metadata.tool_name for document in documents] == ["hypotheses_set"]
    assert documents[0].metadata.arguments == THREE
    # what goes back is what was said
    assistant_message = next(
        message for message in case.messages if isinstance(message, AssistantMessage) and message.tool_calls
    )
    assert assistant_message.tool_calls[0].name == called[0]
    assert faults(case.messages) == []


async def test_the_tool_list_stays_and_the_reminder_of_the_mode_describes_the_rest(tmp_path):
    case = Case(tmp_path, says("One."), says("Two."), says("Three."))
    await case.turn()
    case.emit(ev.ModeChanged(mode="debug"))
    await case.turn("And now?")
    case.emit(ev.ModeChanged(mode="plan"))
    await case.turn("And now?")
    first, second, third = case.model.requests
    assert first.tools == second.tools == third.tools
    assert first.system == second.system == third.system
    assert second.messages[: len(first.messages)] == first.messages
    assert third.messages[: len(second.messages)] == second.messages
    for number, expected_names in enumerate(
        ((), TOOLS.deferred["debug"], (*TOOLS.deferred["debug"], *TOOLS.deferred["plan"]))
    ):
        described_names = [
            name for names in TOOLS.deferred.values() for name in names if f'<tool name="{name}">' in sent(case, number)
        ]
        assert sorted(described_names) == sorted(expected_names)
    assert "call_tool" in sent(case, 1)


async def test_the_mode_decides_about_what_is_called_not_about_the_wrapper(tmp_path):
    case = Case(tmp_path, calls(WRAPPED), says("So."))
    await case.turn()
    finished = case.of(ev.ToolFinished)[0]
    assert (finished.tool, finished.status) == ("hypotheses_set", "denied")
    assert "debug mode" in case.results()[0]


async def test_a_command_through_call_tool_is_asked_about_like_any_other(tmp_path):
    inner = ("call_tool", {"name": "run_terminal_cmd", "arguments": '{"command": "touch made"}'})
    case = Case(tmp_path, calls(inner), says("So."))
    case.answer_approvals("reject_once")
    await case.turn()
    assert case.of(ev.ApprovalRequested)[0].subject == "touch made"
    assert case.of(ev.ToolFinished)[0].status == "denied"


async def test_the_same_failing_call_is_seen_through_the_wrapper(tmp_path):
    inner = ("call_tool", {"name": "read_file", "arguments": '{"target_file": "no"}'})
    case = Case(tmp_path, *[calls(inner)] * 8, says("So."))
    await case.turn()
    assert len(case.of(ev.ToolFinished)) < 8


@pytest.mark.parametrize("dialect", ["tags", "command"])
async def test_a_model_without_function_calls_is_told_as_it_speaks(tmp_path, dialect):
    settings = Settings(models={"directed/m": ModelSettings(dialect=dialect)})
    done = says("```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```" if dialect == "command" else "So.")
    call = says(f"<tool_call>\n{json.dumps({'name': 'hypotheses_set', 'arguments': THREE})}\n</tool_call>")
    case = Case(tmp_path, *([call] if dialect == "tags" else []), done, mode="debug", settings=settings)
    await case.turn()
    assert ('<tool name="probe_add">' in sent(case, 0)) is (dialect == "tags")
    assert "call_tool" not in sent(case, 0) + case.model.requests[0].system
    if dialect == "tags":
        assert [event.tool for event in case.of(ev.ToolFinished)] == ["hypotheses_set"]
