"""The parser of what comes from the terminal: where each key, paste, answer and sequence begins and ends.

- A paste is text up to its end marker, whatever it holds. If that is late, what has come by then is the paste, and keys
  are keys again; what comes in bulk soon after, or has the marker behind it, is text as well.
- A sequence is taken whole or dropped whole: no piece of it is a key, however it was cut on its way.
- Nothing is awaited for ever, and a control character such as Ctrl+C ends all that is unfinished but a paste.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Final

from textual import constants, events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from tui.terminal.input_sequences import MAX_SEQUENCE, read_alt_key, read_letters, read_sequence, read_string

ESCAPE: Final = "\x1b"
ESCAPE_TIMEOUT: Final = constants.ESCAPE_DELAY  # seconds; until then an Escape may be the start of a sequence
REST_TIMEOUT: Final = 1.0  # seconds of silence for which the rest of a sequence or a paste is awaited
STRING_TIMEOUT: Final = 2.0  # and of an answer, which a slow line cuts
LATE_TIMEOUT: Final = 5.0  # seconds in which what was given up is still known by its rest
STRUCK_GAP: Final = 0.25  # seconds of silence before a key that is struck by hand
BULK: Final = 16  # characters that no hand types at once
MAX_HELD: Final = 4_096  # characters of a sequence that is not at its end

_BODY: Final = r"[^\x00-\x1f]"
_STRING: Final = r"\x1b[\]P_^X]"
_TOKEN: Final = re.compile(
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
_LONE: Final = re.compile(r"\x1b[\[\]P_^XO]?")  # a key, if nothing follows
_LATE_REST: Final = re.compile(r"\x1b(?:\[[0-?]+[ -/]*[@-~]|\][0-9]+;|P[0-9>!]\S)")
# Each key in one way only, so that a long paste costs no more time than it has letters.
_COMMANDS: Final = re.compile(
    r"(?:[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\x1b\[[ -?]*[@-~]|\x1bO[@-~]|\x1b[^\x00-\x1f\[O\x7f]|\x1b)+"
)
# Bytes that are no UTF-8 are taken for Latin-1, which keyboards of old send, as far as that has letters for them.
_LATIN: Final = {0xDC00 + byte: chr(byte) if byte >= 0xA0 else "\N{REPLACEMENT CHARACTER}" for byte in range(0x80, 256)}
_MARKER_STARTS: Final = tuple(BRACKETED_PASTE_END[:end] for end in range(len(BRACKETED_PASTE_END) - 1, 0, -1))


class OpenPaste:
    """A paste whose end marker has not come. `is_rest`: it is what came after one that was given up."""

    def __init__(self, *, is_rest: bool = False) -> None:
        self._pieces: list[str] = []
        self.marker = ""  # the start of the end marker, if the text ends in it
        self.is_rest = is_rest

    def take(self, text: str) -> int | None:
        """Take a piece. Return where in it the paste ends, behind its marker; None: it goes on."""
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
        """Return the paste; an empty one only if it was meant, as by terminals that have a picture to paste."""
        text = "".join(self._pieces)
        if text or (is_whole and not self.is_rest):
            yield events.Paste(text.replace("\x00", ""))


class InputParser:
    """A parser of bytes as they are read, in pieces of any size. `feed` takes one, and `tick` is called now and then,
    since silence is an end, too. `now` is a monotonic time."""

    def __init__(self) -> None:
        self._parser = XTermParser()
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._held = ""  # the start of a sequence
        self._paste: OpenPaste | None = None
        self._fed_at = self._waits_until = float("-inf")
        self._given_up, self._gave_up_at = "", float("-inf")  # the start of a sequence that seemed to be a key
        self._paste_cut_at = float("-inf")

    def feed(self, data: bytes, now: float | None = None) -> Iterator[Message]:
        """Return what has come to its end by a piece of the input."""
        now = monotonic() if now is None else now
        yield from self.tick(now)
        text = self._decode(data)
        is_struck = len(text) == 1 and now - self._fed_at >= STRUCK_GAP
        is_by_hand = is_struck or _COMMANDS.fullmatch(text) is not None
        self._fed_at, before = now, self._paste
        yield from self._read(self._join(text, now, is_struck=is_struck))
        if self._paste is None or self._paste is not before or not is_by_hand:  # or keys would keep a paste open
            self._waits_until = now + self._get_patience()

    def tick(self, now: float | None = None) -> Iterator[Message]:
        """Return what has come to its end by silence."""
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
            yield from _strike_escape()
        elif _LONE.fullmatch(pending_text):
            self._given_up, self._gave_up_at = pending_text, now
            yield from read_alt_key(self._parser, pending_text[1])

    def _decode(self, data: bytes, *, is_final: bool = False) -> str:
        text = self._decoder.decode(data, is_final)
        return text if text.isascii() else text.translate(_LATIN)

    def _get_patience(self) -> float:
        """Return the seconds of silence after which what is unfinished is given up."""
        if self._held == ESCAPE:
            return ESCAPE_TIMEOUT
        return STRING_TIMEOUT if re.match(f"{_STRING}.", self._held) else REST_TIMEOUT

    def _join(self, text: str, now: float, *, is_struck: bool = False) -> str:
        """Return a piece of the input together with what came before it and belongs to it."""
        pending_text, given_up, self._held, self._given_up = self._held, self._given_up, "", ""
        if is_struck and text.isprintable() and not pending_text.endswith(ESCAPE) and re.match(_STRING, pending_text):
            return text  # somebody has gone on typing, so there was no answer
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
        """Return what one token means; what is unfinished is held, what is broken means nothing."""
        match kind:
            case "paste":
                self._paste = OpenPaste()
            case "unfinished":
                is_long = len(token) > MAX_HELD  # by then it means nothing, and only its end is awaited
                self._held = token[: MAX_SEQUENCE + 1] + token[-1] * token.endswith(ESCAPE) if is_long else token
            case "sequence":
                return read_sequence(self._parser, token)
            case "string":
                return read_string(token)
            case "alt":
                return read_alt_key(self._parser, token[1])
            case "letters":
                return _strike_escape() if token == ESCAPE else read_letters(self._parser, token)
        return ()


def _strike_escape() -> Iterator[Message]:
    yield events.Key("escape", ESCAPE)


def _is_rest_of_paste(text: str) -> bool:
    """True if what comes after a paste that was given up belongs to it: an end marker is behind it, or it has more
    letters than are typed at once."""
    end, start = text.find(BRACKETED_PASTE_END), text.find(BRACKETED_PASTE_START)
    if end >= 0:
        return not 0 <= start < end
    return start < 0 and len(_COMMANDS.sub("", text)) >= BULK
