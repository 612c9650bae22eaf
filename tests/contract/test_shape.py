"""Nothing grows into a trunk: sizes, names and docstrings of the source, as tests."""

from __future__ import annotations

import ast
import re

import pytest

from tests.contract.source_tree import ROOT, Function, Module, modules, program

MAX_FILE, MAX_STYLE, MAX_FUNCTION, MAX_TRUNK = 600, 500, 40, 250
TRUNKS = ("tui/app.py", "core/agent/turn/loop.py")
VAGUE_MODULES = re.compile(r"(^|_)(utils?|helpers?|managers?|common|misc)(_|$)")
VAGUE_CLASSES = re.compile(r"Manager|Handler|Helper|Util")
ASSERTION = re.compile(r"Assert\(|assert|raises|snap_compare|check|expect")
HOUSE = program()
TESTS = modules("tests")


def where(module: Module, node: ast.AST | None = None) -> str:
    path = module.path.relative_to(ROOT).as_posix()
    return path if node is None else f"{path}:{getattr(node, 'lineno', 0)}"


def length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_no_file_is_longer_than_the_house_allows():
    long = [f"{where(module)} has {module.lines} lines" for module in HOUSE + TESTS if module.lines > MAX_FILE]
    assert long == []


def test_no_stylesheet_is_longer_than_the_house_allows():
    counts = {path.name: path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tui").rglob("*.tcss")}
    assert {name: count for name, count in counts.items() if count > MAX_STYLE} == {}


def test_the_trunks_stay_slim():
    trunks = [module for module in HOUSE if where(module) in TRUNKS]
    assert [f"{where(module)} has {module.lines} lines" for module in trunks if module.lines > MAX_TRUNK] == []


def test_no_function_is_longer_than_the_house_allows():
    long = [
        f"{where(module, function)} {function.name} has {length(function)} lines"
        for module in HOUSE
        for function in module.functions
        if length(function) > MAX_FUNCTION
    ]
    assert long == []


def test_modules_are_named_after_one_idea():
    parts = {part for module in HOUSE + TESTS for part in module.name.split(".")}
    assert [part for part in parts if VAGUE_MODULES.search(part)] == []


def test_classes_are_named_after_what_they_are():
    classes = [(module, node) for module in HOUSE for node in module.nodes if isinstance(node, ast.ClassDef)]
    wrong = [f"{where(module, node)} {node.name}" for module, node in classes if VAGUE_CLASSES.search(node.name)]
    assert wrong == []


def test_every_module_states_its_purpose():
    assert [where(module) for module in HOUSE if not ast.get_docstring(module.tree)] == []


def test_every_ignored_type_error_is_named():
    texts = {where(module): module.path.read_text(encoding="utf-8") for module in HOUSE}
    assert [path for path, text in texts.items() if re.search(r"# type: ignore(?!\[)", text)] == []


def cases_in(module: Module) -> list[Function]:
    return [function for function in module.functions if function.name.startswith("test_")]


def test_every_test_asserts_something():
    idle = [
        f"{where(module, function)} {function.name}"
        for module in TESTS
        for function in cases_in(module)
        if not ASSERTION.search(ast.dump(ast.Module(function.body, [])))
    ]
    assert idle == []


def test_tests_wait_for_events_and_do_not_sleep():
    calls = [
        (module, node)
        for module in TESTS
        for node in module.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep"
    ]
    assert [where(module, call) for module, call in calls if [ast.unparse(arg) for arg in call.args] != ["0"]] == []


def test_the_names_of_tests_say_enough_without_docstrings():
    locations = [
        where(module, function) for module in TESTS for function in cases_in(module) if ast.get_docstring(function)
    ]
    assert locations == []


@pytest.mark.parametrize("rule", sorted((ROOT / ".cursor" / "rules").glob("*.mdc")), ids=lambda path: path.stem)
def test_each_rule_file_is_short_and_says_when_it_applies(rule):
    text = rule.read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    assert [line.partition(":")[0] for line in front.splitlines()] == ["description", "globs", "alwaysApply"]
    assert body.strip()
    assert text.count("\n") <= 60
