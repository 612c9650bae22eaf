from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import ToolInputInvalid
from core.plans.plan_file import PlanError
from core.plans.plan_store import PlanStore
from core.protocol.documents import Plan, Todo

PATH = ".cursor/plans/x_0123abcd.plan.md"
TEXT = """---
name: X # the name
# a comment
extra: 'kept'  # also kept
todos:
- id: a
  content: "First"
  status: pending # now
  verify: make test
- id: b
  content: Second
isProject: false
---
# Body

text
"""


class Files(dict[str, bytes]):
    place = ".cursor/plans"

    def to_path(self, path: str) -> str:
        return path

    def read(self, rel: str) -> bytes | None:
        return self.get(rel)

    def write(self, rel: str, data: bytes) -> None:
        self[rel] = data

    def list_paths(self) -> list[str]:
        return list(self)


@pytest.fixture
def files() -> Files:
    return Files({PATH: TEXT.encode()})


def test_a_new_plan_is_found_again():
    files = Files()
    todos = (Todo(id="a", content="do: it"), Todo(id="b", content="- b", dependencies=("a",)))
    plan = PlanStore(files).create(Plan(path="", name="My plan", overview="o: 1", body="# B\n", todos=todos))
    assert re.fullmatch(r"\.cursor/plans/my-plan_[0-9a-f]{8}\.plan\.md", plan.path)
    assert PlanStore(files).load(plan.path) == plan
    assert b"isProject: false" in files[plan.path]


def test_keys_without_a_value_are_filled_where_they_stand():
    files = Files({PATH: b"---\nname:\ntodos:\n  - id: a\n    content:\n    dependencies:\n    status:\n---\n"})
    todo = Todo(id="a", content="A", status="completed", dependencies=())
    PlanStore(files).edit(PATH, name="Name", todos=[todo])
    assert files[PATH] == (
        b"---\nname: Name\ntodos:\n  - id: a\n    content: A\n    dependencies:\n    status: completed\n---\n"
    )


def test_a_plan_with_a_bad_graph_is_not_written():
    files = Files()
    with pytest.raises(ToolInputInvalid):
        PlanStore(files).create(Plan(path="", name="n", todos=(Todo(id="a", content="A", dependencies=("a",)),)))
    assert files == {}


def test_a_changed_status_changes_one_line_only(files):
    PlanStore(files).set_todo(PATH, "a", "completed")
    assert files[PATH].decode() == TEXT.replace("status: pending # now", "status: completed # now")


def test_line_endings_and_mark_survive(files):
    files[PATH] = b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    PlanStore(files).set_todo(PATH, "a", "completed")
    expected = TEXT.replace("status: pending", "status: completed").replace("\n", "\r\n").encode()
    assert files[PATH] == b"\xef\xbb\xbf" + expected


def test_reordering_and_adding_todos_keeps_what_they_hold(files):
    store = PlanStore(files)
    first, second = store.load(PATH).todos
    edited = store.edit(PATH, todos=[second, Todo(id="c", content="Third"), first], body="new body").plan
    assert [todo.id for todo in store.load(PATH).todos] == ["b", "c", "a"]
    assert store.load(PATH) == edited
    text = files[PATH].decode()
    assert "verify: make test" in text
    assert "extra: 'kept'  # also kept" in text
    assert text.endswith("---\nnew body\n")


def test_nothing_is_written_when_nothing_changes(files):
    store = PlanStore(files)
    store.edit(PATH, name="X", todos=store.load(PATH).todos)
    assert files[PATH] == TEXT.encode()


def complete_all(store, known):
    return store.edit(PATH, todos=tuple(replace(todo, status="completed") for todo in known.todos), base=known)


def test_what_was_edited_outside_meanwhile_is_kept(files):
    store = PlanStore(files)
    known = store.load(PATH)
    files[PATH] = TEXT.replace('"First"', '"First of all"').replace("text\n", "text\nmore\n").encode()
    merged = complete_all(store, known)
    assert merged.conflicts == ()
    text = files[PATH].decode()
    assert "status: completed # now" in text
    assert '"First of all"' in text
    assert text.endswith("text\nmore\n")


def test_a_conflict_with_an_outside_edit_is_told_with_what_was_not_taken(files):
    store = PlanStore(files)
    known = store.load(PATH)
    files[PATH] = TEXT.replace("status: pending # now", "status: cancelled # now").encode()
    merged = complete_all(store, known)
    assert [(clash.where, clash.dropped) for clash in merged.conflicts] == [("todo a, status", "completed")]
    assert [todo.status for todo in store.load(PATH).todos] == ["cancelled", "completed"]


def test_a_check_names_every_fault_with_its_line(files):
    files[PATH] = (
        b"---\ntodos:\n- id: a\n  content: A\n  status: later\n  dependencies:\n  - b\n"
        b"- id: b\n  content: B\n  dependencies: [b, z, a]\n- id: a\n- id: c\n---\n"
    )
    assert [(fault.line, fault.text) for fault in PlanStore(files).find_faults(PATH)] == [
        (5, "the status later is unknown."),
        (10, "b depends on itself."),
        (10, "b depends on z, which does not exist."),
        (10, "There is a cycle: a -> b -> a."),
        (11, "todo 3: the id a is already used by the todo on line 3."),
        (12, "Todo c has no content."),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nname: [a\n---\nbody", "line 3"),
        ("---\nname: a\n  b: c\n---\n", "line 3"),
        ("no front matter", "line 1"),
        ("---\n- a\n---\n", "not a mapping"),
        ("---\ntodos: 5\n---\n", "todos is not a list"),
        ("---\ntodos:\n- content: x\n---\n", "todo 1: it has no id"),
        ("---\ntodos:\n- id: a\n  status: later\n---\n", "status later is unknown"),
        ("---\nname: a\nname: b\n---\n", "duplicate key"),
    ],
)
def test_a_broken_file_is_named_with_its_line_and_left_alone(files, text, words):
    files[PATH] = text.encode()
    store = PlanStore(files)
    with pytest.raises(PlanError, match=words):
        store.set_todo(PATH, "a", "completed")
    assert files[PATH] == text.encode()
    assert [broken.path for broken in store.list_plans().broken] == [PATH]


def test_bytes_that_are_no_text_are_an_error(files):
    files[PATH] = b"\xff"
    with pytest.raises(PlanError, match="not UTF-8"):
        PlanStore(files).load(PATH)


def test_unknown_plans_and_todos_are_errors(files):
    with pytest.raises(PlanError, match="no plan"):
        PlanStore(files).load(".cursor/plans/none.plan.md")
    with pytest.raises(PlanError, match="no todo z") as caught:
        PlanStore(files).set_todo(PATH, "z", "completed")
    assert "a, b" in caught.value.hint


text = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=30)


@given(text.filter(str.strip), text, st.lists(text.filter(str.strip), max_size=4))
def test_any_words_survive_the_way_through_a_file(name, overview, contents):
    files = Files()
    todos = tuple(Todo(id=f"t{number}", content=content) for number, content in enumerate(contents))
    plan = PlanStore(files).create(Plan(path="", name=name, overview=overview, body="b", todos=todos))
    assert PlanStore(files).load(plan.path) == plan
