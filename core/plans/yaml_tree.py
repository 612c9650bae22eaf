"""YAML as a tree of nodes that know where in the text they stand, so that a change can touch nothing else.

Made of the parser's events, not of loaded values: what was written is kept as it was written. The one module of the
plans that opens ruamel.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from core.errors import AgentTuiError
from core.plans.plain_tree import compose_plain
from core.plans.yaml_nodes import NULL, Mapping, Node, Pair, Scalar, Sequence

if TYPE_CHECKING:
    from ruamel.yaml.events import Event

MAX_DEPTH = 50
_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*[ \t]+)+")


class YamlError(AgentTuiError):
    """Text that is no YAML, or YAML that this module doesn't take. `line` counts from 1 within the text."""

    code = "yaml_invalid"

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def compose(text: str) -> Node | None:
    """The one document of `text`; None: there is none. Raises `YamlError`."""
    return compose_plain(text) or parsed(text)


def parsed(text: str) -> Node | None:
    """As `compose`, by the parser in any case."""
    return _Composer(text).document()


def _events(text: str) -> Iterator[Event]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(f"{error.problem or 'this is no valid YAML'}.", (mark.line if mark else 0) + 1) from error
    except ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        raise YamlError("there is a character that YAML does not allow.", text.count("\n", 0, at) + 1) from error
    except (YAMLError, ValueError, IndexError) as error:
        raise YamlError(f"this is no valid YAML ({error}).", 1) from error


class _Composer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._events = _events(text)
        self._anchors: dict[str, Node] = {}
        self._depth = 0

    def document(self) -> Node | None:
        found: Node | None = None
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if found is not None:
                    raise YamlError("a second document begins here.", event.start_mark.line + 1)
                found = self._node(next(self._events))
        return found

    def _node(self, event: Any) -> Node:
        kind, anchor = type(event).__name__, event.anchor
        if kind == "AliasEvent":
            return self._alias(event)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YamlError("it is nested too deeply.", event.start_mark.line + 1)
        node: Node
        if kind == "ScalarEvent":
            node = self._scalar(event)
        elif kind == "SequenceStartEvent":
            node = self._sequence(event)
        else:
            node = self._mapping(event)
        self._depth -= 1
        if anchor:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        start, end, line = event.start_mark.index, event.end_mark.index, event.start_mark.line + 1
        match node:
            case Scalar():
                return Scalar(start, end, line, node.text, own=False)
            case Sequence():
                return Sequence(start, end, line, node.items, flow=True, own=False)
            case Mapping():
                return Mapping(start, end, line, 0, node.pairs, flow=True, own=False)
            case None:
                raise YamlError(f"the alias *{event.anchor} has no anchor before it.", line)

    def _scalar(self, event: Any) -> Scalar:
        start, end = self._inside(event), event.end_mark.index
        style = event.style or ""
        if style in {"|", ">"}:
            end = self._block_end(start, end)
        text = None if not style and event.value in NULL else str(event.value)
        return Scalar(start, end, event.start_mark.line + 1, text, style)

    def _inside(self, event: Any) -> int:
        """Where a node begins behind its tag and anchor."""
        start: int = event.start_mark.index
        found = _PROPERTIES.match(self._text, start) if event.anchor or event.tag else None
        return found.end() if found else start

    def _block_end(self, start: int, end: int) -> int:
        """The end of a block scalar's last line: neither blank lines nor comments that follow belong to it."""
        lines = self._text[start:end].splitlines(keepends=True)
        indents = [len(line) - len(line.lstrip(" ")) for line in lines[1:] if line.strip() and line.lstrip()[0] != "#"]
        says_indent = any(each.isdigit() for each in lines[0][:3])
        least = (min(indents) if says_indent else indents[0]) if indents else 0
        length = kept = len(lines[0])
        for line in lines[1:]:
            blank = not line.strip()
            if not blank and len(line) - len(line.lstrip(" ")) < least:
                break
            length += len(line)
            kept = kept if blank else length
        return start + len(self._text[start : start + kept].rstrip("\r\n"))

    def _sequence(self, event: Any) -> Sequence:
        node = Sequence(event.start_mark.index, 0, event.start_mark.line + 1, flow=bool(event.flow_style))
        end = event.end_mark.index
        while type(inner := next(self._events)).__name__ != "SequenceEndEvent":
            node.items.append(self._node(inner))
            end = node.items[-1].end
        node.end = inner.end_mark.index if node.flow else end
        return node

    def _mapping(self, event: Any) -> Mapping:
        mark = event.start_mark
        node = Mapping(mark.index, 0, mark.line + 1, mark.column, flow=bool(event.flow_style))
        end = event.end_mark.index
        while type(inner := next(self._events)).__name__ != "MappingEndEvent":
            key, value = self._node(inner), self._node(next(self._events))
            if isinstance(value, Scalar) and value.start == value.end:
                # The parser may place what is not there on a later line.
                value.line = key.line
                value.start = value.end = self._text.find(":", key.end, value.end + 1) + 1 or value.end
            end = max(value.end, key.end)
            if isinstance(key, Scalar):
                self._add(node, key, value)
        node.end = inner.end_mark.index if node.flow else end
        first = next((pair.key for pair in node.pairs if not pair.merged), None)
        if first is not None and not node.flow:
            node.column = first.start - (self._text.rfind("\n", 0, first.start) + 1)
        return node

    def _add(self, node: Mapping, key: Scalar, value: Node) -> None:
        name = key.text or ""
        if name == "<<" and not key.style:
            sources = value.items if isinstance(value, Sequence) else [value]
            merged = [pair for each in sources if isinstance(each, Mapping) for pair in each.pairs]
            node.pairs += [Pair(pair.name, pair.key, pair.value, merged=True) for pair in merged]
            return
        earlier = node.get(name) if key.own else None
        if earlier is not None and not earlier.merged:
            raise YamlError(f"duplicate key {name[:80]!r}.", key.line)
        if earlier is not None:
            node.pairs.remove(earlier)
        node.pairs.append(Pair(name, key, value))
