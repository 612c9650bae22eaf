"""The difference that a hunk makes in the syntax tree of a Python module: none, one that no run can notice, or code.

The tree of the pending module is compared with that of the module without the hunk. Only the statements of the top
level that the hunk touches are parsed, since a file is classified after every edit.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from core.syntax.python_parser import parse_python

PythonDifference = Literal["format", "docs", "types", "imports", "code"]

# Decorators that do not read the annotations of the function that they decorate.
_BLIND_DECORATORS_TEXT: Final = """
    property setter deleter getter cached_property staticmethod classmethod override abstractmethod final deprecated
    cache lru_cache wraps contextmanager asynccontextmanager"""
_BLIND_DECORATORS: Final = frozenset(_BLIND_DECORATORS_TEXT.split())
# Base classes that do not make fields of annotations.
_PLAIN_BASES: Final = frozenset({"object", "ABC", "Generic", "Exception", "ValueError", "TypeError", "RuntimeError"})
_BUILTIN_NAMES: Final = frozenset(dir(builtins))
_FLAGS: Final = frozenset({"annotations"})  # features of `__future__` that change no value


class Import(NamedTuple):
    """One name that an import binds: `origin` is what it stands for, as `module:name`."""

    name: str
    origin: str

    @property
    def is_feature(self) -> bool:
        """True if it changes how Python reads the module."""
        return self.origin.startswith("__future__:") and self.name not in _FLAGS


class PythonModule(Struct):
    """The pending text of a module: its lines without endings, and its tree."""

    lines: list[str]
    tree: ast.Module
    _names_at_run: frozenset[str] | None = None
    _origins: dict[str, set[str]] = {}

    @property
    def names_at_run(self) -> frozenset[str]:
        """The names that the module reads when it runs, those in annotations left out."""
        if self._names_at_run is None:
            tree = _strip(_parse(self.lines), _DocumentationRemover(), _AnnotationRemover())
            names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
            self._names_at_run = frozenset(names)
        return self._names_at_run

    @property
    def origins(self) -> dict[str, set[str]]:
        """The origins of each imported name, in any of the module's imports."""
        if not self._origins:
            origins = defaultdict[str, set[str]](set)
            for name, origin in _list_imports(self.tree):
                origins[name].add(origin)
            self._origins = dict(origins)
        return self._origins


def read_module(text: str) -> PythonModule | None:
    """Parse the pending text of a module; None = it is no Python that this program can parse."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    try:
        return PythonModule(lines, _parse(lines))
    except (SyntaxError, ValueError, SystemError):
        return None


def compare_trees(module: PythonModule, start: int, end: int, old_lines: Sequence[str]) -> PythonDifference:
    """Return what the lines `start` to `end` (0-indexed, exclusive) change, where the base has `old_lines`."""
    first, last = _find_statements(module.tree, start, end)
    lines = module.lines
    try:
        trees = (_parse(lines[first:last]), _parse([*lines[first:start], *old_lines, *lines[end:last]]))
    except (SyntaxError, ValueError, SystemError):
        try:
            trees = (_parse(lines), _parse([*lines[:start], *old_lines, *lines[end:]]))
        except (SyntaxError, ValueError, SystemError):
            return "code"
    return _compare(module, *trees)


def _compare(module: PythonModule, new: ast.Module, old: ast.Module) -> PythonDifference:
    if ast.dump(new) == ast.dump(old):
        return "format"
    new, old = _strip(new, _DocumentationRemover()), _strip(old, _DocumentationRemover())
    if ast.dump(new) == ast.dump(old):
        return "docs"
    new, old = _strip(new, _AnnotationRemover()), _strip(old, _AnnotationRemover())
    if ast.dump(new) == ast.dump(old):
        return "types"
    added_imports, removed_imports = set(_list_imports(new)), set(_list_imports(old))
    new, old = _strip(new, _ImportRemover()), _strip(old, _ImportRemover())
    if ast.dump(new) != ast.dump(old):
        return "code"
    return _classify_imports(module, added_imports - removed_imports, removed_imports - added_imports)


def _classify_imports(module: PythonModule, added: set[Import], removed: set[Import]) -> PythonDifference:
    """Classify a difference in imports alone: code if a name means something else, or may be missed."""
    if any(item.name == "*" or item.is_feature for item in added | removed):
        return "code"
    names = {item.name for item in added}
    is_redirected = any(len(module.origins.get(name, ())) > 1 for name in names)
    is_missed = any(item.name in module.names_at_run for item in removed if item.name not in module.origins)
    if is_redirected or is_missed or names & {item.name for item in removed} or names & _BUILTIN_NAMES:
        return "code"
    is_unread = module.names_at_run.isdisjoint(item.name for item in added | removed)
    return "types" if names and is_unread and _are_annotated(module.tree, names) else "imports"


def _are_annotated(tree: ast.Module, names: set[str]) -> bool:
    """Return True if each of the names is read in the module."""
    return names <= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _parse(lines: Sequence[str]) -> ast.Module:
    return parse_python("\n".join(lines) + "\n")


def _find_statements(tree: ast.Module, start: int, end: int) -> tuple[int, int]:
    """Return the lines (0-indexed, exclusive end) of the statements of the top level that a range of lines touches."""
    first, last = start, end
    for statement in tree.body:
        decorators = getattr(statement, "decorator_list", ())
        above = min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1
        below = statement.end_lineno or statement.lineno
        if above <= end and below >= start:
            first, last = min(first, above), max(last, below)
    return first, last


def _list_imports(tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                # `import a.b` and `import a.c` both bind a.
                yield Import(name, f"{alias.name if alias.asname else name}:")
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                yield Import(alias.asname or alias.name, f"{module}:{alias.name}")


def _strip(tree: ast.Module, *removers: ast.NodeTransformer) -> ast.Module:
    for remover in removers:
        tree = remover.visit(tree)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
    return tree


class _DocumentationRemover(ast.NodeTransformer):
    """Removes strings that stand as statements, and `pass` and `...`, which may stand in their place."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        value = node.value.value if isinstance(node.value, ast.Constant) else None
        return None if isinstance(value, str) or value is ... else node

    def visit_Pass(self, node: ast.Pass) -> None:
        return None


class _AnnotationRemover(ast.NodeTransformer):
    """Removes annotations, unless a decorator or a base class may read them, and what only a type checker runs."""

    def __init__(self) -> None:
        self._fields = [False]  # of the blocks around a node: True where an annotation can make a field

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.type_params = []  # type: ignore[attr-defined]  # since Python 3.12
        bases = {_get_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}
        self._fields.append(bool(node.decorator_list or node.keywords or bases - _PLAIN_BASES))
        self.generic_visit(node)
        self._fields.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Function | None:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Function | None:
        return self._visit_function(node)

    def _visit_function(self, node: Function) -> Function | None:
        decorators = {_get_last_name(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list}
        if "overload" in decorators:
            return None
        if decorators <= _BLIND_DECORATORS:
            node.returns = None
            node.type_params = []  # type: ignore[union-attr]  # since Python 3.12
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        self._fields.append(False)
        self.generic_visit(node)
        self._fields.pop()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        self.generic_visit(node)
        if self._fields[-1]:
            return node
        return None if node.value is None else ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno)

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if _get_last_name(node.test) == "TYPE_CHECKING" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        is_cast = _get_last_name(node.func) == "cast" and len(node.args) == 2 and not node.keywords
        return node.args[1] if is_cast and _is_of_typing(node.func) else node


class _ImportRemover(ast.NodeTransformer):
    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _get_last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_of_typing(function: ast.expr) -> bool:
    """Return True for `cast` alone, or as an attribute of a module for types, as other objects have a `cast`, too."""
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id in {"typing", "t", "typing_extensions"}
    return True
