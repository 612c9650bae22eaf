"""The tree of YAML that is written the usual way: block style, one key a line, words that need no unescaping.

Nearly every plan file is; this reads one of 5,000 todos in a tenth of the time. Whatever is not obviously plain is left
to the parser of `yaml_tree`, with whose answer this one agrees in every field.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from core.plans.yaml_nodes import NULL, Mapping, Node, Pair, Scalar, Sequence

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: +|$)")
_COMMENT = r"(?: +#.*| *)$"
_VALUE = re.compile(
    r"(?:(?P<single>'(?:[^']|'')*')|(?P<double>\"[^\"\\]*\")"
    rf"|(?P<flow>\[(?: *[A-Za-z][\w-]*(?: *, *[A-Za-z][\w-]*)* *)?\])){_COMMENT}"
)
_PLAIN = re.compile(rf"(?P<plain>[A-Za-z0-9_./(](?:(?!: |:$| #).)*?){_COMMENT}")
_WORD = re.compile(r"[A-Za-z][\w-]*")


class Doubt(Exception):
    """This is not plain enough."""


class Line(NamedTuple):
    """A line that says something: its number from 1, where its text begins, at which column, and the text."""

    number: int
    start: int
    column: int
    text: str


def compose_plain(text: str) -> Mapping | None:
    """The tree of `text`; None: it is not written in the usual way, or not at all."""
    try:
        lines = _lines(text)
        reader = _Reader(lines)
        root = reader.block(lines[0].column) if lines else None
        return root if isinstance(root, Mapping) and reader.at == len(lines) and lines[0].column == 0 else None
    except (Doubt, RecursionError):
        return None


def _lines(text: str) -> list[Line]:
    found = []
    offset = 0
    for number, whole in enumerate(text.split("\n"), start=1):
        line = whole.removesuffix("\r")
        if not line.isprintable():
            raise Doubt
        said = line.lstrip(" ")
        if said and said[0] != "#":
            column = len(line) - len(said)
            found.append(Line(number, offset + column, column, said))
        offset += len(whole) + 1
    return found


class _Reader:
    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        self.at = 0

    def _now(self) -> Line | None:
        return self._lines[self.at] if self.at < len(self._lines) else None

    def block(self, column: int) -> Node:
        line = self._now()
        assert line is not None
        return self._sequence(column) if line.text.startswith("- ") else self._mapping(column)

    def _mapping(self, column: int) -> Mapping:
        first = self._lines[self.at]
        node = Mapping(first.start, 0, first.number, column)
        seen: set[str] = set()
        while (line := self._now()) is not None and line.column == column and not line.text.startswith("- "):
            found = _KEY.match(line.text)
            if found is None or found[1] in seen:
                raise Doubt
            seen.add(found[1])
            end = line.start + len(found[1])
            node.pairs.append(
                Pair(found[1], Scalar(line.start, end, line.number, found[1]), self._value(line, found.end()))
            )
            node.end = max(node.pairs[-1].value.end, end)
        if line is not None and line.column > column:
            raise Doubt
        return node

    def _value(self, line: Line, at: int) -> Node:
        """What stands behind a key, on its line or below it."""
        self.at += 1
        rest = line.text[at:]
        if rest and rest[0] != "#":
            return _scalar(line, at)
        below = self._now()
        if below is not None and (
            below.column > line.column or (below.column == line.column and below.text.startswith("- "))
        ):
            return self.block(below.column)
        colon = line.start + line.text.index(":") + 1
        return Scalar(colon, colon, line.number, None)

    def _sequence(self, column: int) -> Sequence:
        first = self._lines[self.at]
        node = Sequence(first.start, 0, first.number)
        while (line := self._now()) is not None and line.column == column and line.text.startswith("- "):
            inner = Line(line.number, line.start + 2, column + 2, line.text[2:])
            if _KEY.match(inner.text):
                self._lines[self.at] = inner
                node.items.append(self._mapping(column + 2))
            else:
                self.at += 1
                node.items.append(_scalar(inner, 0))
            node.end = node.items[-1].end
        if line is not None and line.column > column:
            raise Doubt
        return node


def _scalar(line: Line, at: int) -> Node:
    found = _VALUE.match(line.text, at) or _PLAIN.match(line.text, at)
    if found is None:
        raise Doubt
    kind = found.lastgroup or ""
    start, end, said = line.start + at, line.start + found.end(kind), found[kind]
    if kind == "flow":
        words = [
            Scalar(start + each.start(), start + each.end(), line.number, None if each[0] in NULL else each[0])
            for each in _WORD.finditer(said)
        ]
        return Sequence(start, end, line.number, list(words), flow=True)
    if kind == "single":
        return Scalar(start, end, line.number, said[1:-1].replace("''", "'"), "'")
    if kind == "double":
        return Scalar(start, end, line.number, said[1:-1], '"')
    return Scalar(start, end, line.number, None if said in NULL else said)
