"""Invisible characters in an edit: those that hide, act on a terminal or reorder adjacent text.

Writing systems and emoji need some of them; a character in such a context does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from core.patterns import compile_lazily
from core.text.counting import count
from core.text.display_names import HIDDEN
from core.text.exposure import EMOJI_BASES

MAX_NAMED: Final = 4  # distinct characters

# Non-characters count in addition to `HIDDEN`; blanks of other widths are visible as blanks.
_NON_CHARACTERS = "\ufdd0-\ufdef\ufffe\uffff" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)
)
# Signs that enclose numbers or join signs in their own scripts, and have no width alone.
_ARABIC_SIGNS = "\u0600-\u0605\u06dd\u0890\u0891\u08e2"
_EGYPTIAN_SIGNS = "\U00013430-\U0001343f"
_SCRIPT_SIGNS = f"{_ARABIC_SIGNS}\u070f\U000110bd\U000110cd{_EGYPTIAN_SIGNS}"
_INVISIBLE = compile_lazily(
    f"[{HIDDEN.replace(chr(0x0B) + '-', chr(0x0B) + chr(0x0C) + chr(0x0E) + '-')}\u2800\ufe00-\ufe0f\U0001d159"
    f"\U00016fe4{_SCRIPT_SIGNS}{_NON_CHARACTERS}]|\r(?!\\Z)"
)
_ASCII_CONTROLS = compile_lazily(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_EMOJI = "\u2190-\u2bff\u3030\u303d\ufe0f\U0001f000-\U0001faff"
_JOINING = (
    "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u17d3\ufb50-\ufdff"
    "\ufe70-\ufefc"
)
_ARABIC = (
    "\u0606-\u061b\u061d-\u06dc\u06de-\u06ff\u0750-\u077f\u0870-\u088e\u0898-\u08e1\u08e3-\u08ff\ufb50-\ufdcf"
    "\ufdf0-\ufdff\ufe70-\ufefc"
)
_HIEROGLYPHS = "\U00013000-\U0001342f"
_LEGITIMATE = compile_lazily(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"  # subdivision flags
    f"|(?<=[{EMOJI_BASES}{_EMOJI}#*0-9])[\ufe0e\ufe0f]"
    f"|(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])"
    f"|(?<=[{_JOINING}])[\u200c\u200d]"
    "|(?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
    f"|(?<=[{_ARABIC}])[{_ARABIC_SIGNS}]|[{_ARABIC_SIGNS}](?=[{_ARABIC}])|\u070f(?=[\u0710-\u074f])"
    "|[\U000110bd\U000110cd](?=[\u0966-\u096f\U00011083-\U000110ba])"
    f"|(?<=[{_HIEROGLYPHS}])[{_EGYPTIAN_SIGNS}](?=[{_HIEROGLYPHS}])"
    "|\\A\f(?=\\s*\\Z)"  # a form feed between pages of old sources
)
_RIGHT_TO_LEFT = compile_lazily(f"[\u0590-\u05ff\u0700-\u070e\u0710-\u074f\u0780-\u086f\ufb1d-\ufb4f{_ARABIC}]")
_DIRECTION_MARKS = compile_lazily("[\u061c\u200e\u200f]")
_BRAILLE = compile_lazily("[\u2801-\u28ff]")


def describe_unseen(old: bytes, new: bytes, encoding: str = "utf-8") -> str:
    """Return the invisible characters in lines of `new` that are not in `old`, as the end of "it …"; "": none."""
    if new.isascii() and _ASCII_CONTROLS.search(new) is None:
        return ""
    text = decode_as_shown(new, encoding)
    if _INVISIBLE.search(text) is None:
        return ""
    before = decode_as_shown(old, encoding)
    if text.startswith("\ufeff") and (not before or before.startswith("\ufeff")):
        text, before = text[1:], before.removeprefix("\ufeff")
    earlier = Counter(before.split("\n"))
    unseen_counts = Counter[str]()
    for line in filter(_INVISIBLE.search, text.split("\n")):
        if earlier[line]:
            earlier[line] -= 1
        else:
            unseen_counts.update(find_unseen(line))
    if not unseen_counts:
        return ""
    labels = [
        f"U+{ord(sign):04X}{f' ×{number}' if number > 1 else ''}"
        for sign, number in unseen_counts.most_common(MAX_NAMED)
    ]
    others = f" and {count('other', len(unseen_counts) - MAX_NAMED)}" if len(unseen_counts) > MAX_NAMED else ""
    return f"holds characters that can't be seen: {', '.join(labels)}{others}"


def decode_as_shown(data: bytes, encoding: str = "utf-8") -> str:
    """Return a text as a diff shows it: lines that are not in its encoding are decoded as Latin-1."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        if encoding.startswith("utf-16"):
            return data.decode(encoding, "replace")
    return "\n".join(_decode_line(line, encoding) for line in data.split(b"\n"))


def _decode_line(line: bytes, encoding: str) -> str:
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        return line.decode("latin-1")


def find_unseen(line: str) -> Iterator[str]:
    """Yield the invisible characters of a line, except those that a language or an emoji needs."""
    remainder = _LEGITIMATE.sub("", line)
    if _RIGHT_TO_LEFT.search(remainder):
        remainder = _DIRECTION_MARKS.sub("", remainder)
    if _BRAILLE.search(remainder):
        remainder = remainder.replace("\u2800", "")
    yield from (match[0] for match in _INVISIBLE.finditer(remainder))
