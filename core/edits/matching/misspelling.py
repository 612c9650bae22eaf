"""The last rung: a block with a few misspelt words, if no other block of the file comes near it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from core.edits.matching.line_edit import LineEdit, MatchedBlock, touches_unknown_blanks
from core.edits.matching.search_text import fold_spacing
from core.patterns import compile_lazily
from core.text.lines import Splice, count_shared_ends
from core.text.similarity import find_closest, measure_similarity

_SIMILAR_LINE: Final = 0.8  # similarity of a misspelt line
_SIMILAR_BLOCK: Final = 0.9  # mean similarity of a misspelt block
_MARGIN: Final = 0.1  # by which the best block has to be better
_MAX_CANDIDATES: Final = 50  # lines more common than that locate no block
_LONG_LINE: Final = 16  # characters of a line that locates a block by its likeness
_SHORTEST: Final = 4  # letters that distinguish a slip from another name, in a word or in a part of a name
_DEFINITION = compile_lazily(
    r"\s*(?:(?:export|default|public|private|protected|static|abstract|async|pub|override)\s+)*"
    r"(?:def|class|func|function|fn|struct|interface|trait|enum|impl|module|namespace|type)\b"
)
_WORD = compile_lazily(r"\w+")
_PART = compile_lazily(r"[A-Z]?[a-z]+|[A-Z]+|[^\W_A-Za-z]+")
_ENDINGS = ("s", "es", "d", "ed", "er", "ing", "ly", "n")


def find_misspelt(edit: LineEdit) -> list[Splice]:
    """Find the one block whose lines are equal apart from misspelt words; no definition, number or sign may differ."""
    scored_blocks = [(_measure_likeness(edit, block), block) for block in _find_candidates(edit)]
    ranking = sorted(scored_blocks, key=lambda pair: -pair[0])
    if not ranking or ranking[0][0] < _SIMILAR_BLOCK:
        return []
    best, block = ranking[0]
    if any(score > best - _MARGIN and other.first != block.first for score, other in ranking[1:]):
        return []
    shift = edit.deduce_shift(block)
    return [edit.build_splice(block, shift)] if shift is not None and _is_misspelt(edit, block, None) else []


def find_misspelt_context(edit: LineEdit, removed: Collection[int]) -> MatchedBlock | None:
    """Find the only block whose lines are equal apart from misspelt words in retained lines. `removed`: the indexes of
    the old lines that are removed."""
    blocks = {block.first: block for block in _find_candidates(edit) if _is_misspelt(edit, block, removed)}
    return next(iter(blocks.values())) if len(blocks) == 1 else None


def _is_misspelt(edit: LineEdit, block: MatchedBlock, removed: Collection[int] | None) -> bool:
    """True if the lines of a block equal the old ones apart from misspelt words. In context (`removed` is not None) a
    definition may be misspelt outside of its name, and removed lines may only differ in spacing."""
    words = edit.search_text.words
    for index, (old_line, present) in zip(edit.filled, edit.pair_lines(block), strict=True):
        if old_line.strip() == present.strip():
            continue
        if removed is not None and fold_spacing(old_line) == fold_spacing(present):
            continue
        if index in (removed or ()) or not _is_typo(old_line.strip(), present.strip(), words):
            return False
        match = _DEFINITION.match(present)
        if match and (removed is None or _find_name(old_line) != _find_name(present)):
            return False
    return not touches_unknown_blanks(block, edit.change.opcodes)


def _find_candidates(edit: LineEdit) -> list[MatchedBlock]:
    """Return blocks of as many filled lines that share an uncommon line, or have one similar to a long line."""
    folded_lines = edit.search_text.fold_lines("indentation", skip_blank=True)
    old_lines = [edit.old_lines[index].strip() for index in edit.filled]
    size = len(old_lines)
    votes: Counter[int] = Counter()
    for number, line in enumerate(old_lines):
        positions = folded_lines.index.get(line, ())
        if len(positions) <= _MAX_CANDIDATES:
            votes.update(position - number for position in positions)
    starts = [start for start, _ in votes.most_common(_MAX_CANDIDATES)] or list(
        _find_alike(old_lines, folded_lines.keys)
    )
    return [
        edit.map_block(folded_lines.lines[start : start + size])
        for start in starts
        if 0 <= start <= len(folded_lines.keys) - size
    ]


def _find_alike(old_lines: list[str], keys: list[str]) -> Iterator[int]:
    longest = max(range(len(old_lines)), key=lambda number: len(old_lines[number]))
    if len(old_lines) <= 2 and len(old_lines[longest]) >= _LONG_LINE:
        for position, _ in find_closest(old_lines[longest], keys, limit=6, cutoff=_SIMILAR_LINE):
            yield position - longest


def _measure_likeness(edit: LineEdit, block: MatchedBlock) -> float:
    """Return the mean similarity of the lines, from 0.0 to 1.0."""
    pairs = [(old_line.strip(), present.strip()) for old_line, present in edit.pair_lines(block)]
    return sum(
        1.0 if old_line == present else measure_similarity(old_line, present) for old_line, present in pairs
    ) / len(pairs)


def _is_typo(old_line: str, present: str, known_words: frozenset[str]) -> bool:
    """True if the lines only differ in misspelt words: nearly the same letters, and a word that the file does not have.
    Another number or another sign has another meaning."""
    old_words, file_words = _WORD.findall(old_line), _WORD.findall(present)
    if len(old_words) != len(file_words) or _strip_words(old_line) != _strip_words(present):
        return False
    pairs = [(one, other) for one, other in zip(old_words, file_words, strict=True) if one != other]
    return all(
        min(len(one), len(other)) >= _SHORTEST
        and one not in known_words
        and re.findall(r"\d+", one) == re.findall(r"\d+", other)
        and _is_one_slip(one, other)
        and not _is_renamed(one, other, present)
        for one, other in pairs
    )


def _find_name(line: str) -> str:
    """Return the first word after the keyword of a definition."""
    keyword = _DEFINITION.match(line)
    name = _WORD.search(line, keyword.end()) if keyword else None
    return name[0] if name else ""


def _is_one_slip(one: str, other: str) -> bool:
    """True if one letter was omitted, added or mistaken, or two neighbours were swapped."""
    head, tail = count_shared_ends(one, other)
    middle, other_middle = one[head : len(one) - tail], other[head : len(other) - tail]
    is_swapped = len(middle) == 2 and middle == other_middle[::-1]
    return is_swapped or max(len(middle), len(other_middle)) <= 1


def _is_renamed(one: str, other: str, line: str) -> bool:
    """True if two words are two names: one is an inflection of the other, in a compound name or in a call."""
    parts, others = _PART.findall(one), _PART.findall(other)
    if len(parts) != len(others):
        return True
    changed_lengths = [
        max(len(first), len(second)) for first, second in zip(parts, others, strict=True) if first != second
    ]
    if changed_lengths and min(changed_lengths) < _SHORTEST:
        return True
    is_inflected = any(
        long != short and long.lower().startswith(short.lower()) and long[len(short) :].lower() in _ENDINGS
        for first, second in zip(parts, others, strict=True)
        for short, long in (sorted((first, second), key=len),)
    )
    return is_inflected and (len(parts) > 1 or re.search(rf"(?:\.\s*{other}\b|\b{other}\s*\()", line) is not None)


def _strip_words(line: str) -> str:
    """Return the signs between the words, without meaningless spacing and a closing comma or semicolon."""
    return _WORD.sub("w", fold_spacing(line)).rstrip(";,")
