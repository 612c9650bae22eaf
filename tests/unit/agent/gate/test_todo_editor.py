from __future__ import annotations

import asyncio

from msgspec.structs import replace

from core.agent.gate import todo_editor as proving
from core.config.settings import Settings
from core.protocol import events as ev
from core.protocol.documents import QuestionAnswer
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults

TODOS = [
    {"id": "a", "content": "A", "verify": "test -e done.txt"},
    {"id": "b", "content": "B", "dependencies": ["a"]},
    {"id": "c", "content": "C", "dependencies": ["b"]},
]
PLAN = ("create_plan", {"name": "P", "overview": "O", "plan": "# B", "todos": TODOS})


def write(*todos: tuple[str, str], merge: bool = True):
    return calls(("todo_write", {"merge": merge, "todos": [{"id": key, "status": value} for key, value in todos]}))


async def planned(tmp_path, *steps, **options) -> Case:
    """A session with a plan of three todos, in Agent mode, that will play `steps`."""
    case = Case(tmp_path, calls(PLAN), says("Planned."), *steps, mode="plan", **options)
    await case.turn()
    case.emit(ev.ModeChanged(mode="agent"))
    case.answer_approvals("allow_once")
    return case


def statuses(case: Case) -> list[str]:
    return [todo.status for todo in case.state.todos]


def on_disk(case: Case) -> list[str]:
    return [todo.status for todo in case.session.plans.store.load(case.state.todos_plan_path).todos]


async def test_a_todo_is_not_completed_while_its_command_fails_and_is_when_it_passes(tmp_path):
    case = await planned(
        tmp_path,
        write(("a", "in_progress")),
        write(("a", "completed")),
        calls(("run_terminal_cmd", {"command": "touch done.txt"})),
        write(("a", "completed")),
        says("So."),
    )
    await case.turn()
    second, fourth = case.results()[2], case.results()[4]
    assert "a is not completed. Its command `test -e done.txt` did not pass:\nexit code 1" in second
    assert "[>] a" in second
    assert "[x] a" in fourth
    assert [event.exit_code for event in case.of(ev.TodoVerified)] == [1, 0]
    assert case.of(ev.ToolFinished)[2].status == "failed"
    assert statuses(case) == on_disk(case) == ["completed", "pending", "pending"]
    assert faults(case.messages) == []


async def test_m1_a_command_that_the_user_refuses_proves_nothing(tmp_path):
    case = await planned(tmp_path, write(("a", "completed")), says("So."))
    (case.project / "done.txt").write_text("")
    case.answer_approvals("reject_once")
    await case.turn()
    assert "was not run: The user refused this call." in case.results()[1]
    assert case.of(ev.TodoVerified) == []
    assert statuses(case) == ["pending"] * 3


async def test_m1_a_rule_that_denies_a_command_denies_it_as_a_proof(tmp_path):
    settings = Settings()
    settings = replace(settings, permissions=replace(settings.permissions, deny=("Shell(test *)",)))
    case = await planned(tmp_path, write(("a", "completed")), says("So."), settings=settings)
    await case.turn()
    assert "was not run" in case.results()[1]
    assert case.of(ev.ApprovalRequested) == []
    assert statuses(case) == ["pending"] * 3


async def test_a_proof_that_hangs_is_ended_and_proves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(proving, "TIME_LIMIT", 0.3)
    case = await planned(tmp_path, write(("b", "completed"), ("a", "cancelled")), says("So."))
    case.session.plans.store.edit(
        case.state.todos_plan_path,
        todos=[
            replace(todo, verify="sleep 60")
            for todo in case.session.plans.store.load(case.state.todos_plan_path).todos[:2]
        ],
    )
    await case.turn()
    assert "Its command `sleep 60` did not pass:\ntimed out after 0." in case.results()[1]
    assert statuses(case) == ["cancelled", "pending"]
    assert case.of(ev.ToolOutput)[0].text.startswith("b is verified by $ sleep")


async def test_m1_where_a_mode_runs_no_commands_a_proof_does_not_run_either(tmp_path):
    case = await planned(tmp_path, write(("a", "completed")), says("So."))
    case.emit(ev.ModeChanged(mode="plan"))
    (case.project / "done.txt").write_text("")
    await case.turn()
    assert "was not run: plan mode runs no commands here." in case.results()[1]
    assert case.of(ev.ApprovalRequested) == case.of(ev.TodoVerified) == []
    assert statuses(case) == ["pending"] * 3


async def test_what_depends_on_a_todo_that_was_not_proved_does_not_begin(tmp_path):
    case = await planned(tmp_path, write(("a", "completed"), ("b", "in_progress")), says("So."))
    await case.turn()
    assert "b stays pending: a comes first." in case.results()[1]
    assert statuses(case) == ["pending"] * 3


async def test_a_todo_out_of_order_is_refused_and_nothing_changes(tmp_path):
    case = await planned(tmp_path, write(("b", "in_progress")), says("So."))
    await case.turn()
    assert "b can't be in progress yet: it depends on a" in case.results()[1]
    assert statuses(case) == on_disk(case) == ["pending"] * 3


def answering(case: Case, *answers: QuestionAnswer) -> None:
    def answer(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.QuestionAsked):
            asyncio.get_running_loop().call_soon(case.session.user.resolve_question, event.id, answers)

    case.on_event = answer


async def test_cancelling_asks_what_becomes_of_what_depends_on_it(tmp_path):
    case = await planned(tmp_path, write(("a", "cancelled")), write(("b", "cancelled")), says("So."))
    answering(case, QuestionAnswer(question="cancelled", options=("keep",), text="I need it"))
    await case.turn()
    assert "b, c, which depend on it" in case.of(ev.QuestionAsked)[0].questions[0].text
    assert 'a is not cancelled: the user wants to keep it. The user said: "I need it"' in case.results()[1]
    assert statuses(case) == ["pending"] * 3


async def test_what_depends_on_a_cancelled_todo_is_cancelled_too_if_the_user_says_so(tmp_path):
    case = await planned(tmp_path, write(("b", "cancelled")), says("So."))
    answering(case, QuestionAnswer(question="cancelled", options=("cancel",)))
    await case.turn()
    assert statuses(case) == on_disk(case) == ["pending", "cancelled", "cancelled"]


async def test_without_an_answer_what_depends_on_a_cancelled_todo_goes_on(tmp_path):
    case = await planned(tmp_path, write(("a", "cancelled")), write(("b", "in_progress")), says("So."))
    case.session.user.is_interactive = False
    await case.turn()
    assert "b, c no longer depend on a." in case.results()[1]
    assert statuses(case) == ["cancelled", "in_progress", "pending"]


async def test_a_plan_is_not_thinned_out_by_a_list_that_leaves_todos_out(tmp_path):
    case = await planned(tmp_path, write(("a", "in_progress"), merge=False), says("So."))
    await case.turn()
    assert [todo.id for todo in case.state.todos] == ["a", "b", "c"]


async def test_an_edit_outside_in_the_middle_is_taken_in_and_both_changes_stand(tmp_path):
    case = await planned(tmp_path, write(("a", "in_progress")), says("So."))
    path = case.project / case.state.todos_plan_path
    path.write_text(path.read_text().replace("content: B", "content: B with care").replace("# B", "# New body"))
    await case.turn()
    plan = case.session.plans.store.load(case.state.todos_plan_path)
    assert (plan.body, plan.todos[1].content, plan.todos[0].status) == ("# New body", "B with care", "in_progress")
    assert case.state.todos == plan.todos
    assert "B with care" in case.results()[1]


async def test_a_plan_file_that_was_broken_outside_is_told_once_and_mended_by_what_was_done(tmp_path):
    case = await planned(tmp_path, write(("b", "cancelled")), write(("c", "cancelled")), says("So."))
    case.session.user.is_interactive = False
    path = case.project / case.state.todos_plan_path
    good = path.read_text()
    path.write_text(good.replace("todos:", "todos: ["))
    await case.turn()
    assert statuses(case) == ["pending", "cancelled", "cancelled"]
    assert path.read_text() == good.replace("todos:", "todos: [")
    assert ["line 5: expected" in notice.message for notice in case.of(ev.Notice)] == [True]
    path.write_text(good.replace("name: P", "name: Q"))
    case.model.steps = [write(("a", "in_progress")), says("So.")]
    await case.turn()
    plan = case.session.plans.store.load(case.state.todos_plan_path)
    assert plan.name == "Q"
    assert on_disk(case) == statuses(case) == ["in_progress", "cancelled", "cancelled"]


async def test_a_plan_is_changed_in_part(tmp_path):
    change = {
        "overview": "Better",
        "todos": [{"id": "d", "content": "D", "dependencies": ["c"]}, {"id": "b", "content": "B!"}],
    }
    case = Case(tmp_path, calls(PLAN), calls(("update_plan", change)), says("So."), mode="plan")
    await case.turn()
    plan = case.session.plans.store.load(case.state.todos_plan_path)
    assert (plan.name, plan.overview, plan.body) == ("P", "Better", "# B")
    assert [todo.content for todo in plan.todos] == ["A", "B!", "C", "D"]
    assert plan.todos[0].verify == "test -e done.txt"
    assert case.state.todos == plan.todos


async def test_a_change_that_breaks_the_graph_is_refused_and_the_file_stays(tmp_path):
    case = Case(tmp_path, calls(PLAN), calls(("update_plan", {"remove": ["a"]})), says("So."), mode="plan")
    await case.turn()
    assert "b depends on a, which does not exist" in case.results()[1]
    assert [todo.id for todo in case.session.plans.store.load(case.state.todos_plan_path).todos] == ["a", "b", "c"]
