"""Edits that a model with function calls writes into its text: edits where that is plain, else text."""

from __future__ import annotations

import pytest

from core.config.settings import ModelSettings, Settings
from core.protocol import events as ev
from core.protocol.documents import FileEditDocument, ToolCallDocument
from core.protocol.messages import AssistantMessage, ToolMessage, UserMessage, WireAnswer
from core.providers.base import AnswerReport, StreamEnd, TextDelta
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults
from tests.unit.dialects.test_written_edits import AIDER, DRAFT, NEW_CODE, PATCH, TAGGED, UNIFIED

EDITS = {
    "file-edit": TAGGED,
    "draft": DRAFT,
    "new code": NEW_CODE,
    "patch": PATCH,
    "patch in a fence": f"```\n{PATCH}\n```",
    "unified diff in a fence": f"```diff\n{UNIFIED}```",
    "blocks below a name": f"a.py\n{AIDER}",
    "blocks in a fence below a name": f"`a.py`:\n```python\n{AIDER}```",
}
PLAIN = {"file-edit", "draft", "new code", "patch", "blocks below a name"}
each_edit = pytest.mark.parametrize("name", EDITS)


def case_with(tmp_path, *steps, **options) -> Case:
    case = Case(tmp_path, *steps, **options)
    (case.project / "a.py").write_text("x = 1\n")
    return case


def edits(case: Case) -> list[tuple[str, str]]:
    """Files with "success", and of calls that failed the files that they named with "error"."""
    rows = []
    for event in case.of(ev.DocumentFinished):
        match event.document:
            case FileEditDocument(metadata=edit):
                rows.append((edit.file_path, edit.status))
            case ToolCallDocument(metadata=call) if call.result is not None and "file_path" in call.arguments:
                rows.append((call.arguments["file_path"], call.result.status))
    return rows


def texts(case: Case) -> str:
    documents = [event.document for event in case.of(ev.DocumentFinished)]
    return "\n".join(str(document.content) for document in documents if not isinstance(document, FileEditDocument))


def last_words(case: Case, number: int = -1) -> str:
    return case.model.requests[number].messages[-1].content


@each_edit
async def test_an_edit_in_the_text_waits_for_the_review_and_the_model_is_told(tmp_path, name):
    answer_text = f"I change it.\n\n{EDITS[name]}\n\nThat is all."
    case = case_with(tmp_path, says(answer_text), says("So."))
    finished = await case.turn()
    assert finished.reason == "done"
    assert edits(case) == [("a.py", "success")]
    assert case.state.changes["a.py"].added == 1
    assert case.tree()["a.py"] == b"x = 1\n"
    assert "SEARCH" not in texts(case)
    assert "x = 2" not in texts(case)
    assert "That is all." in texts(case)
    assert "treated as a call" in last_words(case)
    assert "a.py" in last_words(case)
    assert faults(case.messages) == []


async def test_what_was_said_goes_back_unchanged_and_what_came_of_it_after_it(tmp_path):
    wire = WireAnswer(wire="chat", items=({"role": "assistant", "content": TAGGED},))
    step = [TextDelta(TAGGED), AnswerReport(wire), StreamEnd("stop")]
    case = case_with(tmp_path, step, says("So."), says("Again."))
    await case.turn()
    await case.turn("And now?")
    second, third = case.model.requests[1:]
    answer = next(message for message in second.messages if isinstance(message, AssistantMessage))
    assert (answer.content, answer.tool_calls, answer.wire) == (TAGGED, (), wire)
    assert not any(isinstance(message, ToolMessage) for message in second.messages)
    assert isinstance(second.messages[-1], UserMessage)
    assert third.messages[: len(second.messages)] == second.messages
    assert all(request.tools == second.tools for request in case.model.requests)


async def test_beside_function_calls_their_results_come_first(tmp_path):
    step = calls(("read_file", {"target_file": "a.py"}), ("grep", {"pattern": "x"}), text=f"{TAGGED}\n")
    case = case_with(tmp_path, step, says("So."))
    await case.turn()
    sent = case.model.requests[1].messages
    assert [type(message).__name__ for message in sent[-4:]] == [
        "AssistantMessage", "ToolMessage", "ToolMessage", "UserMessage"
    ]  # fmt: skip
    assert len(sent[-4].tool_calls) == 2
    assert edits(case) == [("a.py", "success")]
    assert faults(case.messages) == []


async def test_the_same_file_edited_by_a_call_of_the_same_answer_is_edited_once(tmp_path):
    edit = ("search_replace", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"})
    case = case_with(tmp_path, calls(edit, text=f"{TAGGED}\n"), says("So."))
    await case.turn()
    assert sorted(edits(case)) == [("a.py", "error"), ("a.py", "success")]
    assert "edits a.py with a tool call" in last_words(case)
    assert case.state.changes["a.py"].added == 1


@each_edit
@pytest.mark.parametrize("mode", ["ask", "plan", "debug"])
async def test_where_no_edit_is_let_through_it_is_text(tmp_path, mode, name):
    case = case_with(tmp_path, says(f"Like this:\n\n{EDITS[name]}\n"), says("So."), mode=mode)
    await case.turn()
    assert (edits(case), case.state.changes) == ([], {})
    assert "x = 2" in texts(case)


@each_edit
async def test_a_file_that_is_not_there_is_an_example(tmp_path, name):
    text = EDITS[name].replace("a.py", "somewhere/else.py").replace("a/somewhere", "a/somewhere")
    case = case_with(tmp_path, says(f"One writes it like this.\n\n{text}\n"))
    await case.turn()
    assert (edits(case), case.state.changes) == ([], {})
    assert len(case.model.requests) == 1


@pytest.mark.parametrize(
    "text",
    [
        "*** Begin Patch\n*** Add File: new/b.py\n+y = 1\n*** End Patch",
        '<file-edit filePath="new/b.py">\n------- SEARCH\n=======\ny = 1\n+++++++ REPLACE\n</file-edit>',
    ],
)
async def test_a_file_that_is_plainly_to_be_created_is(tmp_path, text):
    case = case_with(tmp_path, says(text), says("So."))
    await case.turn()
    assert edits(case) == [("new/b.py", "success")]


@pytest.mark.parametrize("name", sorted(set(EDITS) - PLAIN))
async def test_a_diff_in_a_fence_that_does_not_fit_the_file_only_shows_something(tmp_path, name):
    case = case_with(tmp_path, says(EDITS[name]))
    (case.project / "a.py").write_text("x = 2\n")
    await case.turn()
    assert (edits(case), case.state.changes) == ([], {})


@pytest.mark.parametrize("name", sorted(set(EDITS) - PLAIN))
async def test_a_model_that_edits_by_calls_shows_with_a_fence(tmp_path, name):
    edit = ("write", {"file_path": "b.py", "contents": "y = 1\n"})
    case = case_with(tmp_path, calls(edit), says(f"You may also want this:\n\n{EDITS[name]}\n"))
    await case.turn()
    assert edits(case) == [("b.py", "success")]
    assert set(case.state.changes) == {"b.py"}


async def test_an_edit_that_can_not_be_made_is_told_to_the_model(tmp_path):
    case = case_with(tmp_path, says(TAGGED.replace("x = 1", "x = 3")), says("So."))
    await case.turn()
    assert edits(case) == [("a.py", "error")]
    assert "treated as a call" in last_words(case)
    assert case.state.changes == {}


async def test_a_path_out_of_the_workspace_is_no_edit(tmp_path):
    (tmp_path / "outside.py").write_text("x = 1\n")
    case = case_with(tmp_path, says(TAGGED.replace("a.py", "../outside.py")))
    await case.turn()
    assert edits(case) == []


async def test_an_answer_cut_by_the_length_limit_keeps_the_edits_that_are_whole(tmp_path):
    step = [TextDelta(f"{TAGGED}\nand then"), StreamEnd("length")]
    case = case_with(tmp_path, step, says("So."))
    await case.turn()
    assert edits(case) == [("a.py", "success")]


async def test_another_dialect_is_told_the_text_as_it_was(tmp_path):
    case = case_with(tmp_path, says(TAGGED), says("So."), says("Again."))
    await case.turn()
    case.session.use_settings(Settings(models={"directed/m": ModelSettings(dialect="tags")}))
    await case.turn("And now?")
    contents = [
        message.content for message in case.model.requests[-1].messages if isinstance(message, AssistantMessage)
    ]
    assert contents[0] == TAGGED
    assert "<tool_call>" not in "".join(contents)
