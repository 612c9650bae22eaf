from __future__ import annotations

import pytest

from core.errors import ToolInputInvalid
from core.plans.graph import blocked_by, check, problems, ready
from core.plans.model import TodoUpdate, merge_todos, slug
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
    assert problems(todos) == (problem,)
    with pytest.raises(ToolInputInvalid):
        check(todos)


def test_a_diamond_is_no_cycle():
    assert problems([todo("a"), todo("b", "a"), todo("c", "a"), todo("d", "b", "c")]) == ()


def test_a_chain_of_ten_thousand_is_checked():
    chain = [todo("0"), *(todo(str(n), str(n - 1)) for n in range(1, 10_000))]
    assert problems(chain) == ()
    assert len(problems([todo("0", "9999"), *chain[1:]])) == 1


def test_ready_and_blocked():
    todos = [todo("a", status="completed"), todo("b", "a"), todo("c", "b", "a"), todo("d", status="in_progress")]
    assert [each.id for each in ready(todos)] == ["b"]
    assert blocked_by(todos) == {"c": ("b",)}
    assert blocked_by([todo("a", status="cancelled"), todo("b", "a")]) == {}


def test_merging_changes_known_todos_and_appends_new_ones():
    before = [todo("a"), todo("b", "a")]
    after = merge_todos(before, [TodoUpdate(id="a", status="completed"), TodoUpdate(id="c", content="C")], merge=True)
    assert after == (todo("a", status="completed"), todo("b", "a"), Todo(id="c", content="C"))


def test_replacing_keeps_only_what_is_given():
    after = merge_todos([todo("a", status="completed"), todo("b")], [TodoUpdate(id="a")], merge=False)
    assert after == (todo("a", status="completed"),)


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        ([TodoUpdate(id="new")], "no todo new yet"),
        ([TodoUpdate(id="a"), TodoUpdate(id="a")], "more than once"),
        ([TodoUpdate(id="a", dependencies=("z",))], "which does not exist"),
    ],
)
def test_bad_updates_are_refused(updates, words):
    with pytest.raises(ToolInputInvalid, match=words):
        merge_todos([todo("a")], updates, merge=True)


@pytest.mark.parametrize(
    ("name", "short"), [("Add Löwe / login!", "add-lowe-login"), ("…", "plan"), ("x" * 99, "x" * 40)]
)
def test_slugs_are_plain(name, short):
    assert slug(name) == short
