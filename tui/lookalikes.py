"""Letters that look like others: shown as what they are, so that no two names can be taken for each other.

After Unicode's "Security Mechanisms" (UTS 39), as far as a file name needs it: scripts whose letters look like Latin
ones are named where they stand among these, or where a whole word of them could be read as one; compatibility forms of
ASCII characters, and the few that only look like them, are named always.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

# Scripts with letters that can be taken for Latin ones, by the first word of the letter's name.
ALIKE: Final = frozenset({"CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU", "GEORGIAN", "DESERET"})
# Letters of other scripts, and Latin ones beyond ASCII, that look like a Latin one by themselves.
TWINS: Final = frozenset("аеорсухіјѕһԁԛԝӏАВЕЗКМНОРСТУХЅІЈԌοανρικυΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսցհհՍԼᎪᏴᏟᎬᎻᎫᏦᏞᎷᏢᎡᏚᎢᏙᏔᏃ")
LONERS: Final = frozenset("ɑɡıȷǀǃℓ⁄∕⧸∖⧵∶꞉ːˈʹʼ‐‑‒–−․‥…ꓸ·")
_WORD: Final = re.compile(r"[^\W\d_]+")


def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def _is_form(character: str) -> bool:
    """Whether it is another form of an ASCII character: full width, mathematical, raised."""
    return character in LONERS or (unicodedata.normalize("NFKC", character).isascii() and not character.isspace())


@lru_cache(maxsize=4_096)
def marked(text: str) -> str:
    """`text` with what can be taken for something else set apart, with the name of its script or its code point."""
    if text.isascii():
        return text
    text = "".join(f"‹{each} U+{ord(each):04X}›" if not each.isascii() and _is_form(each) else each for each in text)
    return _WORD.sub(lambda word: _marked_word(word.group()), text)


def _marked_word(word: str) -> str:
    if word.isascii():
        return word
    scripts = [_script(letter) for letter in word]
    mixed = "LATIN" in scripts and not ALIKE.isdisjoint(scripts)
    if not mixed and not all(letter in TWINS for letter in word):
        return word
    shown, before = "", ""
    for letter, script in zip(word, scripts, strict=True):
        foreign = script if script in ALIKE else ""
        if foreign != before:
            shown += f"·{before.title()}›" if before else ""
            shown += "‹" if foreign else ""
        shown, before = shown + letter, foreign
    return shown + (f"·{before.title()}›" if before else "")
