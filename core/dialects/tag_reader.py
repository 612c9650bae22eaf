"""Splits a streamed answer into text and tagged blocks, however it is chunked.

Only text that may still become a tag waits; a tag counts outside of fences and backticks. A body is opaque up to its
closing tag, which within SEARCH/REPLACE blocks of an edit does not count. A patch is framed by its first and last line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

from core.edit_formats import EDIT_TAGS, PATCH_FRAME
from core.patterns import compile_lazily
from core.text.markup import MAX_FENCE_LINE, Fence, parse_attributes, track_fence

CALL_TAGS: Final = ("execute_bash", "execute_ipython", "execute_browse", *EDIT_TAGS, "tool_call")
FRAME_TAGS: Final = ("chat", "/chat", "finish", "/finish")  # tags that only frame text
_GUARDED: Final = {tag for tag, tool in EDIT_TAGS.items() if tool.form is not None and tool.form.is_guarded}
_NAMES: Final = "|".join(map(re.escape, (*CALL_TAGS, *FRAME_TAGS)))
_INNER = r"""(?:"[^"]*"|'[^']*'|[^>"'<])*"""
_TAG = compile_lazily(rf"<(?P<name>{_NAMES})(?P<rest>(?:[\s/]{_INNER})?)>")
_MAY_BE_TAG = compile_lazily(rf"""<(?:{_NAMES})(?:[\s/]{_INNER}(?:"[^"]*|'[^']*)?)?""")
_STARTS = tuple(f"<{name}" for name in (*CALL_TAGS, *FRAME_TAGS))
_LONGEST_TAG = 1_000  # characters
_SEARCH = compile_lazily(r"-{7,} SEARCH\s*")
_REPLACE = compile_lazily(r"\+{7,} REPLACE\s*")
_STOPS = compile_lazily(r"[<`\n*]")
_TICKS = compile_lazily("`+")


class TaggedBlock(Struct, frozen=True, kw_only=True):
    """A tagged block. `body` is the unchanged text between the tags."""

    tag: str
    attributes: Mapping[str, str]
    body: str
    is_closed: bool


class _OpenBlock:
    """The current block. `line` is the last line so far, `is_guarded`: within SEARCH/REPLACE."""

    def __init__(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.closing = PATCH_FRAME[1] if tag == PATCH_FRAME[0] else f"</{tag}>"
        self.parts: list[str] = []
        self.line = ""
        self.is_long = False
        self.is_guarded = False

    def feed(self, text: str) -> str | None:
        """Read a chunk. Returns the text after the closing tag; None = the block is not closed yet."""
        first, *rest = text.split("\n")
        pieces = [first, *(f"\n{piece}" for piece in rest)]
        for number, piece in enumerate(pieces):
            if piece.startswith("\n"):
                self._end_line()
            self.line += piece
            after = self._find_close()
            if after is not None:
                return after + "".join(pieces[number + 1 :])
            self._shorten_line()
        return None

    def build_block(self, *, is_closed: bool) -> TaggedBlock:
        body = "".join((*self.parts, self.line))
        return TaggedBlock(tag=self.tag, attributes=self.attributes, body=body, is_closed=is_closed)

    def _find_close(self) -> str | None:
        position = self.line.find(self.closing)
        if position < 0:
            return None
        before, after = self.line[:position], self.line[position + len(self.closing) :]
        if self.is_guarded and not (not self.is_long and _REPLACE.fullmatch(before.removeprefix("\n"))):
            return None
        if self.closing == PATCH_FRAME[1] and before != "\n":
            return None
        self.line = before
        return after

    def _end_line(self) -> None:
        line = self.line.removeprefix("\n")
        if self.tag in _GUARDED and not self.is_long:
            if _SEARCH.fullmatch(line):
                self.is_guarded = True
            elif _REPLACE.fullmatch(line):
                self.is_guarded = False
        self.parts.append(self.line)
        self.line, self.is_long = "", False

    def _shorten_line(self) -> None:
        """Drop all but the end of a long line, as the closing tag can only be there."""
        if len(self.line) > MAX_FENCE_LINE:
            keep = len(self.closing) - 1
            self.parts.append(self.line[:-keep])
            self.line, self.is_long = self.line[-keep:], True


class TagReader(Struct, eq=False):
    """Reads an answer that is fed in chunks of any size; `finish` is called once. `on_open` gets a tag's name as it
    begins."""

    _on_text: Callable[[str], None]
    _on_open: Callable[[str], None]
    _on_block: Callable[[TaggedBlock], None]
    _held: str = ""
    _body: _OpenBlock | None = None
    _fence: Fence | None = None
    _line: str = ""
    _open_ticks: int = 0  # length of the open run of backticks in this line
    _pending: list[str] = field(default_factory=list)

    def feed(self, text: str) -> None:
        """Read a chunk."""
        self._read(text, last=False)
        self._flush_text()

    def finish(self) -> None:
        """End the answer; an open block is passed on as not closed."""
        self._read("", last=True)
        self._flush_text()
        if self._body is not None:
            self._on_block(self._body.build_block(is_closed=False))
            self._body = None

    def _read(self, text: str, *, last: bool) -> None:
        rest: str | None = self._held + text
        self._held = ""
        while rest:
            if self._body is None:
                rest = self._read_text(rest, last=last)
                continue
            rest = self._body.feed(rest)
            if rest is not None:
                self._on_block(self._body.build_block(is_closed=True))
                self._body = None

    def _read_text(self, text: str, *, last: bool) -> str:
        """Read text up to the next tag that opens a block; returns the rest behind it ("" = all was read or waits)."""
        position = 0
        while stop := _STOPS.search(text, position):
            self._add_text(text[position : stop.start()])
            position = stop.start()
            match text[position]:
                case "\n":
                    self._end_line()
                    position += 1
                case "`":
                    end = self._read_ticks(text, position, last=last)
                    if end == position:
                        self._held = text[position:]
                        return ""
                    position = end
                case sign:
                    end = (self._read_angle if sign == "<" else self._read_star)(text, position, last=last)
                    if end == position:
                        self._held = text[position:]
                        return ""
                    position = end
                    if self._body is not None:
                        return text[position:]
        self._add_text(text[position:])
        return ""

    def _read_ticks(self, text: str, position: int, *, last: bool) -> int:
        """Read a run of backticks, which opens or closes code within its line. Returns its end, or `position` if more
        may follow."""
        run = _TICKS.match(text, position)
        assert run is not None
        if run.end() == len(text) and not last:
            return position
        if not self._open_ticks:
            self._open_ticks = len(run[0])
        elif self._open_ticks == len(run[0]):
            self._open_ticks = 0
        self._add_text(run[0])
        return run.end()

    def _read_angle(self, text: str, position: int, *, last: bool) -> int:
        """Read a `<`. Returns the position to continue at, or `position` if it may still become a tag."""
        if not self._fence and not self._open_ticks:
            if tag := _TAG.match(text, position):
                self._open_tag(tag["name"], tag["rest"])
                return tag.end()
            if not last and _may_become_tag(text[position : position + _LONGEST_TAG + 1]):
                return position
        self._add_text("<")
        return position + 1

    def _read_star(self, text: str, position: int, *, last: bool) -> int:
        """Read a `*` that may begin a patch, at the start of a line. Returns like `_read_angle`."""
        begin = PATCH_FRAME[0]
        if not self._line and not self._fence:
            if text.startswith(begin, position):
                self._open_tag(begin, "")
                return position + len(begin)
            if not last and begin.startswith(text[position : position + len(begin)]):
                return position
        self._add_text("*")
        return position + 1

    def _open_tag(self, name: str, rest: str) -> None:
        if name in FRAME_TAGS:
            return
        self._flush_text()
        self._on_open(name)
        is_empty = rest.rstrip().endswith("/")
        self._body = _OpenBlock(name, parse_attributes(rest.rstrip().removesuffix("/") if is_empty else rest))
        if is_empty:
            self._on_block(self._body.build_block(is_closed=True))
            self._body = None

    def _add_text(self, text: str) -> None:
        if text:
            self._pending.append(text)
            self._line = (self._line + text)[: MAX_FENCE_LINE + 1]

    def _flush_text(self) -> None:
        if self._pending:
            self._on_text("".join(self._pending))
            self._pending.clear()

    def _end_line(self) -> None:
        line = self._line
        self._pending.append("\n")
        self._line, self._open_ticks = "", 0
        self._fence = track_fence(self._fence, line)


def _may_become_tag(text: str) -> bool:
    if len(text) > _LONGEST_TAG:
        return False
    return any(start.startswith(text) for start in _STARTS) or _MAY_BE_TAG.fullmatch(text) is not None
