from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import OptionList

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import Comment, FileState, Origin
from tests.support import recorded
from tui.chat.block_rows import render_block
from tui.plan.panel import PlanPanel
from tui.plan.todo_list import TodoList

START = [*recorded.opening(), *recorded.planning()]
PATH = ".cursor/plans/tax_1234abcd.plan.md"
WRITTEN = [*START, e.PlanUpdated(plan=replace(START[-3].plan, body="# Why\n\nTwice is once\ntoo often."))]
DONE = (recorded.TODOS[0], replace(recorded.TODOS[1], status="completed"), recorded.TODOS[2])


def list_plans(*names: str, place: str = ".cursor/plans") -> q.PlanFilesAnswer:
    return q.PlanFilesAnswer(place=place, paths=tuple(f"{place}/{name}" for name in names))


async def opened(on) -> TodoList:
    await on.pilot.press("ctrl+t")
    await on.until(lambda: on.screen.query(TodoList) and on.screen.query_one(TodoList).has_focus)
    return on.screen.query_one(TodoList)


async def test_a_status_is_asked_for_by_a_key(stage):
    async with stage(START) as on:
        await opened(on)
        await on.pilot.press("down", "space")
        await on.until(lambda: on.sent(c.TodoSet))
        (asked,) = on.sent(c.TodoSet)
        assert (asked.id, asked.status, asked.plan) == ("fix", "completed", PATH)


async def test_a_todo_that_waits_is_not_begun_by_accident(stage):
    async with stage(START) as on:
        (await opened(on)).select_todo("test")
        for keys in (("escape",), ("down", "enter"), ("down", "down", "enter"), ("down", "down", "down", "enter")):
            await on.pilot.press("space")
            await on.until(lambda: type(on.app.screen).__name__ == "ActionPickerDialog")
            await on.pilot.press("enter")
            assert type(on.app.screen).__name__ == "ActionPickerDialog"
            await on.pilot.press(*keys)
            await on.until(lambda: on.app.screen is on.screen)
        await on.until(lambda: len(on.sent(c.TodoSet)) == 2)
        asked = [(command.id, command.status, command.anyway) for command in on.sent(c.TodoSet)]
        assert asked == [("test", "completed", True), ("test", "cancelled", True)]


async def test_cancelling_asks_what_becomes_of_what_waits_for_it(stage):
    async with stage([*START, e.TodoChanged(todos=DONE, plan=PATH)]) as on:
        assert (await opened(on)).select_todo("fix")
        await on.pilot.press("space")
        await on.until(lambda: type(on.app.screen).__name__ == "ActionPickerDialog")
        await on.pilot.press("down", "down", "enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        assert [todo.status for todo in on.sent(c.PlanEdit)[0].todos] == ["completed", "cancelled", "cancelled"]
        assert on.sent(c.TodoSet) == []


async def test_a_todo_that_others_wait_for_is_kept_if_the_user_says_so(stage):
    async with stage([*START, e.TodoChanged(todos=DONE, plan=PATH)]) as on:
        assert (await opened(on)).select_todo("fix")
        await on.pilot.press("space")
        await on.until(lambda: type(on.app.screen).__name__ == "ActionPickerDialog")
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.sent(c.TodoSet) == on.sent(c.PlanEdit) == []


async def test_removing_a_todo_is_confirmed_and_nobody_waits_for_it_any_more(stage):
    async with stage(START) as on:
        assert (await opened(on)).select_todo("fix")
        await on.pilot.press("d")
        await on.asked()
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
        rows = await opened(on)
        await on.pilot.press("/", *"fix", "enter", "b", "B", "F")
        await on.until(lambda: len(on.sent(c.PlanBuild)) == 3)
        seen = {rows.get_row_text(row) for row in range(rows.virtual_size.height)}
        assert len(seen) == 3  # all that is built is seen
        assert [(command.todo, command.fresh) for command in on.sent(c.PlanBuild)] == [
            ("", False),
            ("fix", False),
            ("", True),
        ]


async def test_a_todo_leads_to_its_change_and_a_change_to_its_todo(stage):
    change = replace(recorded.change(), origin=Origin(turn="t", todo="fix"))
    async with stage([*START, e.ChangeProposed(change=change)]) as on:
        assert (await opened(on)).select_todo("fix")
        await on.pilot.press("o")
        await on.until(lambda: on.panes.side.current == "review")
        await on.pilot.press("T")
        await on.until(lambda: on.panes.side.current == "plan")
        assert on.screen.query_one(PlanPanel)._current_todo.id == "fix"


async def test_a_todo_without_a_change_says_so(stage):
    async with stage(START) as on:
        await opened(on)
        await on.pilot.press("o")
        await on.until(lambda: on.app._notifications)
        assert on.panes.side.current == "plan"


async def test_the_slash_command_builds_one_todo_or_afresh(stage):
    async with stage(START) as on:
        on.screen.controllers.plan.action_build_plan("fix")
        on.screen.controllers.plan.action_build_plan("fresh")
        on.screen.controllers.plan.action_build_plan()
        await on.until(lambda: len(on.sent(c.PlanBuild)) == 3)
        assert [(command.path, command.todo, command.fresh) for command in on.sent(c.PlanBuild)] == [
            (PATH, "fix", False),
            (PATH, "", True),
            (PATH, "", False),
        ]


async def test_a_failed_proof_is_seen_in_the_panel(stage):
    verified = e.TodoVerified(id="fix", command="make test", exit_code=1, plan=PATH)
    other = e.TodoVerified(id="test", command="make all", exit_code=0, plan="other.plan.md")
    todos = (recorded.TODOS[0], replace(recorded.TODOS[1], verify="make test"))
    todos += (replace(recorded.TODOS[2], verify="make all"),)
    async with stage([*START, e.TodoChanged(todos=todos, plan=PATH), verified, other]) as on:
        rows = await opened(on)
        text = "\n".join(rows.render_line(y).text.rstrip() for y in range(rows.size.height))
        assert "✗ verify failed (exit code 1): make test" in text
        assert "  verify: make all" in text


async def test_another_plan_of_the_project_is_chosen_from_a_list(stage):
    plans = list_plans("a_01234567.plan.md", "b.plan.md")
    async with stage(START, answers={q.PlanFilesQuery: plans}) as on:
        on.screen.controllers.plan.action_choose_plan()
        await on.until(lambda: type(on.app.screen).__name__ == "PickerDialog")
        await on.pilot.press(*"b", "enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        (chosen,) = on.sent(c.PlanEdit)
        assert (chosen.path, chosen.todos, chosen.body) == (".cursor/plans/b.plan.md", None, None)
        await on.until(lambda: on.panes.side and on.panes.side.current == "plan")
        on.screen.controllers.plan.action_choose_plan("a_01")
        await on.until(lambda: len(on.sent(c.PlanEdit)) == 2)
        assert on.sent(c.PlanEdit)[1].path == ".cursor/plans/a_01234567.plan.md"
        on.screen.controllers.plan.action_choose_plan("none")
        await on.until(lambda: on.app._notifications)


@pytest.mark.parametrize(("what", "workers"), [("", 1), ("parallel 3", 3)])
async def test_where_no_plan_is_at_hand_the_only_one_of_the_project_is_built(stage, what, workers):
    plans = list_plans("a_01234567.plan.md")
    async with stage(recorded.opening(), answers={q.PlanFilesQuery: plans}) as on:
        on.screen.controllers.plan.action_build_plan(what)
        await on.until(lambda: on.sent(c.PlanBuild))
        (build,) = on.sent(c.PlanBuild)
        assert (build.path, build.workers) == (".cursor/plans/a_01234567.plan.md", workers)


async def test_the_text_is_edited_here_and_what_was_typed_is_not_lost_by_accident(stage):
    async with stage(WRITTEN, size=(60, 16)) as on:
        await opened(on)
        await on.pilot.press("E", "!", "ctrl+t")
        await on.until(lambda: not on.screen.has_class("-writing"))
        await on.pilot.press("ctrl+t")
        await on.until(lambda: on.screen.has_class("-writing") and type(on.screen.focused).__name__ == "PlanEditor")
        await on.pilot.press("escape")
        await on.asked()
        await on.pilot.press("n", "ctrl+q")
        await on.asked()
        await on.pilot.press("n", "ctrl+s")
        await on.until(lambda: on.sent(c.PlanEdit))
        (edit,) = on.sent(c.PlanEdit)
        base = on.screen.state.plans[PATH]
        assert (edit.path, edit.body, edit.base, edit.todos) == (PATH, f"!{base.body}", base, None)
        panel = on.screen.query_one(PlanPanel)
        await on.until(lambda: not panel.has_class("-writing"))
        await on.pilot.press("E", "?", "escape")
        await on.asked()
        await on.pilot.press("y")
        await on.until(lambda: not panel.has_class("-writing") and on.app.screen is on.screen)
        await on.pilot.press("E", "escape")
        await on.until(lambda: not panel.has_class("-writing"))
        assert len(on.sent(c.PlanEdit)) == 1


async def test_an_edit_that_is_refused_stays_in_the_editor(stage):
    refusal = c.Reject(code="plan_invalid", message="line 3 is broken.")
    async with stage(WRITTEN, react=lambda _, command: refusal if isinstance(command, c.PlanEdit) else None) as on:
        await opened(on)
        await on.pilot.press("E", "!", "ctrl+s")
        await on.until(lambda: on.app._notifications)
        panel = on.screen.query_one(PlanPanel)
        assert panel.has_class("-writing")
        assert panel.is_writing


async def test_lines_are_commented_and_the_comments_edited_removed_and_sent(stage):
    async with stage(WRITTEN) as on:
        await opened(on)
        await on.pilot.press("enter", "c", *"why", "enter")
        await on.until(lambda: on.sent(c.PlanComment))
        (comment_command,) = on.sent(c.PlanComment)
        body = on.screen.state.plans[PATH].body
        assert (comment_command.path, comment_command.text, comment_command.start, comment_command.excerpt) == (
            PATH,
            "why",
            1,
            body.split("\n")[0],
        )
        first_comment = Comment(
            path=PATH, hunk="say_1", text="why", start=1, lines=1, excerpt=comment_command.excerpt, on_plan=True
        )
        lost_comment = replace(first_comment, hunk="say_2", text="and this?", excerpt="something else", start=9)
        await on.emit(e.PlanCommented(comment=first_comment), e.PlanCommented(comment=lost_comment))
        await on.pilot.press("S")
        await on.until(lambda: type(on.app.screen).__name__ == "CommentsDialog")
        labels = [option.prompt.plain for option in on.app.screen.query_one(OptionList).options]
        assert "its lines have changed: something else" in labels[1]
        await on.pilot.press("e", *" not", "enter", "j", "d", "s")
        await on.until(lambda: on.sent(c.CommentsSend))
        changes = [(command.id, command.text) for command in on.sent(c.PlanComment)[1:]]
        assert changes == [("say_1", "why not"), ("say_2", "")]


async def test_a_panel_without_a_plan_counts_those_of_the_project_and_enter_opens_the_one_there_is(stage):
    plans = list_plans("tax_1234abcd.plan.md")
    async with stage(recorded.opening(), answers={q.PlanFilesQuery: plans}) as on:
        await on.pilot.press("ctrl+t")
        await on.until(lambda: on.panes.plan is not None and on.panes.plan.has_focus_within)
        text = on.panes.plan.query_one("PlanText")
        await on.until(
            lambda: any("this project has 1 plan" in text.render_line(y).text for y in range(text.size.height))
        )
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        assert on.sent(c.PlanEdit)[0].path == PATH


@pytest.mark.parametrize("place", ["docs/plans", "/home/me/plans"])
async def test_plans_kept_elsewhere_are_named_with_their_place_chosen_and_built(stage, place):
    path, todos = f"{place}/tax_1234abcd.plan.md", recorded.TODOS
    async with stage(
        recorded.opening(), answers={q.PlanFilesQuery: list_plans("tax_1234abcd.plan.md", place=place)}
    ) as on:
        await on.pilot.press("ctrl+t")
        await on.until(lambda: on.panes.plan is not None and on.panes.plan.has_focus_within)
        text = on.panes.plan.query_one("PlanText")

        def read() -> str:
            return " ".join(text.render_line(y).text.strip() for y in range(text.size.height))

        await on.until(lambda: "this project has 1 plan" in read())
        assert f"saved in {place}." in read().replace("  ", " ")
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.PlanEdit))
        assert on.sent(c.PlanEdit)[0].path == path
        await on.emit(e.PlanUpdated(plan=replace(START[-3].plan, path=path)), e.TodoChanged(todos=todos, plan=path))
        await on.until(lambda: on.screen.query(TodoList) and on.screen.query_one(TodoList).has_focus)
        await on.pilot.press("b")
        await on.until(lambda: on.sent(c.PlanBuild))
        assert on.sent(c.PlanBuild)[0].path == path
        absent = FileState(kind="absent")
        await on.emit(e.PlanWritten(path=path, state=absent, before=absent), e.TodoChanged(todos=()))
        await on.until(lambda: "No plan is open" in read())


async def test_a_place_that_holds_no_plans_is_told_when_one_is_looked_for(stage):
    refusal = q.RefusedAnswer(code="plan_place", message="`plans.directory` names your home directory itself.")
    async with stage(recorded.opening(), answers={q.PlanFilesQuery: refusal}) as on:
        on.screen.controllers.plan.action_choose_plan()
        await on.until(lambda: on.app._notifications)
        assert "your home directory itself" in next(iter(on.app._notifications)).message


async def test_a_plan_is_brief_in_the_conversation_while_its_panel_shows_it_there(stage):
    async with stage(START) as on:
        rows = [line for block in on.screen.state.blocks if block.kind == "plan" for line in texts(block)]
        assert len(rows) > len(recorded.TODOS)
        await on.panes.show("plan")
        block = next(block for block in on.screen.state.blocks if block.kind == "plan")
        await on.until(lambda: block.is_beside)
        assert not any(todo.content in line for line in texts(block) for todo in recorded.TODOS)
        assert f"{len(recorded.TODOS)} todos in the panel" in " ".join(texts(block))
        assert [row.text for row in render_block(block, 80, is_open=True, has_gap=False)] == rows
        on.panes._hide_side()
        await on.until(lambda: not block.is_beside)
        assert texts(block) == rows


def texts(block) -> list[str]:
    return [row.text for row in render_block(block, 80, is_open=False, has_gap=False)]


async def test_a_plan_that_arrives_does_not_cover_hunks_that_wait(stage):
    plan = next(event for event in START if isinstance(event, e.PlanCreated))
    events = [*recorded.opening(), e.ModeChanged(mode="plan"), e.TurnStarted(prompt="Plan", mode="plan", model="m")]
    async with stage(events) as on:
        await on.emit(e.ChangeProposed(change=recorded.change()))
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "review")
        await on.emit(plan)
        await on.emit(e.TurnFinished(reason="done"))
        await on.until(lambda: on.screen.state.current_plan is not None and not on.screen.state.is_running)
        await on.panes.update(frozenset({"plan", "status", "review"}))
        assert on.panes.side.current == "review"
        await on.emit(e.ChangeResolved(path=recorded.change().path))
        await on.emit(replace_event(plan))
        await on.until(lambda: on.panes.side.current == "plan")


def replace_event(created: e.PlanCreated) -> e.PlanUpdated:
    return e.PlanUpdated(plan=replace(created.plan, overview="Another one."))


async def test_while_a_plan_is_built_the_plan_stays_in_view_and_then_the_review_comes(stage):
    building = [*START, e.TurnStarted(prompt="Build it", mode="agent", model="m"), e.StepStarted(step=1)]
    async with stage(building) as on:
        await on.emit(e.TodoChanged(todos=recorded.TODOS, plan=PATH))
        await on.until(lambda: on.panes.side is not None and on.panes.side.current == "plan")
        await on.emit(e.ChangeProposed(change=recorded.change()))
        await on.until(lambda: on.screen.state.pending_hunk_count)
        assert on.panes.side.current == "plan"
        await on.emit(e.TurnFinished(reason="done"))
        await on.until(lambda: on.panes.side.current == "review")
