"""The one matching ladder: it finds the text that a model named in a file.

Rungs, from strict to lenient: exact, line endings, (numbers copied from a listing), trailing white space, uniform
re-indentation, blank lines, Unicode look-alikes, spacing within lines, uneven indentation, the end of a line, elided
middles, a fence, entities, escapes, white space around, reflowed text, misspelt words, other case. The first rung
with a match decides. A match must be unique there (or all are asked for), otherwise nothing is changed and the
answer names the places. A result says which rung matched.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from core.edits.errors import EditError
from core.edits.matching import characters
from core.edits.matching.characters import find_occurrences
from core.edits.matching.elided_blocks import find_elided
from core.edits.matching.failures import build_ambiguity_error, build_not_found_error
from core.edits.matching.line_edit import LineEdit
from core.edits.matching.misspelling import find_misspelt
from core.edits.matching.new_lines import build_numbered_error, mend_new_text
from core.edits.matching.search_text import SearchText, replace_look_alikes
from core.text.lines import Splice, carry_endings, find_ending_near, find_line_numbers, normalise_endings

_LISTING = re.compile(r"\s*\d+(?: ?[|→]|\t|: ?)")
_ONE_PLACE = ("elided", "fuzzy")
_PLAINER = {
    "fence": characters.strip_fence,
    "entities": characters.resolve_entities,
    "escapes": characters.strip_escapes,
}


class LadderMatch(NamedTuple):
    """The rung that knew a place, the splices there, and the kinds of slip that were put right in the new text."""

    rung: str
    splices: list[Splice]
    slips: tuple[str, ...] = ()


def locate(
    search_text: SearchText,
    old: str,
    new: str,
    *,
    replace_all: bool = False,
    whole_lines: bool = False,
    line_hint: int | None = None,
) -> LadderMatch:
    """Find the splices that replace `old` by `new`, both literal, on the first rung that knows a place for it.

    `whole_lines`: `old` stands for complete lines, never a part of one; `line_hint`: the 1-indexed line that was named
    as the start, which is taken of several places. Raises `EditError` when `old` is empty, found nowhere, or found at
    several places without `replace_all`.
    """
    if not old:
        raise EditError("The text to find is empty.", hint="Give the exact text that is to be replaced.")
    new, slips = mend_new_text(search_text, old, new)
    climbs = (climb(search_text, old, new, whole_lines) for climb in (_climb_strict, _climb_lenient))
    for rung, splices in chain.from_iterable(climbs):
        if not splices:
            continue
        if len(splices) == 1 or rung == "elided" or (replace_all and rung not in _ONE_PLACE):
            return LadderMatch(rung, splices, slips)
        places = find_line_numbers(search_text.text, (splice.start for splice in splices))
        if line_hint is None or places.count(line_hint) != 1:
            raise build_ambiguity_error(search_text, places, rung)
        return LadderMatch(rung, [splices[places.index(line_hint)]], slips)
    raise build_not_found_error(search_text, old)


def _climb_lenient(
    search_text: SearchText, old: str, new: str, whole_lines: bool
) -> Iterator[tuple[str, list[Splice]]]:
    """The rungs on which the words are the same, or nearly so."""
    readings = list(_strip_listing(search_text, old, new))
    for bare in readings:
        yield "line_numbers", list(_find_exact(search_text.text, *bare, whole_lines))
    for bare in readings[::-1]:
        yield from (("line_numbers", splices) for _, splices in _climb_strict(search_text, *bare, whole_lines))
    if not old.strip():
        return
    edit = LineEdit(search_text, old, new)
    yield "spacing", edit.find_splices("spacing", skip_blank=True)
    yield "uneven_indentation", edit.find_uneven()
    if whole_lines:
        yield "line_ends", characters.find_line_ends(search_text, old, new)
    yield "elided", find_elided(search_text, old, new)
    for rung, make_plain in _PLAINER.items():
        plain = make_plain(old, new)
        if plain and plain[0].strip():
            yield from ((rung, splices) for _, splices in _climb_strict(search_text, *plain, whole_lines))
    if not whole_lines:
        yield "trimmed", characters.find_trimmed(search_text, old, new)
        yield "reflowed", characters.find_reflowed(search_text, old, new)
    yield "fuzzy", find_misspelt(edit)
    if not whole_lines:
        yield "other_case", characters.find_other_case(search_text, old, new)


def _climb_strict(search_text: SearchText, old: str, new: str, whole_lines: bool) -> Iterator[tuple[str, list[Splice]]]:
    """The rungs on which lines are equal but for white space, endings and characters that look alike."""
    yield "exact", list(_find_exact(search_text.text, old, new, whole_lines))
    if "\r" in search_text.text or "\r" in old:
        yield "line_endings", list(_find_other_endings(search_text, old, new, whole_lines))
    edit = LineEdit(search_text, old, new)
    if edit.is_blank:
        return
    if not edit.is_plain and (plain := replace_look_alikes(search_text.text, old, new)):
        yield from (("look_alikes", splices) for _, splices in _climb_strict(search_text, *plain, whole_lines))
    yield "trailing_space", edit.find_splices("trailing_space")
    yield "indentation", edit.find_splices("indentation")
    yield "blank_lines", edit.find_splices("indentation", skip_blank=True)
    if not edit.is_plain:
        yield "look_alikes", edit.find_splices("look_alikes", skip_blank=True)


def _find_exact(text: str, old: str, new: str, whole_lines: bool) -> Iterator[Splice]:
    has_returns = "\r" in text
    if "\n" in text and not has_returns:  # a file whose lines all end with "\n" goes on with that
        new = normalise_endings(new)
    for start in find_occurrences(text, old, whole_lines=whole_lines):
        end = start + len(old)
        replacement = carry_endings(old, new, find_ending_near(text, end)) if has_returns else new
        yield Splice(start, end, replacement)


def _find_other_endings(search_text: SearchText, old: str, new: str, whole_lines: bool) -> Iterator[Splice]:
    needle, crlf_offsets, text = normalise_endings(old).removesuffix("\r"), search_text.crlf_offsets, search_text.text
    new = new.removesuffix("\r")
    if not needle:
        return
    for start in find_occurrences(search_text.lf_text, needle, whole_lines=whole_lines):
        first = start + bisect_left(crlf_offsets, start)
        last = start + len(needle)
        end = last + bisect_left(crlf_offsets, last)
        yield Splice(first, end, carry_endings(text[first:end], normalise_endings(new), find_ending_near(text, end)))


def _strip_listing(search_text: SearchText, old: str, new: str) -> Iterator[tuple[str, str]]:
    """Strip the line numbers that count up in every line of a listing: without the space after them, then with it.
    Raises `EditError` if that is in the file, and new lines are numbered in part and not as these are."""
    lines = old.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    marks = [_LISTING.match(line) for line in lines]
    numbers = [_parse_number(mark) for mark in marks if mark]
    if not numbers or len(numbers) != len(marks) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return
    rests = [line[mark.end() :] for line, mark in zip(lines, marks, strict=True) if mark]
    fresh = _find_marks(new, "".join(mark[0] for mark in marks if mark))
    for space in ("", " ") if all(rest[:1] in ("", " ") for rest in rests) else ("",):
        bare = "\n".join(_strip_number(line, space) for line in old.split("\n"))
        if not _is_numbered_alike(fresh, numbers) and bare.strip() in search_text.lf_text:
            raise build_numbered_error()
        yield bare, "\n".join(_strip_number(line, space) if mark else line for line, mark in fresh)


def _find_marks(new: str, listing_style: str) -> list[tuple[str, re.Match[str] | None]]:
    """Pair each line of a new text with its number, if it has one of the kind that is `listing_style`."""
    pairs = ((line, _LISTING.match(line)) for line in new.split("\n"))
    return [(line, mark if mark and mark[0].strip(" 0123456789") in listing_style else None) for line, mark in pairs]


def _parse_number(mark: re.Match[str]) -> int:
    return int(re.sub(r"\D", "", mark[0]))


def _is_numbered_alike(fresh: Sequence[tuple[str, re.Match[str] | None]], numbers: Sequence[int]) -> bool:
    """True if all new lines are numbered, or those that are go on with the numbers of the old ones."""
    nonblank_marks = [mark for line, mark in fresh if line]
    mark_numbers = [_parse_number(mark) for mark in nonblank_marks if mark]
    rises = all(one < other for one, other in pairwise(mark_numbers))
    return all(nonblank_marks) or (
        rises and all(numbers[0] <= number <= numbers[-1] + len(nonblank_marks) for number in mark_numbers)
    )


def _strip_number(line: str, space: str = "") -> str:
    return _LISTING.sub("", line, count=1).removeprefix(space)
