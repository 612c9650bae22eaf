"""Words of code and prose in the index: an identifier counts as itself and as its parts, and parts are stemmed.

Queries use the same function, so a change here requires a rebuild (`WORDS_VERSION`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from core.patterns import compile_lazily

WORDS_VERSION: Final = 1
MAX_WORD: Final = 64
"""Characters of a word; longer ones are data (base64, hashes)."""

_WORD = compile_lazily(r"\w+")
_PART = compile_lazily(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_KEPT_S = ("ss", "us", "is")
_VOWELS = frozenset("aeiouy")


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, lower-cased and stemmed, every identifier as a whole and in parts.

    `parseHTTPHeaders` gives parsehttpheaders, pars, http, header; `state_dict` gives state_dict, stat, dict.
    """
    words: list[str] = []
    extend = words.extend
    for identifier in _WORD.findall(text):
        extend(_stem_identifier(identifier))
    return words


@lru_cache(maxsize=1 << 17)
def _stem_identifier(identifier: str) -> tuple[str, ...]:
    words = split_identifier(identifier)
    if len(words) == 1:
        return (stem(words[0]),)
    return (words[0], *map(stem, words[1:])) if words else ()


def split_identifier(identifier: str) -> tuple[str, ...]:
    """Return an identifier in lower case, followed by its parts if it has several; () for a digit or data."""
    if len(identifier) > MAX_WORD:
        return ()
    parts = [part.lower() for part in _PART.findall(identifier) if len(part) > 1 or not part.isdigit()]
    full_word = identifier.lower()
    if len(parts) == 1 and len(parts[0]) >= len(full_word) - 1:
        return (full_word,) if parts[0] == full_word else (full_word, parts[0])
    return (full_word, *parts) if parts else ()


def stem(word: str) -> str:
    """Return a word without plural, -ed, -ing and silent e."""
    if len(word) < 4:
        return word
    if word[-1] == "s" and not word.endswith(_KEPT_S):
        word = _strip_plural(word)
    if word.endswith("ing") and len(word) > 5:
        word = _strip_suffix(word, 3)
    elif word.endswith("ed") and len(word) > 4:
        word = _strip_suffix(word, 2)
    return word[:-1] if word[-1] == "e" and len(word) > 3 else word


def _strip_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]


def _strip_suffix(word: str, length: int) -> str:
    """Return the stem before a suffix; the word itself if the stem would have no vowel."""
    rest = word[:-length]
    if _VOWELS.isdisjoint(rest):
        return word
    is_doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "lsz"
    return rest[:-1] if is_doubled else rest
