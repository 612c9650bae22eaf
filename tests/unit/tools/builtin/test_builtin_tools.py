from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.plans.plan_store import PlanStore
from core.protocol.documents import Question, QuestionAnswer, Todo, TodoStatusUpdate
from core.sandbox.host_view import build_environment
from core.sandbox.results import CommandResult, JobReport
from core.sandbox.unboxed_run import run_unboxed
from core.tools.base import TodosUpdated
from core.tools.toolset import Toolset

TOOLS = Toolset()


class Board:
    """Planner and todo board over plan files in a dictionary."""

    place = ".cursor/plans"

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

    plan = ""

    async def set_todos(self, todos) -> TodosUpdated:
        self.list = todos
        return TodosUpdated(todos=todos)

    def create_plan(self, plan):
        return self.store.create(plan)


class User:
    def __init__(self, *answers: QuestionAnswer, agrees: bool = False) -> None:
        self.answers = answers
        self.agrees = agrees
        self.asked: tuple[Question, ...] = ()
        self.is_reachable = True

    async def ask(self, questions, title=""):
        self.asked, self.title = questions, title
        return self.answers

    async def request_mode(self, mode: str, explanation: str) -> bool:
        return self.agrees


class Shell:
    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd

    async def run_command(self, command, *, time_limit):
        env = build_environment(os.environ)
        result = await run_unboxed(command, cwd=self.cwd, env=env, time_limit=time_limit, on_output=lambda _: None)
        ended = "timed_out" if result.timed_out else "exited"
        return replace(result, ended=ended, effects="changed nothing", spilled_path="output:x.txt")

    async def start_job(self, command, *, wait):
        self.asked = (command, wait)
        return CommandResult(exit_code=None, output="up\n", duration_ms=1000, ended="running", job="job_1")


async def test_a_plan_becomes_a_file_and_names_what_is_ready():
    board = Board()
    call = TOOLS.parse(
        "create_plan",
        '{"name": "Add login", "overview": "o", "plan": "# P", "todos":'
        ' [{"id": "a", "content": "A"}, {"id": "b", "content": "B", "dependencies": ["a"]}]}',
    )
    outcome = await call.run(board)
    assert outcome.detail.path in board.files
    assert "ready to start: a." in outcome.content


async def test_a_plan_with_a_cycle_is_refused_by_its_path():
    call = TOOLS.parse(
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
    outcome = await TOOLS.parse("todo_write", '{"todos": [{"id": "a", "status": "in_progress"}]}').run(board)
    assert outcome.detail == (TodoStatusUpdate(id="a", status="in_progress"),)
    assert outcome.content == "[>] a: A\n[ ] b: B (depends on a)"
    outcome = await TOOLS.parse("todo_write", '{"todos": [{"id": "c", "content": "C"}], "merge": false}').run(board)
    assert [todo.id for todo in board.list] == ["c"]
    assert "Ready to start: c." in outcome.content


async def test_a_list_without_ids_changes_the_todos_of_a_plan_that_it_says_in_their_words():
    board = Board()
    board.plan = "a.plan.md"
    board.list = (Todo(id="look", content="Look"), Todo(id="mend", content="Mend"))
    await TOOLS.parse("TodoWrite", '{"todos": [{"content": "Mend", "status": "completed"}]}').run(board)
    assert [(todo.id, todo.status) for todo in board.list] == [("look", "pending"), ("mend", "completed")]
    await TOOLS.parse("TodoWrite", '{"todos": [{"content": "Ship it"}]}').run(board)
    assert [todo.id for todo in board.list] == ["look", "mend", "step-1"]


@pytest.mark.parametrize(("agrees", "summary"), [(True, "now in plan mode"), (False, "declined")])
async def test_a_mode_switch_is_up_to_the_user(agrees, summary):
    outcome = await TOOLS.parse("switch_mode", '{"target_mode_id": "plan"}').run(User(agrees=agrees))
    assert outcome.summary == summary


async def test_a_command_tells_its_exit_code_and_its_output(tmp_path):
    outcome = await TOOLS.parse("run_terminal_cmd", '{"command": "echo hi; pwd; exit 3"}').run(Shell(tmp_path))
    assert outcome.content.startswith("exit code 3 · ")
    assert outcome.content.endswith(f"\nhi\n{tmp_path}\n[changed nothing]")
    assert outcome.spilled == "output:x.txt"
    assert outcome.detail.exit_code == 3
    assert not outcome.failed


async def test_a_command_that_runs_out_of_time_says_so(tmp_path):
    outcome = await TOOLS.parse("run_terminal_cmd", '{"command": "echo hi; sleep 60", "timeout": 1}').run(
        Shell(tmp_path)
    )
    assert outcome.content.startswith("timed out after 1.")
    assert outcome.content.endswith("\nhi\n[changed nothing]")
    assert outcome.failed


async def test_a_command_in_the_background_is_known_by_its_job(tmp_path):
    shell = Shell(tmp_path)
    outcome = await TOOLS.parse("run_terminal_cmd", '{"command": "serve", "is_background": true}').run(shell)
    assert shell.asked == ("serve", 1.0)
    assert outcome.content == "runs in the background as job_1; output of the first 1.0 s\nup"
    assert not outcome.failed


class Watched:
    """Two jobs, one of which has ended."""

    def __init__(self) -> None:
        ended = CommandResult(exit_code=1, output="", duration_ms=2000, effects="changed: created a; pending review")
        self.reports = {
            "job_1": JobReport(id="job_1", command="make", directory=".", duration_ms=2000, result=ended),
            "job_2": JobReport(id="job_2", command="serve", directory=".", duration_ms=500, output="up\n"),
        }

    def list(self):
        return tuple(self.reports.values())

    async def read(self, job, wait):
        return self.reports[job]

    async def stop(self, job, *, interrupt):
        self.stopped = (job, interrupt)
        return self.reports[job]


async def test_jobs_are_listed_with_how_they_are():
    outcome = await TOOLS.parse("read_terminal", "{}").run(Watched())
    assert outcome.content.splitlines() == ["job_1 ended: exit code 1 · 2.0 s · make", "job_2 runs since 0.5 s · serve"]
    assert outcome.summary == "1 of 2 running"


async def test_a_job_that_ended_says_what_it_changed():
    outcome = await TOOLS.parse("read_terminal", '{"job": "job_1", "wait": 5}').run(Watched())
    assert outcome.content.endswith("(no new output)\n[changed: created a; pending review]")


async def test_ctrl_c_is_a_way_of_stopping():
    watched = Watched()
    await TOOLS.parse("stop_terminal", '{"job": "job_2", "interrupt": true}').run(watched)
    assert watched.stopped == ("job_2", True)
