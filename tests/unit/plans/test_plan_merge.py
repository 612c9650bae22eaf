from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.plans.plan_merge import merge_plans
from core.plans.todo_graph import list_problems
from core.protocol.documents import Plan, Todo

BASE = Plan(
    path="p",
    name="n",
    body="one\ntwo\nthree\nfour\nfive",
    todos=(Todo(id="a", content="A"), Todo(id="b", content="B", dependencies=("a",)), Todo(id="c", content="C")),
)


def with_todo(plan, key, **changes):
    return replace(plan, todos=tuple(replace(todo, **changes) if todo.id == key else todo for todo in plan.todos))


def test_changes_of_different_things_are_both_taken():
    mine = replace(with_todo(BASE, "a", status="completed"), body=BASE.body.replace("two", "2"))
    theirs = replace(with_todo(BASE, "a", content="A!"), body=BASE.body.replace("five", "5"), name="N")
    merged = merge_plans(BASE, mine, theirs)
    assert merged.conflicts == ()
    assert merged.plan.todos[0] == Todo(id="a", content="A!", status="completed")
    assert merged.plan.body == "one\n2\nthree\nfour\n5"
    assert merged.plan.name == "N"


def test_of_two_changes_of_the_same_the_file_wins_and_the_other_is_told():
    mine = replace(with_todo(BASE, "a", content="mine"), body=BASE.body.replace("two", "my two"))
    theirs = replace(with_todo(BASE, "a", content="theirs"), body=BASE.body.replace("two", "their two"))
    merged = merge_plans(BASE, mine, theirs)
    assert merged.plan == theirs
    assert [(conflict.where, conflict.dropped) for conflict in merged.conflicts] == [
        ("the text", "my two"),
        ("todo a, content", "mine"),
    ]


def test_a_removal_does_not_win_over_a_change():
    reduced_plan = replace(BASE, todos=BASE.todos[:2])
    changed = with_todo(BASE, "c", content="more")
    assert merge_plans(BASE, reduced_plan, changed).plan == changed
    assert merge_plans(BASE, reduced_plan, changed).conflicts[0].dropped == "its removal"
    assert merge_plans(BASE, changed, reduced_plan).plan == reduced_plan
    assert "more" in merge_plans(BASE, changed, reduced_plan).conflicts[0].dropped


def test_two_sound_changes_that_make_a_cycle_together_are_not_both_taken():
    mine = with_todo(BASE, "a", dependencies=("c",))
    theirs = with_todo(BASE, "c", dependencies=("b",))
    merged = merge_plans(BASE, mine, theirs)
    assert list_problems(merged.plan.todos) == ()
    assert merged.plan == theirs
    assert [conflict.where for conflict in merged.conflicts] == ["todo a, dependencies"]


def test_the_order_of_the_side_that_changed_it_holds():
    turned = replace(BASE, todos=BASE.todos[::-1])
    more = replace(BASE, todos=(BASE.todos[0], Todo(id="x", content="X"), *BASE.todos[1:]))
    assert [todo.id for todo in merge_plans(BASE, turned, more).plan.todos] == ["c", "b", "a", "x"]
    assert [todo.id for todo in merge_plans(BASE, more, turned).plan.todos] == ["c", "b", "a", "x"]


KEYS = "abcdef"
status = st.sampled_from(["pending", "in_progress", "completed", "cancelled"])


@st.composite
def plans(draw):
    """Any plan with a sound graph: dependencies point to what comes earlier in an order of their own."""
    keys = draw(st.permutations(KEYS))[: draw(st.integers(0, 6))]
    todos = []
    for number, key in enumerate(keys):
        needs = draw(st.lists(st.sampled_from(keys[:number]), unique=True, max_size=2)) if number else []
        todos.append(Todo(id=key, content=draw(st.sampled_from("xyz")), status=draw(status), dependencies=tuple(needs)))
    body = "\n".join(draw(st.lists(st.sampled_from("12345"), max_size=6)))
    return Plan(path="p", name=draw(st.sampled_from("nm")), body=body, todos=tuple(draw(st.permutations(todos))))


@settings(max_examples=200, deadline=None)
@given(plans(), plans(), plans())
def test_a_merge_is_sound_and_loses_nothing(base, mine, theirs):
    merged = merge_plans(base, mine, theirs)
    assert list_problems(merged.plan.todos) == ()
    locations = {conflict.where for conflict in merged.conflicts}
    after = {todo.id: todo for todo in merged.plan.todos}
    was = {todo.id: todo for todo in base.todos}
    for todo in mine.todos:
        if todo.id not in after:
            assert was[todo.id] == todo or any(f"todo {todo.id}," in location for location in locations)
            continue
        for name in ("content", "status", "dependencies"):
            value = getattr(todo, name)
            old = getattr(was.get(todo.id, Todo(id="", content="")), name)
            assert value in (old, getattr(after[todo.id], name)) or f"todo {todo.id}, {name}" in locations
    for todo in theirs.todos:
        assert todo.id in after or was.get(todo.id) == todo
    assert set("".join(mine.body.split())) <= set(merged.plan.body + base.body) | set(
        "".join(conflict.dropped for conflict in merged.conflicts)
    )


@settings(max_examples=60, deadline=None)
@given(plans(), plans())
def test_where_only_one_side_changed_something_it_is_taken_whole(base, other):
    assert merge_plans(base, other, base).plan == other
    assert merge_plans(base, base, other).plan == other
    assert merge_plans(base, other, other).plan == other
    assert merge_plans(base, other, base).conflicts == ()
