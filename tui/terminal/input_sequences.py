"""The meaning of whole sequences of the terminal: keys, the mouse, the focus, a size, an answer, or nothing.

A number is looked at before anything is made of it, since a terminal, or what writes to it, may send any. What is not
known is dropped: no piece of a sequence is ever a key, and none ends the program.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS
from textual._xterm_parser import FOCUSIN, FOCUSOUT, XTermParser
from textual.message import Message

from tui.terminal.replies import read_background

MAX_SEQUENCE: Final = 256  # characters; what is longer means nothing
MAX_WINDOW: Final = 4_000  # columns, rows
MODIFIERS: Final = 256  # combinations of Shift and its like

_KEY: Final = re.compile(r"\x1b\[([\d:;]*)([u~ABCDEFHPQRS])")
_MOUSE: Final = re.compile(r"\x1b\[<(\d{1,3});-?\d{1,6};-?\d{1,6}[Mm]")
_SIZE: Final = re.compile(r"\x1b\[48;(\d{1,4})[:\d]*;(\d{1,4})[:\d]*;(\d{1,6})[:\d]*;(\d{1,6})[:\d]*t")
_MODE: Final = re.compile(r"\x1b\[\?\d{1,5};\d\$y")
_OTHER_KEYS: Final = "27"  # what stands first in the sequences of xterm's modifyOtherKeys
_PRIVATE: Final = range(0xE000, 0xF900)  # numbers of the kitty protocol for keys that have no letter
_SHIFT: Final = 1
_LOCKS: Final = 64 | 128
_RELEASE: Final = "3"
_EXTRA_BUTTONS: Final = 128


def read_letters(parser: XTermParser, letters: str) -> Iterator[Message]:
    """Return the keys of what is no sequence: letters, and control characters such as Enter."""
    for letter in letters:
        yield from parser._sequence_to_key_events(letter)


def read_alt_key(parser: XTermParser, letter: str) -> Iterable[Message]:
    """Return the key that was struck together with Alt, which sends it behind an Escape."""
    return _read_table(parser, f"\x1b{letter}") or parser._sequence_to_key_events(letter, alt=True)


def read_sequence(parser: XTermParser, sequence: str) -> Iterable[Message]:
    """Return what a whole sequence means, as Textual's own messages; nothing if it is not known."""
    if len(sequence) > MAX_SEQUENCE:
        return ()
    if sequence in (FOCUSIN, FOCUSOUT) or _MODE.fullmatch(sequence):
        return parser.feed(sequence)
    if report := _MOUSE.fullmatch(sequence):
        return parser.feed(sequence) if int(report[1]) < _EXTRA_BUTTONS else ()
    if report := _SIZE.fullmatch(sequence):
        return _read_size(parser, sequence, *map(int, report.groups()))
    fields = _KEY.fullmatch(sequence)
    keys = _read_key(parser, _split_fields(*fields.groups())) if fields is not None else []
    return keys or _read_table(parser, sequence)


def read_string(sequence: str) -> Iterable[Message]:
    """Return what the terminal has answered by a string: its background. Nobody asks it for more."""
    background = read_background(sequence)
    return () if background is None else (background,)


def _read_size(parser: XTermParser, sequence: str, *lengths: int) -> Iterable[Message]:
    """Return the size that the window has now. Where its letters are not measured, the mouse is not, either."""
    rows, columns, *pixels = lengths
    if not (0 < rows <= MAX_WINDOW and 0 < columns <= MAX_WINDOW):
        return ()
    return parser.feed(sequence) if all(pixels) else (events.Resize.from_dimensions((columns, rows), None),)


def _read_table(parser: XTermParser, sequence: str) -> list[events.Key]:
    """Return the keys that Textual's table has for a sequence."""
    keys = ANSI_SEQUENCES_KEYS.get(sequence)
    if isinstance(keys, str):
        return list(parser._sequence_to_key_events(keys))
    return [events.Key(key.value, None) for key in keys] if isinstance(keys, tuple) else []


class KeyFields(NamedTuple):
    """The fields of a sequence for a key: the `code` of its letter or place, the `bits` of Shift and its like, and the
    codes of the `text` that it writes. None of them is a number that no character has."""

    code: int
    bits: int
    text: str
    end: str

    @property
    def is_place(self) -> bool:
        """True for a key that has a name, and no letter."""
        return f"{self.code}{self.end}" in FUNCTIONAL_KEYS

    @property
    def letter(self) -> str:
        """The letter on the key, "" = none."""
        letter = chr(self.code)
        has_letter = self.end == "u" and letter.isprintable() and self.code not in _PRIVATE and not self.is_place
        return letter if has_letter else ""


def _split_fields(fields: str, end: str) -> KeyFields | None:
    """Split `code:others;modifiers:event;text`, each of which may be missing. None: it is no key that was struck.

    So sends the kitty protocol, and what is older than it; xterm's own form for a key like Enter with Shift, which is
    27;modifiers;code, is put into the same.
    """
    code, modifiers, text, *_ = [*fields.split(";"), "", ""]
    if (code, end) == (_OTHER_KEYS, "~") and text:
        code, text, end = text, "", "u"
    modifiers, _, event = modifiers.partition(":")
    code = code.partition(":")[0] or ("" if end in "u~" else "1")
    if event == _RELEASE or not _is_code(code) or not _is_code(modifiers or "1"):
        return None
    bits = int(modifiers or 1) - 1
    is_cursor_report = end == "R" and ";" in fields and not bits
    printable_text = ":".join(part for part in text.split(":") if _is_code(part) and chr(int(part)).isprintable())
    return KeyFields(int(code), bits, printable_text, end) if 0 <= bits < MODIFIERS and not is_cursor_report else None


def _is_code(field: str) -> bool:
    """True for the number of a character."""
    return field.isdecimal() and len(field) <= 7 and int(field) <= sys.maxunicode


def _read_key(parser: XTermParser, fields: KeyFields | None) -> list[events.Key]:
    """Return the key that the fields mean, with the text that it writes: more than one letter are as many keys."""
    if fields is None or not (fields.is_place or fields.letter or fields.text):
        return []
    code, bits, text, end = fields
    if letter := fields.letter:
        if bits & ~(_SHIFT | _LOCKS):
            code = ord(letter.lower()) if letter.isascii() else code  # a command has one name
        elif not text:
            text = str(ord(letter.upper() if bits & _SHIFT and letter.isascii() else letter))
    keys = parser._parse_extended_key(f"\x1b[{code};{bits + 1 if bits else ''};{text}{end}")
    return [key.copy() for key in keys or ()]
