"""YAML as nodes that know their position in the text, so that a change can touch nothing else.

The nodes are built from the events of ruamel.yaml and not from loaded values: the text stays as it was written. This is
the only module of the plans that imports ruamel.yaml. A plan of 50 todos takes 12 ms, one of 5,000 takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.errors import AgentTuiError
from core.patterns import compile_lazily

if TYPE_CHECKING:
    from ruamel.yaml.events import Event

NULL = frozenset({"", "~", "null", "Null", "NULL"})
MAX_DEPTH = 50  # of nested nodes
_PROPERTIES = compile_lazily(r"(?:[&!][^\s,\[\]{}]*[ \t]+)+")


@dataclass(slots=True)
class _YamlSpan:
    """The span of a node. `is_own` False: it is the target of an alias."""

    start: int
    end: int
    line: int
    is_own: bool = field(default=True, kw_only=True)


@dataclass(slots=True)
class YamlScalar(_YamlSpan):
    """A scalar. `text` None: null. `style` is "" (plain), "'", '"', "|" or ">"; `start` is behind a tag and an
    anchor."""

    text: str | None
    style: str = ""


@dataclass(slots=True)
class YamlSequence(_YamlSpan):
    """A list of nodes."""

    items: list[YamlNode] = field(default_factory=list)
    is_flow: bool = False


@dataclass(slots=True)
class YamlMapping(_YamlSpan):
    """Keys with their values. `pairs` are in order; those of a merge key are `is_merged`."""

    column: int
    pairs: list[YamlPair] = field(default_factory=list)
    is_flow: bool = False

    def find_pair(self, key: str) -> YamlPair | None:
        """Find the pair of a key; None = it has none."""
        return next((pair for pair in self.pairs if pair.name == key), None)


@dataclass(slots=True)
class YamlPair:
    """A key with its value."""

    name: str
    key: YamlScalar
    value: YamlNode
    is_merged: bool = False


YamlNode = YamlScalar | YamlSequence | YamlMapping


class YamlError(AgentTuiError):
    """Text that is no YAML, or YAML that this module does not support. `line` counts from 1 within the text."""

    code = "yaml_invalid"

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse_yaml(text: str) -> YamlNode | None:
    """Parse the one document of `text`; None = there is none. Raises `YamlError`."""
    return _Composer(text).compose_document()


def _iterate_events(text: str) -> Iterator[Event]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(f"{error.problem or 'this is not valid YAML'}.", (mark.line if mark else 0) + 1) from error
    except ReaderError as error:
        offset = error.position if isinstance(error.position, int) else 0
        raise YamlError("there is a character that YAML does not allow.", text.count("\n", 0, offset) + 1) from error
    except (YAMLError, ValueError, IndexError) as error:
        raise YamlError(f"this is not valid YAML ({error}).", 1) from error
    except (RecursionError, MemoryError) as error:
        raise YamlError("this is nested too deeply.", 1) from error


class _Composer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._events = _iterate_events(text)
        self._anchors: dict[str, YamlNode] = {}
        self._depth = 0

    def compose_document(self) -> YamlNode | None:
        """Compose the one document; None = there is none. Raises `YamlError`."""
        root: YamlNode | None = None
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                if root is not None:
                    raise YamlError("a second document starts here.", event.start_mark.line + 1)
                root = self._compose_node(next(self._events))
        return root

    def _compose_node(self, event: Any) -> YamlNode:
        kind, anchor = type(event).__name__, event.anchor
        if kind == "AliasEvent":
            return self._compose_alias(event)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YamlError("it is nested too deeply.", event.start_mark.line + 1)
        node: YamlNode
        if kind == "ScalarEvent":
            node = self._compose_scalar(event)
        elif kind == "SequenceStartEvent":
            node = self._compose_sequence(event)
        else:
            node = self._compose_mapping(event)
        self._depth -= 1
        if anchor:
            self._anchors[anchor] = node
        return node

    def _compose_alias(self, event: Any) -> YamlNode:
        node = self._anchors.get(event.anchor)
        start, end, line = event.start_mark.index, event.end_mark.index, event.start_mark.line + 1
        match node:
            case YamlScalar():
                return YamlScalar(start, end, line, node.text, is_own=False)
            case YamlSequence():
                return YamlSequence(start, end, line, node.items, is_flow=True, is_own=False)
            case YamlMapping():
                return YamlMapping(start, end, line, 0, node.pairs, is_flow=True, is_own=False)
            case None:
                raise YamlError(f"the alias *{event.anchor} has no anchor before it.", line)

    def _compose_scalar(self, event: Any) -> YamlScalar:
        start, end = self._find_inner_start(event), event.end_mark.index
        style = event.style or ""
        if style in {"|", ">"}:
            end = self._find_block_end(start, end)
        text = None if not style and event.value in NULL else str(event.value)
        return YamlScalar(start, end, event.start_mark.line + 1, text, style)

    def _find_inner_start(self, event: Any) -> int:
        """Find the start of a node behind its tag and anchor."""
        start: int = event.start_mark.index
        match = _PROPERTIES.match(self._text, start) if event.anchor or event.tag else None
        return match.end() if match else start

    def _find_block_end(self, start: int, end: int) -> int:
        """Return the end of a block scalar's last line, without blank lines and comments after it."""
        lines = self._text[start:end].splitlines(keepends=True)
        indents = [len(line) - len(line.lstrip(" ")) for line in lines[1:] if line.strip() and line.lstrip()[0] != "#"]
        says_indent = any(character.isdigit() for character in lines[0][:3])
        min_indent = (min(indents) if says_indent else indents[0]) if indents else 0
        length = content_length = len(lines[0])
        for line in lines[1:]:
            blank = not line.strip()
            if not blank and len(line) - len(line.lstrip(" ")) < min_indent:
                break
            length += len(line)
            content_length = content_length if blank else length
        return start + len(self._text[start : start + content_length].rstrip("\r\n"))

    def _compose_sequence(self, event: Any) -> YamlSequence:
        node = YamlSequence(event.start_mark.index, 0, event.start_mark.line + 1, is_flow=bool(event.flow_style))
        end = event.end_mark.index
        while type(inner := next(self._events)).__name__ != "SequenceEndEvent":
            node.items.append(self._compose_node(inner))
            end = node.items[-1].end
        node.end = inner.end_mark.index if node.is_flow else end
        return node

    def _compose_mapping(self, event: Any) -> YamlMapping:
        mark = event.start_mark
        node = YamlMapping(mark.index, 0, mark.line + 1, mark.column, is_flow=bool(event.flow_style))
        end = event.end_mark.index
        while type(inner := next(self._events)).__name__ != "MappingEndEvent":
            key, value = self._compose_node(inner), self._compose_node(next(self._events))
            if isinstance(value, YamlScalar) and value.start == value.end:
                # The parser may position an empty value on a later line.
                value.line = key.line
                value.start = value.end = self._text.find(":", key.end, value.end + 1) + 1 or value.end
            end = max(value.end, key.end)
            if isinstance(key, YamlScalar):
                self._add_pair(node, key, value)
        node.end = inner.end_mark.index if node.is_flow else end
        first = next((pair.key for pair in node.pairs if not pair.is_merged), None)
        if first is not None and not node.is_flow:
            node.column = first.start - (self._text.rfind("\n", 0, first.start) + 1)
        return node

    def _add_pair(self, node: YamlMapping, key: YamlScalar, value: YamlNode) -> None:
        name = key.text or ""
        if name == "<<" and not key.style:
            sources = value.items if isinstance(value, YamlSequence) else [value]
            merged_pairs = [pair for source in sources if isinstance(source, YamlMapping) for pair in source.pairs]
            node.pairs += [YamlPair(pair.name, pair.key, pair.value, is_merged=True) for pair in merged_pairs]
            return
        earlier = node.find_pair(name) if key.is_own else None
        if earlier is not None and not earlier.is_merged:
            raise YamlError(f"duplicate key {name[:80]!r}.", key.line)
        if earlier is not None:
            node.pairs.remove(earlier)
        node.pairs.append(YamlPair(name, key, value))
