"""Letters that look like others, shown as what they are, so that no two names can be taken for each other.

After Unicode's "Security Mechanisms" (UTS 39) and "Identifiers" (UAX 31), as far as a file name needs it: compatibility
forms, letters of no living alphabet and those of unusual ones are always named; letters of another alphabet where they
stand in one word with Latin ones or with each other, or where a whole word of them could be read as one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final

# Alphabets of everyday use (UAX 31, table 5), by the first word of a letter's name; "CJK" are Han characters.
EVERYDAY_SCRIPTS: Final = frozenset(
    re.findall(
        "[A-Z]+",
        "LATIN CYRILLIC GREEK ARMENIAN GEORGIAN HEBREW ARABIC THAANA DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL "
        "TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR ETHIOPIC KHMER CJK HIRAGANA KATAKANA BOPOMOFO "
        "HANGUL",
    )
)
_SCRIPT_ALIASES: Final = {"KATAKANA-HIRAGANA": "KATAKANA", "IDEOGRAPHIC": "CJK"}
# What is written in one word beside Latin letters.
_MIXED_SCRIPTS: Final = tuple(
    frozenset({"LATIN", "CJK", *each}) for each in (("HIRAGANA", "KATAKANA"), ("BOPOMOFO",), ("HANGUL",))
)
# Letters of other alphabets that look like a Latin one, or like each other, by themselves.
LATIN_LOOKALIKES: Final = frozenset(
    "аеорсухіјѕһԁԛԝӏАВЕЗКМНОРСТУХЅІЈԌоαɑγινορτυχкпгьЬՏՍօոսցհհզգյլւքՕԼՈνΑΒΕΖΗΙΚΜΝΟΡΤΥΧΓΠΦφσκтωѡԍԳғ"
    "ӠбѴѵԜҮүҽӀӘԊѰѱϜͿϺϳͰͶϷϸβΛռայყሀॽ"
    "סוןاهەہھةںഠଠဝငဟოდვჿዐภเโไ一口工力二八卜へり"
    "ಅಆಇಒಜಞಣಯಱಲഉജണഴശຈບປຝພຟຍઽኮሆጣቡኔ"
)
_KANA_LOOKALIKES: Final = frozenset("ニハカロエタトヘリーノメーへべぺベペミ")
# Latin ones beyond ASCII that look like another, strokes of Han characters, and signs that look like ASCII.
SINGLE_LOOKALIKES: Final = frozenset(
    "ƄƅƆƉƍƐƖƗƦƧƨƩƷƼƽƾƿǀǁǂǃƎǝȜȝȢȣɁɅǶıȷẝẟỿȦȧǍǎǏǐǑǒǓǔǦǧǴǵĔĕĬĭŢţƫϛ丨丶丿亅亻〇ℓ⁄∕⧸∖⧵∶꞉ːˈʹʼ‐‑‒–−․‥…ꓸ·"
)
_PIECES: Final = re.compile(r"([^\W\d_]+)|.", re.DOTALL)


def find_script(letter: str) -> str:
    """Return the alphabet of a letter in capitals, by the first word of its name."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return _SCRIPT_ALIASES.get(script, script)


def is_compatibility_form(character: str) -> bool:
    """True for another form of other characters (full width, mathematical, a ligature, a sign that is a letter), and
    for a letter that phonetics, transcription and old alphabets use, and no language that is written today."""
    if character in SINGLE_LOOKALIKES:
        return True
    if character.isspace() or not character.isalnum():
        return unicodedata.normalize("NFKC", character) != character and not character.isspace()
    code = ord(character)
    is_technical = (
        0x250 <= code < 0x300 or 0x1D00 <= code < 0x1DC0 or 0xA640 <= code < 0xA6A0 or 0xA720 <= code < 0xAB70
    )
    is_jamo = 0x1100 <= code < 0x1200 or 0xA960 <= code < 0xA980 or 0xD7B0 <= code < 0xD800
    is_old = code >= 0x10000 and find_script(character) != "CJK"
    latin = is_technical and find_script(character) in {"LATIN", "CYRILLIC", "GREEK", "MODIFIER"}
    return latin or is_jamo or is_old or unicodedata.normalize("NFKC", character) != character


def format_code_point(character: str) -> str:
    """Return a visible character together with its code point."""
    return f"‹{character} U+{ord(character):04X}›"


@lru_cache(maxsize=4_096)
def mark_lookalikes(text: str) -> str:
    """Return `text` with what can be taken for something else set apart, with its script or code point."""
    if text.isascii():
        return text
    parts = list[str]()
    for piece in _PIECES.finditer(text):
        if word := piece[1]:
            parts += mark_word(word)
        else:
            parts.append(format_code_point(piece[0]) if _is_odd(piece[0]) else piece[0])
    return "".join(parts)


def _is_odd(character: str) -> bool:
    return not character.isascii() and is_compatibility_form(character)


def mark_word(word: str) -> Iterator[str]:
    """Yield the letters of one word, in pieces: as they are, or set apart."""
    if word.isascii():
        yield word
        return
    scripts = {find_script(letter) for letter in word if not _is_odd(letter)}
    is_mixed = len(scripts) > 1 and not any(scripts <= allowed_scripts for allowed_scripts in _MIXED_SCRIPTS)
    twins = all(letter in LATIN_LOOKALIKES or letter in _KANA_LOOKALIKES for letter in word)
    for script, letters in groupby(word, _group_script):
        run = "".join(letters)
        if not script:
            yield from map(format_code_point, run)
        elif script == "LATIN":
            yield run
        elif (
            script not in EVERYDAY_SCRIPTS
            or is_mixed
            or twins
            or (script == "KATAKANA" and _KANA_LOOKALIKES.issuperset(run))
        ):
            yield f"‹{run}·{script.title()}›"
        else:
            yield run


def _group_script(letter: str) -> str:
    """Return the script of a letter; "": it is named by itself, whatever it stands beside."""
    return "" if _is_odd(letter) else find_script(letter)
