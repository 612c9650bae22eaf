"""The difference that a hunk makes in the syntax tree of a Python module: none, one that no run can notice, or code.

The tree of the pending module is compared with that of the module without the hunk. Only the statements of the top
level that the hunk touches are parsed, since a file is classified after every edit.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from core.proof.classes.python_spellings import TYPING, is_of_typing, unify_locals, unify_spellings
from core.syntax.python_parser import parse_python

# `decorated` = only annotations differ, but a decorator of the function may read them.
PythonDifference = Literal["format", "docs", "types", "imports", "rename", "data", "decorated", "code"]

# Decorators that do not read the annotations of the function that they decorate.
_BLIND_DECORATORS_TEXT: Final = """
    property setter deleter getter cached_property staticmethod classmethod override abstractmethod final deprecated
    cache lru_cache wraps contextmanager asynccontextmanager"""
_BLIND_DECORATORS: Final = frozenset(_BLIND_DECORATORS_TEXT.split())
# Base classes that do not make fields of annotations.
_PLAIN_BASES: Final = frozenset({"object", "ABC", "Generic", "Exception", "ValueError", "TypeError", "RuntimeError"})
_TYPE_VARIABLES: Final = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})
_TYPES_TEXT: Final = """
    Union Optional Callable List Dict Tuple Set FrozenSet Type Mapping MutableMapping Sequence Iterable Iterator
    Generator Awaitable Coroutine Literal Annotated list dict tuple set frozenset type"""
_TYPES: Final = frozenset(_TYPES_TEXT.split())
_METADATA: Final = frozenset({"__version__", "__author__", "__email__", "__license__", "__copyright__", "__date__"})
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
            names = (
                node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            )
            self._names_at_run = frozenset(names)
        return self._names_at_run

    @property
    def bound_names(self) -> frozenset[str]:
        """The names that the top level of the module binds by definitions, plain assignments and imports."""
        names = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef | Function)}
        assignments = [node for node in self.tree.body if isinstance(node, ast.Assign)]
        names |= {target.id for node in assignments for target in node.targets if isinstance(target, ast.Name)}
        return frozenset(names | set(self.origins))

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
        first = 0
        try:
            trees = (_parse(lines), _parse([*lines[:start], *old_lines, *lines[end:]]))
        except (SyntaxError, ValueError, SystemError):
            return "code"
    for tree, count in zip(trees, (end - start, len(old_lines)), strict=True):
        tree.body = _select_statements(tree.body, start - first, start - first + count)
    return _compare(module, *trees)


def _select_statements(body: list[ast.stmt], start: int, end: int) -> list[ast.stmt]:
    """Return the statements that a range of lines touches, of classes only those within: all others are the same."""
    selected = [statement for statement in body if _get_first_line(statement) <= end and _get_end(statement) >= start]
    for statement in selected:
        if isinstance(statement, ast.ClassDef):
            statement.body = _select_statements(statement.body, start, end)
    return selected


def _get_first_line(statement: ast.stmt) -> int:
    """Return the first line of a statement (0-indexed), that of its decorators included."""
    decorators = getattr(statement, "decorator_list", ())
    line: int = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return line - 1


def _get_end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _compare(module: PythonModule, new: ast.Module, old: ast.Module) -> PythonDifference:
    if ast.dump(new) == ast.dump(old):
        return "format"
    new, old = _strip(new, _DocumentationRemover()), _strip(old, _DocumentationRemover())
    if ast.dump(new) == ast.dump(old):
        return "docs"
    new, old = _strip(new, _AnnotationRemover()), _strip(old, _AnnotationRemover())
    if ast.dump(new) == ast.dump(old):
        return "types"
    copies = copy.deepcopy((new, old)) if _has_decorators(new) and _has_decorators(old) else None
    difference = _compare_values(module, new, old)
    return (
        "decorated" if difference == "code" and copies is not None and _equal_but_for_decorated(*copies) else difference
    )


def _has_decorators(tree: ast.Module) -> bool:
    return any(isinstance(node, Function) and node.decorator_list for node in ast.walk(tree))


def _equal_but_for_decorated(new: ast.Module, old: ast.Module) -> bool:
    """Return True if two trees differ in annotations of decorated functions alone."""
    new, old = (_strip(tree, _AnnotationRemover(with_decorated=True)) for tree in (new, old))
    return ast.dump(new) == ast.dump(old)


def _compare_values(module: PythonModule, new: ast.Module, old: ast.Module) -> PythonDifference:
    """Compare trees without documentation and annotations."""
    new.body, old.body = _remove_metadata(new.body), _remove_metadata(old.body)
    if ast.dump(new) == ast.dump(old):
        return "data"
    added_imports, removed_imports = set(_list_imports(new)), set(_list_imports(old))
    new, old = _strip(new, _ImportRemover()), _strip(old, _ImportRemover())
    spelling = _compare_spellings(module, new, old)
    if spelling == "code" or added_imports == removed_imports:
        return spelling
    imports = _classify_imports(module, added_imports - removed_imports, removed_imports - added_imports)
    return imports if imports == "code" or spelling in ("imports", "types") else spelling


def _remove_metadata(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements without those that only give the module a version, an author and the like."""
    return [
        statement
        for statement in body
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant))
        or not all(_get_last_name(target) in _METADATA for target in statement.targets)
    ]


def _compare_spellings(module: PythonModule, new: ast.Module, old: ast.Module) -> PythonDifference:
    """Compare trees without annotations and imports: `imports` if nothing else differs, `types` if only types are
    new."""
    _remove_added_exports(module, new, old)
    if ast.dump(new) == ast.dump(old):
        return "imports"
    _remove_added_types(module, new, old)
    if ast.dump(new) == ast.dump(old):
        return "types"
    defined = {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}
    others = defined | {name for name, origins in module.origins.items() if not any(map(_is_typing_origin, origins))}
    new, old = unify_spellings(new, others), unify_spellings(old, others)
    if ast.dump(new) == ast.dump(old):
        return "format"
    return "rename" if ast.dump(unify_locals(new)) == ast.dump(unify_locals(old)) else "code"


def _remove_added_exports(module: PythonModule, new: ast.Module, old: ast.Module) -> None:
    """Remove `__all__` from two trees if the new one has only more names in it, and the module binds each of them."""
    sides = [[names for statement in tree.body if (names := _list_exports(statement))] for tree in (new, old)]
    if list(map(len, sides)) != [1, 1] or not sides[1][0] < sides[0][0] <= module.bound_names:
        return
    for tree in (new, old):
        tree.body = [statement for statement in tree.body if not _list_exports(statement)]


def _list_exports(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement assigns to `__all__`, none if it does something else."""
    if not isinstance(statement, ast.Assign) or [_get_last_name(target) for target in statement.targets] != ["__all__"]:
        return frozenset()
    items = statement.value.elts if isinstance(statement.value, ast.List | ast.Tuple) else []
    names = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return frozenset(names) if len(names) == len(items) else frozenset()


def _is_typing_origin(origin: str) -> bool:
    return origin.partition(":")[0] in TYPING


def _remove_added_types(module: PythonModule, new: ast.Module, old: ast.Module) -> None:
    """Remove from the top level of two trees the types that only one defines, if nothing reads them but annotations.
    A public one that is gone may be missed by another module."""
    sides = [{name for statement in tree.body for name in _list_defined_types(statement)} for tree in (new, old)]
    single = (sides[0] - sides[1]) | {name for name in sides[1] - sides[0] if name.startswith("_")}
    single -= module.names_at_run if single else set()
    for tree in (new, old):
        tree.body = [statement for statement in tree.body if single.isdisjoint(_list_defined_types(statement))]


def _list_defined_types(statement: ast.stmt) -> list[str]:
    """Return the name that a statement gives to a type, if it does that."""
    if isinstance(statement, ast.ClassDef) and _is_protocol(statement):
        return [statement.name]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target = statement.targets[0]
    is_type = _is_type_variable(statement.value) or _is_type_expression(statement.value)
    return [target.id] if is_type and isinstance(target, ast.Name) else []


def _is_protocol(node: ast.ClassDef) -> bool:
    """Return True for a class that only type checkers read."""
    bases = {_get_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}
    return bases == {"Protocol"} and not node.decorator_list and not any(map(_has_body, node.body))


def _has_body(statement: ast.stmt) -> bool:
    if not isinstance(statement, Function):
        return not isinstance(statement, ast.Pass | ast.AnnAssign)
    return not all(isinstance(inner, ast.Pass) for inner in statement.body)


def _is_type_variable(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _get_last_name(value.func) in _TYPE_VARIABLES


def _is_type_expression(value: ast.expr) -> bool:
    """Return True for a type with parameters out of a module for types."""
    if isinstance(value, ast.BinOp):
        return _is_type_expression(value.left) or _is_type_expression(value.right)
    is_generic = isinstance(value, ast.Subscript) and is_of_typing(value.value)
    return is_generic and isinstance(value, ast.Subscript) and _get_last_name(value.value) in _TYPES


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
        above, below = _get_first_line(statement), _get_end(statement)
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
            module = "typing" if module in TYPING else module
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

    def __init__(self, *, with_decorated: bool = False) -> None:
        self._with_decorated = with_decorated
        self._fields = [False]  # of the blocks around a node: True where an annotation can make a field

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.type_params = []  # type: ignore[attr-defined]  # since Python 3.12
        bases = {_get_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases}
        node.bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        node.bases = [base for base in node.bases if _get_last_name(base) != "Generic"]
        self._fields.append(bool(node.decorator_list or node.keywords or bases - _PLAIN_BASES))
        self.generic_visit(node)
        self._fields.pop()
        if _is_protocol(node):
            node.body = []
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Function | None:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Function | None:
        return self._visit_function(node)

    def _visit_function(self, node: Function) -> Function | None:
        decorators = {_get_last_name(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list}
        if "overload" in decorators:
            return None
        if self._with_decorated or decorators <= _BLIND_DECORATORS:
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
        if _is_type_variable(node):
            node.args, node.keywords = node.args[:1], []  # the bounds of a type variable
        return node.args[1] if is_cast and is_of_typing(node.func) else node


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


def _is_generic(base: ast.expr) -> bool:
    return isinstance(base, ast.Subscript) and _get_last_name(base.value) == "Generic"
