"""Nodes of a YAML tree: what they say, and where in the text they stand (offsets, and lines from 1)."""

from __future__ import annotations

from dataclasses import dataclass, field

NULL = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True)
class _YamlSpan:
    """The place of a node. `is_own` False: it stands behind an alias."""

    start: int
    end: int
    line: int
    is_own: bool = field(default=True, kw_only=True)


@dataclass(slots=True)
class YamlScalar(_YamlSpan):
    """`text` None: null. `style` is "" (plain), "'", '"', "|" or ">"; `start` is behind a tag and an anchor."""

    text: str | None
    style: str = ""


@dataclass(slots=True)
class YamlSequence(_YamlSpan):
    """A list of nodes."""

    items: list[YamlNode] = field(default_factory=list)
    is_flow: bool = False


@dataclass(slots=True)
class YamlMapping(_YamlSpan):
    """Keys with their values. `pairs` in order; those that a merge key brings in are `is_merged`."""

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
