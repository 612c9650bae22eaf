"""Parser of YAML that is written the usual way: block style, one key a line, words that need no unescaping.

Nearly every plan file is; this reads one of 5,000 todos in a tenth of the time. Whatever is not obviously plain is
left to `yaml_parser`, with whose answer this one agrees in every field.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from core.plans.yaml_nodes import NULL, YamlMapping, YamlNode, YamlPair, YamlScalar, YamlSequence

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: +|$)")
_COMMENT = r"(?: +#.*| *)$"
_VALUE = re.compile(
    r"(?:(?P<single>'(?:[^']|'')*')|(?P<double>\"[^\"\\]*\")"
    rf"|(?P<flow>\[(?: *[A-Za-z][\w-]*(?: *, *[A-Za-z][\w-]*)* *)?\])){_COMMENT}"
)
_PLAIN = re.compile(rf"(?P<plain>[A-Za-z0-9_./(](?:(?!: |:$| #).)*?){_COMMENT}")
_WORD = re.compile(r"[A-Za-z][\w-]*")


class NotPlainYaml(Exception):
    """The text is not written in the usual way."""


class YamlLine(NamedTuple):
    """A line with content: its number from 1, where its text begins, at which column, and the text."""

    number: int
    start: int
    column: int
    text: str


def parse_plain(text: str) -> YamlMapping | None:
    """Parse the tree of `text`; None: it is not written in the usual way, or not at all."""
    try:
        lines = _split_content_lines(text)
        reader = _PlainParser(lines)
        root = reader.parse_block(lines[0].column) if lines else None
        return root if isinstance(root, YamlMapping) and reader.at == len(lines) and lines[0].column == 0 else None
    except (NotPlainYaml, RecursionError):
        return None


def _split_content_lines(text: str) -> list[YamlLine]:
    lines = []
    offset = 0
    for number, full_line in enumerate(text.split("\n"), start=1):
        line = full_line.removesuffix("\r")
        if not line.isprintable():
            raise NotPlainYaml
        content = line.lstrip(" ")
        if content and content[0] != "#":
            column = len(line) - len(content)
            lines.append(YamlLine(number, offset + column, column, content))
        offset += len(full_line) + 1
    return lines


class _PlainParser:
    def __init__(self, lines: list[YamlLine]) -> None:
        self._lines = lines
        self.at = 0

    def _peek(self) -> YamlLine | None:
        return self._lines[self.at] if self.at < len(self._lines) else None

    def parse_block(self, column: int) -> YamlNode:
        """Parse the list or mapping that begins at the next line. Raises `NotPlainYaml`."""
        line = self._peek()
        assert line is not None
        return self._parse_sequence(column) if line.text.startswith("- ") else self._parse_mapping(column)

    def _parse_mapping(self, column: int) -> YamlMapping:
        first = self._lines[self.at]
        node = YamlMapping(first.start, 0, first.number, column)
        keys: set[str] = set()
        while (line := self._peek()) is not None and line.column == column and not line.text.startswith("- "):
            match = _KEY.match(line.text)
            if match is None or match[1] in keys:
                raise NotPlainYaml
            keys.add(match[1])
            key = YamlScalar(line.start, line.start + len(match[1]), line.number, match[1])
            value = self._parse_value(line, match.end())
            node.pairs.append(YamlPair(match[1], key, value))
            node.end = max(value.end, key.end)
        if line is not None and line.column > column:
            raise NotPlainYaml
        return node

    def _parse_value(self, line: YamlLine, offset: int) -> YamlNode:
        """Parse what stands behind a key, on its line or below it."""
        self.at += 1
        rest = line.text[offset:]
        if rest and rest[0] != "#":
            return _parse_scalar(line, offset)
        below = self._peek()
        is_list = below is not None and below.text.startswith("- ")  # which may stand at the column of its key
        if below is not None and below.column + is_list > line.column:
            return self.parse_block(below.column)
        colon = line.start + line.text.index(":") + 1
        return YamlScalar(colon, colon, line.number, None)

    def _parse_sequence(self, column: int) -> YamlSequence:
        first = self._lines[self.at]
        node = YamlSequence(first.start, 0, first.number)
        while (line := self._peek()) is not None and line.column == column and line.text.startswith("- "):
            inner = YamlLine(line.number, line.start + 2, column + 2, line.text[2:])
            if _KEY.match(inner.text):
                self._lines[self.at] = inner
                node.items.append(self._parse_mapping(column + 2))
            else:
                self.at += 1
                node.items.append(_parse_scalar(inner, 0))
            node.end = node.items[-1].end
        if line is not None and line.column > column:
            raise NotPlainYaml
        return node


def _parse_scalar(line: YamlLine, offset: int) -> YamlNode:
    match = _VALUE.match(line.text, offset) or _PLAIN.match(line.text, offset)
    if match is None:
        raise NotPlainYaml
    kind = match.lastgroup or ""
    start, end, value = line.start + offset, line.start + match.end(kind), match[kind]
    if kind == "flow":
        node = YamlSequence(start, end, line.number, is_flow=True)
        for word in _WORD.finditer(value):
            text = None if word[0] in NULL else word[0]
            node.items.append(YamlScalar(start + word.start(), start + word.end(), line.number, text))
        return node
    if kind == "single":
        return YamlScalar(start, end, line.number, value[1:-1].replace("''", "'"), "'")
    if kind == "double":
        return YamlScalar(start, end, line.number, value[1:-1], '"')
    return YamlScalar(start, end, line.number, None if value in NULL else value)
