"""A reader of Seatbelt's profiles, for tests: which rule decides on an operation.

Two ways to read the order of rules are published: the last rule that matches decides; or a rule for the very operation
decides over one for its family (`file-write*`). A profile must mean the same both ways: `decide` wants both to agree.
"""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r'#?"(?:\\.|[^"\\])*"|[()]|[^\s()"]+')
Node = Any


class Profile:
    """A parsed profile."""

    def __init__(self, text: str) -> None:
        tokens = _TOKEN.findall(text)
        self.rules: list[Node] = []
        while tokens:
            self.rules.append(_parse(tokens))

    def decide(self, operation: str, path: str = "", **facts: str) -> str:
        """Return "allow" or "deny". `facts`: values of other filters, by their names with `_` for `-`."""
        matching = [
            (rule[0], names)
            for rule in self.rules
            if rule[0] in {"allow", "deny"}
            and (names := [name for name in rule[1:] if isinstance(name, str)])
            and any(_covers(name, operation) for name in names)
            and _matches([part for part in rule[1:] if isinstance(part, list)], path, facts)
        ]
        exact = [action for action, names in matching if operation in names]
        last = matching[-1][0]
        specific = exact[-1] if exact else last
        assert last == specific, f"{operation} {path}: {last} by the last rule, {specific} by the most specific one"
        return str(last)


def _parse(tokens: list[str]) -> Node:
    token = tokens.pop(0)
    if token != "(":
        return token
    nodes = []
    while tokens[0] != ")":
        nodes.append(_parse(tokens))
    tokens.pop(0)
    return nodes


def _covers(name: str, operation: str) -> bool:
    return name in {"default", operation} or (name.endswith("*") and operation.startswith(name[:-1]))


def _matches(filters: list[Node], path: str, facts: dict[str, str]) -> bool:
    filters = [node for node in filters if node[0] != "with"]
    return not filters or any(_matches_one(node, path, facts) for node in filters)


def _matches_one(node: Node, path: str, facts: dict[str, str]) -> bool:
    kind, *values = node
    if kind == "require-all":
        return all(_matches_one(value, path, facts) for value in values)
    if kind in {"remote", "local"}:
        return facts.get(kind) == values[0] and (
            unquote(values[1]) == path if isinstance(values[1], str) else _matches_one(values[1], path, facts)
        )
    return _matches_text(kind, unquote(values[0]), path, facts)


def _matches_text(kind: str, text: str, path: str, facts: dict[str, str]) -> bool:
    if kind in {"literal", "subpath"}:
        return path == text or (kind == "subpath" and path.startswith(f"{text.rstrip('/')}/"))
    if kind == "regex":
        return re.search(text, path) is not None
    name, _, way = kind.rpartition("-")
    value = facts.get((name if way in {"prefix", "regex"} else kind).replace("-", "_"), "\0")
    if way == "prefix":
        return value.startswith(text)
    return re.search(text, value) is not None if way == "regex" else value == text


def unquote(token: str) -> str:
    """Return the text of a string of the language."""
    if token.startswith("#"):
        return token[2:-1]
    if not token.startswith('"'):
        return token
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t"}.get(match[1], match[1]), token[1:-1])
