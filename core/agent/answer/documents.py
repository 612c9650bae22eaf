"""Documents of one turn: what the model writes and does, as the chat shows it and the API returns it.

Every document is started once and finished once with its whole content; deltas in between may be lost. Documents are
numbered within the turn in the order in which they begin. Documents of a failed attempt are void, not finished.

A code block has a purpose, which is guessed from the block: one that names its file is new code if there is no such
file yet, and suggests a change of it otherwise; a command or a patch is a suggestion; code that defines something is
new in modes that write code, and an example where questions are answered; everything else is an example. A reference
is checked against its file, and its lines are those where the text is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct, field

from core.clock import monotonic
from core.dialects.segments import SegmentDelta, Segmenter, SegmentEvent, SegmentFinished, SegmentStarted
from core.ids import new_id
from core.languages import detect_language
from core.patterns import compile_lazily
from core.protocol.documents import (
    AnyDocument,
    ClarificationDocument,
    ClarificationMetadata,
    CodeBlockDocument,
    CodeBlockMetadata,
    CodeReferenceDocument,
    CodeReferenceMetadata,
    ErrorDocument,
    ErrorMetadata,
    Question,
    ReasoningDocument,
    ReasoningMetadata,
    TextDocument,
)
from core.protocol.events import AnyEvent, DocumentDelta, DocumentFinished, DocumentStarted, ModeName
from core.text.quotations import QuotedPlace, locate_quotation

CodePurpose = Literal["new_code", "example", "suggestion"]
_TO_DO: Final = frozenset(
    {
        "bash",
        "bat",
        "cmd",
        "console",
        "diff",
        "fish",
        "patch",
        "powershell",
        "ps1",
        "sh",
        "shell",
        "shellsession",
        "zsh",
    }
)
_DATA: Final = frozenset({"", "csv", "log", "output", "plain", "plaintext", "text", "txt"})
# `title="a/b.py"`, `file=a.py`, `filename: a.py`, or the path alone after the language.
_NAMED: Final = compile_lazily(r"""(?:\b(?:title|file|filename|path)\s*[=:]\s*)["']?(?P<path>[^"'\s}]+)""")
_PATH: Final = compile_lazily(r"(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.\w{1,10}")
_IN_COMMENT: Final = compile_lazily(
    r"\s*(?:#|//|--|;|/\*|<!--)\s*(?:file:\s*)?(?P<path>\S+?)\s*(?:\*/|-->)?\s*", re.IGNORECASE
)
_DEFINITION: Final = compile_lazily(
    r"^(?:export\s+|default\s+|pub(?:lic)?(?:\(\w+\))?\s+|private\s+|static\s+|abstract\s+|async\s+)*"
    r"(?:class|def|enum|fn|func|function|impl|interface|module|namespace|object|record|struct|trait|type)\s+\w",
    re.MULTILINE,
)
NO_PLAN: Final = "There is no plan. What is to be planned, or what is missing for one?"
Emit = Callable[[AnyEvent], None]
_TEXT = SegmentStarted("text")


class CodeContext(Struct, frozen=True):
    """The context of code. `has_file`: True for a path that is a file of the project; `read_lines`: its
    lines by number, empty if it is none, None = they can't be read."""

    mode: ModeName = "agent"
    has_file: Callable[[str], bool] = bool
    read_lines: Callable[[str], Mapping[int, str] | None] = lambda _: None


def guess_purpose(info: str, language: str, content: str, context: CodeContext) -> CodePurpose:
    """Guess the purpose of a block from its fence's `info` and `language`, its code, and the context."""
    language = language.lower()
    if path := _find_named_path(info, language, content):
        return "suggestion" if context.has_file(path) else "new_code"
    if language in _TO_DO:
        return "suggestion"
    if language not in _DATA and _DEFINITION.search(content):
        return {"ask": "example", "plan": "suggestion"}.get(context.mode, "new_code")  # type: ignore[return-value]
    return "example"


def _find_named_path(info: str, language: str, content: str) -> str:
    """Return the path of the block's file, as the fence or the first line of the code names it, "" = none."""
    if match := _NAMED.search(info):
        return match["path"]
    behind = info[len(language) :].strip(" :{}\t")
    if behind and (_PATH.fullmatch(behind)):
        return behind
    if "/" in info and _PATH.fullmatch(info.strip()):
        return info.strip()
    first = _IN_COMMENT.fullmatch(content.partition("\n")[0])
    return first["path"] if first and _PATH.fullmatch(first["path"]) else ""


class OpenDocument(Struct, frozen=True, kw_only=True):
    """A started document. `started_at`: seconds of the monotonic clock."""

    id: str
    kind: str
    sequence: int
    started_at: float

    def measure_duration_ms(self) -> int:
        return round((monotonic() - self.started_at) * 1000)


class TurnDocuments(Struct, eq=False):
    """Numbers, starts and finishes the documents of a turn. `ids`: those of all started documents."""

    emit: Emit
    ids: list[str] = field(default_factory=list)

    def open(self, kind: str, *, title: str = "", language: str = "") -> OpenDocument:
        document = OpenDocument(id=new_id("doc"), kind=kind, sequence=len(self.ids) + 1, started_at=monotonic())
        self.ids.append(document.id)
        self.emit(
            DocumentStarted(id=document.id, kind=kind, sequence=document.sequence, title=title, language=language)
        )
        return document

    def add_delta(self, document: OpenDocument, text: str) -> None:
        if text:
            self.emit(DocumentDelta(id=document.id, text=text))

    def finish(self, document: AnyDocument) -> None:
        self.emit(DocumentFinished(document=document))

    def add_text(self, content: str) -> None:
        """Add a whole text document."""
        document = self.open("text")
        self.finish(TextDocument(id=document.id, sequence=document.sequence, content=content))

    def add_question(self, text: str) -> None:
        """Add the question that is open if a plan was wanted, and the model's last words are only a `text`."""
        last_words = text.strip().rpartition("\n\n")[2]
        question = last_words if last_words.endswith("?") else NO_PLAN
        document = self.open("clarification")
        metadata = ClarificationMetadata(questions=(Question(id="q1", text=question),))
        content = text.strip() or None
        self.finish(
            ClarificationDocument(id=document.id, sequence=document.sequence, content=content, metadata=metadata)
        )

    def add_error(self, code: str, message: str, *, hint: str = "", source: str = "", call: str = "") -> None:
        """Add an error document. `source`, `call`: the tool that failed, and the id of its call."""
        document = self.open("error", title=message)
        metadata = ErrorMetadata(error_code=code.upper(), source=source, details=hint, tool_call_id=call)
        self.finish(ErrorDocument(id=document.id, sequence=document.sequence, content=message, metadata=metadata))


class AnswerDocuments(Struct, eq=False):
    """Writer of one answer's text and reasoning into documents. `close` finishes the open one."""

    _documents: TurnDocuments
    _context: CodeContext = CodeContext()
    _lane: Literal["", "text", "reasoning"] = ""
    _segmenter: Segmenter = field(default_factory=Segmenter)
    _opened: OpenDocument | None = None
    _segment: SegmentStarted = _TEXT
    _thoughts: list[str] = field(default_factory=list)
    _block_index: int = 0

    def add_text(self, piece: str) -> None:
        if piece:
            self._switch_lane("text")
            self._apply_segments(self._segmenter.feed(piece))

    def add_reasoning(self, piece: str, index: int) -> None:
        """Add reasoning. Every block, by its `index`, is a separate document."""
        if not piece:
            return
        if self._lane == "reasoning" and index != self._block_index:
            self.close()
        self._switch_lane("reasoning")
        self._block_index = index
        if self._opened is None:
            self._opened = self._documents.open("reasoning")
        self._thoughts.append(piece)
        self._documents.add_delta(self._opened, piece)

    def close(self) -> None:
        """Finish the open document, if any: the answer ends, or another kind of content begins."""
        match self._lane:
            case "text":
                self._apply_segments(self._segmenter.finish())
                self._segmenter = Segmenter()
            case "reasoning" if self._opened is not None:
                self._documents.finish(
                    ReasoningDocument(
                        id=self._opened.id,
                        sequence=self._opened.sequence,
                        content="".join(self._thoughts),
                        metadata=ReasoningMetadata(duration_ms=self._opened.measure_duration_ms()),
                    )
                )
                self._thoughts.clear()
            case _:
                pass
        self._opened, self._lane = None, ""

    def _switch_lane(self, lane: Literal["text", "reasoning"]) -> None:
        if self._lane != lane:
            self.close()
            self._lane = lane

    def _apply_segments(self, events: list[SegmentEvent]) -> None:
        for event in events:
            match event:
                case SegmentStarted():
                    self._segment = event
                    language = detect_language(event.path) if event.kind == "code_reference" else event.language
                    self._opened = self._documents.open(event.kind, title=event.path, language=language)
                case SegmentDelta(text) if self._opened is not None:
                    self._documents.add_delta(self._opened, text)
                case SegmentFinished(content) if self._opened is not None:
                    self._documents.finish(_build_segment_document(self._opened, self._segment, content, self._context))
                    self._opened = None
                case _:
                    pass


def _build_segment_document(
    document: OpenDocument, segment: SegmentStarted, content: str, context: CodeContext
) -> AnyDocument:
    id_, sequence = document.id, document.sequence
    match segment.kind:
        case "text":
            return TextDocument(id=id_, sequence=sequence, content=content)
        case "code_reference":
            claim = QuotedPlace(segment.start, segment.end)
            lines = context.read_lines(segment.path)
            place = claim if lines is None else locate_quotation(content, claim, lines, has_all=True)
            reference = CodeReferenceMetadata(
                file_path=segment.path,
                start_line=place.start,
                end_line=place.end,
                language=detect_language(segment.path),
                doubt=place.doubt,
            )
            return CodeReferenceDocument(id=id_, sequence=sequence, content=content, metadata=reference)
        case "code_block":
            purpose = guess_purpose(segment.info, segment.language, content, context)
            block = CodeBlockMetadata(language=segment.language, purpose=purpose)
            return CodeBlockDocument(id=id_, sequence=sequence, content=content, metadata=block)
