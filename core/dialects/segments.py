"""Segments of a model's text, split as it streams: text, references to code and blocks of code.

They do not depend on the chunks of the stream: only the start of a line that may still open or close a fence waits, and
white space until something visible follows. Fences are those of CommonMark, at any indentation and after a list marker;
one whose info string is `startLine:endLine:path` is a reference to existing code.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from core.patterns import compile_lazily
from core.text.markup import LIST_MARKER, MAX_FENCE_LINE, OPENING_FENCE, Fence, build_fence, dedent_line

SegmentKind = Literal["text", "code_reference", "code_block"]


class SegmentStarted(Struct, frozen=True):
    """Start of a segment. `info` is a fence's info string; `path`, `start`, `end` (1-indexed, inclusive) belong to a
    reference."""

    kind: SegmentKind
    language: str = ""
    info: str = ""
    path: str = ""
    start: int = 0
    end: int = 0


class SegmentDelta(Struct, frozen=True):
    """More text of the open segment."""

    text: str


class SegmentFinished(Struct, frozen=True):
    """End of a segment. `content` is its whole text; `is_closed` False: the text ended inside a fence."""

    content: str
    is_closed: bool = True


SegmentEvent = SegmentStarted | SegmentDelta | SegmentFinished

_MAY_OPEN = compile_lazily(rf"[ \t]*(?:{LIST_MARKER}|\d{{1,9}})?[ \t]*(?:`{{1,2}}|~{{1,2}}|`{{3,}}[^`]*|~{{3,}}.*)?")
_REFERENCE = compile_lazily(r"(?P<start>\d{1,9}):(?P<end>\d{1,9}):(?P<path>[^\0]+)")
_LANGUAGE = compile_lazily(r"[\w+#.-]+")


class Segmenter(Struct, eq=False):
    """Splits text that is fed in chunks of any size; `finish` is called once. Both return the events that are
    certain."""

    _events: list[SegmentEvent] = field(default_factory=list)
    _fence: Fence | None = None
    _held: str = ""
    _is_passing: bool = False
    _is_open: bool = False
    _content: list[str] = field(default_factory=list)
    _pending: list[str] = field(default_factory=list)
    _spaces: list[str] = field(default_factory=list)

    def feed(self, text: str) -> list[SegmentEvent]:
        """Read a chunk, and return the events that are certain now."""
        first, *rest = text.split("\n")
        self._read_piece(first)
        for piece in rest:
            self._end_line()
            self._read_piece(piece)
        return self._take_events()

    def finish(self) -> list[SegmentEvent]:
        """End the text: waiting text is decided, an open fence ends here."""
        if self._held:
            self._end_line(last=True)
        self._end_segment(is_closed=self._fence is None)
        self._fence = None
        return self._take_events()

    def _take_events(self) -> list[SegmentEvent]:
        self._flush()
        events, self._events = self._events, []
        return events

    def _read_piece(self, piece: str) -> None:
        if not piece:
            return
        if self._is_passing:
            self._emit_text(piece)
            return
        self._held += piece
        if len(self._held) <= MAX_FENCE_LINE and self._may_be_fence():
            return
        self._release_line()

    def _may_be_fence(self) -> bool:
        if self._fence:
            return self._fence.may_be_closed_by(self._held)
        return _MAY_OPEN.fullmatch(self._held) is not None

    def _release_line(self) -> None:
        """Pass on the waiting start of a line, and the rest of the line: it is no fence."""
        text, self._held, self._is_passing = self._held, "", True
        if self._fence:
            text = dedent_line(text, self._fence.indent)
        self._emit_text(text)

    def _end_line(self, *, last: bool = False) -> None:
        if not self._is_passing and self._held and len(self._held) <= MAX_FENCE_LINE and self._read_fence():
            self._held = ""
            return
        if not self._is_passing:
            self._release_line()
        self._is_passing = False
        if not last:
            self._emit_text("\n")

    def _read_fence(self) -> bool:
        if self._fence:
            if not self._fence.is_closed_by(self._held):
                return False
            self._end_segment()
            self._fence = None
            return True
        match = OPENING_FENCE.fullmatch(self._held)
        if match is None:
            return False
        self._emit_text(match["lead"].rstrip() and match["lead"])
        self._end_segment()
        self._fence = build_fence(match)
        self._start_segment(_parse_info(self._fence.info))
        return True

    # the text of a segment

    def _emit_text(self, text: str) -> None:
        """Emit text; white space waits if it may be the end (or, outside of fences, the beginning) of the segment."""
        if not text:
            return
        if self._fence:
            self._emit_code(text)
            return
        body = text.rstrip()
        if not body:
            self._spaces.append(text)
            return
        lead = "".join(self._spaces)
        if not self._is_open:
            self._start_segment(SegmentStarted("text"))
            lead = (lead + body)[: len(lead + body) - len((lead + body).lstrip())]
            lead, body = lead.rpartition("\n")[2], body.lstrip()
        self._pending.append(lead + body)
        self._spaces = [text[len(text.rstrip()) :]] if text != text.rstrip() else []

    def _emit_code(self, text: str) -> None:
        """Emit code; only the last line end waits, as it belongs to the closing fence."""
        if self._spaces:
            self._pending.append("\n")
            self._spaces.clear()
        if text == "\n":
            self._spaces.append(text)
        else:
            self._pending.append(text)

    def _start_segment(self, event: SegmentStarted) -> None:
        self._is_open = True
        self._spaces.clear()
        self._events.append(event)

    def _flush(self) -> None:
        if self._pending:
            text = "".join(self._pending)
            self._pending.clear()
            self._content.append(text)
            self._events.append(SegmentDelta(text))

    def _end_segment(self, *, is_closed: bool = True) -> None:
        self._flush()
        self._spaces.clear()
        if self._is_open:
            self._events.append(SegmentFinished("".join(self._content), is_closed))
        self._content.clear()
        self._is_open = False


def _parse_info(info: str) -> SegmentStarted:
    match = _REFERENCE.fullmatch(info)
    if match and 1 <= int(match["start"]) <= int(match["end"]):
        path = match["path"].strip()
        return SegmentStarted("code_reference", "", info, path, int(match["start"]), int(match["end"]))
    language = _LANGUAGE.match(info)
    return SegmentStarted("code_block", language[0] if language else "", info)
