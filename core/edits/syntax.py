"""Syntax of a file of a known language: the one module that opens tree-sitter, at first use.

Grammars are separate distributions; one that is not installed is a language that is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from core.text.lines import split_lines

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_GRAMMARS: Final = {
    "tree_sitter_python": ("language", "py pyi"),
    "tree_sitter_javascript": ("language", "js jsx mjs cjs"),
    "tree_sitter_typescript": ("language_typescript", "ts mts cts"),
    "tree_sitter_typescript tsx": ("language_tsx", "tsx"),
    "tree_sitter_go": ("language", "go"),
    "tree_sitter_rust": ("language", "rs"),
    "tree_sitter_java": ("language", "java"),
    "tree_sitter_json": ("language", "json"),
    "tree_sitter_html": ("language", "html htm"),
    "tree_sitter_css": ("language", "css"),
    "tree_sitter_c": ("language", "c"),
    "tree_sitter_cpp": ("language", "cpp cc cxx hpp hh hxx"),
    "tree_sitter_c_sharp": ("language", "cs"),
    "tree_sitter_bash": ("language", "sh bash"),
    "tree_sitter_ruby": ("language", "rb"),
    "tree_sitter_php": ("language_php", "php"),
}
_BY_ENDING: Final = {ending: name for name, (_, endings) in _GRAMMARS.items() for ending in endings.split()}
_LARGEST: Final = 4_000_000
_ASKED = 200


class SyntaxFlaw(Struct, frozen=True, kw_only=True):
    """A place that does not parse: 1-indexed line, and what is missing there ("" for something unexpected)."""

    line: int
    missing: str = ""


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


def find_flaws(path: str, text: str, *, limit: int = 20) -> tuple[SyntaxFlaw, ...] | None:
    """Find what does not parse, in order; None when the language is not known or the text is too long."""
    root = _parse(path, text)
    if root is None:
        return None
    found: list[SyntaxFlaw] = []
    waiting = [root] if root.has_error else []
    while waiting and len(found) < limit:
        node = waiting.pop()
        if node.is_missing or node.is_error:
            found.append(SyntaxFlaw(line=node.start_point[0] + 1, missing=node.type if node.is_missing else ""))
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return tuple(found)


def find_position(path: str, text: str, line: int) -> SyntaxPosition | None:
    """Find where a line (1-indexed) that is not blank begins in the tree; None when the language is not known."""
    root = _parse(path, text)
    body = text.split("\n")[line - 1] if root is not None else ""
    if root is None or not body.strip():
        return None
    column = len(body[: len(body) - len(body.lstrip())].encode("utf-8", "surrogatepass"))
    at = (line - 1, column)
    node = root.descendant_for_point_range(at, (line - 1, column + 1))
    within, begins = [], []
    while node is not None:
        within.append(node.type)
        begins += [node.type] if tuple(node.start_point) == at else []
        node = node.parent
    return SyntaxPosition(within=tuple(within), begins=tuple(begins))


def find_definitions(path: str, text: str) -> tuple[Definition, ...] | None:
    """Find every named definition, nested ones too, in order; None when the language is not known."""
    root = _parse(path, text)
    if root is None:
        return None
    found: list[Definition] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        name = node.child_by_field_name("name")
        if name is not None and name.text is not None and node.child_by_field_name("body") is not None:
            first, own, last = _find_outermost(node).start_point[0], node.start_point[0], node.end_point[0]
            found.append(Definition(name.text.decode("utf-8", "replace"), first, own, last))
    return tuple(found)


def _find_outermost(node: Node) -> Node:
    parent = node.parent
    while parent is not None and parent.type in ("decorated_definition", "export_statement"):
        node, parent = parent, parent.parent
    return node


def _parse(path: str, text: str) -> Node | None:
    """The root of a file's tree; None when the language is not known or the text is too long."""
    parser = _load_parser(PurePath(path).suffix.lower().removeprefix("."))
    if parser is None or len(text) > _LARGEST:
        return None
    return parser.parse(text.encode("utf-8", "surrogatepass")).root_node


@cache
def _load_parser(ending: str) -> Parser | None:
    name = _BY_ENDING.get(ending)
    if name is None:
        return None
    try:
        from tree_sitter import Language, Parser

        grammar = import_module(name.split()[0])
        return Parser(Language(getattr(grammar, _GRAMMARS[name][0])()))
    except (ImportError, AttributeError, ValueError):
        return None


def find_new_flaws(path: str, before: str, after: str) -> tuple[SyntaxFlaw, ...]:
    """Find the flaws of `after` whose line did not have them in `before`, in order; none for an unknown language."""
    now = find_flaws(path, after, limit=_ASKED) if before != after else ()
    if not now:
        return ()
    known = Counter(_build_flaw_keys(before, find_flaws(path, before, limit=_ASKED) or ()))
    fresh = []
    for flaw, key in zip(now, _build_flaw_keys(after, now), strict=True):
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(flaw)
    return tuple(fresh)


def _build_flaw_keys(text: str, found: Sequence[SyntaxFlaw]) -> list[tuple[str, str]]:
    bodies = split_lines(text).bodies
    return [(bodies[flaw.line - 1].strip() if flaw.line <= len(bodies) else "", flaw.missing) for flaw in found]


def describe_first_flaw(path: str, before: str, after: str) -> str:
    """Describe the first place that does not parse, when everything parsed before; "" else."""
    if before == after or find_flaws(path, before, limit=1) != ():
        return ""
    found = find_flaws(path, after, limit=1)
    return describe_flaw(found[0]) if found else ""


def describe_flaw(flaw: SyntaxFlaw) -> str:
    """Describe a flaw with its line, for a model or a user."""
    what = f"{flaw.missing!r} is missing" if flaw.missing else "this does not parse"
    return f"line {flaw.line}: {what}"
