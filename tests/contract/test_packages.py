"""Packages are rooms: no file is a mere slice of its only importer, and there are no circles."""

from __future__ import annotations

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

from tests.contract.source_tree import Module, imports, program

SLICE = 60
HOUSE = program()
NAMES = {module.name: module for module in HOUSE}


def targets(module: Module) -> set[str]:
    """The modules of the program that a module imports, wherever it does; `import a.b` counts as a.b."""
    return {
        statement.target
        for statement in imports(module)
        if statement.target in NAMES and statement.target != module.name
    }


def importers() -> dict[str, set[str]]:
    importers_by_name: dict[str, set[str]] = defaultdict(set)
    for module in HOUSE:
        for target in targets(module):
            importers_by_name[target].add(module.name)
    return importers_by_name


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other, the first one twice; empty: there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        return list(circle.args[1])
    return []


def test_no_import_runs_in_a_circle():
    assert find_circle({module.name: targets(module) for module in HOUSE}) == []


def test_a_circle_is_seen():
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_no_small_file_serves_a_single_importer():
    importers_by_name = importers()
    slices = [
        f"{module.name} ({module.lines} lines) is imported by {next(iter(importers_by_name[module.name]))} alone"
        for module in HOUSE
        if module.lines < SLICE and len(importers_by_name[module.name]) == 1 and module.path.name != "__init__.py"
    ]
    assert slices == []
