"""Statements of Python that do the same in another spelling, brought to one form.

These are the changes that tools for newer syntax make by the thousand: `super(A, self)` and `super()`, `%` and
f-strings, `typing.List[int]` and `list[int]`. No test can tell the two sides apart, so nobody should have to look at
them. `"%s" % (a,)` is `f"{a!s}"` and not `f"{a}"`, which asks a class with a `__format__` of its own (an enumeration).
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Sequence
from typing import Final

from core.patterns import compile_lazily

Function = ast.FunctionDef | ast.AsyncFunctionDef

_MODULES_TEXT: Final = "typing t _t tp tt typing_extensions te _te collections.abc cabc abc"
TYPING: Final = frozenset(_MODULES_TEXT.split())
_GENERICS: Final = {
    "List": "list",
    "Dict": "dict",
    "Tuple": "tuple",
    "Set": "set",
    "FrozenSet": "frozenset",
    "Type": "type",
    "Text": "str",
}
_ALIASES: Final = {"IOError": "OSError", "EnvironmentError": "OSError"}
_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {ast.In: ast.NotIn, ast.Is: ast.IsNot}
_PERCENT: Final = compile_lazily(r"%(?:%|[sr])")
_FIELD: Final = compile_lazily(r"\{\{|\}\}|\{(\d*|[^\W\d]\w*)(![sr])?\}")


def unify_spellings(tree: ast.Module, others: Container[str] = ()) -> ast.Module:
    """Return the tree with each statement in one spelling; the tree itself is changed. `others`: names that do not come
    from a module for types."""
    unified: ast.Module = _Unifier(others).visit(tree)
    return unified


def unify_locals(tree: ast.Module) -> ast.Module:
    """Return the tree with the local variables of its functions numbered; the tree itself is changed."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            _number_locals(node)
    return tree


def is_of_typing(node: ast.expr) -> bool:
    """Return True for a name alone, and for an attribute of a module for types."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id in TYPING
    return isinstance(node, ast.Name)


class _Unifier(ast.NodeTransformer):
    def __init__(self, others: Container[str]) -> None:
        self._others = others
        self._class = ""  # the class whose body is visited
        self._own = ("", "")  # of the method that is visited: its class, and the name of its first parameter

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, _flatten(statements))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        outer, self._class = self._class, node.name
        node.bases = [base for base in node.bases if not (isinstance(base, ast.Name) and base.id == "object")]
        self.generic_visit(node)
        self._class = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def _visit_function(self, node: Function) -> ast.AST:
        parameters = [*node.args.posonlyargs, *node.args.args]
        outer = self._own, self._class
        self._own, self._class = (self._class, parameters[0].arg if parameters else ""), ""
        self.generic_visit(node)
        self._own, self._class = outer
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self._visit_scope(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._visit_scope(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._visit_scope(node)

    def _visit_scope(self, node: ast.AST) -> ast.AST:
        """Visit what has no first parameter that `super()` could find."""
        outer, self._own = self._own, ("", "")
        self.generic_visit(node)
        self._own = outer
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        node.kind = None  # the `u` before a string
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = _ALIASES.get(node.id, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in TYPING:
            node.value.id = "typing"
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.Compare) and len(inner.ops) == 1:
            opposite = _OPPOSITES.get(type(inner.ops[0]))
            if opposite is not None:
                inner.ops = [opposite()]
                return inner
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Bring generic types to their newer form."""
        self.generic_visit(node)
        name = _get_last_name(node.value)
        if not is_of_typing(node.value) or (isinstance(node.value, ast.Name) and name in self._others):
            return node
        if name in _GENERICS:
            node.value = ast.Name(_GENERICS[name], ast.Load())
        elif name in ("Union", "Optional"):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return _join_types([*parts, ast.Constant(None)] if name == "Optional" else parts)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            values = node.right.elts if isinstance(node.right, ast.Tuple) else None
            parts = _split_percent(node.left.value, values) if values is not None else None
            return node if parts is None else ast.JoinedStr(parts)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Name) and function.id == "super" and not node.keywords:
            names = tuple(argument.id if isinstance(argument, ast.Name) else "" for argument in node.args)
            node.args = [] if all(names) and names == self._own else node.args
        if isinstance(function, ast.Name) and function.id == "zip":
            node.keywords = [keyword for keyword in node.keywords if not _is_default(keyword, "strict", False)]
        if not isinstance(function, ast.Attribute):
            return node
        if function.attr in ("encode", "decode") and not node.keywords and _are_constants(node.args, ("utf-8",)):
            node.args = []
        if function.attr == "format" and isinstance(function.value, ast.Constant):
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            parts = _split_format(function.value.value, node.args, keywords)
            return node if parts is None else ast.JoinedStr(parts)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return ast.JoinedStr(_merge(node.values))


def _flatten(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Put what stands in the `else` of a branch that ends behind it."""
    result = list[ast.stmt]()
    for statement in statements:
        result.append(statement)
        if isinstance(statement, ast.If) and statement.orelse and isinstance(statement.body[-1], _ENDS):
            result += statement.orelse
            statement.orelse = []
    return result


def _join_types(parts: Sequence[ast.expr]) -> ast.expr:
    joined = parts[0]
    for part in parts[1:]:
        joined = ast.BinOp(joined, ast.BitOr(), part)
    return joined


def _is_default(keyword: ast.keyword, name: str, value: object) -> bool:
    return keyword.arg == name and isinstance(keyword.value, ast.Constant) and keyword.value.value is value


def _are_constants(nodes: Sequence[ast.expr], values: Sequence[str]) -> bool:
    return [node.value if isinstance(node, ast.Constant) else None for node in nodes] == [*values]


def _split_percent(text: str, values: Sequence[ast.expr]) -> list[ast.expr] | None:
    """Return the parts of a text with `%s` and `%r` as those of an f-string; None = there is more in it."""
    if len([sign for sign in _PERCENT.findall(text) if sign != "%%"]) != len(values):
        return None
    if _PERCENT.sub("", text).count("%") or any(isinstance(value, ast.Starred) for value in values):
        return None
    parts, waiting, start = list[ast.expr](), list(values), 0
    for match in _PERCENT.finditer(text):
        parts.append(ast.Constant(text[start : match.start()] + ("%" if match[0] == "%%" else "")))
        if match[0] != "%%":
            parts.append(_build_value(waiting.pop(0), match[0][1]))
        start = match.end()
    return _merge([*parts, ast.Constant(text[start:])])


def _split_format(
    text: object, values: Sequence[ast.expr], keywords: dict[str | None, ast.expr]
) -> list[ast.expr] | None:
    """Return the parts of a text with fields as those of an f-string; None = there is more in it."""
    if not isinstance(text, str) or None in keywords or any(isinstance(value, ast.Starred) for value in values):
        return None
    if any(sign in _FIELD.sub("", text) for sign in "{}"):
        return None
    fields = keywords | {str(number): value for number, value in enumerate(values)}
    parts, start, count = list[ast.expr](), 0, 0
    for match in _FIELD.finditer(text):
        parts.append(ast.Constant(text[start : match.start()] + (match[0][0] if match[1] is None else "")))
        start = match.end()
        if match[1] is None:
            continue
        value = fields.get(match[1] or str(count))
        count += not match[1]
        if value is None:
            return None
        parts.append(_build_value(value, (match[2] or "")[1:]))
    return _merge([*parts, ast.Constant(text[start:])])


def _build_value(value: ast.expr, conversion: str) -> ast.FormattedValue:
    return ast.FormattedValue(value, ord(conversion) if conversion else -1, None)


def _merge(values: Iterable[ast.expr]) -> list[ast.expr]:
    """Join the texts beside each other, those that are values, too, and leave out the empty ones."""
    merged = list[ast.expr]()
    for value in values:
        if isinstance(value, ast.Constant) and merged and isinstance(merged[-1], ast.Constant):
            merged[-1] = ast.Constant(str(merged[-1].value) + str(value.value))
        elif not isinstance(value, ast.Constant) or value.value:
            merged.append(value)
    return merged


def _number_locals(function: Function) -> None:
    """Give local variables numbers in place of names, unless something else may know them by name."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    if any(isinstance(node, _KNOWING_NAMES) for node in nodes):
        return
    names = [node for node in nodes if isinstance(node, ast.Name)]
    if any(name.id in ("locals", "eval", "exec", "vars", "dir") for name in names):
        return
    inner = {name.id for node in nodes if isinstance(node, ast.comprehension) for name in _list_names(node.target)}
    stored = {name.id for name in names if not isinstance(name.ctx, ast.Load)} - inner
    stored -= {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    numbers = dict[str, str]()
    for name in names:
        if name.id in stored:
            name.id = numbers.setdefault(name.id, f"<{len(numbers)}>")


_KNOWING_NAMES: Final = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Import,
    ast.ImportFrom, ast.ExceptHandler, ast.Delete,
)  # fmt: skip


def _list_names(node: ast.AST) -> list[ast.Name]:
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]


def _get_last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
