"""The desk that one key works at: the text as its edits leave it, and the operators `d`, `c` and `y` over a part."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tui.chat.prompt.vim.motions import find_first_letter, find_line_end, find_line_start

VimMode = Literal["insert", "normal", "visual", "lines"]
Request = Literal["older", "newer", "search"]  # what the prompt does, not the text
MAX_PUT: Final = 100_000  # characters that one key can put into the text


class Edit(NamedTuple):
    """The characters from `start` to before `end` become `text`."""

    start: int
    end: int
    text: str


class Yank(NamedTuple):
    """The text that was deleted or copied last; whole lines end without their newline."""

    text: str = ""
    is_lines: bool = False


class Desk:
    """The text, the cursor and the mode while a key is carried out. `anchor`: where a selection begins; `repeats`: what
    is typed next is repeated by the count."""

    def __init__(self, text: str, cursor: int, *, anchor: int, mode: VimMode, register: Yank) -> None:
        self.text, self.cursor, self.anchor = text, cursor, anchor
        self.mode, self.register = mode, register
        self.count, self.is_counted, self.repeats = 1, False, False
        self.edits: list[Edit] = []
        self.undone = 0
        self.request: Request | None = None

    def put(self, start: int, end: int, text: str) -> None:
        """Replace a part of the text; the cursor is behind what was put there."""
        start, end = max(start, 0), min(end, len(self.text))
        if self.text[start:end] != text:
            self.edits.append(Edit(start, end, text))
            self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)

    def begin_insert(self, offset: int, *, repeats: bool = False) -> None:
        self.cursor, self.mode, self.repeats = min(max(offset, 0), len(self.text)), "insert", repeats

    @property
    def line(self) -> tuple[int, int]:
        """The offsets at which the line of the cursor begins and ends."""
        return find_line_start(self.text, self.cursor), find_line_end(self.text, self.cursor)

    @property
    def selected(self) -> tuple[int, int]:
        """The offsets at which the selection begins and is over; of whole lines without the last newline."""
        start, end = sorted((self.anchor, self.cursor))
        if self.mode == "lines":
            return find_line_start(self.text, start), find_line_end(self.text, end)
        return start, min(end + 1, len(self.text))


def operate(desk: Desk, operator: str, start: int, end: int, *, is_lines: bool = False) -> None:
    """Delete (`d`), change (`c`) or copy (`y`) a part of the text, which the register holds then."""
    if is_lines:
        start, end = find_line_start(desk.text, start), find_line_end(desk.text, max(start, end))
    if start >= end and not is_lines:
        if operator == "c":
            desk.begin_insert(start)
        return
    desk.register = Yank(desk.text[start:end], is_lines)
    if operator == "y":
        desk.cursor = desk.cursor if is_lines and start <= desk.cursor <= end else start
    elif operator == "c":
        desk.put(start, end, "")
        desk.begin_insert(start)
    elif is_lines:
        _delete_lines(desk, start, end)
    else:
        desk.put(start, end, "")


def _delete_lines(desk: Desk, start: int, end: int) -> None:
    if end < len(desk.text):
        desk.put(start, end + 1, "")
    else:
        desk.put(max(start - 1, 0), end, "")
    desk.cursor = find_first_letter(desk.text, min(desk.cursor, len(desk.text)))
