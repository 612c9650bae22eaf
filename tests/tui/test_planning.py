from __future__ import annotations

from msgspec.structs import replace

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import Origin
from tests.support import recorded
from tui.widgets.plan_panel import PlanPanel, TodoList

START = [*recorded.opening(), *recorded.planning()]
PATH = ".cursor/plans/tax_1234abcd.plan.md"
DONE = (recorded.TODOS[0], replace(recorded.TODOS[1], status="completed"), recorded.TODOS[2])


async def opened(on) -> TodoList:
    await on.pilot.press("ctrl+t")
    await on.until(lambda: on.screen.query(TodoList) and on.screen.query_one(TodoList).has_focus)
    return on.screen.query_one(TodoList)


async def test_a_status_is_asked_for_by_a_key(stage):
    async with stage(START) as on:
        await opened(on)
        await on.pilot.press("down", "down", "space")
        await on.until(lambda: on.sent(c.TodoSet))
        (asked,) = on.sent(c.TodoSet)
        assert (asked.id, asked.status, asked.plan) == ("test", "in_progress", PATH)


async def test_cancelling_asks_what_becomes_of_what_waits_for_it(stage):
    async with stage([*START, e.TodoChanged(todos=DONE, plan=PATH)]) as on:
        (await opened(on)).highlighted = 1
        await on.pilot.press("space")
        await on.until(lambda: type(on.app.screen).__name__ == "Picker")
        await on.pilot.press("down", "enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        assert [todo.status for todo in on.sent(c.PlanEdit)[0].todos] == ["completed", "cancelled", "cancelled"]
        assert on.sent(c.TodoSet) == []


async def test_a_todo_that_others_wait_for_is_kept_if_the_user_says_so(stage):
    async with stage([*START, e.TodoChanged(todos=DONE, plan=PATH)]) as on:
        (await opened(on)).highlighted = 1
        await on.pilot.press("space")
        await on.until(lambda: type(on.app.screen).__name__ == "Picker")
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.TodoSet) == on.sent(c.PlanEdit) == []


async def test_removing_a_todo_is_confirmed_and_nobody_waits_for_it_any_more(stage):
    async with stage(START) as on:
        (await opened(on)).highlighted = 1
        await on.pilot.press("d")
        await on.until(lambda: type(on.app.screen).__name__ == "Confirm")
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.PlanEdit))
        assert [(todo.id, todo.dependencies) for todo in on.sent(c.PlanEdit)[0].todos] == [("find", ()), ("test", ())]


async def test_a_new_todo_becomes_an_edit_of_the_plan(stage):
    async with stage(START) as on:
        await opened(on)
        await on.pilot.press("n", *"More", "enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        assert on.sent(c.PlanEdit)[0].path == PATH
        assert [todo.id for todo in on.sent(c.PlanEdit)[0].todos] == ["find", "more", "fix", "test"]


async def test_a_build_may_be_of_one_todo_or_begin_afresh(stage):
    async with stage(START) as on:
        (await opened(on)).highlighted = 1
        await on.pilot.press("b", "B", "F")
        await on.until(lambda: len(on.sent(c.PlanBuild)) == 3)
        assert [(each.todo, each.fresh) for each in on.sent(c.PlanBuild)] == [("", False), ("fix", False), ("", True)]


async def test_a_todo_leads_to_its_change_and_a_change_to_its_todo(stage):
    change = replace(recorded.change(), origin=Origin(turn="t", todo="fix"))
    async with stage([*START, e.ChangeProposed(change=change)]) as on:
        (await opened(on)).highlighted = 1
        await on.pilot.press("o")
        await on.until(lambda: on.screen.panes.side.current == "review")
        await on.pilot.press("T")
        await on.until(lambda: on.screen.panes.side.current == "plan")
        assert on.screen.query_one(PlanPanel)._marked.id == "fix"


async def test_a_todo_without_a_change_says_so(stage):
    async with stage(START) as on:
        await opened(on)
        await on.pilot.press("o")
        await on.until(lambda: on.app._notifications)
        assert on.screen.panes.side.current == "plan"


async def test_the_slash_command_builds_one_todo_or_afresh(stage):
    async with stage(START) as on:
        on.screen.action_build_plan("fix")
        on.screen.action_build_plan("fresh")
        on.screen.action_build_plan()
        await on.until(lambda: len(on.sent(c.PlanBuild)) == 3)
        assert [(each.path, each.todo, each.fresh) for each in on.sent(c.PlanBuild)] == [
            (PATH, "fix", False),
            (PATH, "", True),
            (PATH, "", False),
        ]


async def test_a_failed_proof_is_seen_in_the_panel(stage):
    verified = e.TodoVerified(id="fix", command="make test", exit_code=1, plan=PATH)
    todos = (recorded.TODOS[0], replace(recorded.TODOS[1], verify="make test"), recorded.TODOS[2])
    async with stage([*START, e.TodoChanged(todos=todos, plan=PATH), verified]) as on:
        rows = await opened(on)
        text = "\n".join(rows.render_line(y).text.rstrip() for y in range(rows.size.height))
        assert "✗ verify failed (exit code 1): make test" in text


async def test_another_plan_of_the_project_is_chosen_from_a_list(stage):
    entries = tuple(q.TreeEntry(name=name, kind="file") for name in ("a_01234567.plan.md", "b.plan.md", "notes.md"))
    tree = q.Tree(path=".cursor/plans", entries=entries)
    async with stage(START, answers={q.TreeQuery: tree}) as on:
        on.screen.action_choose_plan()
        await on.until(lambda: type(on.app.screen).__name__ == "Picker")
        await on.pilot.press(*"b", "enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        (chosen,) = on.sent(c.PlanEdit)
        assert (chosen.path, chosen.todos, chosen.body) == (".cursor/plans/b.plan.md", None, None)
        await on.until(lambda: on.screen.panes.side and on.screen.panes.side.current == "plan")
