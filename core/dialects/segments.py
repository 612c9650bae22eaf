"""What a model writes, cut into parts as it streams: text, references to code and blocks of code.

The parts do not depend on where the stream was cut. Text flows on as soon as it can no longer become a fence: only the
start of a line that may still open or close one is held back, and white space until something visible follows it.
Fences as in CommonMark (backticks or tildes, three or more, closed by at least as many), at any indentation and after
a list marker. A fence whose info string is `startLine:endLine:path` is a reference to existing code.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

Kind = Literal["text", "code_reference", "code_block"]


class SegmentStarted(Struct, frozen=True):
    """`info` is a fence's info string; `path`, `start`, `end` (1-indexed, inclusive) belong to a reference."""

    kind: Kind
    language: str = ""
    info: str = ""
    path: str = ""
    start: int = 0
    end: int = 0


class SegmentDelta(Struct, frozen=True):
    text: str


class SegmentFinished(Struct, frozen=True):
    """`content` is all deltas of the segment together; `closed` False: the text ended inside a fence."""

    content: str
    closed: bool = True


SegmentEvent = SegmentStarted | SegmentDelta | SegmentFinished

_HELD_AT_MOST = 512  # characters: no fence line is longer, so nothing waits for longer
_MARKER = r"(?:[-*+]|\d{1,9}[.)])"
_OPEN = re.compile(
    rf"(?P<lead>[ \t]*(?:{_MARKER}[ \t]+)?)(?:(?P<tick>`{{3,}})(?P<i>[^`]*)|(?P<tilde>~{{3,}})(?P<j>.*))"
)
_MAY_OPEN = re.compile(rf"[ \t]*(?:{_MARKER}|\d{{1,9}})?[ \t]*(?:`{{1,2}}|~{{1,2}}|`{{3,}}[^`]*|~{{3,}}.*)?")
_REFERENCE = re.compile(r"(?P<start>\d{1,9}):(?P<end>\d{1,9}):(?P<path>[^\0]+)")
_LANGUAGE = re.compile(r"[\w+#.-]+")


class Fence(Struct, frozen=True):
    """An open fence: its marks, how far it is indented (columns), and its info string."""

    mark: str
    indent: int
    info: str = ""

    def may_close(self, line: str) -> bool:
        body = line.strip(" \t\r")
        if body.strip(self.mark[0]):
            return False
        return len(body) >= len(self.mark) or line == line.rstrip(" \t\r") or not body

    def closes(self, line: str) -> bool:
        body = line.strip(" \t\r")
        return len(body) >= len(self.mark) and not body.strip(self.mark[0])


def opening_fence(line: str) -> Fence | None:
    """The fence that a whole line (without its end) opens; None if it opens none."""
    opened = _OPEN.fullmatch(line)
    return _fence(opened) if opened else None


def _fence(opened: re.Match[str]) -> Fence:
    info = (opened["i"] or opened["j"] or "").strip()
    return Fence(opened["tick"] or opened["tilde"], len(opened["lead"].expandtabs(4)), info)


class Segmenter:
    """Feed it the text in any pieces, then `finish` once; each call returns what became certain."""

    def __init__(self) -> None:
        self._events: list[SegmentEvent] = []
        self._fence: Fence | None = None
        self._held = ""
        self._passing = False
        self._open = False
        self._content: list[str] = []
        self._fresh: list[str] = []
        self._spaces: list[str] = []

    def feed(self, text: str) -> list[SegmentEvent]:
        first, *rest = text.split("\n")
        self._part(first)
        for piece in rest:
            self._line_end()
            self._part(piece)
        return self._taken()

    def finish(self) -> list[SegmentEvent]:
        """The end of the text: what was held back is decided, an open fence ends here."""
        if self._held:
            self._line_end(last=True)
        self._end_segment(closed=self._fence is None)
        self._fence = None
        return self._taken()

    def _taken(self) -> list[SegmentEvent]:
        self._flush()
        events, self._events = self._events, []
        return events

    def _part(self, piece: str) -> None:
        """A piece of a line, without its end."""
        if not piece:
            return
        if self._passing:
            self._say(piece)
            return
        self._held += piece
        if len(self._held) <= _HELD_AT_MOST and self._may_be_fence():
            return
        self._release()

    def _may_be_fence(self) -> bool:
        if self._fence:
            return self._fence.may_close(self._held)
        return _MAY_OPEN.fullmatch(self._held) is not None

    def _release(self) -> None:
        """The line is no fence: what was held flows on, and the rest of the line will."""
        held, self._held, self._passing = self._held, "", True
        if self._fence:
            held = dedented(held, self._fence.indent)
        self._say(held)

    def _line_end(self, *, last: bool = False) -> None:
        if not self._passing and self._held and len(self._held) <= _HELD_AT_MOST and self._is_fence():
            self._held = ""
            return
        if not self._passing:
            self._release()
        self._passing = False
        if not last:
            self._say("\n")

    def _is_fence(self) -> bool:
        """Whether the held line opens or closes a fence; if so, it did."""
        if self._fence:
            if not self._fence.closes(self._held):
                return False
            self._end_segment()
            self._fence = None
            return True
        opened = _OPEN.fullmatch(self._held)
        if opened is None:
            return False
        self._say(opened["lead"].rstrip() and opened["lead"])
        self._end_segment()
        self._fence = _fence(opened)
        self._begin(_started(self._fence.info))
        return True

    # what a segment says

    def _say(self, text: str) -> None:
        """Text waits while it is white space that may turn out to be the end (or, outside fences, the beginning)."""
        if not text:
            return
        if self._fence:
            self._say_code(text)
            return
        body = text.rstrip()
        if not body:
            self._spaces.append(text)
            return
        lead = "".join(self._spaces)
        if not self._open:
            self._begin(SegmentStarted("text"))
            lead = (lead + body)[: len(lead + body) - len((lead + body).lstrip())]
            lead, body = lead.rpartition("\n")[2], body.lstrip()
        self._fresh.append(lead + body)
        self._spaces = [text[len(text.rstrip()) :]] if text != text.rstrip() else []

    def _say_code(self, text: str) -> None:
        """In code only the last line end waits: it belongs to the closing fence."""
        if self._spaces:
            self._fresh.append("\n")
            self._spaces.clear()
        if text == "\n":
            self._spaces.append(text)
        else:
            self._fresh.append(text)

    def _begin(self, started: SegmentStarted) -> None:
        self._open = True
        self._spaces.clear()
        self._events.append(started)

    def _flush(self) -> None:
        if self._fresh:
            text = "".join(self._fresh)
            self._fresh.clear()
            self._content.append(text)
            self._events.append(SegmentDelta(text))

    def _end_segment(self, *, closed: bool = True) -> None:
        self._flush()
        self._spaces.clear()
        if self._open:
            self._events.append(SegmentFinished("".join(self._content), closed))
        self._content.clear()
        self._open = False


def dedented(line: str, columns: int) -> str:
    """The line without at most `columns` columns of leading white space."""
    position = width = 0
    while position < len(line) and width < columns and line[position] in " \t":
        width += 1 if line[position] == " " else 4 - width % 4
        position += 1
    return line[position:]


def _started(info: str) -> SegmentStarted:
    found = _REFERENCE.fullmatch(info)
    if found and 1 <= int(found["start"]) <= int(found["end"]):
        path = found["path"].strip()
        return SegmentStarted("code_reference", "", info, path, int(found["start"]), int(found["end"]))
    language = _LANGUAGE.match(info)
    return SegmentStarted("code_block", language[0] if language else "", info)
