"""The text that models of the benchmarks answer with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

END = "END-OF-ANSWER"
_SENTENCE = "the quick brown fox jumps over a lazy dog while streams of words go by"
_CODE = "\n\n```python\ndef area(width: int, height: int) -> int:\n    return width * height\n```\n\n"


def words(count: int) -> Iterator[str]:
    """So many words (a token each), in paragraphs, with some bold and a code block here and there."""
    for number, word in zip(range(count), itertools.cycle(_SENTENCE.split()), strict=False):
        styled_word = f"**{word}**" if number % 23 == 22 else word
        if number % 400 == 399:
            yield styled_word + _CODE
        else:
            yield styled_word + ("\n\n" if number % 60 == 59 else " ")


def text(count: int) -> str:
    """The words in one piece, with a mark at the end that can be waited for."""
    return "".join(words(count)) + f"\n\n{END}"
