"""Names as they are shown on screens and in printed lines: no two look alike, and none acts on the terminal.

A name is that of a file, a branch or a todo: somebody else chose it, and the user decides by it. Whatever is not
plainly visible as itself becomes `‹…›` or a control picture; names can't contain these, so the shown form can be read
back. `expose_controls` and `to_one_line` are for prose around names: nothing in it is hidden, and no line of it is
forged.

Lookalike letters follow Unicode's "Security Mechanisms" (UTS 39) and "Identifiers" (UAX 31), as far as a file name
needs it. Compatibility forms, and letters of dead or unusual alphabets, are always marked; letters of another alphabet
where they stand in one word with Latin letters or with each other, or where a whole word of them could be read as
Latin.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final

from core.patterns import compile_lazily

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
# Scripts that mix with Latin letters in one word.
_MIXED_SCRIPTS: Final = tuple(
    frozenset({"LATIN", "CJK", *scripts}) for scripts in (("HIRAGANA", "KATAKANA"), ("BOPOMOFO",), ("HANGUL",))
)
# Letters of other alphabets that look like a Latin one or like each other.
LATIN_LOOKALIKES: Final = frozenset(
    "аеорсухіјѕһԁԛԝӏАВЕЗКМНОРСТУХЅІЈԌоαɑγινορτυχкпгьЬՏՍօոսցհհզգյլւքՕԼՈνΑΒΕΖΗΙΚΜΝΟΡΤΥΧΓΠΦφσκтωѡԍԳғ"
    "ӠбѴѵԜҮүҽӀӘԊѰѱϜͿϺϳͰͶϷϸβΛռայყሀॽ"
    "סוןاهەہھةںഠଠဝငဟოდვჿዐภเโไ一口工力二八卜へり"
    "ಅಆಇಒಜಞಣಯಱಲഉജണഴശຈບປຝພຟຍઽኮሆጣቡኔ"
)
_KANA_LOOKALIKES: Final = frozenset("ニハカロエタトヘリーノメーへべぺベペミ")
# Latin lookalikes beyond ASCII, strokes of Han characters, and signs that look like ASCII.
SINGLE_LOOKALIKES: Final = frozenset(
    "ƄƅƆƉƍƐƖƗƦƧƨƩƷƼƽƾƿǀǁǂǃƎǝȜȝȢȣɁɅǶıȷẝẟỿȦȧǍǎǏǐǑǒǓǔǦǧǴǵĔĕĬĭŢţƫϛ丨丶丿亅亻〇ℓ⁄∕⧸∖⧵∶꞉ːˈʹʼ‐‑‒–−․‥…ꓸ·"
)
_WORD_PIECES: Final = compile_lazily(r"([^\W\d_]+)|.", re.DOTALL)
ELLIPSIS: Final = "…"
# C0 without tab and newline, DEL, C1, line and paragraph separators, bidi controls, zero-width and invisible
# characters, lone surrogates, interlinear and musical format characters, tags, variation selectors beyond emoji.
HIDDEN: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
MARKS: Final = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\ufe00-\ufe0f\ufe20-\ufe2f"
)
_MAX_MARKS: Final = 4
_UNSAFE_TEXT = compile_lazily(f"[{HIDDEN}]|[{MARKS}]{{{_MAX_MARKS + 1},}}")
_UNSAFE_RUNS = compile_lazily(f"([{HIDDEN}])\\1*|([{MARKS}]{{{_MAX_MARKS}}})([{MARKS}]+)")
_TAG_RUN = compile_lazily("[\U000e0000-\U000e0fff]{2,}")
_MAX_NAMED: Final = 40  # distinct characters of a run that are spelled out
_LOOSE_MARK = compile_lazily(f"[{MARKS}{HIDDEN}]")
_BLANKS = compile_lazily("^ +| +$|(?<= ) +")
_INVISIBLE = compile_lazily(f"[{HIDDEN}]")
# Some letters, Hangul's fillers, are invisible.
_PIECES = compile_lazily(rf"((?:(?![{HIDDEN}])[^\W\d_])+)|(.)", re.DOTALL)
_BYTES: Final = range(0x10FF80, 0x110000)  # bytes of invalid UTF-8 on the wire; see `workspace.file_names`
# Unambiguous signs beyond letters.
_PLAIN_SIGNS: Final = frozenset("§©®¶€£¥¿«»、。〈〉《》「」『』【】")


def display_name(name: str, width: int = 0) -> str:
    """Return a name as it is shown, on one line; only its end if it has more than `width` characters (0: unlimited).

    Different names are shown differently: nothing is dropped or joined, and lookalikes are marked. ASCII names, and
    those of the world's languages, stay as they are.
    """
    if not (name.isascii() and name.isprintable()) or "  " in name or name != name.strip():
        name = "".join(_mark_pieces(name[-4 * width :] if width else name))
    return name if not 0 < width < len(name) else ELLIPSIS + name[len(name) - max(width - 1, 0) :]


def _mark_pieces(name: str) -> Iterator[str]:
    blanks = {index for run in _BLANKS.finditer(name) for index in range(run.start(), run.end())}
    before, marks = "", 0
    for match in _PIECES.finditer(name):
        if word := match[1]:
            yield from mark_word(word)
            before, marks = word[-1], 0
        elif _is_mark_of(match[2], before, marks):
            yield match[2]
            before, marks = match[2], marks + 1
        else:
            yield _display_character(match[2], is_odd=match.start() in blanks)
            before, marks = "", 0


def _is_mark_of(character: str, before: str, marks: int) -> bool:
    """True for a single combining sign that an alphabet writes with its letters (a vowel, a tone); not for loose
    accents or invisible signs."""
    if not before or before.isascii() or character == before or marks > 1 or _LOOSE_MARK.match(character):
        return False
    return unicodedata.category(character) in {"Mn", "Mc"} and unicodedata.normalize("NFKC", character) == character


def _display_character(character: str, *, is_odd: bool) -> str:
    code = ord(character)
    if 0x20 <= code < 0x7F and not is_odd:
        return character
    if code < 0x20:
        return chr(0x2400 + code)
    if code in _BYTES:
        return f"‹byte {code & 0xFF:02X}›"
    if character in _PLAIN_SIGNS or (
        code >= 0x1F300
        and not 0x1F650 <= code < 0x1F680
        and not 0x1F700 <= code < 0x1F900
        and unicodedata.category(character) in {"So", "Sk"}
    ):
        return character
    is_seen = is_compatibility_form(character) and character.isprintable() and not _INVISIBLE.match(character)
    return format_code_point(character) if is_seen else f"‹U+{code:04X}›"


def _display_run(match: re.Match[str]) -> str:
    run = match.group()
    if match.group(2):
        return match.group(2) + _name_run(match.group(3))
    code = ord(run[0])
    if code < 0x20 and len(run) == 1:
        return chr(0x2400 + code)
    count = f"×{len(run)}" if len(run) > 1 else ""
    return f"‹U+{code:04X}{count}›"


def _name_run(run: str) -> str:
    """Return the characters of a run by number; of a long one the rest by its length and hash, so that no two look
    alike."""
    groups = [(sign, sum(1 for _ in group)) for sign, group in groupby(run)]
    label = "".join(f"‹U+{ord(sign):04X}{f'×{number}' if number > 1 else ''}›" for sign, number in groups[:_MAX_NAMED])
    if len(groups) <= _MAX_NAMED:
        return label
    rest = run[sum(number for _, number in groups[:_MAX_NAMED]) :]
    import hashlib  # OpenSSL takes 3 ms of a start, and few names get here

    digest = hashlib.sha256(rest.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{label}‹and {len(rest):,} more, {digest}›"


def expose_controls(text: str) -> str:
    """Return every control, bidi, zero-width or tag character as a visible escape; newlines and tabs stay.

    For texts that the user decides on (a command that asks for approval): nothing is dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    if not _UNSAFE_TEXT.search(text):
        return text
    text = _TAG_RUN.sub(lambda tags: _name_run(tags.group()), text)
    return _UNSAFE_RUNS.sub(_display_run, text)


def to_one_line(text: str) -> str:
    """Return prose with names in it as one line, with control, hidden and line-breaking characters made visible."""
    return expose_controls(text.replace("\n", "␊").replace("\t", "␉").replace("\r", "␍"))


def cut_middle(text: str, width: int) -> str:
    """Return a command in `width` characters: its first word and its end say most, so it is cut between them."""
    if len(text) <= width or width < len("a…b"):
        return text[: max(width, 0)]
    first_word = len(text.partition(" ")[0])
    start = max(first_word, width // 2) if first_word <= width * 2 // 3 else width // 2
    return f"{text[:start].rstrip()}{ELLIPSIS}{text[len(text) - (width - start - 1) :].lstrip()}"


def shorten_model(model: str) -> str:
    """Return the id of a model; of a file only its name, because a path says little and reveals the user's machine."""
    provider, _, name = model.partition("/")
    is_file = provider == "scripted" or name.startswith("/") or name.lower().endswith(".gguf")
    return f"{provider}/{name.rstrip('/').rpartition('/')[2]}" if is_file else model


@lru_cache(maxsize=4_096)
def mark_lookalikes(text: str) -> str:
    """Return `text` with lookalikes marked by their script or code point."""
    if text.isascii():
        return text
    parts = list[str]()
    for piece in _WORD_PIECES.finditer(text):
        if word := piece[1]:
            parts += mark_word(word)
        else:
            parts.append(format_code_point(piece[0]) if _is_odd(piece[0]) else piece[0])
    return "".join(parts)


def mark_word(word: str) -> Iterator[str]:
    """Yield the letters of one word, in pieces, as they are or marked."""
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
    """Return the script of a letter; "": it is marked by itself in any context."""
    return "" if _is_odd(letter) else find_script(letter)


def find_script(letter: str) -> str:
    """Return the script of a letter in capitals: the first word of its Unicode name."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    return _SCRIPT_ALIASES.get(script, script)


def is_compatibility_form(character: str) -> bool:
    """True for a variant of other characters (full width, mathematical, a ligature, a letter-like sign), and for a
    letter of phonetics, transcription or dead alphabets."""
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
    """Return a visible character with its code point."""
    return f"‹{character} U+{ord(character):04X}›"


def _is_odd(character: str) -> bool:
    return not character.isascii() and is_compatibility_form(character)
