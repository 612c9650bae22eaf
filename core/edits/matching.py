"""The one matching ladder: where in a file is the text that a model named?

Rungs, from strict to lenient: exact, line endings, (numbers copied from a listing), trailing white space, uniform
re-indentation, blank lines, Unicode look-alikes, and an anchored block whose inner lines hold misspelt words. The first
rung with a match decides. A match must be unique there (or all are asked for), otherwise nothing is changed and the
answer names the places. A result says which rung matched.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from core.edits.candidates import EditError, ambiguous, unmatched
from core.edits.lines import Lines, carry_endings, ending_near, line_number, split_lines, to_lf
from core.edits.reindent import Shift, deduce_shift
from core.edits.similarity import ratio
from core.edits.transplant import Block, transplant

_MANY = 50
_TYPO = 0.8
_BLOCK = 0.9
_MARGIN = 0.1
_LISTING = re.compile(r"\s*\d+(?:[|\t→]|: ?)")
_DEFINITION = re.compile(
    r"\s*(?:(?:export|public|private|static|async|pub)\s+)*(?:def|class|func|function|fn|struct)\b"
)
_WORD = re.compile(r"\w+")
_FOLD = str.maketrans("‘’‚‛“”„‟′″«»‐‑‒–—―−\u00a0\u2002\u2003\u2009\u202f\u3000", '\'\'\'\'""""\'"""-------      ')


class Splice(NamedTuple):
    """Replace `[start, end)` of the text."""

    start: int
    end: int
    text: str


class Found(NamedTuple):
    rung: str
    splices: list[Splice]


class Replacement(Struct, frozen=True, kw_only=True):
    """`start_line`..`end_line` (1-indexed, inclusive) is the first replaced region in the text before the edit;
    `new_end_line` is its last line afterwards (`start_line - 1` when it was deleted)."""

    text: str
    rung: str
    count: int
    start_line: int
    end_line: int
    new_end_line: int


def apply_replacement(
    text: str, old: str, new: str, *, replace_all: bool = False, whole_lines: bool = False
) -> Replacement:
    """Replace `old` by `new`, both literal. `whole_lines`: `old` stands for complete lines, never a part of one.

    Raises `EditError` when `old` is empty, found nowhere, or found at several places without `replace_all`.
    """
    found = locate(text, old, new, replace_all=replace_all, whole_lines=whole_lines)
    first = found.splices[0]
    start = line_number(text, first.start)
    return Replacement(
        text=spliced(text, found.splices),
        rung=found.rung,
        count=len(found.splices),
        start_line=start,
        end_line=_last_line(start, text[first.start : first.end]),
        new_end_line=_last_line(start, first.text) if first.text else start - 1,
    )


def spliced(text: str, splices: Sequence[Splice]) -> str:
    """All splices, made in one pass. They must not overlap."""
    out, place = [], 0
    for start, end, replacement in sorted(splices):
        out += [text[place:start], replacement]
        place = end
    return "".join([*out, text[place:]])


def locate(text: str, old: str, new: str, *, replace_all: bool = False, whole_lines: bool = False) -> Found:
    """The splices that replace `old` by `new`, on the first rung that knows a place for it."""
    if not old:
        raise EditError("The text to find is empty.", hint="Give the exact text that is to be replaced.")
    for rung, splices in _rungs(text, old, new, whole_lines):
        if len(splices) > 1 and (not replace_all or rung == "fuzzy"):
            raise ambiguous([line_number(text, each.start) for each in splices], rung)
        if splices:
            return Found(rung, splices)
    raise unmatched(text, old)


def _rungs(text: str, old: str, new: str, whole_lines: bool) -> Iterator[tuple[str, list[Splice]]]:
    yield "exact", list(_exact(text, old, new, whole_lines))
    if "\r" in text or "\r" in old:
        yield "line_endings", list(_line_endings(text, old, new, whole_lines))
    bare = _without_listing(old, new)
    if bare is not None:
        yield from (("line_numbers", splices) for _, splices in _rungs(text, *bare, whole_lines))
    edit = _LineEdit(split_lines(text), old, new)
    if edit.blank:
        return
    yield "trailing_space", edit.splices(str.rstrip)
    yield "indentation", edit.splices(str.strip)
    yield "blank_lines", edit.splices(str.strip, skip_blank=True)
    yield "look_alikes", edit.splices(_folded, skip_blank=True)
    yield "fuzzy", edit.fuzzy()


def _exact(text: str, old: str, new: str, whole_lines: bool) -> Iterator[Splice]:
    for start in _occurrences(text, old, whole_lines):
        end = start + len(old)
        fitted = carry_endings(old, new, ending_near(text, end)) if "\r" in text else new
        yield Splice(start, end, fitted)


def _line_endings(text: str, old: str, new: str, whole_lines: bool) -> Iterator[Splice]:
    plain, wanted = to_lf(text), to_lf(old)
    joined = [match.start() - index for index, match in enumerate(re.finditer("\r\n", text))]
    for start in _occurrences(plain, wanted, whole_lines):
        first = start + bisect_left(joined, start)
        last = start + len(wanted)
        end = last + bisect_left(joined, last)
        yield Splice(first, end, carry_endings(text[first:end], to_lf(new), ending_near(text, end)))


def _occurrences(text: str, old: str, whole_lines: bool) -> Iterator[int]:
    place = text.find(old)
    while place >= 0:
        if not whole_lines or place == 0 or text[place - 1] == "\n":
            yield place
            place = text.find(old, place + len(old))
        else:
            place = text.find(old, place + 1)


def _without_listing(old: str, new: str) -> tuple[str, str] | None:
    """Both texts without the line numbers of a listing, when every line of `old` has one and they count up."""
    lines = old.split("\n")
    marks = [_LISTING.match(line) for line in (lines[:-1] if lines[-1] == "" else lines)]
    numbers = [int(re.sub(r"\D", "", mark[0])) for mark in marks if mark]
    if not numbers or len(numbers) != len(marks) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    return _bare(old), _bare(new)


def _bare(text: str) -> str:
    return "\n".join(_LISTING.sub("", line, count=1) for line in text.split("\n"))


def _is_typo(given: str, present: str, known: set[str]) -> bool:
    """Whether the lines differ in misspelt words only: nearly the same letters, and a word that the file does not know.

    Another number, another sign or another definition means something else.
    """
    ours, theirs = _WORD.findall(given), _WORD.findall(present)
    if len(ours) != len(theirs) or _signs(given) != _signs(present) or _DEFINITION.match(present):
        return False
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
    return all(
        min(len(one), len(other)) >= 4
        and one not in known
        and not re.search(r"\d", one + other)
        and ratio(one, other) >= _TYPO
        for one, other in pairs
    )


def _signs(line: str) -> str:
    """What is between the words, white space left out."""
    return "".join(_WORD.sub(" ", line).split())


def _folded(line: str) -> str:
    return unicodedata.normalize("NFC", line).translate(_FOLD).replace("…", "...").strip()


def _last_line(start: int, region: str) -> int:
    return start + region.removesuffix("\n").count("\n")


class _LineEdit:
    """An edit of whole lines, tried on the lenient rungs."""

    def __init__(self, lines: Lines, old: str, new: str) -> None:
        self.lines = lines
        self.given, closed = _as_lines(old)
        self.wanted = _as_lines(new)[0] if new or not closed else []
        self.blank = not any(line.strip() for line in self.given)
        self.filled = [index for index, line in enumerate(self.given) if line.strip()]

    def splices(self, key: Callable[[str], str], *, skip_blank: bool = False) -> list[Splice]:
        """Every place where the lines are equal under `key` and the indentation differs by one rule."""
        found, free = [], 0
        for block in self._blocks(key, skip_blank):
            shift = self._shift(block) if block.first >= free else None
            if shift is None:
                continue
            found.append(self._splice(block, shift))
            free = block.last + 1
            if len(found) > _MANY * 200:
                break
        return found

    def fuzzy(self) -> list[Splice]:
        """The one block whose first and last lines are equal and whose inner lines hold misspelt words."""
        if len(self.filled) < 3:
            return []
        scored = sorted(((self._likeness(block), block) for block in self._anchored()), key=lambda each: -each[0])
        if not scored or scored[0][0] < _BLOCK:
            return []
        best, block = scored[0]
        if len(scored) > 1 and scored[1][0] > best - _MARGIN:
            return []
        known = set(_WORD.findall("\n".join(self.lines.bodies)))
        if not all(given == present or _is_typo(given, present, known) for given, present in self._pairs(block)):
            return []
        shift = self._shift(block)
        return [] if shift is None else [self._splice(block, shift)]

    def _splice(self, block: Block, shift: Shift) -> Splice:
        replacement = transplant(self.lines, block, self.given, self.wanted, shift)
        return Splice(self.lines.starts[block.first], self.lines.stop(block.last), replacement)

    def _shift(self, block: Block) -> Shift | None:
        pairs = [(self.given[index], self.lines.bodies[block.mapping[index]]) for index in self.filled]
        return deduce_shift(pairs, self.wanted)

    def _blocks(self, key: Callable[[str], str], skip_blank: bool) -> Iterator[Block]:
        places = [i for i, line in enumerate(self.lines.bodies) if line.strip()] if skip_blank else None
        given = [self.given[index] for index in self.filled] if skip_blank else self.given
        bodies = self.lines.bodies if places is None else [self.lines.bodies[place] for place in places]
        for start in _sequences([key(line) for line in bodies], [key(line) for line in given]):
            if places is None:
                yield Block(start, start + len(given) - 1, list(range(start, start + len(given))))
            else:
                yield self._mapped(places[start : start + len(given)])

    def _mapped(self, places: list[int]) -> Block:
        """A block over blank lines: given blank lines are paired with those that are there, as far as there are any."""
        mapping = [-1] * len(self.given)
        for index, place in zip(self.filled, places, strict=True):
            mapping[index] = place
        for index in range(1, len(mapping)):
            after = mapping[index - 1] + 1
            if mapping[index] < 0 < after < len(self.lines) and not self.lines.bodies[after].strip():
                mapping[index] = after
        for index in range(self.filled[0] - 1, -1, -1):
            before = mapping[index + 1] - 1
            if before >= 0 and not self.lines.bodies[before].strip():
                mapping[index] = before
        known = [place for place in mapping if place >= 0]
        return Block(known[0], known[-1], mapping)

    def _anchored(self) -> list[Block]:
        """Blocks of as many filled lines as given, with equal first and last ones; none when they are too many."""
        places = [index for index, line in enumerate(self.lines.bodies) if line.strip()]
        keys = [self.lines.bodies[place].strip() for place in places]
        first, last = self.given[self.filled[0]].strip(), self.given[self.filled[-1]].strip()
        size = len(self.filled)
        starts = [i for i in range(len(keys) - size + 1) if keys[i] == first and keys[i + size - 1] == last]
        return [self._mapped(places[start : start + size]) for start in starts] if len(starts) <= _MANY else []

    def _pairs(self, block: Block) -> list[tuple[str, str]]:
        """Each filled line as given and as it is there, without indentation."""
        bodies = self.lines.bodies
        return [(self.given[index].strip(), bodies[block.mapping[index]].strip()) for index in self.filled]

    def _likeness(self, block: Block) -> float:
        """Mean similarity of the lines, whatever they differ in."""
        pairs = self._pairs(block)
        return sum(1.0 if given == present else ratio(given, present) for given, present in pairs) / len(pairs)


def _as_lines(text: str) -> tuple[list[str], bool]:
    lines = to_lf(text).split("\n")
    closed = lines[-1] == "" and len(lines) > 1
    return (lines[:-1], True) if closed else (lines, False)


def _sequences(keys: list[str], wanted: list[str]) -> Iterator[int]:
    """Where `wanted` occurs in `keys`: only the places of its rarest line are looked at."""
    size = len(wanted)
    if not size or size > len(keys):
        return
    places: dict[str, list[int]] = defaultdict(list)
    needed = set(wanted)
    for index, key in enumerate(keys):
        if key in needed:
            places[key].append(index)
    rarest = min(range(size), key=lambda index: len(places.get(wanted[index], ())))
    for place in places.get(wanted[rarest], ()):
        start = place - rarest
        if start >= 0 and keys[start : start + size] == wanted:
            yield start
