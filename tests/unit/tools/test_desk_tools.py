from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import ToolInputInvalid
from core.plans.store import PlanStore
from core.protocol.documents import Question, QuestionAnswer, Todo, TodoMark
from core.sandbox.environment import command_environment
from core.sandbox.runner import run_command
from core.tools.registry import parse_call


class Board:
    """Planner and todo board over plan files in a dictionary."""

    def __init__(self) -> None:
        self.list: tuple[Todo, ...] = ()
        self.files: dict[str, bytes] = {}
        self.store = PlanStore(self)

    def read(self, rel: str) -> bytes | None:
        return self.files.get(rel)

    def write(self, rel: str, data: bytes) -> None:
        self.files[rel] = data

    def names(self, rel: str) -> list[str]:
        return [path.removeprefix(f"{rel}/") for path in self.files]

    def todos(self):
        return self.list

    def set_todos(self, todos) -> None:
        self.list = todos

    def create_plan(self, plan):
        return self.store.create(plan)


class User:
    def __init__(self, *answers: QuestionAnswer, agrees: bool = False) -> None:
        self.answers = answers
        self.agrees = agrees
        self.asked: tuple[Question, ...] = ()

    async def ask(self, questions):
        self.asked = questions
        return self.answers

    async def request_mode(self, mode: str, explanation: str) -> bool:
        return self.agrees


class Shell:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    async def run_command(self, command, *, time_limit, on_output):
        env = command_environment(os.environ)
        return await run_command(command, cwd=self.cwd, env=env, time_limit=time_limit, on_output=on_output)


async def test_a_plan_becomes_a_file_and_names_what_is_ready():
    board = Board()
    call = parse_call(
        "create_plan",
        '{"name": "Add login", "overview": "o", "plan": "# P", "todos":'
        ' [{"id": "a", "content": "A"}, {"id": "b", "content": "B", "dependencies": ["a"]}]}',
    )
    outcome = await call.run(board)
    assert outcome.detail.path in board.files
    assert "ready to start: a." in outcome.content


async def test_a_plan_with_a_cycle_is_refused_by_its_path():
    call = parse_call(
        "create_plan",
        '{"name": "n", "overview": "", "plan": "p", "todos": [{"id": "a", "content": "A", "dependencies": ["b"]},'
        ' {"id": "b", "content": "B", "dependencies": ["a"]}]}',
    )
    board = Board()
    with pytest.raises(ToolInputInvalid, match="a -> b -> a"):
        await call.run(board)
    assert board.files == {}


async def test_todos_are_merged_and_only_changes_are_marked():
    board = Board()
    board.list = (Todo(id="a", content="A"), Todo(id="b", content="B", dependencies=("a",)))
    outcome = await parse_call("todo_write", '{"todos": [{"id": "a", "status": "in_progress"}]}').run(board)
    assert outcome.detail == (TodoMark(id="a", status="in_progress"),)
    assert outcome.content == "[>] a: A\n[ ] b: B (waits for a)"
    outcome = await parse_call("todo_write", '{"todos": [{"id": "c", "content": "C"}], "merge": false}').run(board)
    assert [todo.id for todo in board.list] == ["c"]
    assert "Ready to start: c." in outcome.content


async def test_answers_come_back_with_their_labels():
    user = User(QuestionAnswer(question="q1", options=("jwt",), text="short-lived"))
    call = parse_call(
        "ask_question", '{"questions": [{"prompt": "Which?", "options": [{"id": "jwt", "label": "JWT"}]}]}'
    )
    outcome = await call.run(user)
    assert outcome.content == "q1: Which?\n  -> jwt (JWT); short-lived"
    assert user.asked[0].text == "Which?"


async def test_an_unanswered_question_says_how_to_go_on():
    outcome = await parse_call("ask_question", '{"questions": [{"prompt": "Which?"}]}').run(User())
    assert outcome.summary == "not answered"
    assert "assumption" in outcome.content


async def test_doubled_ids_of_questions_are_refused():
    call = parse_call("ask_question", '{"questions": [{"id": "x", "prompt": "1"}, {"id": "x", "prompt": "2"}]}')
    with pytest.raises(ToolInputInvalid, match="have the id x"):
        await call.run(User())


@pytest.mark.parametrize(("agrees", "summary"), [(True, "now in plan mode"), (False, "declined")])
async def test_a_mode_switch_is_up_to_the_user(agrees, summary):
    outcome = await parse_call("switch_mode", '{"target_mode_id": "plan"}').run(User(agrees=agrees))
    assert outcome.summary == summary


async def test_a_command_tells_its_exit_code_and_its_output(tmp_path):
    outcome = await parse_call("run_terminal_cmd", '{"command": "echo hi; pwd; exit 3"}').run(Shell(tmp_path))
    assert outcome.content.startswith("exit code 3 · ")
    assert outcome.content.endswith(f"\nhi\n{tmp_path}\n")
    assert outcome.detail.exit_code == 3
    assert not outcome.failed


async def test_a_command_that_runs_out_of_time_says_so(tmp_path):
    outcome = await parse_call("run_terminal_cmd", '{"command": "echo hi; sleep 60", "timeout": 1}').run(
        Shell(tmp_path)
    )
    assert outcome.content.startswith("timed out after 1.")
    assert outcome.content.endswith("\nhi\n")
    assert outcome.failed


async def test_background_commands_are_refused_with_advice(tmp_path):
    call = parse_call("run_terminal_cmd", '{"command": "x", "is_background": true}')
    with pytest.raises(ToolInputInvalid, match="not available yet"):
        await call.run(Shell(tmp_path))
