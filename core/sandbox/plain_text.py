"""Terminal output as plain text: without escape sequences and control codes, rewritten lines in their last state."""

from __future__ import annotations

import re

from core.patterns import compile_lazily
from core.state.live_text import TAKE_BACK, TAKE_BACK_ABOVE, append_piece

# ECMA-48: CSI; OSC, DCS, SOS, PM and APC up to their terminator; any other escape. Every alternative is linear in time.
_STRINGS = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
_SEQUENCE = compile_lazily(rf"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|{_STRINGS}|\x1b[ -/]*[0-~]?")
# The sequences that move the cursor within the lines or erase, with a number of at most three digits.
_CURSOR = r"(?:\x1b\[|\x9b)[0-9]{0,3}[A-GJK]"
_WITHOUT_EFFECT = compile_lazily(
    rf"(?!{_CURSOR})(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|{_STRINGS}|\x1b[ -/]*[0-~]?)"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9a\x9c-\x9f]"
)
_MOVES = compile_lazily(r"[\r\b\x1b\x9b]")
_TOKEN = compile_lazily(rf"[^\n\r\b\x1b\x9b]+|[\n\r\b]|{_CURSOR}")
_UNFINISHED = compile_lazily(
    r"(?:\r|(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*|\x1b[ -/]*)\Z"
)
_FRAMES = compile_lazily(r"(?:\r[^\n\r\b\x1b\x9b]*){3,}")  # states of a line, each drawn over the one before
_LINE_END = compile_lazily(r"\r+\n")
_LONGEST = 4096
_CONTROL = compile_lazily(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
MAX_COLUMNS = 1_000  # of a line that can be rewritten
MAX_ROWS = 64  # above the last one that can be rewritten


def strip_escapes(text: str) -> str:
    """Return complete output as plain text, rewritten lines in their last state, as a terminal shows them."""
    stream = LiveTextStream()
    return append_piece("", stream.feed(text) + stream.finish())


class _ChunkStream:
    """Text in chunks, with an incomplete escape sequence or CR LF buffered until its rest arrives."""

    def __init__(self) -> None:
        self._buffer = ""

    def _take(self, text: str) -> str:
        text = self._buffer + text
        match = _UNFINISHED.search(text, max(0, len(text) - _LONGEST))
        cut = match.start() if match else len(text)
        self._buffer = text[cut:]
        return text[:cut]

    def _take_rest(self) -> str:
        buffer, self._buffer = self._buffer, ""
        return buffer


class PlainTextStream(_ChunkStream):
    """`strip_escapes` for text in chunks that can't be withdrawn, so a rewritten line becomes a new line."""

    def feed(self, text: str) -> str:
        """Return the text up to an incomplete escape sequence or CR LF."""
        return self._clean(self._take(text))

    def finish(self) -> str:
        return self._clean(self._take_rest())

    @staticmethod
    def _clean(text: str) -> str:
        bare = _CONTROL.sub("", _SEQUENCE.sub("", text)).replace("\r\n", "\n")
        return bare.replace("\r", "\n")


class LiveTextStream(_ChunkStream):
    """`strip_escapes` for text in chunks whose last lines can be taken back: returns pieces for `append_piece`.

    It keeps the last rows as a terminal would, with the cursor in them. Lines longer than `MAX_COLUMNS` and rows
    further above than `MAX_ROWS` are never rewritten: what follows goes into a new line. `rewritten`: how often text
    that was there has been replaced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rewritten = 0
        self._rows = [""]
        self._row = self._column = 0
        self._first_changed = 1  # the first row that differs from what was returned; the number of rows: none
        self._n_returned = 1  # rows that were returned, the current one included
        self._appended: list[str] = []

    def feed(self, text: str) -> str:
        """Return the next piece, up to an incomplete escape sequence or CR LF."""
        return self._add(self._take(text))

    def finish(self) -> str:
        return self._add(self._take_rest())

    def _add(self, text: str) -> str:
        text = _LINE_END.sub("\n", _WITHOUT_EFFECT.sub("", text))
        text = _FRAMES.sub(self._merge_frames, text) if "\r" in text else text
        first_move = _MOVES.search(text)
        # Nearly all output moves no cursor, and is neither split nor copied.
        start = text.rfind("\n", 0, first_move.start()) + 1 if first_move else len(text)
        if start and self._is_at_end():
            self._append(text[:start])
        else:
            start = 0
        for token in _TOKEN.findall(text, start) if start < len(text) else ():
            self._apply(token)
        return self._build_piece()

    def _merge_frames(self, match: re.Match[str]) -> str:
        """Return the states of a line as two: what is left of the earlier ones, and the last."""
        *frames, last = match[0][1:].split("\r")
        merged = ""
        for frame in reversed(frames):
            merged += frame[len(merged) :]
        self.rewritten += len(frames)
        return f"\r{merged}\r{last}"

    def _is_at_end(self) -> bool:
        """True if the next character is appended to what was returned."""
        is_unchanged = self._first_changed == len(self._rows)
        return is_unchanged and self._row == len(self._rows) - 1 and self._column == len(self._rows[-1])

    def _append(self, text: str) -> None:
        self._appended.append(text)
        lines = text.rsplit("\n", MAX_ROWS)
        if len(lines) > 1:
            first = self._rows[-1] + lines[0] if len(lines) <= MAX_ROWS else ""
            self._rows[-1:] = [first, *lines[1:]]
        else:
            self._rows[-1] += text
        self._row, self._column = len(self._rows) - 1, len(self._rows[-1])
        self._first_changed = self._n_returned = len(self._rows)

    def _apply(self, token: str) -> None:
        if token == "\n":
            self._break_line()
        elif token[0] in "\r\b\x1b\x9b":
            if len(self._rows[self._row]) > MAX_COLUMNS:
                self._row = len(self._rows) - 1
                self._column = len(self._rows[-1])
                self._break_line()
            self._move(token)
        elif self._is_at_end():
            self._append(token)
        else:
            row, column = self._rows[self._row], self._column
            self._replace(self._row, row[:column].ljust(column) + token + row[column + len(token) :])
            self._column += len(token)

    def _break_line(self) -> None:
        if self._row == len(self._rows) - 1:
            if self._first_changed == len(self._rows):
                self._appended.append("\n")
                self._n_returned += 1
                self._first_changed += 1
            self._rows.append("")
        self._row, self._column = self._row + 1, 0

    def _replace(self, index: int, row: str) -> None:
        """Replace a row, or do nothing if it has not changed."""
        old = self._rows[index]
        if row != old:
            self.rewritten += not row.startswith(old)
            self._rows[index] = row
            self._first_changed = min(self._first_changed, index)

    def _move(self, token: str) -> None:
        """Move the cursor, or erase."""
        final = token[-1]
        digits = token.lstrip("\x1b\x9b[")[:-1]
        count = max(int(digits or 1), 1)
        match final:
            case "\r":
                self._column = 0
            case "\b" | "D":
                self._column = max(self._column - (1 if final == "\b" else count), 0)
            case "A" | "F":
                self._row = max(self._row - count, self._find_highest())
            case "B" | "E":
                self._row = min(self._row + count, len(self._rows) - 1)
            case "C":
                self._column = min(self._column + count, MAX_COLUMNS)
            case "G":
                self._column = count - 1
            case _:
                self._erase(final, int(digits or 0))
        if final in "EF":
            self._column = 0

    def _find_highest(self) -> int:
        """Return the highest row that the cursor may enter."""
        row = self._row
        while row > max(len(self._rows) - MAX_ROWS, 0) and len(self._rows[row - 1]) <= MAX_COLUMNS:
            row -= 1
        return row

    def _erase(self, final: str, extent: int) -> None:
        """Erase the line (K) or the screen below the cursor (J); a whole screen above is kept, as it was printed."""
        row, column = self._rows[self._row], self._column
        if final == "K" and extent:
            self._replace(self._row, "" if extent == 2 else " " * min(column + 1, len(row)) + row[column + 1 :])
        elif not extent:
            self._replace(self._row, row[:column])
            for index in range(self._row + 1, len(self._rows)) if final == "J" else ():
                self._replace(index, "")

    def _build_piece(self) -> str:
        """Return what was appended, and the changed rows anew; forget rows that are too far above."""
        piece = "".join(self._appended)
        self._appended.clear()
        if self._first_changed < len(self._rows):
            above = TAKE_BACK_ABOVE * (self._n_returned - 1 - self._first_changed)
            piece += above + TAKE_BACK + "\n".join(self._rows[self._first_changed :])
        dropped = max(len(self._rows) - MAX_ROWS, 0)
        del self._rows[:dropped]
        self._row = max(self._row - dropped, 0)
        self._first_changed = self._n_returned = len(self._rows)
        return piece
