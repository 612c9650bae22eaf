from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from core.protocol.documents import Todo
from tui.plan.todo_edits import add_todo, find_dependants, move_todo, parse_ids, remove_todo
from tui.plan.todo_rows import MAX_LANES, layout_graph, sort_topologically


def todo(key: str, *needs: str) -> Todo:
    return Todo(id=key, content=key.upper(), dependencies=needs)


def drawn(*todos: Todo) -> str:
    return "\n".join(f"{lines}{todo.id}" for lines, todo in layout_graph(todos))


def test_a_diamond_is_drawn_with_its_lines():
    assert drawn(todo("d", "b", "c"), todo("a"), todo("b", "a"), todo("c", "a")) == "\n".join(
        ["╭─────a", "├─┬───b", "╰─│─┬─c", "──┴─┴─d".replace("──┴", "  ╰", 1)]
    )


def test_lines_that_only_cross_do_not_touch():
    picture = drawn(todo("a"), todo("b"), todo("c"), todo("p", "a"), todo("q", "b", "c"))
    assert picture == "\n".join(["╭─────a", "│ ╭───b", "│ │ ╭─c", "╰─│─│─p", "  ╰─┴─q"])


def test_todos_that_wait_for_nothing_have_no_lines_and_a_cycle_does_no_harm():
    assert drawn(todo("x"), todo("y")) == "x\ny"
    assert [entry.id for _, entry in layout_graph((todo("a", "b"), todo("b", "a"), todo("c")))] == ["c", "a", "b"]
    assert len(layout_graph((todo("a", "a", "none"),))) == 1


@st.composite
def graphs(draw):
    keys = [f"t{number}" for number in range(draw(st.integers(0, 14)))]
    todos = [
        todo(key, *(draw(st.lists(st.sampled_from(keys[:at]), unique=True, max_size=3)) if at else ()))
        for at, key in enumerate(keys)
    ]
    return tuple(draw(st.permutations(todos)))


UP, DOWN = "├┼╰┴│", "├┼╭┬│"


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_every_line_that_goes_down_arrives_and_every_todo_is_there_once(todos):
    rows = layout_graph(todos)
    assert sorted(todo.id for _, todo in rows) == sorted(todo.id for todo in todos)
    places = {todo.id: at for at, (_, todo) in enumerate(rows)}
    assert all(places[need] < places[todo.id] for todo in todos for need in todo.dependencies)
    assert len({len(lines) for lines, _ in rows}) <= 1
    for (above, _), (below, _) in pairwise(rows):
        for at in range(min(len(above), 2 * MAX_LANES)):
            assert (above[at] in DOWN) == (below[at] in UP), f"{above}\n{below}"
    for lines, todo in rows:
        waits = len(set(todo.dependencies))
        assert sum(sign in "├┼╰┴" for sign in lines) == waits or len(lines) >= 2 * MAX_LANES


def test_a_graph_of_five_thousand_is_drawn():
    chain = (*(todo(f"t{n}", f"t{n + 1}") for n in range(4_999)), todo("t4999"))
    assert sort_topologically(chain)[0].id == "t4999"
    assert layout_graph(chain)[-1].lines.startswith("╰─")


def test_edits_of_a_list():
    todos = (todo("a"), todo("b", "a"), todo("c", "b"))
    assert [entry.id for entry in add_todo(todos, "a", "Add the login route now")] == [
        "a",
        "add-the-login-route",
        "b",
        "c",
    ]
    assert add_todo((todo("x"),), "", "X!")[1].id == "x-2"
    assert remove_todo(todos, "a")[0].dependencies == ()
    assert [entry.id for entry in move_todo(todos, "a", 1)] == ["b", "a", "c"]
    assert move_todo(todos, "a", -1) == todos
    assert find_dependants(todos, "a") == ("b", "c")
    assert parse_ids(" a, b,,a ") == ("a", "b")
