from __future__ import annotations

import pytest

from core.errors import ToolInputInvalid
from core.plans.todo_graph import (
    TodoChange,
    apply_todo_changes,
    check_graph,
    find_blockers,
    find_ready,
    list_problems,
    make_slug,
)
from core.protocol.documents import Todo


def todo(key: str, *needs: str, status: str = "pending") -> Todo:
    return Todo(id=key, content=key.upper() or "x", status=status, dependencies=needs)


@pytest.mark.parametrize(
    ("todos", "problem"),
    [
        ([todo("a", "b")], "a depends on b, which does not exist."),
        ([todo("a", "a")], "a depends on itself."),
        ([todo("a"), todo("a")], "The id a is used 2 times."),
        ([todo("a", "b"), todo("b", "c"), todo("c", "a")], "There is a cycle: a -> b -> c -> a."),
        ([todo("x", "a"), todo("a", "b"), todo("b", "a")], "There is a cycle: a -> b -> a."),
        ([todo("")], "Todo 1 has no id."),
        ([Todo(id="a", content=" ")], "Todo a has no content."),
    ],
)
def test_each_problem_is_named(todos, problem):
    assert list_problems(todos) == (problem,)
    with pytest.raises(ToolInputInvalid):
        check_graph(todos)


def test_a_diamond_is_no_cycle():
    assert list_problems([todo("a"), todo("b", "a"), todo("c", "a"), todo("d", "b", "c")]) == ()


def test_a_chain_of_ten_thousand_is_checked():
    chain = [todo("0"), *(todo(str(n), str(n - 1)) for n in range(1, 10_000))]
    assert list_problems(chain) == ()
    assert len(list_problems([todo("0", "9999"), *chain[1:]])) == 1


def test_ready_and_blocked():
    todos = [todo("a", status="completed"), todo("b", "a"), todo("c", "b", "a"), todo("d", status="in_progress")]
    assert [ready_todo.id for ready_todo in find_ready(todos)] == ["b"]
    assert find_blockers(todos) == {"c": ("b",)}
    assert find_blockers([todo("a", status="cancelled"), todo("b", "a")]) == {}


def test_merging_changes_known_todos_and_appends_new_ones():
    before = [todo("a"), todo("b", "a")]
    after = apply_todo_changes(
        before, [TodoChange(id="a", status="completed"), TodoChange(id="c", content="C")], merge=True
    )
    assert after == (todo("a", status="completed"), todo("b", "a"), Todo(id="c", content="C"))


def test_replacing_keeps_only_what_is_given():
    after = apply_todo_changes([todo("a", status="completed"), todo("b")], [TodoChange(id="a")], merge=False)
    assert after == (todo("a", status="completed"),)


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ([TodoChange(id="new")], "no todo new yet"),
        ([TodoChange(id="a"), TodoChange(id="a")], "more than once"),
        ([TodoChange(id="a", dependencies=("z",))], "which does not exist"),
    ],
)
def test_bad_updates_are_refused(updates, words):
    with pytest.raises(ToolInputInvalid, match=words):
        apply_todo_changes([todo("a")], updates, merge=True)


@pytest.mark.parametrize(
    ("name", "short"), [("Add Löwe / login!", "add-lowe-login"), ("…", "plan"), ("x" * 99, "x" * 40)]
)
def test_slugs_are_plain(name, short):
    assert make_slug(name) == short
