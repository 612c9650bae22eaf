from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agent.context.turn_context import BuildTarget
from core.config.settings import ModelSettings, Settings
from core.protocol import events as ev
from core.protocol.documents import Plan, QuestionAnswer, Todo
from core.protocol.messages import UserMessage
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults

LOOK = calls(("list_dir", {"relative_workspace_path": "."}))


def reminders(case: Case) -> list[str]:
    return [
        message.content for message in case.messages if isinstance(message, UserMessage) and message.origin == "program"
    ]


def building(tmp_path, *steps, todos: tuple[Todo, ...]) -> Case:
    """A session that builds a plan of `todos`."""
    case = Case(tmp_path, *steps)
    plan = case.session.plans.store.create(Plan(path="", name="P", body="# B", todos=todos))
    case.emit(ev.PlanUpdated(plan=plan))
    case.emit(ev.TodoChanged(todos=todos, plan=plan.path))
    case.session.build = BuildTarget(plan.path)
    case.answer_approvals("allow_once")
    return case


def on_disk(case: Case) -> list[str]:
    return [todo.status for todo in case.session.plans.store.load(case.state.todos_plan_path).todos]


def write(path: str):
    return calls(("write", {"file_path": path, "contents": "x\n"}))


TWO = (
    Todo(id="model", content="Write shop/model.py"),
    Todo(id="view", content="Write shop/view.py", dependencies=("model",)),
)


async def test_a_plan_turn_that_looked_around_is_asked_once_for_a_plan_or_a_question(tmp_path):
    case = Case(tmp_path, LOOK, says("I saw it."), says("There is nothing to plan."), mode="plan")
    await case.turn()
    assert ["ends with a plan or with a question" in reminder for reminder in reminders(case)] == [True]
    assert len(case.model.requests) == 3


@pytest.mark.parametrize(
    ("answers", "owed"),
    [((), False), ((QuestionAnswer(question="q", options=("a",)),), True)],
    ids=["left", "answered"],
)
async def test_a_plan_turn_ends_with_a_question_that_is_left_to_it_and_not_with_one_that_was_answered(
    tmp_path, answers, owed
):
    options = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
    bad, good = (
        ("ask_question", {"questions": [{"id": "q", "prompt": "?", "options": choices}]}) for choices in ([], options)
    )
    case = Case(tmp_path, calls(bad), calls(good), says("Well."), says("That is all."), mode="plan")
    case.on_event = lambda event: (
        asyncio.get_running_loop().call_soon(case.session.user.resolve_question, event.id, answers)
        if isinstance(event, ev.QuestionAsked)
        else None
    )
    await case.turn()
    assert "it needs 2 to 4" in case.results()[0]
    assert bool(reminders(case)) is owed
    assert len(case.of(ev.QuestionAsked)) == 1


async def test_a_plan_turn_that_asks_or_plans_or_only_talks_is_not(tmp_path):
    plan = ("create_plan", {"name": "P", "overview": "", "plan": "# B"})
    case = Case(
        tmp_path, LOOK, says("Which one?"), LOOK, calls(plan), says("There it is."), says("Hello."), mode="plan"
    )
    for _ in range(3):
        await case.turn()
    assert reminders(case) == []
    assert case.model.steps == []


async def test_a_build_goes_on_while_todos_are_left_and_gives_up_without_progress(tmp_path):
    done = calls(("todo_write", {"todos": [{"id": "model", "status": "completed"}]}))
    case = building(tmp_path, says("Begun."), done, *[says("Well.")] * 9, todos=TWO)
    await case.turn()
    urged = [reminder for reminder in reminders(case) if "is not finished yet" in reminder]
    assert "Continue with model" in urged[0]
    assert ["Continue with view" in reminder for reminder in urged[1:]] == [True, True]
    assert "one todo is left" in case.of(ev.Notice)[-1].message
    assert on_disk(case) == ["completed", "pending"]


async def test_a_build_ends_when_the_model_asks_the_user(tmp_path):
    case = building(tmp_path, says("Shall it be red?"), todos=TWO)
    await case.turn()
    assert reminders(case) == []


async def test_the_list_is_live_for_a_model_that_never_calls_a_todo_tool(tmp_path):
    case = building(tmp_path, write("shop/model.py"), write("shop/view.py"), says("All done."), todos=TWO)
    await case.turn()
    seen = [[todo.status for todo in event.todos] for event in case.of(ev.TodoChanged)]
    assert seen == [
        ["pending", "pending"],
        ["in_progress", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]
    assert on_disk(case) == ["completed", "completed"]
    made_for = {path: change.origin.todo for path, change in case.state.changes.items()}
    assert made_for == {"shop/model.py": "model", "shop/view.py": "view"}
    assert faults(case.messages) == []


async def test_what_is_followed_is_not_completed_without_its_proof(tmp_path):
    todos = (Todo(id="model", content="Write shop/model.py", verify="test -e proof"),)
    case = building(tmp_path, write("shop/model.py"), *[says("All done.")] * 3, todos=todos)
    await case.turn()
    assert on_disk(case) == ["in_progress"]
    assert any(
        "model is not completed. Its command `test -e proof` did not pass" in reminder for reminder in reminders(case)
    )


async def test_a_model_that_keeps_the_list_itself_is_not_followed(tmp_path):
    begin = calls(("todo_write", {"todos": [{"id": "model", "status": "in_progress"}]}))
    case = building(tmp_path, begin, write("shop/model.py"), write("shop/view.py"), *[says("So.")] * 3, todos=TWO)
    await case.turn()
    assert on_disk(case) == ["in_progress", "pending"]


async def test_the_model_is_told_of_a_plan_that_the_user_changed_in_the_middle(tmp_path):
    case = building(tmp_path, LOOK, LOOK, says("So?"), todos=TWO)
    path = case.project / case.state.todos_plan_path

    def edit(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ToolFinished) and "view" in path.read_text():
            path.write_text(path.read_text().replace("shop/view.py", "shop/page.py"))

    case.on_event = edit
    await case.turn()
    change_notices = [reminder for reminder in reminders(case) if "The user changed the plan" in reminder]
    assert len(change_notices) == 1
    assert "shop/page.py" in change_notices[0]
    assert case.state.todos[1].content == "Write shop/page.py"


async def test_only_the_chosen_todo_is_built(tmp_path):
    done = calls(("todo_write", {"todos": [{"id": "model", "status": "completed"}]}))
    case = building(tmp_path, done, says("Done."), todos=TWO)
    case.session.build = BuildTarget(case.session.build.plan, "model")
    await case.turn()
    assert reminders(case) == []
    assert on_disk(case) == ["completed", "pending"]


def marks(case: Case, *changes: tuple[str, str, str]):
    """A step that edits the plan's file: for each, a todo's content, its status there and the new one."""
    path = case.state.todos_plan_path
    rows = [
        (f"content: {what}\n    status: {old}", f"content: {what}\n    status: {new}") for what, old, new in changes
    ]
    edits = [{"file_path": path, "old_string": old, "new_string": new} for old, new in rows]
    return calls(*[("search_replace", edit) for edit in edits])


async def test_statuses_written_into_the_plan_file_become_the_list_by_its_rules(tmp_path):
    todos = (TWO[0], Todo(id="view", content=TWO[1].content, dependencies=("model",), verify="test -e proof"))
    case = building(tmp_path, todos=todos)
    model, view = (todo.content for todo in todos)
    case.model.steps += [
        marks(case, (model, "pending", "in_progress")),
        write("shop/model.py"),
        marks(case, (model, "in_progress", "completed"), (view, "pending", "completed")),
        marks(case, (view, "pending", "in_progress")),
        says("Shall I?"),
    ]
    await case.turn()
    seen = [[todo.status for todo in event.todos] for event in case.of(ev.TodoChanged)]
    assert seen == [
        ["pending", "pending"],
        ["in_progress", "pending"],
        ["completed", "pending"],
        ["completed", "pending"],
        ["completed", "in_progress"],
    ]
    assert on_disk(case) == seen[-1]
    assert set(case.state.changes) == {"shop/model.py"}
    (complaint,) = [reminder for reminder in reminders(case) if "were not accepted" in reminder]
    assert "view is not completed. Its command `test -e proof` did not pass" in complaint
    assert faults(case.messages) == []


async def test_what_else_was_written_into_the_plan_file_waits_for_a_review(tmp_path):
    case = building(tmp_path, todos=TWO)
    path = case.state.todos_plan_path
    text = (case.project / path).read_text()
    more = {"file_path": path, "old_string": "# B", "new_string": "# Better"}
    broken = {"file_path": path, "old_string": "todos:", "new_string": "todos: ["}
    case.model.steps += [
        marks(case, (TWO[1].content, "pending", "in_progress")),
        calls(("search_replace", more)),
        marks(case, (TWO[0].content, "pending", "completed")),
        calls(("search_replace", broken)),
        says("Well?"),
    ]
    await case.turn()
    assert (case.project / path).read_text() == text.replace("pending", "completed", 1)
    assert set(case.state.changes) == {path}
    complaints = [reminder for reminder in reminders(case) if "were not accepted" in reminder]
    assert "view can't be in progress yet: it depends on model" in complaints[0]
    assert "can't be read, so none of it was applied" in complaints[1]
    assert case.shadow.diff(path).change.conflict == ""


async def test_a_model_that_has_the_shell_alone_is_urged_on_and_told_to_use_the_file(tmp_path):
    done = says("THOUGHT: done.\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```")
    case = building(tmp_path, *[done] * 3, todos=TWO)
    case.session.use_settings(Settings(models={"directed/m": ModelSettings(dialect="command")}))
    await case.turn()
    urged = [reminder for reminder in reminders(case) if "is not finished yet" in reminder]
    assert len(urged) == 2
    assert f"mark it `in_progress` by its `status` in `{case.state.todos_plan_path}`" in urged[0]
    assert "2 todos are left" in case.of(ev.Notice)[-1].message


@st.composite
def written(draw):
    """Todos with an order, and the statuses that somebody writes into their file."""
    keys = [f"t{number}" for number in range(draw(st.integers(1, 6)))]
    todos = tuple(
        Todo(id=key, content=key, dependencies=tuple(draw(st.sets(st.sampled_from(keys[:at])))) if at else ())
        for at, key in enumerate(keys)
    )
    statuses = st.sampled_from(["pending", "in_progress", "completed", "cancelled"])
    return todos, {key: draw(statuses) for key in keys}


@settings(max_examples=25, deadline=None)
@given(written())
def test_whatever_is_written_into_the_plan_file_the_list_follows_its_rules(tmp_path_factory, drawn):
    todos, statuses = drawn
    case = building(tmp_path_factory.mktemp("case"), todos=todos)
    marking = [(todo.content, "pending", statuses[todo.id]) for todo in todos if statuses[todo.id] != "pending"]
    case.model.steps += [marks(case, *marking), says("Well?")] if marking else [says("Well?")]
    case.on_event = lambda event: _go_on_without(case, event)
    asyncio.run(case.turn())
    now = {todo.id: todo.status for todo in case.state.todos}
    assert on_disk(case) == [now[todo.id] for todo in todos]
    assert case.state.changes == {}
    assert sum(status == "in_progress" for status in now.values()) <= 1
    for todo in todos:
        assert now[todo.id] in {"pending", statuses[todo.id]}
        if now[todo.id] in {"in_progress", "completed"}:
            assert all(now[dependency] in {"completed", "cancelled"} for dependency in todo.dependencies)
    complaints = [reminder for reminder in reminders(case) if "were not accepted" in reminder]
    refused = [key for key, status in statuses.items() if now[key] != status]
    assert all(f"{key} is not {statuses[key]}" in complaints[0] for key in refused)


def _go_on_without(case: Case, event: ev.AnyEvent) -> None:
    """The user lets a todo be cancelled, and those that wait for it go on."""
    if isinstance(event, ev.QuestionAsked):
        answer = QuestionAnswer(question="cancelled", options=("release",))
        asyncio.get_running_loop().call_soon(case.session.user.resolve_question, event.id, (answer,))
