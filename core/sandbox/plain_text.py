"""Terminal output as plain text: without escape sequences and control codes, progress lines reduced to their last
state."""

from __future__ import annotations

from core.patterns import compile_lazily

# ECMA-48: CSI; OSC, DCS, SOS, PM and APC up to their terminator; any other escape. Every alternative is linear in time.
_SEQUENCE = compile_lazily(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_UNFINISHED = compile_lazily(
    r"(?:\r|(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*|\x1b[ -/]*)\Z"
)
_LONGEST = 4096
_CONTROL = compile_lazily(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def strip_escapes(text: str) -> str:
    """Return complete output as plain text; a line rewritten with carriage returns becomes its last state."""
    bare = _CONTROL.sub("", _SEQUENCE.sub("", text))
    if "\r" not in bare:
        return bare
    return "\n".join(_reduce_to_last_state(line) for line in bare.split("\n"))


def _reduce_to_last_state(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "") if "\r" in line else line


class PlainTextStream:
    """`strip_escapes` for text in chunks. Displayed text can't be withdrawn, so a rewritten line becomes a new line."""

    def __init__(self) -> None:
        self._buffer = ""

    def feed(self, text: str) -> str:
        """Return the text up to an incomplete escape sequence or CR LF, which is buffered until its rest arrives."""
        text = self._buffer + text
        match = _UNFINISHED.search(text, max(0, len(text) - _LONGEST))
        cut = match.start() if match else len(text)
        self._buffer = text[cut:]
        return self._clean(text[:cut])

    def finish(self) -> str:
        buffer, self._buffer = self._buffer, ""
        return self._clean(buffer)

    @staticmethod
    def _clean(text: str) -> str:
        bare = _CONTROL.sub("", _SEQUENCE.sub("", text)).replace("\r\n", "\n")
        return bare.replace("\r", "\n")
