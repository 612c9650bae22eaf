"""A text that is searched several times, with its lines and an index for every comparison, built on first use.

A batch of blocks shares one search text, so that a file is split and its lines are folded once for all blocks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from core.patterns import compile_lazily
from core.text.lines import TextLines, normalise_endings, split_lines

Fold = Callable[[str], str]

ENTITY: Final = compile_lazily(r"&(?:lt|gt|amp|quot|apos|#39|#x27);")  # HTML entities that stand for signs of code
_WORD = compile_lazily(r"\w+")
_STRING = compile_lazily(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)""")
_QUOTE = compile_lazily(r"[\"'`]")
_MANY_MATCHES = 200  # after which overlapping ones are skipped
_NEEDLESS = compile_lazily(r"\s+(?=\W|$)|(?:(?<=\W)|^)\s+")
_LOOK_ALIKE = str.maketrans(
    "‘’‚‛′“”„‟″«»‐‑‒–—―−…\u00a0\u1680\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "'''''" + '"' * 7 + "-" * 7 + "\x00" + " " * 14,
    "\u200b\u200c\u200d\u2060\ufeff",
)


def fold_look_alikes(line: str) -> str:
    """Normalise characters that look the same in print: quotes, dashes, spaces, composed letters, invisible
    characters."""
    if line.isascii():
        return line.strip()
    return unicodedata.normalize("NFC", line).translate(_LOOK_ALIKE).replace("\x00", "...").strip()


def fold_spacing(line: str) -> str:
    """Fold look-alikes and drop white space except between words (one space stands for any number) and in strings."""
    text = fold_look_alikes(line)
    if not _QUOTE.search(text):
        return _NEEDLESS.sub("", " ".join(text.split()))
    return "".join(
        part if index % 2 else _NEEDLESS.sub("", re.sub(r"\s+", " ", part))
        for index, part in enumerate(split_strings(text))
    )


def split_strings(line: str) -> list[str]:
    """Split a line at its string literals, which are at the odd indexes."""
    return _STRING.split(line)


def replace_look_alikes(text: str, old: str, new: str) -> tuple[str, str] | None:
    """Replace look-alikes of `old` in both texts by plain characters; None = it has none, or `text` has one of them."""
    signs = {sign for sign in old if ord(sign) in _LOOK_ALIKE}
    if not signs or any(sign in text for sign in signs):
        return None
    table = {ord(sign): _LOOK_ALIKE[ord(sign)] for sign in signs}
    return tuple(part.translate(table).replace("\x00", "...") for part in (old, new))  # type: ignore[return-value]


FOLDS: Final[Mapping[str, Fold]] = {
    "trailing_space": str.rstrip,
    "indentation": str.strip,
    "look_alikes": fold_look_alikes,
    "spacing": fold_spacing,
}


@dataclass(frozen=True, slots=True)
class FoldedLines:
    """Lines under one fold. `lines[i]` is the line of key i (of all lines, or of those that are not blank)."""

    keys: list[str]
    lines: Sequence[int]
    index: dict[str, list[int]]

    def find_blocks(self, sequence: Sequence[str]) -> Iterator[Sequence[int]]:
        """Yield the lines of every position where the keys of `sequence` follow each other."""
        size = len(sequence)
        for start in find_sequences(self.keys, sequence, self.index):
            yield self.lines[start : start + size]


@dataclass(frozen=True)
class SearchText:
    """A text with its lines, words and keys, computed on first use; the most expensive keys are shared with later
    versions."""

    text: str
    _keyed: dict[tuple[str, bool], FoldedLines] = field(default_factory=dict)
    _squeezed: dict[str, str] = field(default_factory=dict)

    def with_text(self, text: str) -> SearchText:
        """Return the search text of a later version of this text."""
        return self if text == self.text else SearchText(text, _squeezed=self._squeezed)

    @cached_property
    def lines(self) -> TextLines:
        """The text as lines."""
        return split_lines(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word of the text."""
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def lf_text(self) -> str:
        """The text with every "\\r\\n" as "\\n"."""
        return normalise_endings(self.text)

    @cached_property
    def crlf_offsets(self) -> list[int]:
        """The offset of the line feed of every CRLF in `lf_text`, in order."""
        return [match.start() - index for index, match in enumerate(re.finditer("\r\n", self.text))]

    @cached_property
    def is_ascii(self) -> bool:
        """True if the text has no look-alikes."""
        return self.text.isascii()

    def fold_lines(self, fold: str, *, skip_blank: bool = False) -> FoldedLines:
        """Return the lines under a fold of `FOLDS`; `skip_blank` leaves out blank ones."""
        if (fold, skip_blank) not in self._keyed:
            self._keyed[fold, skip_blank] = self._build_index(FOLDS[fold], skip_blank)
        return self._keyed[fold, skip_blank]

    def _build_index(self, fold: Fold, skip_blank: bool) -> FoldedLines:
        bodies = self.lines.bodies
        positions: Sequence[int] = range(len(bodies))
        if skip_blank:
            positions = [position for position in positions if bodies[position].strip()]
            bodies = [bodies[position] for position in positions]
        fold_cache = self._squeezed if fold is fold_spacing else {}
        fold_cache.update((body, fold(body)) for body in bodies if body not in fold_cache)
        keys = [fold_cache[body] for body in bodies]
        index: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            index.setdefault(key, []).append(number)
        return FoldedLines(keys, positions, index)


def find_sequences(keys: list[str], sequence: Sequence[str], index: Mapping[str, list[int]]) -> Iterator[int]:
    """Yield where `sequence` occurs in `keys`; only the positions of its rarest line are compared. After many matches,
    overlapping ones are left out, so that the time stays proportional to the file."""
    size = len(sequence)
    if not size or size > len(keys):
        return
    needle = list(sequence)
    rarest = min(range(size), key=lambda number: len(index.get(needle[number], ())))
    match_count, free = 0, 0
    for position in index.get(needle[rarest], ()):
        start = position - rarest
        if start >= free and keys[start] == needle[0] and keys[start : start + size] == needle:
            match_count += 1
            free = start + size if match_count > _MANY_MATCHES else 0
            yield start
