"""WordPiece: text as numbers of the pieces that BERT and its heirs were trained with (Devlin et al. 2018, uncased).

Text is lower-cased without accents and cut at spaces, punctuation and ideographs; each word is the longest piece of the
vocabulary that it begins with, then the longest that goes on from there ("##…"), or unknown as a whole. `vocab.txt` is
that of bert-base-uncased (Google, Apache-2.0). Text is only text: "[SEP]" in it is five pieces, never a mark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

_VOCABULARY: Final = Path(__file__).with_name("vocab.txt")
_LONGEST_WORD: Final = 100
_UNKNOWN: Final = "[UNK]"
_LEFT_OUT: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Mn"})
_IDEOGRAPHS: Final = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


class _Spacing(dict[int, str]):
    """For each character what stands for it, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = replacement = _space_character(chr(code))
        return replacement


_SPACED: Final = _Spacing()


def _space_character(character: str) -> str:
    kind = unicodedata.category(character)
    if character.isspace() and (kind[0] == "Z" or character in "\t\n\r"):
        return " "
    if kind in _LEFT_OUT or character == "\ufffd":
        return ""
    is_ascii_sign = character.isascii() and not character.isalnum()
    if is_ascii_sign or kind[0] == "P" or any(first <= ord(character) <= last for first, last in _IDEOGRAPHS):
        return f" {character} "
    return character.lower()


class WordPieces:
    """The pieces of a vocabulary, by their numbers."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._first, self._last = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._cut = lru_cache(maxsize=1 << 16)(self._cut_word)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the numbers of at most `limit` pieces, with the marks of the beginning and the end."""
        numbers = [self._first]
        for word in unicodedata.normalize("NFD", text).translate(_SPACED).split():
            numbers += self._cut(word)
            if len(numbers) >= limit:
                break
        return [*numbers[: limit - 1], self._last]

    def _cut_word(self, word: str) -> tuple[int, ...]:
        numbers: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), 0)
            if not end:
                break
            numbers.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(numbers) if start == len(word) else (self._numbers[_UNKNOWN],)


@cache
def load_word_pieces() -> WordPieces:
    """Return the pieces of `vocab.txt`, loaded once in a process."""
    return WordPieces(_VOCABULARY.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
