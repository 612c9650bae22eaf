"""An export as a sequence of blocks (prose, lines, code, diffs), which every format renders in its own way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.engine.export.record import ExportedChange, ExportedSession, ExportedTurn
from core.patterns import compile_lazily
from core.protocol import documents as d
from core.protocol.review import Check, DiffLine, is_prose
from core.state.checks import describe_changed_tests, get_check_words
from core.text.exposure import BLANK_SIGN, TAB_SIGN, expose_blanks

BlockKind = Literal["prose", "line", "code", "diff"]
LINE_END_SIGNS: Final = {"crlf": "␍␊", "lf": "␊", "none": " ⊘ no newline at end"}
_ODD_BLANKS = compile_lazily("^ +| +$|(?<= ) +")
SIGNS: Final = {"added": "+", "removed": "-", "context": " ", "gap": "@"}


class Block(Struct, frozen=True):
    """A block of an export. `caption`: the heading of code and diffs; `rows`: the lines of a diff."""

    kind: BlockKind
    text: str = ""
    caption: str = ""
    language: str = ""
    rows: tuple[DiffLine, ...] = ()


def format_line(text: str) -> str:
    """Format a name or command as one line, with signs for blanks, tabs and line ends that Markdown or HTML would
    collapse. The text itself contains none of these signs, as they are masked in the record."""
    line = text.replace("\n", "␊").replace("\t", TAB_SIGN)
    return _ODD_BLANKS.sub(lambda blanks: BLANK_SIGN * len(blanks[0]), line)


def list_facts(session: ExportedSession) -> list[str]:
    """Return the short facts below the title."""
    cost = session.usage.format_cost(2)
    return [
        session.project,
        *([f"branch {session.branch}"] if session.branch else []),
        session.model,
        f"{format_time(session.started)} to {format_time(session.updated)}",
        *([cost] if cost else []),
        *(f"#{tag}" for tag in session.tags),
    ]


def describe_turn(turn: ExportedTurn) -> str:
    """Return a line about a turn: time, mode, model, duration, end."""
    ends = {"done": "", "": "still running"}
    duration = f"{turn.duration_ms / 1000:.0f} s" if turn.duration_ms else ""
    return " · ".join(
        filter(None, (format_time(turn.started), turn.mode, turn.model, duration, ends.get(turn.reason, turn.reason)))
    )


def format_time(at_ms: int) -> str:
    """Format a time in ms since the epoch, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))


def list_turn_blocks(turn: ExportedTurn) -> Iterator[Block]:
    """Yield the blocks of a turn in order, without reasoning."""
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
            yield Block("code", text, caption=format_line(caption), language=there.language)
        case d.FileEditDocument(metadata=edit):
            suffix = " (failed)" if edit.status == "error" else ""
            path = format_line(edit.file_path)
            yield Block("line", f"{edit.operation} {path} +{edit.added} -{edit.removed}{suffix}")
        case d.TerminalCommandDocument(metadata=ran):
            caption = f"$ {format_line(ran.command)} ({_describe_end(ran)})"
            yield Block("code", ran.output, caption=caption, language="text")
        case d.ToolCallDocument(metadata=call):
            suffix = " (failed)" if call.result is not None and call.result.status == "error" else ""
            yield Block("line", format_line(f"{call.tool_name} {call.summary}".strip()) + suffix)
        case _:
            yield from _list_planning_blocks(document)


def _describe_end(ran: d.TerminalCommandMetadata) -> str:
    """Describe how a command ended. For a hosted agent it is only the agent's report."""
    if ran.is_reported:
        outcome = f"exit {ran.exit_code}" if ran.exit_code else "ended"
        return f"{outcome}, as reported by the agent, like its output"
    return "did not end" if ran.exit_code is None else f"exit {ran.exit_code}"


def _list_planning_blocks(document: d.Document) -> Iterator[Block]:
    match document:
        case d.PlanDocument(metadata=plan):
            todos = "".join(f"\n- {todo.content} ({todo.status})" for todo in plan.todos)
            yield Block("prose", f"**Plan: {plan.title}**\n\n{plan.overview}\n{todos}")
        case d.ClarificationDocument(metadata=asked):
            yield from (Block("line", line) for line in _format_questions(asked))
        case d.ErrorDocument(metadata=error):
            yield Block("line", f"{error.source or 'error'}: {document.content or error.error_code}")
        case d.TodoUpdateDocument(metadata=update):
            statuses = ", ".join(f"{todo.id} {todo.status}" for todo in update.todos)
            yield Block("line", f"todos: {statuses}")


def _format_questions(metadata: d.ClarificationMetadata) -> Iterator[str]:
    answers = {question_answer.question: question_answer for question_answer in metadata.answers}
    for question in metadata.questions:
        answer = answers.get(question.id)
        option_ids = answer.options if answer is not None else ()
        labels = [option.label for option in question.options if option.id in option_ids]
        answer_text = ", ".join(filter(None, (*labels, answer.text if answer is not None else "")))
        yield f"? {question.text} {answer_text or '(no answer)'}"


def format_change_title(change: ExportedChange) -> str:
    """Return the title of a change: its path and verdict."""
    verdict = {"accept": "accepted", "reject": "rejected", None: "pending review"}[change.verdict]
    names = [format_line(path) for path in (change.renamed_from, change.path) if path]
    return f"{' → '.join(names)}: {verdict}"


def list_change_facts(change: ExportedChange) -> list[str]:
    """Return the facts of a change, one per line: operation, checks, todos, reason of the verdict, note."""
    facts = [change.operation + (f", {format_time(change.at)}" if change.at else "")]
    check = change.check
    says_something = check is not None and (not is_prose(change.path) or check.covers(change.path))
    facts.append(_describe_check(check) if check is not None and says_something else "not checked")
    facts += [f"for the todo {todo}" for todo in change.todos]
    facts += [f"reason: {change.reason}"] if change.reason else []
    return facts + ([change.note] if change.note else [])


def _describe_check(check: Check) -> str:
    """Describe how a check ended, in the words of the review."""
    command = format_line(check.command)
    if not check.has_passed:
        return f"failed (exit {check.exit_code}): {command}"
    summary = f"{get_check_words(check).sentence}: {command}"
    if check.changed_here:
        return f"{summary}, {describe_changed_tests(check, format_line(check.changed_here[0]))}"
    return f"{summary}, run again in a clean layer" if check.is_verified else summary


def build_diff_block(change: ExportedChange) -> Block | None:
    """Return the diff of a change, None = it has no lines."""
    rows = (
        row
        if row.kind == "gap"
        else replace(row, text=expose_blanks(row.text) + LINE_END_SIGNS.get(row.eol, ""), marks=())
        for row in change.lines
    )
    return Block("diff", rows=tuple(rows)) if change.lines else None


def split_changes(changes: Sequence[ExportedChange]) -> dict[str, list[ExportedChange]]:
    """Group the changes by heading, decided and pending ones, without empty groups."""
    parts = {
        "Verdicts": [change for change in changes if change.verdict is not None],
        "Pending review": [change for change in changes if change.verdict is None],
    }
    return {name: part for name, part in parts.items() if part}
