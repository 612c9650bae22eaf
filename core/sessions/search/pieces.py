"""The pieces of a transcript: what a record says, as it is searched. No key is in them, nor what looks like one.

What the model is sent is none: it is in the record of what was typed, answered or run, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.queries.transcripts import PieceKind
from core.secrets import redact

MAX_CHARS: Final = 16_000  # of one piece; of longer ones head and tail count
_ENDS: Final = (b'"type":"message.appended"', b'"type":"document.started"', b'"type":"tool.requested"')


class Piece(Struct, frozen=True, array_like=True):
    """A piece of a transcript; `place`: the id of the turn or document that shows it, `seq` that of its record."""

    seq: int
    at: int
    kind: PieceKind
    place: str
    text: str


def is_silent(line: bytes) -> bool:
    """True if a line of a log surely holds no piece, by the type of its event: most bytes of a log are of these."""
    return any(marker in line[:400] for marker in _ENDS)


def find_pieces(envelope: ev.Envelope) -> Iterator[Piece]:
    """Yield what a record says, without keys."""
    find = _FINDERS.get(type(envelope.event))
    for kind, location, text in find(envelope) if find is not None else ():
        if text.strip():
            yield Piece(envelope.seq, envelope.at, kind, location, redact(_shorten(text)))


_Found = Iterator[tuple[PieceKind, str, str]]


def _shorten(text: str) -> str:
    half = MAX_CHARS // 2
    return text if len(text) <= MAX_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


def _find_prompt(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.TurnStarted)
    yield "prompt", envelope.turn, envelope.event.prompt


def _find_steer(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.TurnSteered)
    yield "prompt", envelope.turn, envelope.event.text


def _find_title(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.SessionStarted | ev.SessionRenamed)
    yield "title", "", envelope.event.title


def _find_command(envelope: ev.Envelope) -> _Found:
    event = envelope.event
    assert isinstance(event, ev.CommandRan)
    yield "command", event.id, f"{event.command}\n{event.output}"


def _find_answers(envelope: ev.Envelope) -> _Found:
    event = envelope.event
    assert isinstance(event, ev.QuestionAnswered)
    yield "question", event.id, "\n".join(answer.text or ", ".join(answer.options) for answer in event.answers)


def _find_comment(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.HunkCommented | ev.PlanCommented)
    comment = envelope.event.comment
    yield "review", envelope.turn, f"{comment.path}\n{comment.text}" if comment.text else ""


def _find_reason(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.VerdictGiven)
    verdict = envelope.event.verdict
    yield "review", envelope.turn, f"{verdict.path}\n{verdict.reason}" if verdict.reason else ""


def _find_subagent(envelope: ev.Envelope) -> _Found:
    match envelope.event:
        case ev.SubagentStarted(title=title):
            yield "subagent", envelope.turn, title
        case ev.SubagentFinished(said=said, acts=acts):
            yield "subagent", envelope.turn, "\n".join((said, *(act.text for act in acts)))


def _find_document(envelope: ev.Envelope) -> _Found:
    assert isinstance(envelope.event, ev.DocumentFinished)
    document = envelope.event.document
    match document:
        case d.TextDocument() | d.CodeBlockDocument() | d.ErrorDocument():
            yield "answer", document.id, document.content or ""
        case d.CodeReferenceDocument(metadata=there):
            yield "answer", document.id, f"{there.file_path}\n{document.content or ''}"
        case d.FileEditDocument(metadata=edit):
            sides = (edit.diff.old_string, edit.diff.new_string) if edit.diff is not None else ()
            yield "edit", document.id, "\n".join((edit.file_path, *sides))
        case d.TerminalCommandDocument(metadata=ran):
            yield "command", document.id, f"{ran.command}\n{ran.output}"
        case d.PlanDocument(metadata=plan):
            yield "plan", document.id, "\n".join((plan.title, plan.overview, document.content or ""))
        case d.ClarificationDocument(metadata=asked):
            yield "question", document.id, "\n".join(question.text for question in asked.questions)
        case d.ToolCallDocument(metadata=call):
            argument_texts = (str(argument) for argument in call.arguments.values() if isinstance(argument, str | int))
            yield "tool", document.id, "\n".join((f"{call.tool_name} {call.summary}".strip(), *argument_texts))
        case _:  # reasoning is shown folded, and an update of todos has no words of its own
            return


_FINDERS: Final[Mapping[type[Any], Callable[[ev.Envelope], _Found]]] = {
    ev.SessionStarted: _find_title,
    ev.SessionRenamed: _find_title,
    ev.TurnStarted: _find_prompt,
    ev.TurnSteered: _find_steer,
    ev.DocumentFinished: _find_document,
    ev.CommandRan: _find_command,
    ev.QuestionAnswered: _find_answers,
    ev.HunkCommented: _find_comment,
    ev.PlanCommented: _find_comment,
    ev.VerdictGiven: _find_reason,
    ev.SubagentStarted: _find_subagent,
    ev.SubagentFinished: _find_subagent,
}
