"""The program's own source files, parsed: what the contract tests read instead of importing it."""

from __future__ import annotations

import ast
import gc
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Sample projects that the demo copies: somebody else's code, as far as the house rules go.
SAMPLES = (ROOT / "core" / "demo" / "sample",)

Function = ast.FunctionDef | ast.AsyncFunctionDef
_PARSED: list[Module] = []


@dataclass(frozen=True)
class Module:
    """One source file; read and parsed when first asked for, so that collecting the tests costs nothing.

    `sample`: a source of the tests' own, in place of what is on disk.
    """

    path: Path
    sample: str = ""

    @cached_property
    def text(self) -> str:
        return self.sample or self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        # CPython 3.11 ends a parse with a SystemError when garbage that has a `__del__` is collected on the way.
        gc.disable()
        try:
            return ast.parse(self.text, str(self.path))
        finally:
            gc.enable()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree, walked through once for all tests that look for something in it."""
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]


@dataclass(frozen=True)
class Import:
    """One imported module name; `eager` when it happens as soon as the importing module is loaded."""

    importer: str
    target: str
    line: int
    eager: bool
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


@cache
def modules(*tops: str) -> tuple[Module, ...]:
    """Every module below the given files or directories of the repository, sorted by path."""
    return tuple(_module(path) for top in tops for path in _files(ROOT / top))


def _files(top: Path) -> list[Path]:
    paths = [top] if top.is_file() else sorted(top.rglob("*.py"))
    return [path for path in paths if not any(path.is_relative_to(sample) for sample in SAMPLES)]


@cache
def _module(path: Path) -> Module:
    _PARSED.append(module := Module(path))
    return module


def forget_trees() -> None:
    """Release all that was parsed; whoever asks again has it parsed again."""
    imports.cache_clear()
    for module in _PARSED:
        for name in ("text", "tree", "nodes"):
            vars(module).pop(name, None)


def program() -> tuple[Module, ...]:
    """All that ships: the launcher, core and tui."""
    return modules("agent_tui.py", "core", "tui")


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Every import of a module, wherever it stands; `from a import b` counts as a.b when that is a module of ours."""
    return tuple(_walk(module, module.tree, eager=True, typing_only=False))


def _walk(module: Module, node: ast.AST, *, eager: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        for target in _targets(child):
            yield Import(module.name, target, getattr(child, "lineno", 0), eager, typing_only)
        lazy = isinstance(child, Function)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for statement in child.body:
                yield from _walk(module, ast.Module([statement], []), eager=False, typing_only=True)
            continue
        yield from _walk(module, child, eager=eager and not lazy, typing_only=typing_only)


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        return sorted({_submodule(base, alias.name) or base for alias in node.names})
    return []


def _submodule(base: str, name: str) -> str | None:
    stem = ROOT.joinpath(*base.split("."), name)
    return f"{base}.{name}" if stem.with_suffix(".py").is_file() or (stem / "__init__.py").is_file() else None


@cache
def project() -> dict[str, Any]:
    """The `[project]` table of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table
