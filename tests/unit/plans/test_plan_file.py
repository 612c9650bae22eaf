from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.plans.plan_file import PlanError, parse_plan_file, rewrite_plan
from core.protocol.documents import Todo
from tests.support.plan_files import PLAN_FILES

PATH = ".cursor/plans/x_0123abcd.plan.md"
every = pytest.mark.parametrize("name", PLAN_FILES)


def with_status(plan, status, *keys):
    return replace(plan, todos=tuple(replace(t, status=status) if t.id in keys else t for t in plan.todos))


def test_there_are_enough_variants():
    assert len(PLAN_FILES) >= 30


@every
def test_a_plan_of_another_tool_is_read_and_stays_as_it_is(name):
    plan, page = parse_plan_file(PLAN_FILES[name], PATH)
    assert [todo.id for todo in plan.todos[:2]] == ["a", "b"]
    assert all(todo.content for todo in plan.todos)
    assert rewrite_plan(page, plan) == PLAN_FILES[name]


@every
def test_a_status_changes_at_most_one_line_and_nothing_else(name):
    text = PLAN_FILES[name]
    plan, page = parse_plan_file(text, PATH)
    after = rewrite_plan(page, with_status(plan, "completed", "a"))
    assert parse_plan_file(after, PATH)[0] == with_status(plan, "completed", "a")
    old, new = text.splitlines(keepends=True), after.splitlines(keepends=True)
    common_lines = [line for line in new if line in old]
    assert len(new) - len(common_lines) == 1
    assert len(new) - len(old) in (0, 1)
    assert [line for line in old if line not in new][1:] == []


@every
def test_a_status_that_is_set_and_taken_back_in_a_file_that_has_one_gives_the_same_bytes(name):
    text = PLAN_FILES[name]
    plan, page = parse_plan_file(text, PATH)
    there = rewrite_plan(page, with_status(plan, "in_progress", "a"))
    back = rewrite_plan(parse_plan_file(there, PATH)[1], plan)
    assert back == text or back.count("pending") == text.count("pending") + 1 or name in {"anchors and aliases", "tags"}


@every
def test_todos_move_come_and_go_with_what_they_hold(name):
    plan, page = parse_plan_file(PLAN_FILES[name], PATH)
    first, second, *rest = plan.todos
    extra = Todo(id="new one", content="do: it\nthen # that", dependencies=("b",), verify="make test")
    free = replace(second, dependencies=())
    turned = replace(plan, todos=(free, extra, first, *rest))
    text = rewrite_plan(page, turned)
    assert parse_plan_file(text, PATH)[0] == turned
    alone = replace(plan, todos=(free,))
    assert parse_plan_file(rewrite_plan(parse_plan_file(text, PATH)[1], alone), PATH)[0] == alone
    for line in ("owner: me", "x-state", "version:", "# top", "hours: 2"):
        assert (line in text) == (line in PLAN_FILES[name])
    empty = replace(plan, todos=())
    bare = rewrite_plan(page, empty)
    assert parse_plan_file(bare, PATH)[0] == empty
    assert parse_plan_file(rewrite_plan(parse_plan_file(bare, PATH)[1], turned), PATH)[0] == turned


@every
def test_head_and_body_change_without_the_todos(name):
    plan, page = parse_plan_file(PLAN_FILES[name], PATH)
    after = replace(plan, name="N: # 1", overview="o\no", body="# New\n\n---\nx")
    text = rewrite_plan(page, after)
    assert parse_plan_file(text, PATH)[0] == after
    assert text.count("\r\n") in (0, text.count("\n")) or name == "mixed line ends"


words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
tidy = words.map(lambda text: text.replace("\r", "")).filter(str.strip)
lines_of_text = st.text(alphabet="ab :#-'\"\\|>\n\t{}[]&*!%@,?é\x07\x85\u2028", max_size=40)
todos = st.lists(
    st.builds(
        Todo,
        id=tidy,
        content=lines_of_text.filter(str.strip) | tidy,
        status=st.sampled_from(["pending", "in_progress", "completed", "cancelled"]),
        dependencies=st.lists(tidy, max_size=3, unique=True).map(tuple),
        verify=st.just("") | tidy,
        model=st.just("") | st.just("openai/gpt-6.1-terra") | st.just("ollama/a: b #c"),
        effort=st.sampled_from(["", "none", "low", "max"]),
    ),
    max_size=5,
    unique_by=lambda todo: todo.id,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(PLAN_FILES)), todos, st.permutations(["a", "b"]), tidy, lines_of_text)
def test_whatever_is_written_into_a_file_is_read_from_it(name, new, keys, title, overview):
    plan, page = parse_plan_file(PLAN_FILES[name], PATH)
    by_id = {todo.id: todo for todo in plan.todos}
    own = [replace(by_id[key], dependencies=()) for key in keys]
    after = replace(
        plan,
        name=title,
        overview=overview,
        todos=(*own[:1], *(todo for todo in new if todo.id not in by_id), *own[1:]),
    )
    assert parse_plan_file(rewrite_plan(page, after), PATH)[0] == after


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("name: [a\n", "line 3: expected ',' or ']'"),
        ("name: a\n  b: c\n", "line 3"),
        ("name: 'a\n", "line"),
        ("todos:\n\t- id: a\n", "line 3"),
        ("name: a\nname: b\n", "line 3: duplicate key 'name'"),
        (
            "todos:\n  - id: a\n    content: x\n  - id: a\n    content: y\n",
            "line 5: todo 2: the id a .* line 3",
        ),
        ("todos: 5\n", "line 2: todos is not a list"),
        ("todos:\n  - x\n  - id: b\n", "line 3: todo 1: it has no id"),
        ("todos:\n  - id: a\n    status: later\n", "line 4: the status later is unknown"),
        ("todos:\n  - id: a\n    effort: huge\n", "line 4: the effort huge is unknown"),
        ("todos:\n  - id: a\n    model: gpt\n", "line 4: gpt is not a model"),
        ("todos:\n  - id: a\n    dependencies: b\n", "line 4: dependencies is not a list of ids"),
        ("todos:\n  - id: *nothing\n", "line 3: .*nothing"),
        ("name: \x00\n", "line 2"),
        ("x: " + "[" * 80 + "]" * 80 + "\n", "line 2: it is nested too deeply"),
        ("a: &a [*a]\n", "line 2"),
    ],
)
def test_a_broken_file_is_told_with_its_line(front, words):
    with pytest.raises(PlanError, match=words):
        parse_plan_file(f"---\n{front}---\nbody", PATH)


def test_a_plan_of_five_thousand_todos_is_read_and_changed_in_one_place():
    rows = "".join(f"  - id: t{n}\n    content: Do {n}\n    status: pending\n" for n in range(5_000))
    text = f"---\nname: n\ntodos:\n{rows}---\n"
    plan, page = parse_plan_file(text, PATH)
    after = rewrite_plan(page, with_status(plan, "completed", "t4999"))
    assert after == text.removesuffix("pending\n---\n") + "completed\n---\n"
