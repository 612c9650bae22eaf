"""The difference that a hunk makes in the syntax tree of a file in a language other than Python: only comments and
layout, only types, only imports, or code.

Two trees are the same if they have the same nodes in the same order, whatever the white space between them. Where the
grammar finds an error, or the language has no grammar, everything is code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from core.syntax.grammars import parse_syntax

if TYPE_CHECKING:
    from tree_sitter import Node

SyntaxDifference = Literal["format", "types", "imports", "code"]

_COMMENTS: Final = frozenset({"comment", "line_comment", "block_comment", "html_comment"})
# Of TypeScript: what the compiler removes. A file with decorators may read its types when it runs.
_TYPES_TEXT: Final = """
    type_annotation type_arguments type_parameters interface_declaration type_alias_declaration implements_clause
    function_signature asserts_annotation type_predicate_annotation"""
_TYPES: Final = frozenset(_TYPES_TEXT.split())
_READS_TYPES: Final = "decorator"
_IMPORTS_TEXT: Final = """
    import_statement import_declaration import_spec use_declaration using_directive namespace_use_declaration
    preproc_include"""
_IMPORTS: Final = frozenset(_IMPORTS_TEXT.split())
_NAMES: Final = frozenset({"identifier", "type_identifier", "package_identifier", "name", "namespace_identifier"})
_BINDINGS: Final = frozenset({"import_specifier", "namespace_import"})
_MOST_NODES: Final = 400_000


class _TooLarge(Exception):
    """A file has more nodes than are compared."""


def compare_syntax(path: str, pending: str, without: str) -> SyntaxDifference:
    """Return how the pending text of a file differs from the same text without a hunk."""
    new, old = parse_syntax(path, pending), parse_syntax(path, without)
    if new is None or old is None or new.has_error or old.has_error:
        return "code"
    try:
        if _list_nodes(new) == _list_nodes(old):
            return "format"
        hidden = frozenset() if _READS_TYPES in _list_types(new) | _list_types(old) else _TYPES
        if hidden and _list_nodes(new, hidden) == _list_nodes(old, hidden):
            return "types"
        hidden |= _IMPORTS
        if _list_nodes(new, hidden) == _list_nodes(old, hidden):
            return _classify_imports(_list_imports(new), _list_imports(old))
    except _TooLarge:
        pass
    return "code"


def _list_nodes(root: Node, hidden: frozenset[str] = frozenset()) -> list[str | bytes]:
    """List the types of the inner nodes, the texts of the leaves and the ends of the inner nodes, in their order."""
    return list(_iterate_nodes(root, hidden))


def _list_types(root: Node) -> set[str]:
    return {node for node in _iterate_nodes(root, frozenset()) if isinstance(node, str)}


def _iterate_nodes(root: Node, hidden: frozenset[str]) -> Iterator[str | bytes]:
    waiting: list[Node | None] = [root]
    count = 0
    while waiting:
        node = waiting.pop()
        if node is None:
            yield ")"
            continue
        if (count := count + 1) > _MOST_NODES:
            raise _TooLarge
        if node.type in _COMMENTS or node.type in hidden:
            continue
        children = node.children
        if not children:
            yield node.text or b""
            continue
        if node.type == "export_statement" and any(child.type in hidden for child in children):
            continue
        yield node.type
        waiting.append(None)
        waiting.extend(reversed(children))


def _list_imports(root: Node) -> set[tuple[str, ...]]:
    """Return the imports of a file, each with the names that it binds after its text. An import of several names from
    one module, in JavaScript, is as many imports."""
    imports = set[tuple[str, ...]]()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type not in _IMPORTS:
            waiting.extend(child for child in node.named_children if child.type not in _COMMENTS)
            continue
        source = node.child_by_field_name("source")
        if source is None:
            imports.add(("".join(_read(node).split()), _find_last_name(node)))
            continue
        bindings = [part for part in _iterate_inner(node) if part.type in _BINDINGS]
        alone = [part for part in _iterate_inner(node) if part.type == "import_clause"]
        bindings += [child for clause in alone for child in clause.named_children if child.type == "identifier"]
        imports |= {(f"{_read(source)}:{_read(part)}", _find_last_name(part)) for part in bindings}
        if not bindings:
            imports.add((_read(source),))
    return imports


def _iterate_inner(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        yield child
        yield from _iterate_inner(child)


def _find_last_name(node: Node) -> str:
    if node.type in _NAMES:
        return _read(node)
    names = [_read(child) for child in _iterate_inner(node) if child.type in _NAMES]
    return names[-1] if names else _read(node).strip("\"'<>").rpartition("/")[2]


def _read(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _classify_imports(new: set[tuple[str, ...]], old: set[tuple[str, ...]]) -> SyntaxDifference:
    """Classify a difference in imports alone: code if a name means something else, or if an import binds no name."""
    added, removed = new - old, old - new
    names = {name for _, *bound in added for name in bound}
    is_redirected = any(name in names for _, *bound in removed for name in bound)
    runs_alone = any(not bound for _, *bound in added | removed)
    return "code" if is_redirected or runs_alone else "imports"
