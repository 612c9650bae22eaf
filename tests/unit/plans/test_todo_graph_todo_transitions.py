from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import CommandRejected, ToolInputInvalid
from core.plans.todo_graph import (
    DONE,
    STARTED,
    check_not_blocked,
    check_steps,
    find_blockers,
    find_cancelled,
    find_dependants,
    find_newly_completed,
    find_ready,
    list_problems,
    list_step_problems,
    select_current,
    sort_topologically,
)
from core.protocol.documents import Todo
from core.tools.builtin.plans import format_todos


def todo(key: str, *needs: str, status: str = "pending") -> Todo:
    return Todo(id=key, content=key, status=status, dependencies=needs)


CHAIN = (todo("a"), todo("b", "a"), todo("c", "b"))


def test_nothing_begins_before_what_it_depends_on():
    after = (CHAIN[0], replace(CHAIN[1], status="in_progress"), CHAIN[2])
    with pytest.raises(ToolInputInvalid, match="b can't be in progress yet: it depends on a"):
        check_steps(CHAIN, after)
    done = (replace(CHAIN[0], status="completed"), *after[1:])
    assert list_step_problems(CHAIN, done) == ()
    assert list_step_problems(CHAIN, (CHAIN[0], replace(CHAIN[1], status="completed"), CHAIN[2])) != ()


def test_one_todo_is_in_progress_at_most_but_what_was_so_is_let_be():
    two = (todo("a", status="in_progress"), todo("b", status="in_progress"))
    assert "Only one todo" in list_step_problems((todo("a"), todo("b")), two)[0]
    assert list_step_problems(two, two) == ()


def test_a_cancelled_todo_is_told_with_all_that_waits_for_it():
    after = (replace(CHAIN[0], status="cancelled"), *CHAIN[1:])
    assert [(cut.todo.id, [todo.id for todo in cut.waiting]) for cut in find_cancelled(CHAIN, after)] == [
        ("a", ["b", "c"])
    ]
    assert find_cancelled(after, after) == ()
    assert find_cancelled(CHAIN, (*CHAIN[:2], replace(CHAIN[2], status="cancelled"))) == ()


def test_what_is_completed_anew():
    after = tuple(replace(todo, status="completed") for todo in CHAIN)
    assert find_newly_completed(CHAIN, after) == after
    assert find_newly_completed(after, after) == ()


STATUSES = ("pending", "in_progress", "completed", "cancelled")


@st.composite
def graphs(draw, *, acyclic: bool):
    count = draw(st.integers(1, 12))
    keys = [f"t{number}" for number in range(count)]
    todos = []
    for number, key in enumerate(keys):
        others = keys[:number] if acyclic else keys
        needs = draw(st.lists(st.sampled_from(others), unique=True, max_size=4)) if others else []
        status = draw(st.sampled_from(["pending", "in_progress", "completed", "cancelled"]))
        todos.append(Todo(id=key, content=key, status=status, dependencies=tuple(needs)))
    return tuple(draw(st.permutations(todos)))


@settings(max_examples=80, deadline=None)
@given(graphs(acyclic=True))
def test_a_graph_without_a_cycle_has_no_fault_and_can_be_worked_off_in_order(todos):
    assert list_problems(todos) == ()
    places = {todo.id: number for number, todo in enumerate(sort_topologically(todos))}
    assert all(places[need] < places[todo.id] for todo in todos for need in todo.dependencies)
    steps = 0
    while waiting := find_ready(todos):
        assert waiting[0].id not in find_blockers(todos)
        begun = tuple(replace(todo, status="completed") if todo.id == waiting[0].id else todo for todo in todos)
        assert list_step_problems(todos, begun) == ()
        todos, steps = begun, steps + 1
    assert steps <= len(todos)
    stuck = [todo for todo in todos if todo.status == "pending"]
    assert all(stuck_todo.id in find_blockers(todos) for stuck_todo in stuck)


def has_cycle(todos) -> bool:
    """By taking away what depends on nothing until nothing is left to take."""
    left = {todo.id: set(todo.dependencies) - {todo.id} for todo in todos}
    while free := [key for key, needs in left.items() if not needs & left.keys()]:
        for key in free:
            del left[key]
    return bool(left)


@settings(max_examples=120, deadline=None)
@given(graphs(acyclic=False))
def test_every_cycle_is_found_and_its_path_is_one(todos):
    by_id = {todo.id: todo for todo in todos}
    cycles = [problem for problem in list_problems(todos) if problem.startswith("There is a cycle")]
    assert bool(cycles) is has_cycle(todos)
    for cycle in cycles:
        path = cycle.removeprefix("There is a cycle: ").removesuffix(".").split(" -> ")
        assert path[0] == path[-1]
        assert all(then in by_id[key].dependencies for key, then in pairwise(path))


@settings(max_examples=60, deadline=None)
@given(graphs(acyclic=False))
def test_dependants_are_those_that_reach_it(todos):
    for todo in todos:
        dependants = {one.id for one in find_dependants(todos, todo.id)}
        direct = {one.id for one in todos if todo.id in one.dependencies and one.status not in DONE} - {todo.id}
        assert direct <= dependants
        assert todo.id not in dependants


@settings(max_examples=80, deadline=None)
@given(graphs(acyclic=False), st.sampled_from(STATUSES), st.booleans())
def test_the_user_begins_nothing_that_waits_and_completes_it_only_knowingly(todos, status, anyway):
    waiting = find_blockers(todos)
    for todo in todos:
        waits = waiting.get(todo.id)
        is_refused = bool(waits) and status in STARTED and status != todo.status
        is_refused = is_refused and not (anyway and status == "completed")
        if is_refused:
            with pytest.raises(CommandRejected) as refused:
                check_not_blocked(todos, todo.id, status, anyway=anyway)
            assert refused.value.message.endswith(f"it depends on {', '.join(waits)}.")
        else:
            check_not_blocked(todos, todo.id, status, anyway=anyway)


@settings(max_examples=80, deadline=None)
@given(graphs(acyclic=True), st.integers(0, 12))
def test_a_model_is_told_of_what_is_done_now_and_next(todos, most):
    current_todos = select_current(todos, most)
    assert list(current_todos) == [todo for todo in todos if todo in current_todos]
    if len(todos) <= most:
        assert current_todos == todos
        return
    assert len(current_todos) == min(most, sum(todo.status not in DONE for todo in todos))
    working = [todo for todo in todos if todo.status == "in_progress"]
    assert set(working) <= set(current_todos) or set(current_todos) <= set(working)
    waits, keys = find_blockers(todos), {todo.id for todo in current_todos}
    assert all(set(waits.get(todo.id, ())) <= keys for todo in current_todos if todo.status == "pending")


def test_of_a_plan_of_thousands_a_model_is_told_the_next_ones():
    todos = tuple(
        todo(f"t{n}", *([f"t{n - 1}"] if n else []), status="completed" if n < 10 else "pending") for n in range(5_000)
    )
    text = format_todos(todos)
    assert text.startswith("[ ] t10: t10\n[ ] t11: t11 (depends on t10)\n")
    assert text.endswith("(4,800 of 5,000 are left out, 10 are done)\nReady to start: t10.")
