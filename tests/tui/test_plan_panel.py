from __future__ import annotations

from msgspec.structs import replace
from textual.events import Click
from textual.pilot import Pilot
from textual.widgets import Static

from core.protocol.documents import Todo
from core.protocol.events import TodoVerified
from tests.tui.panes_case import PLAN, plan_app
from tui.plan.messages import PlanRequested
from tui.plan.panel import PlanInput, PlanPanel
from tui.plan.text_view import PlanText
from tui.plan.todo_list import TodoList
from tui.plan.todo_rows import TodoFacts, list_open_dependencies, render_graph_row


def contents(rows: TodoList) -> set[str]:
    return {rows.get_row_text(row) for row in range(rows.virtual_size.height)}


async def shown(pilot: Pilot[None], plan=PLAN, todos=()) -> str:
    panel = pilot.app.query_one(PlanPanel)
    panel.show(plan, todos)
    panel.focus()
    await pilot.pause()
    parts = [pilot.app.query_one(Static).render().plain]
    for widget in (pilot.app.query_one(TodoList), pilot.app.query_one(PlanText)):
        parts += [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]
    return "\n".join(parts)


async def test_todos_show_their_status_and_what_they_wait_for():
    async with plan_app().run_test(size=(60, 30)) as pilot:
        text = await shown(pilot)
        assert "1/4" in text
        assert "● Find every sum" in text
        assert "◐ Make Basket" in text
        assert "waiting for: basket, locale" in text
        assert "• Basket.total rounds once" in text


def test_a_todo_waits_for_what_is_neither_completed_nor_cancelled():
    done, cancelled_todo = Todo(id="a", content="", status="completed"), Todo(id="b", content="", status="cancelled")
    todo = Todo(id="c", content="", dependencies=("a", "b", "x"))
    assert list_open_dependencies(todo, {"a": done, "b": cancelled_todo}) == ["x"]


async def test_live_todos_win_over_those_of_the_plan():
    async with plan_app().run_test(size=(60, 30)) as pilot:
        todos = tuple(replace(todo, status="completed") for todo in PLAN.todos)
        assert "5/5" in await shown(pilot, PLAN, todos)
        assert "Todos" in await shown(pilot, None, todos)


async def test_space_asks_for_the_next_status_and_b_builds():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await pilot.press("space", "down", "space", "down", "space", "b")
        asked = [(message.id, message.status) for message in app.posted[:3]]
        assert asked == [("measure", "cancelled"), ("basket", "completed"), ("receipt", "in_progress")]
        assert app.posted[3].path == PLAN.path


async def test_the_cursor_stays_on_its_todo_when_the_plan_is_updated():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await pilot.press("down", "down")
        await shown(pilot)
        assert app.query_one(TodoList).current_todo.id == "receipt"


async def test_without_a_plan_a_calm_text_says_what_will_be_here():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        assert "No plan in this project yet" in await shown(pilot, None)
        await pilot.press("space", "b")
        assert app.posted == []


async def test_a_plan_that_the_project_has_is_named_and_opened_by_a_key():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        app.query_one(PlanPanel).show_plan_names(("tax_1234abcd",), ".cursor/plans")
        text = " ".join((await shown(pilot, None)).split())
        assert "this project has 1 plan" in text
        assert "tax_1234abcd: enter to open it." in text
        await pilot.press("enter")
        assert [type(message) for message in app.posted] == [PlanRequested]
        app.query_one(PlanPanel).show_plan_names(("a", "b", "c", "d"), ".cursor/plans")
        text = " ".join((await shown(pilot, None)).split())
        assert "this project has 4 plans" in text
        assert "a, b, c, …: enter to choose one." in text


# The graph as a map of what goes on


def graph_row(moment: int, lines: str, activity: str | None = "reads tax.py") -> str:
    todo = PLAN.todos[1]
    facts = TodoFacts(
        {plan_todo.id: plan_todo for plan_todo in PLAN.todos}, activities={todo.id: activity} if activity else {}
    )
    return "".join(text for text, _ in render_graph_row(todo, facts, 90, lines, moment=moment))


def test_a_dot_runs_along_the_line_of_a_todo_that_a_subagent_works_on():
    assert [graph_row(moment, "│ ╰───").partition("◐")[0] for moment in range(5)] == [
        " │ •───",
        " │ ╰•──",
        " │ ╰─•─",
        " │ ╰──•",
        " │ •───",
    ]
    assert graph_row(3, "  ").partition("◐")[0] == "  •"
    assert graph_row(0, "╰─").endswith("◐ basket   Make Basket.total decimal · reads tax.py")
    assert graph_row(0, "╰─", None) == " ╰─◐ basket   Make Basket.total decimal"


async def test_the_dots_move_while_the_graph_is_seen_and_someone_works_and_stand_still_else():
    async with plan_app().run_test(size=(100, 30)) as pilot:
        panel, listed = pilot.app.query_one(PlanPanel), pilot.app.query_one(TodoList)
        panel.show(PLAN, (), activities={"basket": "reads tax.py"})
        await pilot.pause()
        assert listed._timer is None  # a list has no dots
        panel.action_toggle_view()
        assert listed._timer is not None
        before = [listed.render_line(y).text for y in range(listed.size.height)]
        listed._move_dots()
        after = [listed.render_line(y).text for y in range(listed.size.height)]
        assert [line for line in after if line not in before and "basket" in line]
        panel.show(PLAN, (), activities={})
        assert listed._timer is None


async def test_the_todo_at_work_is_brought_into_view_unless_the_user_is_in_the_list():
    todos = tuple(Todo(id=f"t{number}", content=f"Todo {number}") for number in range(60))

    def at(number: int) -> tuple[Todo, ...]:
        return (*todos[:number], replace(todos[number], status="in_progress"), *todos[number + 1 :])

    async with plan_app().run_test(size=(60, 20)) as pilot:
        panel, listed = pilot.app.query_one(PlanPanel), pilot.app.query_one(TodoList)
        panel.show(PLAN, at(0))
        await pilot.pause()
        pilot.app.set_focus(None)
        await pilot.pause()
        panel.show(PLAN, at(40))
        assert listed.current_todo is not None
        assert listed.current_todo.id == "t40"
        listed.focus()
        await pilot.pause()
        panel.show(PLAN, at(50))
        assert listed.current_todo.id == "t40"


async def test_hostile_plans_show_as_text_t1():
    bad = "[@click=app.quit]x[/]\x1b[2J\u202e"
    todos = (Todo(id=bad, content=bad), Todo(id="b", content="[/nope]", dependencies=(bad,)))
    plan = replace(PLAN, name=bad, overview=bad, body=f"# {bad}\n\n[a](javascript:x) {bad}", todos=todos)
    async with plan_app().run_test(size=(60, 30)) as pilot:
        text = await shown(pilot, plan)
        assert text.replace("\n", "").isprintable()
        assert text.count("[@click=app.quit]x[/]") >= 3


async def test_t6_it_survives_a_very_small_screen():
    async with plan_app().run_test(size=(20, 5)) as pilot:
        assert "Exact" in await shown(pilot)


async def filled(pilot: Pilot[None]) -> None:
    await shown(pilot)


def test_the_plan_looks_as_it_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(120, 40), run_before=filled)


async def typed(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


async def test_todos_are_added_edited_moved_and_made_to_wait_from_the_keyboard():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await typed(pilot, "down", "n", *"Ship it", "enter")
        await typed(pilot, "e", "ctrl+u", *"Other", "enter")
        await typed(pilot, "w", "ctrl+u", *"locale, float", "enter")
        await typed(pilot, "p", *"make test", "enter")
        await typed(pilot, "J", "K", "d", "o", "t", "B", "F")
        new, edited, needs, proof, lower, higher, remove, hunks, text, one, fresh = app.posted
        assert [todo.id for todo in new.todos] == ["measure", "basket", "ship-it", "receipt", "locale", "float"]
        assert edited.todos[1].content == "Other"
        assert needs.todos[1].dependencies == ("locale", "float")
        assert proof.todos[1].verify == "make test"
        assert [todo.id for todo in lower.todos][:3] == ["measure", "receipt", "basket"]
        assert [todo.id for todo in higher.todos][:2] == ["basket", "measure"]
        assert (remove.id, hunks.id, text.plan) == ("basket", "basket", PLAN)
        assert (one.todo, one.fresh, fresh.todo, fresh.fresh) == ("basket", False, "", True)


async def test_a_todo_is_moved_and_removed_by_arrows_and_delete_too():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await typed(pilot, "down", "shift+down", "shift+up", "end", "up", "home", "down", "delete")
        lower, higher, remove = app.posted
        assert [todo.id for todo in lower.todos][:3] == ["measure", "receipt", "basket"]
        assert [todo.id for todo in higher.todos][:2] == ["basket", "measure"]
        assert remove.id == "basket"
        await typed(pilot, "end", "up")
        assert app.query_one(TodoList).current_todo.id == "locale"


async def test_escape_leaves_a_line_without_a_change_and_an_empty_one_adds_nothing():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await typed(pilot, "e", *"no", "escape", "n", "enter")
        assert app.posted == []
        assert not app.query_one(PlanInput).display
        assert app.query_one(TodoList).has_focus


async def test_a_filter_finds_by_words_and_by_state_until_escape():
    async with plan_app().run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await typed(pilot, "/", *"blocked")
        rows = pilot.app.query_one(TodoList)
        assert len(contents(rows)) == 1
        await typed(pilot, "enter")
        assert len(contents(rows)) == 1
        await typed(pilot, "/", "escape")
        assert len(contents(rows)) == 5


async def test_a_filter_in_force_is_told_and_dropped_by_escape_and_another_plan():
    async with plan_app().run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        rows, note = pilot.app.query_one(TodoList), pilot.app.query_one(".plan--note", Static)
        other = replace(PLAN, path=".cursor/plans/other.plan.md")
        for drop in ("escape", "another plan"):
            await typed(pilot, "/", *"doing", "enter")
            assert (len(contents(rows)), note.display) == (1, True)
            assert "Filter: doing · 1 of 5 · esc show all" in str(note.render())
            await (typed(pilot, drop) if drop == "escape" else shown(pilot, other))
            assert (len(contents(rows)), note.display) == (5, False)


async def test_a_todo_that_was_added_is_the_marked_one():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await typed(pilot, "/", *"doing", "enter", "n", *"Ship it", "enter")
        await shown(pilot, replace(PLAN, todos=app.posted[0].todos))
        assert app.query_one(TodoList).current_todo.id == "ship-it"
        await typed(pilot, "down")
        await shown(pilot)
        assert app.query_one(TodoList).current_todo.id == "receipt"


async def test_the_cursor_goes_to_a_todo_that_is_asked_for():
    async with plan_app().run_test(size=(60, 30)) as pilot:
        await shown(pilot)
        await typed(pilot, "/", *"blocked", "enter")
        pilot.app.query_one(PlanPanel).select_todo("locale")
        assert pilot.app.query_one(TodoList).current_todo.id == "locale"


PROVED = replace(
    PLAN,
    todos=tuple(replace(todo, verify="make test" if todo.id in {"basket", "measure"} else "") for todo in PLAN.todos),
)
PROOFS = {
    "measure": TodoVerified(id="measure", command="make test", exit_code=0),
    "basket": TodoVerified(id="basket", command="make test", exit_code=2, output="1 failed"),
}


async def with_proofs(pilot: Pilot[None]) -> None:
    panel = pilot.app.query_one(PlanPanel)
    panel.show(PROVED, (), PROOFS)
    panel.focus()
    await pilot.pause()


async def as_graph(pilot: Pilot[None]) -> None:
    await with_proofs(pilot)
    await pilot.press("v")


async def blocked(pilot: Pilot[None]) -> None:
    await with_proofs(pilot)
    await typed(pilot, "/", *"blocked")


async def test_a_proof_is_told_in_its_row():
    async with plan_app().run_test(size=(60, 30)) as pilot:
        await with_proofs(pilot)
        rows = pilot.app.query_one(TodoList)
        text = "\n".join(rows.render_line(y).text.rstrip() for y in range(rows.size.height))
        assert "✓ verified: make test" in text
        assert "✗ verify failed (exit code 2): make test" in text


def test_a_failed_proof_looks_as_it_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(100, 30), run_before=with_proofs)


def test_the_graph_looks_as_it_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(100, 30), run_before=as_graph)


def test_a_filter_on_what_is_blocked_looks_as_it_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(100, 30), run_before=blocked)


async def mouse(pilot: Pilot[None]) -> TodoList:
    panel = pilot.app.query_one(PlanPanel)
    panel.show(PLAN, (), hunks={"basket": 3})
    panel.focus()
    await pilot.pause()
    return pilot.app.query_one(TodoList)


async def test_the_mouse_selects_sets_a_status_reorders_and_leads_to_the_hunks():
    app = plan_app()
    async with app.run_test(size=(60, 30)) as pilot:
        listed = await mouse(pilot)
        await pilot.click(listed, offset=(10, 3))
        assert listed.current_todo.id == "receipt"
        assert app.posted == []
        await pilot.click(listed, offset=(1, 0))
        await pilot.click(listed, offset=(10, 1), times=2)
        assert [(message.id, message.status) for message in app.posted] == [
            ("measure", "cancelled"),
            ("basket", "completed"),
        ]
        assert listed.render_line(1).text.endswith(" ±3 ")
        await pilot.click(listed, offset=(listed.size.width - 2, 1))
        assert app.posted[2].id == "basket"
        await pilot.mouse_down(listed, offset=(10, 0))
        await pilot.hover(listed, offset=(10, 2))
        await pilot.mouse_up(listed, offset=(10, 2))
        assert [todo.id for todo in app.posted[3].todos][:3] == ["basket", "receipt", "measure"]
        listed.post_message(Click(listed, 10, 2, 0, 0, 1, False, False, False))  # as a terminal's driver has it
        await pilot.pause()
        assert listed.current_todo.id == "measure"
        await pilot.mouse_down(listed, offset=(10, 0))
        await pilot.hover(listed, offset=(10, 1))
        await pilot.hover(listed, offset=(10, 0))
        await pilot.mouse_up(listed, offset=(10, 0))
        assert len(app.posted) == 4


async def test_in_the_graph_a_click_is_on_the_todo_of_its_row_and_the_wheel_scrolls():
    app = plan_app()
    async with app.run_test(size=(60, 14)) as pilot:
        panel = app.query_one(PlanPanel)
        many = tuple(Todo(id=f"t{n}", content="x", dependencies=(f"t{n - 1}",) if n else ()) for n in range(40))
        panel.show(replace(PLAN, todos=many), ())
        panel.focus()
        await typed(pilot, "v")
        listed = app.query_one(TodoList)
        await pilot.click(listed, offset=(10, 2))
        assert listed.current_todo.id == "t2"
        sign = listed.render_line(2).text.index("○")
        await pilot.click(listed, offset=(sign, 3))
        assert (app.posted[0].id, app.posted[0].status) == ("t3", "in_progress")
        await pilot.mouse_down(listed, offset=(10, 0))
        await pilot.mouse_up(listed, offset=(10, 2))
        listed.scroll_down(animate=False)
        await pilot.pause()
        await pilot.click(listed, offset=(10, 0))
        assert listed.current_todo.id == "t1"
        await typed(pilot, "G", "pagedown", "K")
        assert listed.current_todo.id == "t39"
        assert [todo.id for todo in app.posted[-1].todos][-2:] == ["t39", "t38"]
        for key, todo in {"pageup": "t32", "g": "t0", "pagedown": "t7", "k": "t6", "j": "t7"}.items():
            await typed(pilot, key)
            assert listed.current_todo.id == todo


async def test_a_graph_with_too_many_lines_says_so():
    fan = tuple(Todo(id=f"a{n}", content="x") for n in range(20))
    last = tuple(Todo(id=f"z{n}", content="y", dependencies=(f"a{n}",)) for n in range(20))
    async with plan_app().run_test(size=(80, 50)) as pilot:
        pilot.app.query_one(PlanPanel).show(replace(PLAN, todos=(*fan, *last)), ())
        await typed(pilot, "v")
        note = pilot.app.query_one(".plan--note", Static)
        assert note.display
        assert "only 12 fit" in note.render().plain
        await typed(pilot, "v")
        assert not note.display


def test_the_plan_in_a_small_window_looks_as_it_did(snap_compare):
    assert snap_compare(plan_app(), terminal_size=(60, 16), run_before=with_proofs)
