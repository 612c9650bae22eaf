"""Long pastes: each stands in the prompt as a chip, which is one sign to every key, and is sent as what was pasted."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from core.protocol.attachment_labels import LABEL_PATTERN

CHIP_MIN_CHARS: Final = 4_000
CHIP_MIN_LINES: Final = 80
MAX_UNFOLDED: Final = 100_000  # characters that the input can show as lines of its own

_CHIP: Final = re.compile(r"\[pasted [^\[\]\n]{1,20} #(\d{1,4})\]")
ANY_CHIP: Final = re.compile(rf"{_CHIP.pattern}|{LABEL_PATTERN.pattern}")
_PASTE_MARK: Final = re.compile("\x1b?\\[20[01]~")

Span = tuple[int, int]


class Expansion(NamedTuple):
    """A text with what was pasted in the place of its chips; `spans`: where that stands in it."""

    text: str
    spans: tuple[Span, ...]


def clean_paste(text: str) -> str:
    """Return pasted text as it may be written: with plain newlines, and without the marks of a paste within it."""
    return _PASTE_MARK.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\x00", "")


class PastedTexts:
    """The texts that were pasted since the last prompt was sent, by the numbers in their chips."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def fold(self, text: str) -> str:
        """Return what stands in the prompt for a pasted text: a chip for a long one."""
        lines = text.rstrip("\n").count("\n") + 1
        if len(text) < CHIP_MIN_CHARS and text.count("\n") < CHIP_MIN_LINES:
            return text
        self._texts.append(text)
        size = f"{lines:,} lines" if lines > 1 else _format_size(text)
        return f"[pasted {size} #{len(self._texts)}]"

    def expand(self, text: str) -> Expansion:
        parts, spans = list[str](), list[Span]()
        position = length = 0
        for chip in _CHIP.finditer(text):
            if (pasted_text := self._get(chip)) is None:
                continue
            parts += [text[position : chip.start()], pasted_text]
            length += chip.start() - position
            spans.append((length, length + len(pasted_text)))
            length, position = length + len(pasted_text), chip.end()
        return Expansion("".join((*parts, text[position:])), tuple(spans))

    def find_at(self, line: str, column: int) -> tuple[Span, str] | None:
        """Return the chip of a line that a cursor is at, else its last one, with what was pasted."""
        chips = [
            (match.span(), pasted_text)
            for match in _CHIP.finditer(line)
            if (pasted_text := self._get(match)) is not None
        ]
        near_chips = (chip for chip in chips if chip[0][0] <= column <= chip[0][1])
        return next(near_chips, chips[-1] if chips else None)

    def clear(self) -> None:
        self._texts.clear()

    def _get(self, chip: re.Match[str]) -> str | None:
        number = int(chip[1])
        return self._texts[number - 1] if 0 < number <= len(self._texts) else None


def find_chip_ending(line: str, column: int) -> int | None:
    """Return where the chip or label begins that ends at a column."""
    return next((match.start() for match in ANY_CHIP.finditer(line, 0, column) if match.end() == column), None)


def find_chip_beginning(line: str, column: int) -> int | None:
    """Return where the chip or label ends that begins at a column."""
    match = ANY_CHIP.match(line, column)
    return None if match is None else match.end()


def cuts_chip(text: str, start: int, end: int) -> Span | None:
    """Return the span with all chips that an edit would cut, None = it cuts none."""
    widest = (start, end)
    for chip in ANY_CHIP.finditer(text):
        if chip.start() < end and start < chip.end() and not (start <= chip.start() and chip.end() <= end):
            widest = min(widest[0], chip.start()), max(widest[1], chip.end())
    return None if widest == (start, end) else widest


def _format_size(text: str) -> str:
    size = len(text.encode("utf-8", "replace"))
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{max(size / 1_000, 0.1):.1f} kB"
