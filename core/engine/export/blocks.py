"""An export as blocks to be read: prose, lines, code and diffs. Each format says how it writes one of these."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from core.engine.export.record import ExportedChange, ExportedSession, ExportedTurn
from core.protocol import documents as d
from core.protocol.review import DiffLine

BlockKind = Literal["prose", "line", "code", "diff"]
SIGNS: Final = {"added": "+", "removed": "-", "context": " ", "gap": "@"}


class Block(Struct, frozen=True):
    """A piece to be read. `caption` stands above code and diffs; `rows` are the lines of a diff."""

    kind: BlockKind
    text: str = ""
    caption: str = ""
    language: str = ""
    rows: tuple[DiffLine, ...] = ()


def list_facts(session: ExportedSession) -> list[str]:
    """Return what stands below the title, each a few words."""
    cost = session.usage.cost
    return [
        session.project,
        *([f"branch {session.branch}"] if session.branch else []),
        session.model,
        f"{format_time(session.started)} to {format_time(session.updated)}",
        *([f"${cost:.2f}"] if cost else []),
        *(f"#{each}" for each in session.tags),
    ]


def describe_turn(turn: ExportedTurn) -> str:
    """Return a line about a turn, beside its prompt."""
    ends = {"done": "", "": "still running"}
    spent = f"{turn.duration_ms / 1000:.0f} s" if turn.duration_ms else ""
    return " · ".join(
        filter(None, (format_time(turn.started), turn.mode, turn.model, spent, ends.get(turn.reason, turn.reason)))
    )


def format_time(at_ms: int) -> str:
    """Return a time as users of this machine write it."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))


def list_turn_blocks(turn: ExportedTurn) -> Iterator[Block]:
    """Yield what was said and done in a turn, in order. Reasoning is no part of an answer."""
    for document in turn.documents:
        yield from _list_blocks(document)


def _list_blocks(document: d.Document) -> Iterator[Block]:
    text = document.content or ""
    match document:
        case d.TextDocument():
            yield Block("prose", text)
        case d.CodeBlockDocument(metadata=code):
            yield Block("code", text, language=code.language)
        case d.CodeReferenceDocument(metadata=there):
            caption = f"{there.file_path}:{there.start_line}-{there.end_line}"
            yield Block("code", text, caption=caption, language=there.language)
        case d.FileEditDocument(metadata=edit):
            failed = " (failed)" if edit.status == "error" else ""
            yield Block("line", f"{edit.operation} {edit.file_path} +{edit.added} -{edit.removed}{failed}")
        case d.TerminalCommandDocument(metadata=ran):
            ended = "did not end" if ran.exit_code is None else f"exit {ran.exit_code}"
            yield Block("code", ran.output, caption=f"$ {ran.command}  ({ended})", language="text")
        case d.ToolCallDocument(metadata=call):
            failed = " (failed)" if call.result is not None and call.result.status == "error" else ""
            yield Block("line", f"{call.tool_name} {call.summary}".strip() + failed)
        case _:
            yield from _list_planning_blocks(document)


def _list_planning_blocks(document: d.Document) -> Iterator[Block]:
    match document:
        case d.PlanDocument(metadata=plan):
            todos = "".join(f"\n- {each.content} ({each.status})" for each in plan.todos)
            yield Block("prose", f"**Plan: {plan.title}**\n\n{plan.overview}\n{todos}")
        case d.ClarificationDocument(metadata=asked):
            yield from (Block("line", line) for line in _format_questions(asked))
        case d.ErrorDocument(metadata=error):
            yield Block("line", f"{error.source or 'error'}: {document.content or error.error_code}")
        case d.TodoUpdateDocument(metadata=update):
            told = ", ".join(f"{each.id} {each.status}" for each in update.todos)
            yield Block("line", f"todos: {told}")


def _format_questions(asked: d.ClarificationMetadata) -> Iterator[str]:
    answers = {each.question: each for each in asked.answers}
    for question in asked.questions:
        answer = answers.get(question.id)
        chosen = answer.options if answer is not None else ()
        labels = [each.label for each in question.options if each.id in chosen]
        said = ", ".join(filter(None, (*labels, answer.text if answer is not None else "")))
        yield f"? {question.text} {said or '(no answer)'}"


def title_change(change: ExportedChange) -> str:
    """Return what was changed, and the verdict on it."""
    verdict = {"accept": "accepted", "reject": "rejected", None: "waits for a review"}[change.verdict]
    name = f"{change.renamed_from} → {change.path}" if change.renamed_from else change.path
    return f"{name}: {verdict}"


def list_change_facts(change: ExportedChange) -> list[str]:
    """Return what else is known of a change, each a line: the evidence, what it was made for, why it was rejected."""
    facts = [change.operation + (f", {format_time(change.at)}" if change.at else "")]
    if (check := change.check) is not None:
        facts.append(f"{'passed' if check.has_passed else f'failed (exit {check.exit_code})'}: {check.command}")
    else:
        facts.append("no check ran over it")
    facts += [f"for the todo {each}" for each in change.todos]
    facts += [f"reason: {change.reason}"] if change.reason else []
    return facts + ([change.note] if change.note else [])


def build_diff_block(change: ExportedChange) -> Block | None:
    """Return the lines of a change, None = there are none."""
    return Block("diff", rows=change.lines) if change.lines else None


def split_changes(changes: Sequence[ExportedChange]) -> dict[str, list[ExportedChange]]:
    """Return the changes below their headings: what was decided, and what waits. Empty ones are left out."""
    parts = {
        "Verdicts": [each for each in changes if each.verdict is not None],
        "Waiting for a review": [each for each in changes if each.verdict is None],
    }
    return {name: found for name, found in parts.items() if found}
