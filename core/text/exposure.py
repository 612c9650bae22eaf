"""Text that the user decides by, written so that everything in it is visible: no two texts look the same.

Nothing is removed. A character that is invisible, acts on a terminal, or looks like another one becomes `‹U+200B›` or a
control picture (`␛`); a letter that passes for a Latin one gets the name of its script (`‹х·Cyrillic›`). Signs of the
text that could be mistaken for such marks are marked, too. ASCII and the world's languages stay as they are: letters
with their accents and vowels, punctuation, emoji.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Final

from core.patterns import compile_lazily
from core.text.display_names import HIDDEN, find_script, format_code_point, is_compatibility_form, mark_word

TAB_SIZE: Final = 4
TAB_SIGN: Final = "⇥"
BLANK_SIGN: Final = "␣"
NO_NEWLINE_SIGN: Final = "⊘"

# In addition to `HIDDEN` and to categories: characters without ink (Braille's blank, a musical note without a head, a
# Khitan filler), Hangul's parts, which are drawn joined, and all variation selectors.
UNSEEN: Final = f"{HIDDEN}\u2800\U0001d159\U00016fe4\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\ufe00-\ufe0f"
# Control pictures and the other signs that represent something else in the output.
OWN_SIGNS: Final = f"\u2400-\u2426{TAB_SIGN}{NO_NEWLINE_SIGN}"
# Emoji with text presentation, in one column, unless U+FE0F follows.
EMOJI_BASES: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u2328\u23cf\u23ed-\u23ef\u23f1\u23f2\u23f8-\u23fa"
    "\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb\u25fc\u2600-\u2604\u260e\u2611\u2618\u261d\u2620\u2622\u2623\u2626\u262a"
    "\u262e\u262f\u2638-\u263a\u2640\u2642\u265f\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u2692\u2694-\u2697\u2699"
    "\u269b\u269c\u26a0\u26a7\u26b0\u26b1\u26c8\u26cf\u26d1\u26d3\u26e9\u26f0\u26f1\u26f4\u26f7-\u26f9\u2702\u2708"
    "\u2709\u270c\u270d\u270f\u2712\u2714\u2716\u271d\u2721\u2733\u2734\u2744\u2747\u2763\u2764\u27a1\u2934\u2935"
    "\u2b05-\u2b07\u3030\u303d\u3297\u3299\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f202\U0001f237\U0001f321"
    "\U0001f324-\U0001f32c\U0001f336\U0001f37d\U0001f396\U0001f397\U0001f399-\U0001f39b\U0001f39e\U0001f39f"
    "\U0001f3cb-\U0001f3ce\U0001f3d4-\U0001f3df\U0001f3f3\U0001f3f5\U0001f3f7\U0001f43f\U0001f441\U0001f4fd"
    "\U0001f549\U0001f54a\U0001f56f\U0001f570\U0001f573-\U0001f579\U0001f587\U0001f58a-\U0001f58d\U0001f590"
    "\U0001f5a5\U0001f5a8\U0001f5b1\U0001f5b2\U0001f5bc\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3\U0001f5dc-\U0001f5de"
    "\U0001f5e1\U0001f5e3\U0001f5e8\U0001f5ef\U0001f5f3\U0001f5fa\U0001f6cb\U0001f6cd-\U0001f6cf\U0001f6e0-\U0001f6e5"
    "\U0001f6e9\U0001f6f0\U0001f6f3"
)
UNSEEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
MAX_MARKS: Final = 4  # combining marks on one letter

# Letters of other alphabets that look like a Latin one, and letters that look like signs.
_TWINS: Final = frozenset("аеорсухіјѕһԁԛԝӏАВЕЗКМНОРСТУХЅІЈԌҮοΑΒΕΖΗΙΚΜΝΟΡΤΥΧνͿϹϲօոսհՏՍՕ")
_SIGN_LETTERS: Final = frozenset("ǀǁǂǃʹʻʼˈˌː꞉ꞌꓸꓹꓻꓽɑɡ")
# Signs that look like the ASCII signs - / : = . | * ~ \.
SIGN_TWINS: Final = (
    "\u2010\u2011\u2043\u2212\u2044\u2215\u29f8\u2236\ua789\ua78a\u2024\u2223\u2217\u204e\u223c\u2216\u29f5"
)
_STRANGE_SCRIPTS: Final = frozenset(
    {"CHEROKEE", "LISU", "COPTIC", "DESERET", "OSAGE", "CARIAN", "LYCIAN", "LYDIAN", "GOTHIC", "OLD"}
)
_HARMLESS = compile_lazily(
    "[ -~\t\n\u00a1-\u00a9\u00ab\u00ac\u00ae-\u00b9\u00bb-\u0131\u0134-\u017e\u0180-\u01bf\u01cd-\u01f0\u01f4-\u024f"
    "\u2013\u2014\u2018-\u201e\u2020-\u2022\u2026\u20ac\u2190-\u21e4\u2500-\u25ff\u3001-\u3011\u3041-\u3096"
    "\u30a1-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01\uff08-\uff0c\uff1a\uff1b\uff1f]*"
)
_PIECES = compile_lazily(r"([^\W\d_]+)|(.)", re.DOTALL)
_KEYCAP = compile_lazily("[0-9#*]\ufe0f\u20e3")
_UNSEEN_SIGN = compile_lazily(f"[{UNSEEN}]")
_OWN_SIGN = compile_lazily(f"[{OWN_SIGNS}]")
_PLAIN_IN_PIPES = compile_lazily("[ -~\t]+|[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")  # parts of Hangul are letters
_LAST_BLANKS = compile_lazily(r"[ \t]+\Z")
_EMOJI_BASE = compile_lazily(f"[{EMOJI_BASES}]")
_OWN_MARK = compile_lazily("U\\+|·|byte ")
_BETWEEN_WORDS = compile_lazily(r"[\s,;:.!?…—–\-\"'«»()№]+")
_SKIN = range(0x1F3FB, 0x1F400)


def expose_text(text: str, *, is_strict: bool = False) -> str:
    """Return a text with everything in it visible; newlines and tabs stay for the caller's layout.

    `is_strict`: for a command or a name, variants of other characters are marked as by `display_name`.
    """
    if text.isascii() and text.isprintable():
        return text
    if not is_strict and _HARMLESS.fullmatch(text):
        return text
    return "\n".join(_expose_line(line, is_strict=is_strict) for line in text.split("\n"))


def expose_full_line(line: str) -> str:
    """Return one line for a person, with everything in it visible, including tabs and trailing blanks."""
    return expose_blanks(expose_text(line))


def expose_unseen(line: str) -> str:
    """Return a line with its invisible characters marked as in `expose_text`; visible ones stay. For programs, which
    can't confuse lookalikes."""
    if line.isascii() and line.isprintable():
        return line
    return _join_pieces(_mark_unseen(line))


def _mark_unseen(line: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a line like `_mark_pieces`, marking invisible characters only."""
    has_own_mark, offset = "‹" in line and _OWN_MARK.search(line) is not None, 0
    while offset < len(line):
        sign = line[offset]
        plain = _PLAIN_IN_PIPES.match(line, offset) or _KEYCAP.match(line, offset)
        is_mark = _OWN_SIGN.match(sign) is not None or is_unseen(sign) or (sign == "‹" and has_own_mark)
        if plain or not is_mark or (sign == "\ufe0f" and _EMOJI_BASE.match(line[offset - 1 : offset])):
            piece = plain[0] if plain else sign
            yield piece, ""
            offset += len(piece)
        else:
            yield _format_mark(sign), sign if ord(sign) >= 0x20 else ""
            offset += 1


def expose_line(text: str, *, is_strict: bool = False) -> str:
    """Return a text as one line with everything in it visible, including line ends, tabs and trailing blanks."""
    return "␊".join(map(expose_blanks, expose_text(text, is_strict=is_strict).split("\n")))


def expose_blanks(line: str) -> str:
    """Return an exposed line with a sign for every tab, padded to its stop, and for every trailing blank."""
    if line[-1:] in {" ", "\t"}:
        line = _LAST_BLANKS.sub(lambda blanks: blanks[0].replace(" ", BLANK_SIGN), line)
    if "\t" not in line:
        return line
    *parts, last = line.split("\t")
    width, expanded_parts = 0, list[str]()
    for part in parts:
        width += len(part)
        expanded_parts.append(f"{part}{TAB_SIGN}{' ' * (TAB_SIZE - 1 - width % TAB_SIZE)}")
        width += TAB_SIZE - width % TAB_SIZE
    return "".join((*expanded_parts, last))


def _expose_line(line: str, *, is_strict: bool) -> str:
    if line.isascii() and line.isprintable():
        return line
    has_own_mark = "‹" in line and (is_strict or _OWN_MARK.search(line) is not None)
    return _join_pieces(_mark_pieces(line, has_own_mark=has_own_mark, is_strict=is_strict))


def _join_pieces(pieces: Iterable[tuple[str, str]]) -> str:
    """Join pieces; consecutive equal marks become one with a count."""
    marks, last_seen, count = list[str](), "", 0
    for mark, code in pieces:
        if code and code == last_seen:
            count += 1
            continue
        _end_run(marks, count)
        marks.append(mark)
        last_seen, count = code, 1
    _end_run(marks, count)
    return "".join(marks)


def _end_run(marks: list[str], count: int) -> None:
    """Add the count of the last mark, if it is more than one."""
    if count > 1:
        marks[-1] = f"{marks[-1][:-1]}×{count}›"


def _mark_pieces(line: str, *, has_own_mark: bool, is_strict: bool) -> Iterator[tuple[str, str]]:
    """Yield the displayed pieces of a line; for an invisible character its mark and itself."""
    pieces = list(_PIECES.finditer(line))
    cluster, keycap_end = "", 0  # a letter with its combining marks
    for index, piece in enumerate(pieces):
        if word := piece[1]:
            yield from _mark_strictly(word) if is_strict else _mark_word(word, pieces, index)
            cluster = word[-1]
            continue
        sign = piece[2]
        if keycap := _KEYCAP.match(line, piece.start()):
            keycap_end = keycap.end()
        if piece.start() < keycap_end:
            yield sign, ""
            cluster = ""
        elif cluster and _is_drawn_on(sign, cluster):
            yield sign, ""
            cluster += sign
        elif sign.isascii() and (sign.isprintable() or sign == "\t"):
            yield sign, ""
            cluster = sign
        elif sign == "‹" and not has_own_mark:
            yield sign, ""
            cluster = ""
        elif sign != "‹" and _is_seen(sign) and ord(sign) not in _SKIN and not (is_strict and _is_form(sign)):
            yield sign, ""
            cluster = sign
        else:
            yield _format_mark(sign), sign if ord(sign) >= 0x20 else ""
            cluster = ""


def _format_mark(sign: str) -> str:
    code = ord(sign)
    if code < 0x20:
        return chr(0x2400 + code)
    is_readable = code == ord("‹") or (sign.isprintable() and not is_unseen(sign) and not unicodedata.combining(sign))
    return format_code_point(sign) if is_readable else f"‹U+{code:04X}›"


@lru_cache(maxsize=4_096)
def is_unseen(sign: str) -> bool:
    """True for a character that is invisible by itself in any context."""
    return _UNSEEN_SIGN.match(sign) is not None or unicodedata.category(sign) in UNSEEN_CATEGORIES


@lru_cache(maxsize=4_096)
def _is_seen(sign: str) -> bool:
    """True for a character that is visible and unambiguous."""
    if _OWN_SIGN.match(sign) or sign in SIGN_TWINS or is_unseen(sign):
        return False
    return unicodedata.category(sign)[0] != "M" and unicodedata.normalize("NFC", sign) == sign


def _is_drawn_on(sign: str, cluster: str) -> bool:
    """True for a sign that is visible on the preceding letter or emoji, and does not form another character with it."""
    if sign == "\ufe0f":
        return len(cluster) == 1 and _EMOJI_BASE.match(cluster) is not None
    if ord(sign) in _SKIN:
        return len(cluster) == 1 and cluster > "\u2600" and unicodedata.category(cluster) == "So"
    if unicodedata.category(sign)[0] != "M" or is_unseen(sign) or unicodedata.category(cluster[0])[0] not in "LM":
        return False
    extended_cluster = cluster + sign
    return (
        len(extended_cluster) <= MAX_MARKS + 1
        and sign not in cluster
        and unicodedata.normalize("NFC", extended_cluster) == extended_cluster
    )


def _is_form(sign: str) -> bool:
    return not sign.isascii() and is_compatibility_form(sign)


def _mark_strictly(word: str) -> Iterator[tuple[str, str]]:
    for is_seen, letters in groupby(word, _is_seen):
        if is_seen:
            yield from ((mark, "") for mark in mark_word("".join(letters)))
        else:
            yield from ((_format_mark(letter), letter) for letter in letters)


def _mark_word(word: str, pieces: list[re.Match[str]], index: int) -> Iterator[tuple[str, str]]:
    if word.isascii():
        yield word, ""
        return
    is_mixed = any(letter.isascii() or find_script(letter) == "LATIN" for letter in word)
    is_twin = _TWINS.issuperset(word) and not _is_in_own_language(pieces, index)
    for script, run in groupby(word, _group_letter):
        letters = "".join(run)
        if script == "?":
            for letter in letters:
                yield _format_mark(letter), letter
        elif script in _STRANGE_SCRIPTS or is_twin or (is_mixed and script != "LATIN" and _TWINS.intersection(letters)):
            yield f"‹{letters}·{script.title()}›", ""
        else:
            yield letters, ""


@lru_cache(maxsize=4_096)
def _group_letter(letter: str) -> str:
    """Return the script of a letter; "?": it is marked by itself, because it is invisible or a variant of ASCII."""
    if letter.isascii():
        return "LATIN"
    is_raised = unicodedata.decomposition(letter).startswith(("<super>", "<sub>"))
    plain = unicodedata.normalize("NFKC", letter)
    is_number = unicodedata.category(letter) == "Nl" and len(plain) == 1  # Roman numerals in one character
    is_form = (letter.isalpha() or is_number) and not is_raised and plain.isascii()
    return "?" if is_form or letter in _SIGN_LETTERS or not _is_seen(letter) else find_script(letter)


def _is_in_own_language(pieces: list[re.Match[str]], index: int) -> bool:
    """True for a word of up to two letters or in capitals (both are common in Cyrillic and Greek) next to an
    unambiguous word of its alphabet."""
    word = pieces[index][1]
    if len(word) > 2 and not word.isupper():
        return False
    script = find_script(word[0])
    for step in (-1, 1):
        position = index + step
        while 0 <= position < len(pieces) and _is_skipped(pieces[position]):
            position += step
        neighbour = pieces[position][1] if 0 <= position < len(pieces) and position != index + step else None
        if neighbour and {find_script(letter) for letter in neighbour} == {script}:
            return True
    return False


def _is_skipped(piece: re.Match[str]) -> bool:
    return _TWINS.issuperset(piece[1]) if piece[1] else _BETWEEN_WORDS.match(piece[0]) is not None
