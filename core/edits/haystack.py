"""A text that is searched several times: its lines, and for each way of comparing them an index, made when first asked.

A batch of blocks shares one haystack, so that a file is split and its lines are folded once for all blocks and not once
for each.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from core.edits.lines import Lines, split_lines, to_lf

Fold = Callable[[str], str]

_WORD = re.compile(r"\w+")
_STRING = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)""")
_QUOTE = re.compile(r"[\"'`]")
_MANY = 200
_NEEDLESS = re.compile(r"\s+(?=\W|$)|(?:(?<=\W)|^)\s+")
_LOOK_ALIKE = str.maketrans(
    "‘’‚‛′“”„‟″«»‐‑‒–—―−…\u00a0\u1680\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "'''''" + '"' * 7 + "-" * 7 + "\x00" + " " * 14,
    "\u200b\u200c\u200d\u2060\ufeff",
)


def folded(line: str) -> str:
    """Without what looks the same in print: quotes, dashes, spaces, composed letters, invisible characters."""
    if line.isascii():
        return line.strip()
    return unicodedata.normalize("NFC", line).translate(_LOOK_ALIKE).replace("\x00", "...").strip()


def squeezed(line: str) -> str:
    """Folded, and without white space except between words, where one space stands for any number, and in strings."""
    text = folded(line)
    if not _QUOTE.search(text):
        return _NEEDLESS.sub("", " ".join(text.split()))
    return "".join(
        part if index % 2 else _NEEDLESS.sub("", re.sub(r"\s+", " ", part))
        for index, part in enumerate(_STRING.split(text))
    )


def without_look_alikes(text: str, old: str, new: str) -> tuple[str, str] | None:
    """Both `old` and `new` with plain signs for those that only look like them and that the text does not have; None
    when `old` has no such sign, or the text has one of them."""
    signs = {sign for sign in old if ord(sign) in _LOOK_ALIKE}
    if not signs or any(sign in text for sign in signs):
        return None
    table = {ord(sign): _LOOK_ALIKE[ord(sign)] for sign in signs}
    return tuple(each.translate(table).replace("\x00", "...") for each in (old, new))  # type: ignore[return-value]


FOLDS: Final[Mapping[str, Fold]] = {
    "trailing_space": str.rstrip,
    "indentation": str.strip,
    "look_alikes": folded,
    "spacing": squeezed,
}


@dataclass(frozen=True, slots=True)
class Keyed:
    """Lines under one fold. `places[i]` is the line of key i (all lines, or those that are not blank)."""

    fold: Fold
    keys: list[str]
    places: Sequence[int]
    index: dict[str, list[int]]

    def blocks(self, wanted: Sequence[str]) -> Iterator[Sequence[int]]:
        """The lines of each place where the keys of `wanted` stand one after the other."""
        size = len(wanted)
        for start in sequences(self.keys, wanted, self.index):
            yield self.places[start : start + size]


@dataclass(frozen=True)
class Haystack:
    """`lines`, their words and their keys are computed at first use and kept; the dearest keys by line, for what the
    text becomes."""

    text: str
    _keyed: dict[tuple[str, bool], Keyed] = field(default_factory=dict)
    _squeezed: dict[str, str] = field(default_factory=dict)

    def after(self, text: str) -> Haystack:
        """The haystack of what this text became."""
        return self if text == self.text else Haystack(text, _squeezed=self._squeezed)

    @cached_property
    def lines(self) -> Lines:
        return split_lines(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def lf(self) -> str:
        """The text with every "\\r\\n" as "\\n"."""
        return to_lf(self.text)

    @cached_property
    def carriages(self) -> list[int]:
        """For each "\\r\\n" in turn, where its "\\n" stands in `lf`."""
        return [match.start() - index for index, match in enumerate(re.finditer("\r\n", self.text))]

    @cached_property
    def ascii(self) -> bool:
        return self.text.isascii()

    def keyed(self, fold: str, *, skip_blank: bool = False) -> Keyed:
        """The lines under a fold of `FOLDS`, blank ones left out on demand."""
        known = self._keyed.get((fold, skip_blank))
        if known is None:
            known = self._keyed[fold, skip_blank] = self._index(FOLDS[fold], skip_blank)
        return known

    def _index(self, fold: Fold, skip_blank: bool) -> Keyed:
        bodies = self.lines.bodies
        places: Sequence[int] = range(len(bodies))
        if skip_blank:
            places = [place for place in places if bodies[place].strip()]
            bodies = [bodies[place] for place in places]
        keys = self._all_squeezed(bodies) if fold is squeezed else [fold(body) for body in bodies]
        index: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            index.setdefault(key, []).append(number)
        return Keyed(fold, keys, places, index)

    def _all_squeezed(self, bodies: Sequence[str]) -> list[str]:
        known = self._squeezed
        known.update((body, squeezed(body)) for body in bodies if body not in known)
        return [known[body] for body in bodies]


def sequences(keys: list[str], wanted: Sequence[str], index: Mapping[str, list[int]]) -> Iterator[int]:
    """Where `wanted` stands in `keys`: only the places of its rarest line are looked at. When there are very many,
    those that overlap are left out, so that the time stays in proportion to the file."""
    size = len(wanted)
    if not size or size > len(keys):
        return
    needle = list(wanted)
    rarest = min(range(size), key=lambda number: len(index.get(needle[number], ())))
    found, free = 0, 0
    for place in index.get(needle[rarest], ()):
        start = place - rarest
        if start >= free and keys[start] == needle[0] and keys[start : start + size] == needle:
            found += 1
            free = start + size if found > _MANY else 0
            yield start
