"""Changes of a text as splices: each names a region by its offsets and what takes its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Splice(NamedTuple):
    """Replace `[start, end)` of the text."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Iterable[Splice], start: int = 0, end: int | None = None) -> str:
    """Return text[start:end] with the splices in it. They must not overlap; those at one place keep their order."""
    parts, position = [], start
    for replacement in sorted(splices, key=lambda splice: splice[:2]):
        parts += [text[position : replacement.start], replacement.text]
        position = replacement.end
    return "".join([*parts, text[position:end]])
