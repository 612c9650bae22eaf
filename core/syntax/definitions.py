"""Definitions of a file, and where a line stands in its syntax tree."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from core.syntax.grammars import parse_syntax


class Definition(NamedTuple):
    """A named part of a file: 0-indexed lines, inclusive. `first` is that of its decorators, `own` without them."""

    name: str
    first: int
    own: int
    last: int


class SyntaxPosition(Struct, frozen=True, kw_only=True):
    """The types of the nodes around the first character of a line, innermost first, and of those that begin there."""

    within: tuple[str, ...]
    begins: tuple[str, ...]


def find_position(path: str, text: str, line: int) -> SyntaxPosition | None:
    """Find where a line (1-indexed) that is not blank begins in the tree; None when the language is not known."""
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
    """Find every named definition, nested ones too, in order; None when the language is not known."""
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
