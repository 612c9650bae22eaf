"""The parser of terminal input: bytes to key, mouse, paste and focus events, and to replies of the terminal.

A terminal may send any number, so every number is checked first. Unknown sequences are dropped whole: no part of one
becomes a key.
"""

from __future__ import annotations

import re
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Final, NamedTuple

from textual import constants, events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._keyboard_protocol import FUNCTIONAL_KEYS
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, FOCUSIN, FOCUSOUT, XTermParser
from textual.message import Message

from core.patterns import compile_lazily
from tui.terminal.replies import read_background

MAX_SEQUENCE: Final = 256  # characters; a longer sequence is invalid
MAX_WINDOW: Final = 4_000  # columns, rows
MODIFIERS: Final = 256  # combinations of Shift and its like
_KEY: Final = compile_lazily(r"\x1b\[([\d:;]*)([u~ABCDEFHPQRS])")
_MOUSE: Final = compile_lazily(r"\x1b\[<(\d{1,3});-?\d{1,6};-?\d{1,6}[Mm]")
_SIZE: Final = compile_lazily(r"\x1b\[48;(\d{1,4})[:\d]*;(\d{1,4})[:\d]*;(\d{1,6})[:\d]*;(\d{1,6})[:\d]*t")
_MODE: Final = compile_lazily(r"\x1b\[\?\d{1,5};\d\$y")
_OTHER_KEYS: Final = "27"  # first field of xterm's modifyOtherKeys sequences
_PRIVATE: Final = range(0xE000, 0xF900)  # numbers of the kitty protocol for keys that have no letter
_SHIFT: Final = 1
_LOCKS: Final = 64 | 128
_RELEASE: Final = "3"
_EXTRA_BUTTONS: Final = 128
ESCAPE: Final = "\x1b"
ESCAPE_TIMEOUT: Final = constants.ESCAPE_DELAY  # seconds; until then an Escape may be the start of a sequence
REST_TIMEOUT: Final = 1.0  # seconds of silence for which the rest of a sequence or a paste is awaited
STRING_TIMEOUT: Final = 2.0  # and of an answer, which a slow line cuts
LATE_TIMEOUT: Final = 5.0  # seconds during which the rest of an abandoned sequence is recognized
STRUCK_GAP: Final = 0.25  # seconds of silence before a key that is typed by hand
BULK: Final = 16  # characters that no hand types at once
MAX_HELD: Final = 4_096  # characters of a sequence that is not at its end
_BODY: Final = r"[^\x00-\x1f]"
_STRING: Final = r"\x1b[\]P_^X]"
_TOKEN: Final = compile_lazily(
    r"(?P<paste>\x1b\[200~)"
    rf"|(?P<string>{_STRING}{_BODY}*(?:\x07|\x1b\\))"
    # Of a report of the mouse in its oldest form, a key of the Linux console, another sequence, a string.
    rf"|(?P<unfinished>\x1b(?:\[(?:M{_BODY}{{0,2}}|\[|[ -?]*)|O[0-9;]*)?\Z|{_STRING}{_BODY}*\x1b?\Z)"
    rf"|(?P<sequence>\x1b\[(?:M{_BODY}{{3}}|\[[A-E]|(?:[378]|2[34])\$|[ -?]*[@-~])|\x1bO[0-9;]*[@-~])"
    rf"|(?P<broken>\x1b\[[ -?]+|\x1bO[0-9;]+|{_STRING}{_BODY}+)"
    r"|(?P<alt>\x1b[^\x1b])"
    r"|(?P<letters>[^\x1b]+|\x1b)",
    re.DOTALL,
)
_LONE: Final = compile_lazily(r"\x1b[\[\]P_^XO]?")  # a key, if nothing follows
_LATE_REST: Final = compile_lazily(r"\x1b(?:\[[0-?]+[ -/]*[@-~]|\][0-9]+;|P[0-9>!]\S)")
# The alternatives are disjoint, so that a long paste takes linear time.
_COMMANDS: Final = compile_lazily(
    r"(?:[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\x1b\[[ -?]*[@-~]|\x1bO[@-~]|\x1b[^\x00-\x1f\[O\x7f]|\x1b)+"
)
# Bytes that are no UTF-8 are taken for Latin-1, which keyboards of old send, as far as that has letters for them.
_LATIN: Final = {0xDC00 + byte: chr(byte) if byte >= 0xA0 else "\N{REPLACEMENT CHARACTER}" for byte in range(0x80, 256)}
_MARKER_STARTS: Final = tuple(BRACKETED_PASTE_END[:end] for end in range(len(BRACKETED_PASTE_END) - 1, 0, -1))


def read_letters(parser: XTermParser, letters: str) -> Iterator[Message]:
    """Return the keys of text outside of sequences: letters, and control characters such as Enter."""
    for letter in letters:
        yield from parser._sequence_to_key_events(letter)


def read_alt_key(parser: XTermParser, letter: str) -> Iterable[Message]:
    """Return the key that was pressed with Alt, which the terminal sends behind an Escape."""
    return _read_table(parser, f"\x1b{letter}") or parser._sequence_to_key_events(letter, alt=True)


def read_sequence(parser: XTermParser, sequence: str) -> Iterable[Message]:
    """Return Textual's messages for a complete sequence; an unknown one has none."""
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
    """Return the message for a string reply of the terminal: its background, the only one that is queried."""
    background = read_background(sequence)
    return () if background is None else (background,)


def _read_size(parser: XTermParser, sequence: str, *lengths: int) -> Iterable[Message]:
    """Return the current size of the window. Without its pixels, mouse positions have none, either."""
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
    """The fields of a key sequence: the `code` of its letter or position, the `bits` of the modifiers, and the codes
    of its `text`. All are valid character codes."""

    code: int
    bits: int
    text: str
    end: str

    @property
    def is_place(self) -> bool:
        """True for a key with a name instead of a letter."""
        return f"{self.code}{self.end}" in FUNCTIONAL_KEYS

    @property
    def letter(self) -> str:
        """The letter on the key, "" = none."""
        letter = chr(self.code)
        has_letter = self.end == "u" and letter.isprintable() and self.code not in _PRIVATE and not self.is_place
        return letter if has_letter else ""


def _split_fields(fields: str, end: str) -> KeyFields | None:
    """Split `code:others;modifiers:event;text` of the kitty protocol, all parts optional, and xterm's
    27;modifiers;code for keys such as Shift+Enter. None: not a key press."""
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


class OpenPaste:
    """A paste whose end marker has not arrived. `is_rest`: it is the rest of an abandoned paste."""

    def __init__(self, *, is_rest: bool = False) -> None:
        self._pieces: list[str] = []
        self.marker = ""  # the start of the end marker, if the text ends in it
        self.is_rest = is_rest

    def take(self, text: str) -> int | None:
        """Add a piece. Return the index in it behind the end marker; None: the paste continues."""
        buffer = self.marker + text
        end = buffer.find(BRACKETED_PASTE_END)
        if end < 0:
            marker = next((start for start in _MARKER_STARTS if buffer.endswith(start)), "")
            self._pieces.append(buffer.removesuffix(marker))
            self.marker = marker
            return None
        self._pieces.append(buffer[:end])
        return end + len(BRACKETED_PASTE_END) - len(self.marker)

    def build(self, *, is_whole: bool) -> Iterator[Message]:
        """Build the paste; an empty one only if it was meant, as by terminals that have a picture to paste."""
        text = "".join(self._pieces)
        if text or (is_whole and not self.is_rest):
            yield events.Paste(text.replace("\x00", ""))


class InputParser:
    """A parser of input bytes in pieces of any size. `feed` takes a piece; `tick` is called after `get_wait` seconds
    without one, as silence ends sequences, too. `now` is a monotonic time."""

    def __init__(self) -> None:
        self._parser = XTermParser()
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""  # the start of a sequence
        self._paste: OpenPaste | None = None
        self._fed_at = self._waits_until = float("-inf")
        self._given_up, self._gave_up_at = "", float("-inf")  # the start of a sequence that seemed to be a key
        self._paste_cut_at = float("-inf")

    def feed(self, data: bytes, now: float | None = None) -> Iterator[Message]:
        """Return the messages that a piece of input completes."""
        now = monotonic() if now is None else now
        yield from self.tick(now)
        text = self._decode(data)
        is_struck = len(text) == 1 and now - self._fed_at >= STRUCK_GAP
        is_by_hand = is_struck or _COMMANDS.fullmatch(text) is not None
        self._fed_at, before = now, self._paste
        yield from self._read(self._join(text, now, is_struck=is_struck))
        if self._paste is None or self._paste is not before or not is_by_hand:  # or keys would keep a paste open
            self._waits_until = now + self._get_timeout()

    def tick(self, now: float | None = None) -> Iterator[Message]:
        """Return the messages that silence completes."""
        now = monotonic() if now is None else now
        if now - self._fed_at >= ESCAPE_TIMEOUT and self._decoder.getstate()[0]:  # a letter of another encoding
            yield from self._read(self._join(self._decode(b"", is_final=True), now))
        if now < self._waits_until:
            return
        pending_text, self._held = self._held, ""
        if self._paste is not None:
            paste, self._paste = self._paste, None
            self._given_up, self._gave_up_at, self._paste_cut_at = paste.marker, now, now
            yield from paste.build(is_whole=False)
        elif pending_text.endswith(ESCAPE):
            self._given_up, self._gave_up_at = ESCAPE, now
            yield from _emit_escape()
        elif _LONE.fullmatch(pending_text):
            self._given_up, self._gave_up_at = pending_text, now
            yield from read_alt_key(self._parser, pending_text[1])

    def get_wait(self, now: float | None = None) -> float | None:
        """Return the seconds of silence after which `tick` has something to complete; None: nothing is unfinished."""
        ends = [self._fed_at + ESCAPE_TIMEOUT] if self._decoder.getstate()[0] else []
        if self._held or self._paste is not None:
            ends.append(self._waits_until)
        return max(0.0, min(ends) - (monotonic() if now is None else now)) if ends else None

    def _decode(self, data: bytes, *, is_final: bool = False) -> str:
        text = self._decoder.decode(data, is_final)
        return text if text.isascii() else text.translate(_LATIN)

    def _get_timeout(self) -> float:
        """Return the seconds of silence after which an unfinished sequence is abandoned."""
        if self._held == ESCAPE:
            return ESCAPE_TIMEOUT
        return STRING_TIMEOUT if re.match(f"{_STRING}.", self._held) else REST_TIMEOUT

    def _join(self, text: str, now: float, *, is_struck: bool = False) -> str:
        """Return a piece of input joined to the unfinished input before it."""
        pending_text, given_up, self._held, self._given_up = self._held, self._given_up, "", ""
        if is_struck and text.isprintable() and not pending_text.endswith(ESCAPE) and re.match(_STRING, pending_text):
            return text  # the user has continued typing, so there was no reply
        if given_up and now - self._gave_up_at < LATE_TIMEOUT and len(text) > 1 and _LATE_REST.match(given_up + text):
            return given_up + text
        if self._paste is None and now - self._paste_cut_at < LATE_TIMEOUT and _is_rest_of_paste(text):
            self._paste = OpenPaste(is_rest=True)
        return pending_text + text

    def _read(self, text: str) -> Iterator[Message]:
        offset = 0
        while offset < len(text):
            if self._paste is not None:
                end = self._paste.take(text[offset:])
                if end is None:
                    return
                paste, self._paste, self._paste_cut_at = self._paste, None, float("-inf")
                offset += end
                yield from paste.build(is_whole=True)
            elif token := _TOKEN.match(text, offset):
                offset = token.end()
                yield from self._take(token.lastgroup or "", token.group())

    def _take(self, kind: str, token: str) -> Iterable[Message]:
        """Return the messages of one token; an unfinished one is buffered, an invalid one has none."""
        match kind:
            case "paste":
                self._paste = OpenPaste()
            case "unfinished":
                is_long = len(token) > MAX_HELD  # too long to be valid; only its end is awaited
                self._held = token[: MAX_SEQUENCE + 1] + token[-1] * token.endswith(ESCAPE) if is_long else token
            case "sequence":
                return read_sequence(self._parser, token)
            case "string":
                return read_string(token)
            case "alt":
                return read_alt_key(self._parser, token[1])
            case "letters":
                return _emit_escape() if token == ESCAPE else read_letters(self._parser, token)
        return ()


def _emit_escape() -> Iterator[Message]:
    yield events.Key("escape", ESCAPE)


def _is_rest_of_paste(text: str) -> bool:
    """True if input after an abandoned paste belongs to it: an end marker follows, or there are more letters than
    anybody types at once."""
    end, start = text.find(BRACKETED_PASTE_END), text.find(BRACKETED_PASTE_START)
    if end >= 0:
        return not 0 <= start < end
    return start < 0 and len(_COMMANDS.sub("", text)) >= BULK
