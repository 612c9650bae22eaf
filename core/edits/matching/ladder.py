"""The one matching ladder: it finds the text that a model quoted in a file.

Rungs, from strict to lenient: exact, line endings, (numbers copied from a listing), trailing white space, uniform
re-indentation, blank lines, Unicode look-alikes, spacing within lines, uneven indentation, the end of a line, elided
middles, a fence, entities, escapes, white space around, reflowed text, misspelt words, other case. The first rung with
a match decides. A match must be unique there (or all are requested), otherwise nothing is changed and the error names
the lines. A result names its rung.

A block may leave out its middle with a line of three dots. If both sides have the same number of such lines, the lines
that they replace stay as they are, and the pieces around them are edited. If only the old side has them, everything
from the first piece to the last is replaced. A piece has to be unique: the first in the whole file, a following one
within the indentation of the first, so that no region extends into the next function.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from core.edits.errors import EditError
from core.edits.indentation import measure_depth
from core.edits.matching import characters
from core.edits.matching.characters import find_occurrences
from core.edits.matching.failures import build_ambiguity_error, build_not_found_error
from core.edits.matching.line_edit import LineEdit, MatchedBlock
from core.edits.matching.misspelling import find_misspelt
from core.edits.matching.new_lines import build_numbered_error, mend_new_text
from core.edits.matching.search_text import SearchText, replace_look_alikes
from core.patterns import compile_lazily
from core.text.lines import Splice, carry_endings, find_ending_near, find_line_numbers, normalise_endings, split_closed

_DOTS = compile_lazily(r"\s*(?:(?:#|//|--|/\*|<!--|\{/\*|%|;)\s*)?(?:\.\.\.|…)\s*(?:\*/\}?|-->)?\s*$")
_FOLDS = ("trailing_space", "indentation", "look_alikes")
_LISTING = compile_lazily(r"\s*\d+(?: ?[|→]|\t|: ?)")
_ONE_PLACE = ("elided", "fuzzy")
_PLAINER = {
    "fence": characters.strip_fence,
    "entities": characters.resolve_entities,
    "escapes": characters.strip_escapes,
}


class LadderMatch(NamedTuple):
    """The rung that matched, the splices of its matches, and the kinds of mistakes that were repaired in the new
    text."""

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
    """Find the splices that replace `old` by `new`, both literal, on the first rung with a match.

    `whole_lines`: `old` consists of complete lines; `line_hint`: the 1-indexed start that the model named, which
    decides between several matches. Raises `EditError` if `old` is empty, has no match, or has several without
    `replace_all`.
    """
    if not old:
        raise EditError("The text to find is empty.", hint="Give the exact text to replace.")
    new, slips = mend_new_text(search_text, old, new)
    climbs = (climb(search_text, old, new, whole_lines) for climb in (_climb_strict, _climb_lenient))
    for rung, splices in chain.from_iterable(climbs):
        if not splices:
            continue
        if len(splices) == 1 or rung == "elided" or (replace_all and rung not in _ONE_PLACE):
            return LadderMatch(rung, splices, slips)
        line_numbers = find_line_numbers(search_text.text, (splice.start for splice in splices))
        if line_hint is None or line_numbers.count(line_hint) != 1:
            raise build_ambiguity_error(search_text, line_numbers, rung)
        return LadderMatch(rung, [splices[line_numbers.index(line_hint)]], slips)
    raise build_not_found_error(search_text, old)


def _climb_lenient(
    search_text: SearchText, old: str, new: str, whole_lines: bool
) -> Iterator[tuple[str, list[Splice]]]:
    """Yield the rungs on which the words are the same, or nearly so."""
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
    """Yield the rungs on which lines are equal apart from white space, endings and look-alikes."""
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
    if "\n" in text and not has_returns:  # a file whose lines all end with "\n" stays like that
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
    """Strip line numbers that count up in every line of a listing: without the space after them, then with it.

    Raises `EditError` if the stripped text is in the file, and only some of the new lines are numbered, in another
    sequence.
    """
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
    """Pair every line of a new text with its number, if it has one in the form `listing_style`."""
    pairs = ((line, _LISTING.match(line)) for line in new.split("\n"))
    return [(line, mark if mark and mark[0].strip(" 0123456789") in listing_style else None) for line, mark in pairs]


def _parse_number(mark: re.Match[str]) -> int:
    return int(re.sub(r"\D", "", mark[0]))


def _is_numbered_alike(fresh: Sequence[tuple[str, re.Match[str] | None]], numbers: Sequence[int]) -> bool:
    """True if all new lines are numbered, or the numbers continue those of the old lines."""
    nonblank_marks = [mark for line, mark in fresh if line]
    mark_numbers = [_parse_number(mark) for mark in nonblank_marks if mark]
    rises = all(one < other for one, other in pairwise(mark_numbers))
    return all(nonblank_marks) or (
        rises and all(numbers[0] <= number <= numbers[-1] + len(nonblank_marks) for number in mark_numbers)
    )


def _strip_number(line: str, space: str = "") -> str:
    return _LISTING.sub("", line, count=1).removeprefix(space)


def find_elided(search_text: SearchText, old: str, new: str) -> list[Splice]:
    """Find the splices of the pieces (or the one of the whole region); none without dots or without a unique match."""
    olds, news = _split_pieces(old), _split_pieces(new)
    if len(olds) < 2 or not olds[0].strip() or not olds[-1].strip():
        return []
    edits = [LineEdit(search_text, piece, piece) for piece in olds]
    blocks = _locate_pieces(edits)
    if not blocks or len(news) not in (1, len(olds)):
        return []
    if len(news) > 1:
        return _splice_pieces(search_text, olds, news, blocks)
    shift = edits[0].deduce_shift(blocks[0])
    if shift is None:
        return []
    lines, first, last = search_text.lines, blocks[0].first, blocks[-1].last
    text = lines.find_dominant_ending().join(map(shift, LineEdit(search_text, old, new).new_lines))
    return [Splice(lines.starts[first], lines.find_end(last), text + (lines.ends[last] if text else ""))]


def _splice_pieces(
    search_text: SearchText, olds: Sequence[str], news: Sequence[str], blocks: Sequence[MatchedBlock]
) -> list[Splice]:
    splices = []
    for old, new, block in zip(olds, news, blocks, strict=True):
        edit = LineEdit(search_text, old, new)
        shift = edit.deduce_shift(block)
        if shift is None:
            return []
        splices.append(edit.build_splice(block, shift))
    return splices


def _split_pieces(text: str) -> list[str]:
    pieces: list[list[str]] = [[]]
    for line in split_closed(text)[0]:
        if _DOTS.match(line):
            pieces.append([])
        else:
            pieces[-1].append(f"{line}\n")
    return ["".join(piece) for piece in pieces]


def _locate_pieces(edits: Sequence[LineEdit]) -> list[MatchedBlock]:
    if any(edit.is_blank for edit in edits):
        return []
    blocks: list[MatchedBlock] = []
    for edit in edits:
        start = blocks[-1].last + 1 if blocks else 0
        stop = _find_scope_end(edit, blocks[0].first, start) if blocks else len(edit.lines)
        block = _find_only(edit, start, stop)
        if block is None:
            return []
        blocks.append(block)
    return blocks


def _find_only(edit: LineEdit, start: int, stop: int) -> MatchedBlock | None:
    for fold in _FOLDS:
        blocks = [
            block
            for block in edit.find_blocks(fold, True)
            if start <= block.first and block.last < stop and edit.deduce_shift(block) is not None
        ]
        if blocks:
            return blocks[0] if len(blocks) == 1 else None
    return None


def _find_scope_end(edit: LineEdit, first: int, start: int) -> int:
    """Return the line after the scope that `first` opens: the next less indented one, or one that opens another
    scope."""
    bodies = edit.lines.bodies
    depth = measure_depth(bodies[first])
    for number in range(start, len(bodies)):
        line_depth = measure_depth(bodies[number])
        if bodies[number].strip() and line_depth < depth:
            return number
        if line_depth == depth and re.match(r"\s*[^\W\d]", bodies[number]) and number > start:
            return number + 1
    return len(bodies)
