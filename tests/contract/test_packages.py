"""Packages are rooms: no file is a mere slice of its only importer, no folder is nearly empty, and no import, of files
or of folders, runs in a circle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from core.cli.arguments import SUBCOMMANDS
from tests.contract.source_tree import ROOT, Module, imports, program

SMALL = 150  # lines
HOUSE = program()
NAMES = {module.name: module for module in HOUSE}
WITH_DATA = {"core/demo", "core/prompts"}  # one module, beside the files that it reads


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
    for name in SUBCOMMANDS:  # imported by name
        importers_by_name[f"core.cli.{name}"].add("agent_tui")
    return importers_by_name


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other, the first one twice; empty: there are none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        return list(circle.args[1])
    return []


def list_children(folder: str, pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return which of the files and folders directly in `folder` imports which, by the imports of modules."""
    depth = folder.count(".") + 1
    graph: dict[str, set[str]] = defaultdict(set)
    for importer, target in pairs:
        if importer.startswith(f"{folder}.") and target.startswith(f"{folder}."):
            child, imported_child = importer.split(".")[depth], target.split(".")[depth]
            if child != imported_child:
                graph[child].add(imported_child)
    return graph


def test_no_import_runs_in_a_circle():
    assert find_circle({module.name: targets(module) for module in HOUSE}) == []


def test_a_circle_is_seen():
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_no_folders_import_each_other():
    pairs = [(module.name, target) for module in HOUSE for target in targets(module)]
    folders = {".".join(module.path.relative_to(ROOT).parent.parts) for module in HOUSE} - {""}
    circles = {folder: find_circle(list_children(folder, pairs)) for folder in sorted(folders)}
    assert {folder: circle for folder, circle in circles.items() if circle} == {}


def test_a_circle_of_folders_is_seen_where_no_files_have_one():
    pairs = [("core.a.x", "core.b.x"), ("core.b.y", "core.a.y"), ("core.a.y", "core.c")]
    assert set(find_circle(list_children("core", pairs))) == {"a", "b"}


def test_no_small_file_serves_a_single_importer_beside_it():
    importers_by_name = importers()
    slices = [
        f"{module.name} ({module.lines} lines) is imported by {importer} alone"
        for module in HOUSE
        if module.lines < SMALL and module.path.name != "__init__.py"
        for importer in importers_by_name[module.name]
        if len(importers_by_name[module.name]) == 1 and NAMES[importer].path.parent == module.path.parent
    ]
    assert slices == []


@pytest.mark.parametrize("top", ["core", "tui"])
def test_no_folder_holds_one_or_two_files(top):
    entries = defaultdict(set)
    for module in HOUSE:
        path = module.path.relative_to(ROOT)
        for parent in path.parents[:-1]:
            entries[parent].add(path.relative_to(parent).parts[0])
    small = {
        folder.as_posix(): sorted(names - {"__init__.py"})
        for folder, names in entries.items()
        if folder != Path(top) and folder.is_relative_to(top) and len(names - {"__init__.py"}) < 3
    }
    assert {folder: names for folder, names in small.items() if folder not in WITH_DATA} == {}
