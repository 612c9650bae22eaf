"""Symbols and definitions of a file, and the position of a line in its syntax tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from core.syntax.grammars import parse_syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_FUNCTIONS: Final = frozenset(
    {
        "arrow_function",
        "function_expression",
        "function",
        "generator_function",
        "class",
    }
)
_NAMED: Final = frozenset(  # definitions with a name and without a body
    {
        "type_alias_declaration",
        "type_spec",
        "type_item",
        "const_item",
        "static_item",
        "macro_definition",
        "method",
        "singleton_method",
        "module",
        "class",
        "method_declaration",
        "enum_declaration",
        "interface_declaration",
        "function_signature",
        "function_signature_item",
        "struct_item",
    }
)
_EXPRESSIONS: Final = frozenset({"function_expression", "struct_expression"})  # named expressions that define nothing
_VALUES: Final = frozenset({"const_spec", "var_spec"})
_KINDS: Final = (  # by a part of the node's type; the first match wins
    ("interface", "interface"),
    ("trait", "interface"),
    ("enum", "enum"),
    ("class", "class"),
    ("struct", "class"),
    ("record", "class"),
    ("module", "module"),
    ("mod_item", "module"),
    ("namespace", "module"),
    ("type", "type"),
    ("method", "method"),
    ("constructor", "method"),
    ("function", "function"),
    ("macro", "function"),
)
MOST_NESTED: Final = 50
"""Maximum nesting of definitions; deeper ones are generated code, and their cost is quadratic."""
_STATEMENT_PARTS: Final = 2  # the depth of the parts of a top-level statement
_METHOD_OWNERS: Final = frozenset({"class", "interface", "enum"})
_OUTERMOST: Final = frozenset(
    {"decorated_definition", "export_statement", "lexical_declaration", "variable_declaration", "type_declaration"}
)
_PASSED_BY: Final = frozenset(
    {"string", "template_string", "comment", "parameters", "formal_parameters", "type_annotation", "jsx_element"}
)
_EXPRESSIONS_OF_PYTHON: Final = """
argument_list assert_statement attribute await binary_operator boolean_operator call comparison_operator
conditional_expression decorator dictionary dotted_name expression_statement generator_expression identifier
import_from_statement import_statement integer keyword_argument lambda list list_comprehension not_operator
pattern_list raise_statement return_statement subscript tuple unary_operator with_clause yield"""
_PASSED_BY_IN_PYTHON: Final = _PASSED_BY.union(_EXPRESSIONS_OF_PYTHON.split())  # frequent nodes without definitions


class Symbol(NamedTuple):
    """A definition: its name, its qualified name (`Class.method`), its lines with decorators (0-indexed, inclusive),
    and its kind: function, method, class, interface, enum, type, module or constant."""

    name: str
    qualified: str
    first: int
    last: int
    kind: str = "function"


class _Step(NamedTuple):
    """A node to visit: the outermost node with the same extent (with decorators and `export`), its depth in the tree,
    the enclosing symbol and its kind, and the number of enclosing definitions."""

    node: Node
    outer: Node
    level: int
    scope: str
    above: str
    depth: int


def find_symbols(path: str, text: str) -> tuple[Symbol, ...] | None:
    """Find the symbols that a file defines, including nested ones, in order; None if the language is unknown."""
    root = parse_syntax(path, text)
    return None if root is None else tuple(_iterate_symbols(root))


def match_symbol(symbol: Symbol, name: str) -> bool:
    """True if a name in common notation (`method`, `Class.method`, `Class::method`) refers to this symbol."""
    dotted_name = name.replace("::", ".").replace("#", ".")
    return symbol.name == dotted_name or f".{symbol.qualified}".endswith(f".{dotted_name}")


def _iterate_symbols(root: Node) -> Iterator[Symbol]:
    """Walk the tree, passing down what is known of the ancestors, as `Node.parent` searches from the root."""
    passed_by = _PASSED_BY_IN_PYTHON if root.type == "module" else _PASSED_BY
    passed_by_at_top = passed_by - {"expression_statement"}  # only a top-level assignment is a constant
    waiting = [_Step(root, root, 0, "", "", 0)]
    while waiting:
        node, outer, level, scope, above, depth = waiting.pop()
        name = _find_name(node, outer, is_outer=level == _STATEMENT_PARTS)
        inner, kind = scope, above
        if name:
            if (depth := depth + 1) > MOST_NESTED:
                continue
            receiver = _find_receiver(node)
            owner = receiver or scope
            inner = f"{owner}.{name}" if owner else name
            kind = _classify(node, "class" if receiver else above)
            yield Symbol(name, inner, outer.start_point[0], outer.end_point[0], kind)
        elif node.type == "impl_item":
            inner, kind = _read_text(node.child_by_field_name("type")).partition("<")[0], "class"
        skipped_kinds = passed_by_at_top if node is root else passed_by
        children = [child for child in reversed(node.named_children) if child.type not in skipped_kinds]
        is_part = node.type in _OUTERMOST and node.named_child_count <= _count_decorators(node) + 1
        waiting += [_Step(child, outer if is_part else child, level + 1, inner, kind, depth) for child in children]


def _classify(node: Node, above: str) -> str:
    """Return the kind of a definition; `above`: the kind of the enclosing one."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    node_type = value.type if value is not None and value.type in _FUNCTIONS else node.type
    node_type = "function" if node_type == "arrow_function" else node_type
    kind = next((kind for part, kind in _KINDS if part in node_type), "constant")
    return "method" if kind == "function" and above in _METHOD_OWNERS else kind


def _find_name(node: Node, outer: Node, *, is_outer: bool) -> str:
    """Return the name that a node defines, "" = none; `outer` is the statement of the same extent."""
    name_node = node.child_by_field_name("name")
    if name_node is None:
        return _find_assigned_name(node, is_outer=is_outer)
    kind = node.type
    if kind in _EXPRESSIONS:
        return ""
    if node.child_by_field_name("body") is not None or kind in _NAMED:
        return _read_text(name_node)
    value = node.child_by_field_name("value")
    if kind in _VALUES:
        return _read_text(name_node) if is_outer else ""
    if kind == "variable_declarator":
        is_function = value is not None and value.type in _FUNCTIONS
        counts = is_function or is_outer or outer.type == "export_statement"
        return _read_text(name_node) if name_node.type == "identifier" and counts else ""
    is_field = kind in ("public_field_definition", "field_definition", "pair")
    return _read_text(name_node) if is_field and value is not None and value.type in _FUNCTIONS else ""


def _find_assigned_name(node: Node, *, is_outer: bool) -> str:
    """Return the name that an assignment, a pair of an object, or a C declarator defines."""
    kind = node.type
    if kind == "function_definition":  # C: the name is in the innermost declarator
        inner = node.child_by_field_name("declarator")
        while inner is not None and inner.child_by_field_name("declarator") is not None:
            inner = inner.child_by_field_name("declarator")
        return _read_text(inner).rpartition("::")[2]
    if kind == "assignment":
        left_node = node.child_by_field_name("left")
        return _read_text(left_node) if is_outer and left_node is not None and left_node.type == "identifier" else ""
    if kind not in ("assignment_expression", "pair", "field_definition"):
        return ""
    side, value = ("left", "right") if kind == "assignment_expression" else ("key", "value")
    value_node = node.child_by_field_name(value)
    if value_node is None or value_node.type not in _FUNCTIONS:
        return ""
    target = node.child_by_field_name(side) or node.child_by_field_name("property")
    name = _read_text(target).rpartition(".")[2]
    return name if name.isidentifier() else ""


def _find_receiver(node: Node) -> str:
    """Return the receiver type of a Go method, "" = none."""
    receiver = node.child_by_field_name("receiver") if node.type == "method_declaration" else None
    words = _read_text(receiver).strip("()").split()
    return words[-1].lstrip("*").partition("[")[0] if words else ""


def _count_decorators(node: Node) -> int:
    return sum(child.type == "decorator" for child in node.named_children)


def _read_text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""


class Definition(NamedTuple):
    """A named part of a file; lines are 0-indexed and inclusive. `first` includes decorators, `own` does not."""

    name: str
    first: int
    own: int
    last: int


class SyntaxPosition(Struct, frozen=True, kw_only=True):
    """The types of the nodes around the first character of a line, innermost first, and of those that begin there."""

    within: tuple[str, ...]
    begins: tuple[str, ...]


def find_position(path: str, text: str, line: int) -> SyntaxPosition | None:
    """Find the position of a non-blank line (1-indexed) in the tree; None if the language is unknown."""
    root = parse_syntax(path, text)
    body = text.split("\n")[line - 1] if root is not None else ""
    if root is None or not body.strip():
        return None
    column = len(body[: len(body) - len(body.lstrip())].encode("utf-8", "surrogatepass"))
    point = (line - 1, column)
    node = root.descendant_for_point_range(point, (line - 1, column + 1))
    within, begins = [], []
    while node is not None:
        within.append(node.type)
        begins += [node.type] if tuple(node.start_point) == point else []
        node = node.parent
    return SyntaxPosition(within=tuple(within), begins=tuple(begins))


def find_definitions(path: str, text: str) -> tuple[Definition, ...] | None:
    """Find every named definition, including nested ones, in order; None if the language is unknown."""
    root = parse_syntax(path, text)
    if root is None:
        return None
    definitions: list[Definition] = []
    waiting = [(root, root)]
    while waiting:
        node, outer = waiting.pop()
        is_part = node.type in ("decorated_definition", "export_statement")
        waiting += [(child, outer if is_part else child) for child in reversed(node.children)]
        name = node.child_by_field_name("name")
        if name is not None and name.text is not None and node.child_by_field_name("body") is not None:
            first, definition_line, last = outer.start_point[0], node.start_point[0], node.end_point[0]
            definitions.append(Definition(name.text.decode("utf-8", "replace"), first, definition_line, last))
    return tuple(definitions)
