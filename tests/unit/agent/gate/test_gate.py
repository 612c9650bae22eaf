"""The gate: one path, one answer to each call, and nothing that escapes it."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import msgspec
import pytest

from core.agent.base.approvals import ONLY_IN_BOX, Approver
from core.agent.base.budget import SubagentLimits, TurnBudget
from core.agent.gate import gate
from core.config.settings import Settings, ToolSettings, TurnLimits
from core.errors import ToolFailed
from core.modes import Access
from core.permissions.approval import Approved, Escalate, Refused
from core.protocol import documents as d
from core.protocol import events as ev
from core.shell import long_output
from core.tools.base import ToolOutcome
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd
from core.tools.toolset import Toolset
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults

TOOLS = Toolset()


def finished_documents(case: Case) -> list[d.Document]:
    return [event.document for event in case.of(ev.DocumentFinished) if event.document.__class__ is not d.TextDocument]


async def test_reading_calls_run_at_the_same_time_and_answer_in_order(tmp_path, monkeypatch):
    both, order = asyncio.Barrier(2), []

    async def meet(tool, _reader):
        await both.wait()
        order.append(tool.target_file)
        return ToolOutcome(content=f"content of {tool.target_file}")

    monkeypatch.setattr(TOOLS["read_file"], "run", meet)
    case = Case(tmp_path, calls(("read_file", {"target_file": "a"}), ("read_file", {"target_file": "b"})), says("."))
    await case.turn()
    assert sorted(order) == ["a", "b"]
    assert case.results() == ["content of a", "content of b"]


async def test_a_call_that_does_more_than_read_is_a_barrier(tmp_path):
    case = Case(
        tmp_path,
        calls(
            ("write", {"file_path": "a.py", "contents": "x = 1\n"}),
            ("read_file", {"target_file": "a.py"}),
            ("search_replace", {"file_path": "a.py", "old_string": "1", "new_string": "2"}),
            ("read_file", {"target_file": "a.py"}),
        ),
        says("."),
    )
    await case.turn()
    assert "x = 1" in case.results()[1]
    assert "x = 2" in case.results()[3]
    assert faults(case.messages) == []


async def test_a_fault_in_a_tool_is_an_answer_without_a_traceback(tmp_path, monkeypatch):
    async def broken(_tool, _reader):
        raise ZeroDivisionError("sk-secret at /home/somebody")

    monkeypatch.setattr(TOOLS["read_file"], "run", broken)
    case = Case(tmp_path, calls(("read_file", {"target_file": "a"})), says("."))
    assert (await case.turn()).reason == "done"
    (result,) = case.results()
    assert re.fullmatch(r"The tool failed unexpectedly \(ZeroDivisionError\) \(saved as crash report \S+\); .*", result)
    assert "sk-secret" not in result


async def test_a_tool_that_gives_itself_up_is_answered(tmp_path, monkeypatch):
    async def gives_up(_tool, _reader):
        raise asyncio.CancelledError

    monkeypatch.setattr(TOOLS["read_file"], "run", gives_up)
    case = Case(tmp_path, calls(("read_file", {"target_file": "a"})), says("."))
    assert (await case.turn()).reason == "done"
    assert case.of(ev.ToolFinished)[0].status == "failed"


async def test_a_tool_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    async def waits(_tool, _reader):
        await asyncio.Event().wait()

    monkeypatch.setattr(TOOLS["read_file"], "run", waits)
    monkeypatch.setattr(gate, "TIME_LIMITS", {TOOLS["read_file"].access: 0.01})
    case = Case(tmp_path, calls(("read_file", {"target_file": "a"})), says("."))
    assert (await case.turn()).reason == "done"
    assert "Stopped after" in case.results()[0]


async def test_a_long_result_is_clipped_and_the_whole_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("core.agent.gate.gate.clip_text", partial(long_output.clip_text, limit=3_000))
    text = "\n".join(f"line {number}" for number in range(2_000))
    case = Case(tmp_path, calls(("read_file", {"target_file": "a"})))
    (case.project / "a").write_text(text)
    await case.turn()
    [finished] = case.of(ev.ToolFinished)
    assert finished.spilled == f"output:{finished.call}.txt"
    assert finished.spilled in case.results()[0]
    assert len(case.results()[0]) < 3_300
    case.model.steps = [calls(("read_file", {"target_file": finished.spilled, "offset": 1_500, "limit": 2})), says(".")]
    await case.turn()
    assert "1500|  1500|line 1499" in case.results()[1]
    path = case.directory / "session" / "outputs" / f"{finished.call}.txt"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["output:../../log.jsonl", "output:", "output:a/b.txt", "output:x.jsonl", "outputs/x"])
def test_only_names_of_kept_results_are_read_back(tmp_path, path):
    (tmp_path / "outputs").mkdir()
    (tmp_path / "log.jsonl").write_text("secret")
    assert long_output.read_spilled(tmp_path, path) is None


async def test_a_result_that_can_not_be_kept_is_still_answered(tmp_path):
    (tmp_path / "outputs").write_text("in the way")
    text, name = long_output.clip_text(tmp_path, "call_1", "x" * 1_000, limit=300)
    assert name == ""
    assert "could not be saved" in text


async def test_each_kind_of_call_becomes_its_document(tmp_path):
    case = Case(
        tmp_path,
        calls(("create_plan", {"name": "P", "overview": "O", "plan": "# B", "todos": [{"id": "a", "content": "A"}]})),
        [lambda: case.emit(ev.ModeChanged(mode="agent")), *calls(
            ("todo_write", {"merge": True, "todos": [{"id": "a", "content": "A", "status": "completed"}]}),
            ("run_terminal_cmd", {"command": "echo out; exit 3"}),
            ("write", {"file_path": "n.py", "contents": "x = 1\n"}),
            ("delete_file", {"target_file": "missing.py"}),
        )],
        says("Done."),
        mode="plan",
    )  # fmt: skip
    case.answer_approvals("allow_once")
    await case.turn()
    plan, todo, command, write, delete, why = finished_documents(case)
    assert isinstance(plan, d.PlanDocument)
    assert (plan.metadata.title, plan.metadata.path) == ("P", case.state.todos_plan_path)
    assert isinstance(todo, d.TodoUpdateDocument)
    assert todo.metadata.todos == (d.TodoStatusUpdate(id="a", status="completed"),)
    assert isinstance(command, d.TerminalCommandDocument)
    assert (command.metadata.exit_code, command.metadata.output.strip()) == (3, "out")
    assert isinstance(write, d.FileEditDocument)
    assert (write.metadata.operation, write.metadata.added, write.metadata.status) == ("create", 1, "success")
    assert isinstance(delete, d.ToolCallDocument)
    assert delete.metadata.result is not None
    assert (delete.metadata.result.status, delete.metadata.arguments) == ("error", {"target_file": "missing.py"})
    assert str(delete.metadata.result.data).startswith("missing.py does not exist.")
    assert isinstance(why, d.ErrorDocument)
    assert (why.metadata.error_code, why.metadata.source) == ("FILE_NOT_FOUND", "delete_file")
    assert (why.content, why.metadata.tool_call_id) == ("missing.py does not exist.", delete.metadata.tool_call_id)
    assert command.metadata.working_directory == str(case.project)
    assert (case.project / case.state.todos_plan_path).read_text().count("completed") == 1


async def test_a_question_and_its_answer_are_one_document(tmp_path):
    question = {"id": "q", "prompt": "Which?", "options": [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]}
    case = Case(tmp_path, calls(("ask_question", {"questions": [question]})), says("A then."))

    def answer(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.QuestionAsked):
            chosen = (d.QuestionAnswer(question="q", options=("a",)),)
            asyncio.get_running_loop().call_soon(case.session.user.resolve_question, event.id, chosen)

    case.on_event = answer
    await case.turn()
    [document] = finished_documents(case)
    assert isinstance(document, d.ClarificationDocument)
    assert document.metadata.answers[0].options == ("a",)
    assert "A" in case.results()[0]


@pytest.mark.parametrize(("decision", "ran"), [("allow_once", True), ("reject_once", False)])
async def test_a_command_runs_only_with_consent(tmp_path, decision, ran):
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "touch made"})), says("."))
    case.answer_approvals(decision)
    await case.turn()
    assert (case.project / "made").exists() is ran
    [request] = case.of(ev.ApprovalRequested)
    assert request.subject == "touch made"
    assert "not sandboxed" in request.containment
    assert request.options == ("allow_once", "reject_once")
    assert case.of(ev.ToolFinished)[0].status == ("completed" if ran else "denied")


async def test_nobody_is_asked_for_a_job_that_nothing_can_sandbox(tmp_path):
    call = ("run_terminal_cmd", {"command": "touch made", "is_background": True})
    case = Case(tmp_path, calls(call), says("."))
    case.answer_approvals("allow_once")
    await case.turn()
    assert case.of(ev.ApprovalRequested) == []
    assert "Background commands can't be sandboxed on this machine" in case.results()[0]
    assert "in the foreground" in case.results()[0]
    assert not (case.project / "made").exists()


async def test_m12_a_yes_to_what_a_subagents_parent_may_no_longer_do_runs_nothing(tmp_path):
    case, granted = Case(tmp_path, calls(("run_terminal_cmd", {"command": "touch made"})), says(".")), set(Access)
    case.session.permissions.subagent_limits = SubagentLimits(
        parent_grants=lambda access: access in granted, budget=TurnBudget(TurnLimits)
    )
    case.answer_approvals("allow_once")
    answer = case.on_event

    def withdraw(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ApprovalRequested):
            granted.discard(Access.EXEC)
        answer(event)

    case.on_event = withdraw
    await case.turn()
    assert [resolution.decision for resolution in case.of(ev.ApprovalResolved)] == ["allow_once"]
    assert case.tree() == {}
    assert case.of(ev.ToolFinished)[0].status == "denied"
    assert "is not among the tools you have" in case.results()[0]


async def test_the_note_of_a_refusal_reaches_the_model(tmp_path):
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "rm -rf ."})), says("."))

    def refuse(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ApprovalRequested):
            loop = asyncio.get_running_loop()
            loop.call_soon(case.session.user.resolve_approval, event.id, "reject_once", "Use make clean.")

    case.on_event = refuse
    await case.turn()
    assert "Use make clean." in case.results()[0]


async def test_an_alias_is_shown_under_the_tools_own_name(tmp_path):
    case = Case(tmp_path, calls(("Bash", {"command": "true"})), says("."))
    case.answer_approvals("reject_once")
    await case.turn()
    assert case.of(ev.ToolRequested)[0].tool == "run_terminal_cmd"


async def test_what_is_refused_on_disk_is_an_answer(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise ToolFailed("No space left on device.")

    case = Case(tmp_path, calls(("write", {"file_path": "a.py", "contents": "x"})), says("."))
    monkeypatch.setattr(case.shadow, "edit", full)
    assert (await case.turn()).reason == "done"
    assert "No space left" in case.results()[0]


def left_to_the_user(case: Case, *answers: d.QuestionAnswer) -> None:
    by_hand = msgspec.structs.replace(case.session.settings.commands, policy="human")
    case.session.use_settings(msgspec.structs.replace(case.session.settings, commands=by_hand))

    def answer(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.QuestionAsked):
            asyncio.get_running_loop().call_soon(case.session.user.resolve_question, event.id, answers)

    case.on_event = answer


async def test_the_command_that_the_user_types_runs_in_place_of_the_one_proposed(tmp_path):
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "touch made"})), says("."))
    left_to_the_user(case, d.QuestionAnswer(question="command", text=" echo typed "))
    await case.turn()
    assert "touch made" in case.of(ev.QuestionAsked)[0].questions[0].text
    assert case.results()[0].startswith("The user ran another command: echo typed\n")
    assert "\ntyped" in case.results()[0]
    assert case.of(ev.ApprovalRequested) == []
    assert not list(tmp_path.rglob("made"))
    [document] = [
        event.document
        for event in case.of(ev.DocumentFinished)
        if isinstance(event.document, d.TerminalCommandDocument)
    ]
    assert document.metadata.command == "echo typed"


async def test_a_proposed_command_can_be_run_as_it_is(tmp_path):
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "echo proposed"})), says("."))
    left_to_the_user(case, d.QuestionAnswer(question="command", options=("as_proposed",)))
    await case.turn()
    assert case.results()[0].startswith("exit code 0")
    assert "\nproposed" in case.results()[0]


async def test_without_a_command_of_the_users_none_is_run(tmp_path):
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "touch made"})), says("."))
    left_to_the_user(case)
    await case.turn()
    assert "say which one to run" in case.results()[0]
    assert case.of(ev.ApprovalRequested) == []
    assert not list(tmp_path.rglob("made"))


@pytest.mark.parametrize("name", ["write", "Write", "call_tool"])
async def test_a_tool_that_is_switched_off_is_run_under_no_name(tmp_path, name):
    arguments = {"file_path": "a.py", "contents": "x = 1\n"}
    if name == "call_tool":
        arguments = {"name": "write", "arguments": msgspec.json.encode(arguments).decode()}
    settings = Settings(tools={"write": ToolSettings(enabled=False)})
    case = Case(tmp_path, calls((name, arguments)), says("."), settings=settings)
    await case.turn()
    assert "write is turned off in the settings (tools.write.enabled)" in case.results()[0]
    assert case.of(ev.ChangeProposed) == []
    assert case.of(ev.ApprovalRequested) == []


@pytest.mark.parametrize(("decision", "changes"), [("allow_once", 1), ("reject_once", 0)])
async def test_each_call_of_a_tool_is_asked_about_if_the_user_wants_that(tmp_path, decision, changes):
    settings = Settings(tools={"write": ToolSettings(require_approval=True)})
    tool_calls = ("write", {"file_path": "a.py", "contents": "x = 1\n"}), ("list_dir", {})
    case = Case(tmp_path, calls(*tool_calls), says("."), settings=settings)
    case.answer_approvals(decision)
    await case.turn()
    asked = case.of(ev.ApprovalRequested)
    assert [(request.subject, request.reason) for request in asked] == [
        ("a.py", ("Your settings ask before every call of write."))
    ]
    assert len(case.of(ev.ChangeProposed)) == changes


@pytest.mark.parametrize(
    ("answer", "text"),
    [(Escalate(), f"Not run: {ONLY_IN_BOX}"), (Refused(""), "Not run: "), (Refused("no."), "Not run: no.")],
)
async def test_an_answer_that_is_no_plain_yes_runs_nothing(tmp_path, monkeypatch, answer, text):
    async def ask(*_args, **_named):
        return answer

    monkeypatch.setattr(Approver, "ask_for_call", ask)
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "touch made"})), says("."))
    await case.turn()
    assert [result.rstrip() for result in case.results()] == [text.rstrip()]
    assert [event.status for event in case.of(ev.ToolFinished)] == ["denied"]
    assert case.tree() == {}


@pytest.mark.parametrize(("answer", "refusal"), [(Approved(), None), (Refused(""), ""), (Escalate(), ONLY_IN_BOX)])
async def test_a_command_that_a_tool_needs_is_run_after_a_plain_yes_alone(tmp_path, monkeypatch, answer, refusal):
    async def ask(*_args, **_named):
        return answer

    monkeypatch.setattr(Approver, "ask_for_call", ask)
    context = Case(tmp_path).session
    approver = Approver(context.user, context.permissions, context.emit)
    assert await approver.find_refusal("call_1", RunTerminalCmd(command="make")) == refusal
