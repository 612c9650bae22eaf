"""The nodes of a YAML tree: what they say, and where in the text they stand."""

from __future__ import annotations

from dataclasses import dataclass, field

NULL = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True)
class Scalar:
    """`text` None: null. `style` is "" (plain), "'", '"', "|" or ">"; `start` is behind a tag and an anchor."""

    start: int
    end: int
    line: int
    text: str | None
    style: str = ""
    own: bool = True


@dataclass(slots=True)
class Sequence:
    start: int
    end: int
    line: int
    items: list[Node] = field(default_factory=list)
    flow: bool = False
    own: bool = True


@dataclass(slots=True)
class Mapping:
    """`pairs` in order; those that a merge key brings in are `own` False, like what stands behind an alias."""

    start: int
    end: int
    line: int
    column: int
    pairs: list[Pair] = field(default_factory=list)
    flow: bool = False
    own: bool = True

    def get(self, key: str) -> Pair | None:
        return next((pair for pair in self.pairs if pair.name == key), None)


@dataclass(slots=True)
class Pair:
    name: str
    key: Scalar
    value: Node
    merged: bool = False


Node = Scalar | Sequence | Mapping
