"""Small changes of a line, each of which a good test would notice: other bounds, other numbers, other conditions.

Few are drawn, those first that are seldom equivalent: a bound, a number, a negation. None is drawn where nobody tests:
messages, logging, `__repr__`, types, decorators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.syntax.grammars import parse_syntax

if TYPE_CHECKING:
    from tree_sitter import Node

# Operators with what stands in their place, in the order in which they are drawn.
_OPERATORS: Final[tuple[dict[str, str], ...]] = (
    {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    {
        "==": "!=",
        "!=": "==",
        "===": "!==",
        "!==": "===",
        "in": "not in",
        "not in": "in",
        "is": "is not",
        "is not": "is",
    },
    {"and": "or", "or": "and", "&&": "||", "||": "&&"},
    {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*"},
)
_OPERATIONS: Final = frozenset(
    {"binary_expression", "comparison_operator", "boolean_operator", "binary_operator", "binary"}
)
_NUMBERS: Final = frozenset({"integer", "number", "int_literal", "integer_literal", "decimal_integer_literal"})
_INTEGER: Final = compile_lazily(r"\d{1,9}")
_NEGATIONS: Final = frozenset({"not_operator", "unary_expression"})
_CONSTANTS: Final = {"True": "False", "False": "True", "true": "false", "false": "true"}
_CALLS: Final = frozenset({"call", "call_expression", "method_invocation"})
_QUIET_CALL: Final = compile_lazily(
    r"(?:.*\.)?(?:log|logger|logging|_log|_logger|warnings|console|print|println|eprintln|printf|echo|debug|info|warn"
    r"|warning|error|exception|fmt|trace)(?:\.\w+)?!?"
)
_QUIET_TEXT: Final = """
    raise_statement throw_statement decorator type_annotation type string template_string import_statement
    import_from_statement comment assert_statement type_parameters interface_declaration type_alias_declaration"""
_QUIET: Final = frozenset(_QUIET_TEXT.split())
_QUIET_FUNCTIONS: Final = frozenset({"__repr__", "__str__", "toString", "inspect", "fmt", "String"})
_FUNCTIONS: Final = frozenset(
    {"function_definition", "method_definition", "function_declaration", "method_declaration"}
)
# What is assigned, by the kind of assignment.
_VALUES: Final = {
    "assignment": "right",
    "assignment_expression": "right",
    "variable_declarator": "value",
}
_LOSS: Final = 6  # the rank of a lost value
_MOST_LENGTH: Final = 40  # characters of a condition that is negated


class Mutation(Struct, frozen=True, order=True):
    """One change of a file: the bytes `start` to `end` of its UTF-8 text become `new`. `rank`: the lower, the earlier
    it is drawn; `line` is 1-indexed. `replacement`: the new text, if `new` only describes it."""

    rank: int
    line: int
    start: int
    end: int
    old: str
    new: str
    replacement: str = ""

    @property
    def is_loss(self) -> bool:
        """True if a value is lost, and nothing else takes its place."""
        return self.rank == _LOSS

    def apply(self, data: bytes) -> bytes:
        """Return the text with the change."""
        return data[: self.start] + (self.replacement or self.new).encode() + data[self.end :]

    def describe(self) -> str:
        """Describe it in a few characters: `>= → >`."""
        return f"{self.old} → {self.new}"


def list_mutations(path: str, text: str, lines: Collection[int]) -> list[Mutation]:
    """List the changes of these lines (1-indexed), those first that are drawn first; at most one a line."""
    root = parse_syntax(path, text)
    if root is None or root.has_error:
        return []
    drawn = dict[int, Mutation]()
    for mutation in sorted(_iterate_mutations(root, frozenset(lines))):
        drawn.setdefault(mutation.line, mutation)
    return sorted(drawn.values())


def list_removals(path: str, text: str, lines: Collection[int]) -> list[Mutation]:
    """List the functions that lie in these lines, with each its body as what is removed; [] = there is at most one."""
    root = parse_syntax(path, text)
    if root is None or root.has_error:
        return []
    removals, waiting = list[Mutation](), [root]
    while waiting:
        node = waiting.pop()
        if not _is_quiet(node):
            waiting.extend(node.named_children)
            if {node.start_point[0] + 1, node.end_point[0] + 1} <= set(lines):
                removals += _remove_body(node)
    return sorted(removals) if len(removals) > 1 else []


def list_lost_values(path: str, text: str, lines: Collection[int]) -> list[Mutation]:
    """List the changes that lose a value which is assigned or returned on these lines; at most one a line."""
    root = parse_syntax(path, text)
    if root is None or root.has_error:
        return []
    lost, waiting = dict[int, Mutation](), [root]
    while waiting:
        node = waiting.pop()
        if _is_quiet(node):
            continue
        waiting.extend(node.named_children)
        value = node.child_by_field_name(_VALUES[node.type]) if node.type in _VALUES else None
        if node.type == "return_statement" and node.named_children:
            value = node.named_children[0]
        line = node.start_point[0] + 1
        if value is not None and line in lines and not _is_quiet(value) and value.type not in ("none", "null"):
            nothing = "None" if path.endswith((".py", ".pyi")) else "null"
            lost[line] = Mutation(_LOSS, line, value.start_byte, value.end_byte, _read(value)[:_MOST_LENGTH], nothing)
    return sorted(lost.values())


def _remove_body(node: Node) -> Iterator[Mutation]:
    """Yield the removal of the body of a function of Python or JavaScript that has one."""
    body, name = node.child_by_field_name("body"), node.child_by_field_name("name")
    if node.type not in _FUNCTIONS or body is None or name is None:
        return
    statements = [part for part in body.named_children if part.type not in ("comment", "pass_statement")]
    if statements and statements[0].type == "expression_statement" and _read(statements[0])[:1] in "\"'.":
        del statements[0]
    if statements and body.type in ("block", "statement_block"):
        start, end = statements[0], statements[-1]
        empty = "pass" if body.type == "block" else ";"
        line = start.start_point[0] + 1
        yield Mutation(0, line, start.start_byte, end.end_byte, f"{_read(name)}()", "nothing", empty)


def _iterate_mutations(root: Node, lines: frozenset[int]) -> Iterator[Mutation]:
    first, last = min(lines, default=0), max(lines, default=0)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.end_point[0] + 1 < first or node.start_point[0] + 1 > last or _is_quiet(node):
            continue
        if node.start_point[0] + 1 in lines or node.type in _OPERATIONS:
            yield from (mutation for mutation in _mutate(node) if mutation.line in lines)
        waiting.extend(node.children)


def _is_quiet(node: Node) -> bool:
    if node.type in _QUIET:
        return True
    if node.type in _CALLS:
        function = node.child_by_field_name("function") or node.child_by_field_name("name")
        return function is not None and _QUIET_CALL.fullmatch(_read(function)) is not None
    if node.type in _FUNCTIONS:
        name = node.child_by_field_name("name")
        return name is not None and _read(name) in _QUIET_FUNCTIONS
    return False


def _mutate(node: Node) -> Iterator[Mutation]:
    text = _read(node) if not node.named_children else ""
    if node.type in _OPERATIONS:
        for child in node.children:
            for rank, operators in enumerate(_OPERATORS):
                if not child.is_named and child.type in operators:
                    yield _build(child, operators[child.type], rank if rank < 1 else rank + 1)
    elif node.type in _NUMBERS and _INTEGER.fullmatch(text):
        yield _build(node, str(int(text) + 1), 1)
    elif node.type in _NEGATIONS and node.children[0].type in ("not", "!") and node.named_child_count:
        inner = node.named_children[-1]
        if node.start_point[0] == node.end_point[0] and node.end_byte - node.start_byte <= _MOST_LENGTH:
            yield _build(node, _read(inner), 2)
    elif text in _CONSTANTS and node.type in (*_CONSTANTS, "boolean_literal"):
        yield _build(node, _CONSTANTS[text], 5)


def _build(node: Node, new: str, rank: int) -> Mutation:
    return Mutation(rank, node.start_point[0] + 1, node.start_byte, node.end_byte, _read(node), new)


def _read(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
