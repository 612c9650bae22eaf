"""The documents of one turn: what the model says and does, as the chat shows it and the API returns it.

Every document is started once and finished once with its whole content; deltas in between may be lost. Documents are
numbered within the turn in the order in which they began. Those begun in a failed attempt are void, not finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from core.clock import monotonic
from core.dialects.segments import SegmentDelta, Segmenter, SegmentEvent, SegmentFinished, SegmentStarted
from core.ids import new_id
from core.languages import language_of
from core.protocol.documents import (
    AnyDocument,
    CodeBlock,
    CodeBlockMetadata,
    CodeReference,
    CodeReferenceMetadata,
    ErrorDocument,
    ErrorMetadata,
    Reasoning,
    ReasoningMetadata,
    Text,
)
from core.protocol.events import AnyEvent, DocumentDelta, DocumentFinished, DocumentStarted

Emit = Callable[[AnyEvent], None]


class Opened(Struct, frozen=True, kw_only=True):
    """A document that was started. `at` is its start on the monotonic clock, in seconds."""

    id: str
    kind: str
    sequence: int
    at: float

    def duration_ms(self) -> int:
        return round((monotonic() - self.at) * 1000)


class Documents:
    """Numbers, starts and finishes the documents of a turn."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._count = 0
        self._begun: list[str] = []

    def open(self, kind: str, *, title: str = "", language: str = "") -> Opened:
        self._count += 1
        opened = Opened(id=new_id("doc"), kind=kind, sequence=self._count, at=monotonic())
        self._begun.append(opened.id)
        self._emit(DocumentStarted(id=opened.id, kind=kind, sequence=opened.sequence, title=title, language=language))
        return opened

    def delta(self, opened: Opened, text: str) -> None:
        if text:
            self._emit(DocumentDelta(id=opened.id, text=text))

    def finish(self, document: AnyDocument) -> None:
        self._emit(DocumentFinished(document=document))

    def begin_attempt(self) -> None:
        """From here on documents can be made void together."""
        self._begun.clear()

    def void_attempt(self) -> tuple[str, ...]:
        """The documents begun since `begin_attempt`; they are not to be finished any more."""
        void = tuple(self._begun)
        self._begun.clear()
        return void

    def text(self, content: str) -> None:
        """Words of the program's own as a document."""
        opened = self.open("text")
        self.finish(Text(id=opened.id, sequence=opened.sequence, content=content))

    def error(self, code: str, message: str, *, hint: str = "", source: str = "") -> None:
        """An error as a document of its own."""
        opened = self.open("error", title=message)
        metadata = ErrorMetadata(error_code=code.upper(), source=source, details=hint)
        self.finish(ErrorDocument(id=opened.id, sequence=opened.sequence, content=message, metadata=metadata))


class Speech:
    """One answer's text and reasoning on their way into documents. Closing it finishes what is open."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._lane: Literal["", "text", "reasoning"] = ""
        self._segmenter = Segmenter()
        self._opened: Opened | None = None
        self._segment = SegmentStarted("text")
        self._thoughts: list[str] = []
        self._thinking = 0

    def text(self, piece: str) -> None:
        if piece:
            self._turn_to("text")
            self._show(self._segmenter.feed(piece))

    def reasoning(self, piece: str, index: int) -> None:
        """Each numbered block of reasoning is a document of its own."""
        if not piece:
            return
        if self._lane == "reasoning" and index != self._thinking:
            self.close()
        self._turn_to("reasoning")
        self._thinking = index
        if self._opened is None:
            self._opened = self._documents.open("reasoning")
        self._thoughts.append(piece)
        self._documents.delta(self._opened, piece)

    def close(self) -> None:
        """The end of the answer, or something else comes between."""
        match self._lane:
            case "text":
                self._show(self._segmenter.finish())
                self._segmenter = Segmenter()
            case "reasoning" if self._opened is not None:
                self._documents.finish(
                    Reasoning(
                        id=self._opened.id,
                        sequence=self._opened.sequence,
                        content="".join(self._thoughts),
                        metadata=ReasoningMetadata(duration_ms=self._opened.duration_ms()),
                    )
                )
                self._thoughts.clear()
            case _:
                pass
        self._opened, self._lane = None, ""

    def _turn_to(self, lane: Literal["text", "reasoning"]) -> None:
        if self._lane != lane:
            self.close()
            self._lane = lane

    def _show(self, events: list[SegmentEvent]) -> None:
        for event in events:
            match event:
                case SegmentStarted():
                    self._segment = event
                    language = language_of(event.path) if event.kind == "code_reference" else event.language
                    self._opened = self._documents.open(event.kind, title=event.path, language=language)
                case SegmentDelta(text) if self._opened is not None:
                    self._documents.delta(self._opened, text)
                case SegmentFinished(content) if self._opened is not None:
                    self._documents.finish(_segment_document(self._opened, self._segment, content))
                    self._opened = None
                case _:
                    pass


def _segment_document(opened: Opened, segment: SegmentStarted, content: str) -> AnyDocument:
    match segment.kind:
        case "text":
            return Text(id=opened.id, sequence=opened.sequence, content=content)
        case "code_reference":
            reference = CodeReferenceMetadata(
                file_path=segment.path,
                start_line=segment.start,
                end_line=segment.end,
                language=language_of(segment.path),
            )
            return CodeReference(id=opened.id, sequence=opened.sequence, content=content, metadata=reference)
        case "code_block":
            block = CodeBlockMetadata(language=segment.language, purpose=_purpose(segment))
            return CodeBlock(id=opened.id, sequence=opened.sequence, content=content, metadata=block)


def _purpose(segment: SegmentStarted) -> Literal["new_code", "example", "suggestion"]:
    """New code names the file it is meant for, a shell fence suggests a command, the rest shows something."""
    if "/" in segment.info or "title=" in segment.info:
        return "new_code"
    return "suggestion" if segment.language.lower() in {"sh", "bash", "shell", "zsh", "console"} else "example"
