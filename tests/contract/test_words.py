"""Names are the field's words: functions are verbs, a public class name stands once, docstrings say what one gets."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from tests.contract.source_tree import ROOT, Function, Module, program

HOUSE = program()
# Past participles that do not end in -ed. What is also a base form (read, put, cut, set, let, run, split …) is a verb.
IRREGULAR = re.compile(
    "begun|bound|broken|built|chosen|done|drawn|driven|fallen|found|frozen|given|gone|grown|heard|held|hidden|kept|known"
    "|left|lost|made|meant|met|said|seen|sent|shown|sold|sought|spent|spoken|stood|stuck|swept|taken|taught|thought|told"
    "|torn|understood|won|worn|wound|woven|written"
)
VERBS_IN_ED = re.compile("bed|embed|exceed|feed|need|proceed|seed|shed|speed|succeed|wed")
RIDDLE = re.compile(r"(What|Whether|How|Where|Who|Whose|Which|Why)\b")


def where(module: Module, node: ast.AST) -> str:
    return f"{module.path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 0)}"


def is_property(function: Function) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def is_participle(word: str) -> bool:
    return bool(IRREGULAR.fullmatch(word)) or (word.endswith("ed") and not VERBS_IN_ED.fullmatch(word))


def test_no_function_is_named_by_a_participle():
    wrong = [
        f"{where(module, function)} {function.name}"
        for module in HOUSE
        for function in module.functions
        if not is_property(function) and is_participle(function.name.strip("_").partition("_")[0])
    ]
    assert wrong == []


def test_no_public_class_name_stands_twice():
    places = defaultdict(list)
    for module in HOUSE:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(where(module, node))
    assert {name: locations for name, locations in places.items() if len(locations) > 1} == {}


def test_a_docstring_says_what_the_caller_gets():
    wrong = [
        where(module, node)
        for module in HOUSE
        for node in module.nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and RIDDLE.match(ast.get_docstring(node) or "")
    ]
    assert wrong == []
