"""The one matching ladder: where in a file is the text that a model named?

Rungs, from strict to lenient: exact, line endings, (numbers copied from a listing), trailing white space, uniform
re-indentation, blank lines, Unicode look-alikes, spacing within lines, uneven indentation, the end of a line, elided
middles, a fence, entities, escapes, white space around, reflowed text, misspelt words, other case. The first rung with
a match decides. A match must be unique there (or all are asked for), otherwise nothing is changed and the answer names
the places. A result says which rung matched.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from core.edits.candidates import EditError, ambiguous, unmatched
from core.edits.elided import elided
from core.edits.haystack import Haystack, without_look_alikes
from core.edits.line_edit import LineEdit, Splice
from core.edits.lines import carry_endings, ending_near, line_number, to_lf
from core.edits.loose import line_ends, other_case, reflowed, trimmed, without_entities, without_escapes, without_fence
from core.edits.typos import misspelt

_LISTING = re.compile(r"\s*\d+(?: ?[|→]|\t|: ?)")
_ONE_PLACE = ("elided", "fuzzy")


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
    found = locate(Haystack(text), old, new, replace_all=replace_all, whole_lines=whole_lines)
    first = min(found.splices)
    start = line_number(text, first.start)
    return Replacement(
        text=spliced(text, found.splices),
        rung=found.rung,
        count=1 if found.rung in _ONE_PLACE else len(found.splices),
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


def locate(
    hay: Haystack, old: str, new: str, *, replace_all: bool = False, whole_lines: bool = False, near: int | None = None
) -> Found:
    """The splices that replace `old` by `new`, on the first rung that knows a place for it.

    `near` is a 1-indexed line that was named as the start: of several places the one that begins there is taken.
    Raises `EditError`.
    """
    if not old:
        raise EditError("The text to find is empty.", hint="Give the exact text that is to be replaced.")
    for rung, splices in _rungs(hay, old, new, whole_lines):
        if len(splices) <= 1 or rung == "elided":
            if splices:
                return Found(rung, splices)
            continue
        named = [each for each in splices if near is not None and line_number(hay.text, each.start) == near]
        if len(named) == 1:
            return Found(rung, named)
        if not replace_all or rung in _ONE_PLACE:
            raise ambiguous(hay, [line_number(hay.text, each.start) for each in splices], rung)
        return Found(rung, splices)
    raise unmatched(hay, old)


def _rungs(hay: Haystack, old: str, new: str, whole_lines: bool) -> Iterator[tuple[str, list[Splice]]]:
    yield from _strict(hay, old, new, whole_lines)
    unlisted = list(_without_listing(old, new))
    for bare in unlisted:
        yield "line_numbers", list(_exact(hay.text, *bare, whole_lines))
    for bare in unlisted[::-1]:
        yield from (("line_numbers", splices) for _, splices in _strict(hay, *bare, whole_lines))
    if not old.strip():
        return
    edit = LineEdit(hay, old, new)
    yield "spacing", edit.splices("spacing", skip_blank=True)
    yield "uneven_indentation", edit.uneven()
    if whole_lines:
        yield "line_ends", line_ends(hay, old, new)
    yield "elided", elided(hay, old, new)
    plainer = (
        ("fence", without_fence(old, new)),
        ("entities", without_entities(old, new)),
        ("escapes", without_escapes(old, new)),
    )
    for rung, plain in plainer:
        if plain and plain[0].strip():
            yield from ((rung, splices) for _, splices in _strict(hay, *plain, whole_lines))
    if not whole_lines:
        yield "trimmed", trimmed(hay, old, new)
        yield "reflowed", reflowed(hay, old, new)
    yield "fuzzy", misspelt(edit)
    if not whole_lines:
        yield "other_case", other_case(hay, old, new)


def _strict(hay: Haystack, old: str, new: str, whole_lines: bool) -> Iterator[tuple[str, list[Splice]]]:
    """The rungs on which lines are equal but for white space, endings and characters that look alike."""
    yield "exact", list(_exact(hay.text, old, new, whole_lines))
    if "\r" in hay.text or "\r" in old:
        yield "line_endings", list(_line_endings(hay, old, new, whole_lines))
    edit = LineEdit(hay, old, new)
    if edit.blank:
        return
    if not edit.plain and (plain := without_look_alikes(hay.text, old, new)):
        yield from (("look_alikes", splices) for _, splices in _strict(hay, *plain, whole_lines))
    yield "trailing_space", edit.splices("trailing_space")
    yield "indentation", edit.splices("indentation")
    yield "blank_lines", edit.splices("indentation", skip_blank=True)
    if not edit.plain:
        yield "look_alikes", edit.splices("look_alikes", skip_blank=True)


def _exact(text: str, old: str, new: str, whole_lines: bool) -> Iterator[Splice]:
    if "\n" in text and "\r" not in text:  # a file whose lines all end with "\n" goes on with that
        new = to_lf(new)
    for start in _occurrences(text, old, whole_lines):
        end = start + len(old)
        fitted = carry_endings(old, new, ending_near(text, end)) if "\r" in text else new
        yield Splice(start, end, fitted)


def _line_endings(hay: Haystack, old: str, new: str, whole_lines: bool) -> Iterator[Splice]:
    wanted, joined, text = to_lf(old).removesuffix("\r"), hay.carriages, hay.text
    new = new.removesuffix("\r")
    if not wanted:
        return
    for start in _occurrences(hay.lf, wanted, whole_lines):
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


def _without_listing(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Both texts without the line numbers of a listing, when every line of `old` has one and they count up; first
    without the space that may follow the number, then with it."""
    lines = old.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    marks = [_LISTING.match(line) for line in lines]
    numbers = [int(re.sub(r"\D", "", mark[0])) for mark in marks if mark]
    if not numbers or len(numbers) != len(marks) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return
    rests = [line[mark.end() :] for line, mark in zip(lines, marks, strict=True) if mark]
    yield _bare(old), _bare(new)
    if all(rest[:1] in ("", " ") for rest in rests):
        yield _bare(old, " "), _bare(new, " ")


def _bare(text: str, space: str = "") -> str:
    lines = text.split("\n")
    if not all(_LISTING.match(line) for line in lines if line):
        return text
    return "\n".join(_LISTING.sub("", line, count=1).removeprefix(space) for line in lines)


def _last_line(start: int, region: str) -> int:
    return start + region.removesuffix("\n").count("\n")
