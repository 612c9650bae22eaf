"""Rows of the transcript's blocks: prompts, answers, reasoning, notices, subagents and the receipt of a turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from core.protocol import documents
from core.protocol.attachment_labels import classify_attachment, describe_attachment
from core.protocol.events import SubagentAction
from core.state.receipt import Receipt, ReceiptFile, render_receipt
from core.state.session import CheckRun
from core.text.counting import count
from core.text.display_names import cut_middle, shorten_model
from tui.block import TranscriptBlock
from tui.chat.command_rows import render_command
from tui.chat.tool_call_rows import (
    MIN_SUBJECT_WIDTH,
    choose_sign,
    diff_lines,
    format_details,
    format_json,
    format_result,
    format_usage,
    highlight_code,
    render_code,
    render_code_reference,
    render_edit,
    render_head,
    render_live_output,
    render_tool_call,
)
from tui.quantities import format_duration
from tui.text import expose_line, expose_text, fit_line, format_path, render_prose, shorten_lines
from tui.widgets.text_rows import GUTTER, INDENT, Piece, TextRow, measure_pieces, wrap_pieces, wrap_text

SHOWN_FILES: Final = 6
SHOWN_CHECKS: Final = 4
_ENDS: Final = {"done": "done", "interrupted": "interrupted", "limit": "stopped at a limit", "failed": "failed"}
ACT_SIGNS: Final = {
    "running": ("◌", "warn"),
    "completed": ("✓", "ok"),
    "failed": ("✕", "bad"),
    "denied": ("⊘", "warn"),
    "cancelled": ("⊘", "warn"),
    "said": ("·", "muted"),
}
MAX_ACTS: Final = 200
READING_WIDTH: Final = 110
LIVE_REASONING: Final = 600
TO_THE_CALL: Final = "Show the call"
CLOSED_QUESTION_ROWS: Final = 3  # of a question that is closed
# Kinds without a blank row between them: the work between two texts.
_COMPACT: Final = frozenset(
    {"tool_call", "file_edit", "terminal_command", "reasoning", "todo_update", "notice", "subagent"}
)
_OPENABLE: Final = frozenset(
    {"tool_call", "file_edit", "terminal_command", "reasoning", "code_reference", "clarification", "subagent"}
)
_TODO_SIGNS: Final = {"pending": "○", "in_progress": "◐", "completed": "●", "cancelled": "✕"}
BlockRenderer = Callable[[TranscriptBlock, int, bool], list[TextRow]]


def render_turn_end(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    """Return a row for the end of the turn, and one per changed file and per check."""
    receipt = block.receipt if block.receipt and (block.receipt.files or block.receipt.checks) else None
    role = {"done": "muted", "failed": "bad"}.get(block.status, "warn")
    pieces: list[Piece] = [(_ENDS.get(block.status, block.status), role)]
    pieces += format_details(
        fit_line(block.text),
        count("step", block.steps) if block.steps else "",
        format_duration(block.duration_ms) if block.duration_ms else "",
        *format_usage(block.usage),
        fit_line(shorten_model(receipt.model).removeprefix("scripted/"), 40) if receipt else "",
    )
    rows = wrap_pieces(pieces, width, first=[("  ─ ", "muted")], rest=INDENT)
    return [*rows, *_render_receipt(receipt, width)] if receipt else rows


def _render_receipt(receipt: Receipt, width: int) -> list[TextRow]:
    files, checks = receipt.files, receipt.checks
    rows = [_render_file(file, width) for file in files[:SHOWN_FILES]]
    if len(files) > SHOWN_FILES:
        rows.append(TextRow([*INDENT, (f"… {count('more file', len(files) - SHOWN_FILES)}", "muted")], lead=4))
    return [*rows, *(_render_check(command, run, width) for command, run in checks[-SHOWN_CHECKS:])]


def _render_file(file: ReceiptFile, width: int) -> TextRow:
    role = {"accepted": "ok", "rejected": "bad"}.get(file.verdict, "warn" if file.waiting else "muted")
    has_lines = bool(file.added or file.removed)  # not so for a rename, a mode, a link or a binary file
    outcome: list[Piece] = [(f"  +{file.added}", "ok"), (f" −{file.removed}", "bad")] if has_lines else []
    names = " → ".join(format_path(path, 300) for path in (file.renamed_from, file.path) if path)
    return _fit([(names, "")], [*outcome, (" · ", "muted"), (file.verdict, role)], width)


def _render_check(command: str, run: CheckRun, width: int) -> TextRow:
    sign: Piece = ("✓ ", "ok") if run.exit_code == 0 else ("✕ ", "bad")
    outcome = run.told or ("passed" if run.exit_code == 0 else f"exit {run.exit_code}")
    outcome_pieces: list[Piece] = [(" · ", "muted"), (outcome, sign[1])]
    room = max(width - measure_pieces([sign, *outcome_pieces]) - len(GUTTER[0]) - len("  "), MIN_SUBJECT_WIDTH)
    return _fit([sign, (cut_middle(expose_line(command, 2_000), room), "")], outcome_pieces, width)


def _fit(pieces: list[Piece], outcome: list[Piece], width: int) -> TextRow:
    """Return one row below the end of the turn: its start may be cut, its outcome may not."""
    row = render_head(" ", pieces, width, outcome=outcome)
    row.lead = 4
    return row


def render_subagent(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    """Return the rows of one subagent at its todo or task."""
    name: Piece = (fit_line(block.subject, min(max(width * 2 // 5, 16), 40)), _ROLES.get(block.status, "tool"))
    pieces: list[Piece] = [name, (f" · {_format_activity(block)}", "" if block.is_running else "muted")]
    outcome: list[Piece] = []
    if block.is_running:
        outcome = format_details(block.live)
    else:
        outcome = (
            [(" · ", "muted"), ("conflict", "warn")] if block.level == "conflict" else format_details(block.summary)
        )
        outcome += (
            format_details(format_duration(block.duration_ms)) if block.duration_ms and width > _WIDE_FROM else []
        )
    rows = [render_head(choose_sign(block, is_open), pieces, width, outcome=outcome)]
    return [*rows, *_render_details(block, width)] if is_open else rows


_ROLES: Final = {"failed": "bad", "cancelled": "warn"}


_WIDE_FROM: Final = 70


def _format_activity(block: TranscriptBlock) -> str:
    """Return the subagent's activity, its error, or its summary."""
    if block.is_running:
        return fit_line(block.acts[-1].text if block.acts else block.title, 200)
    if block.status in _ROLES:
        return fit_line(block.hint or ("stopped" if block.status == "cancelled" else "failed"), 200)
    return fit_line(block.text or block.title, 200)


def _render_details(block: TranscriptBlock, width: int) -> list[TextRow]:
    rows = wrap_text(render_prose(block.title), width, "strong", first=INDENT, rest=INDENT)
    for act in block.acts[-MAX_ACTS:]:
        rows += _render_act(act, width)
    if block.hint:
        role = "bad" if block.status == "failed" else "warn"
        rows += wrap_text(shorten_lines(render_prose(block.hint)), width, role, first=INDENT, rest=INDENT)
    for line in shorten_lines(render_prose(block.output)).splitlines():
        rows += wrap_pieces([(line, "muted")], width, first=[*INDENT, ("→ ", "accent")], rest=[*INDENT, ("  ", "")])
    parts = [count("step", block.steps) if block.steps else "", *format_usage(block.usage)]
    if any(parts):
        rows.append(TextRow([*INDENT, (" · ".join(filter(None, parts)), "muted")], lead=4))
    return rows


def _render_act(act: SubagentAction, width: int) -> list[TextRow]:
    sign, role = ACT_SIGNS[act.status]
    text: Piece = (render_prose(act.text), "muted" if act.status == "said" else "")
    return wrap_pieces([text], width, first=[*INDENT, (f"{sign} ", role)], rest=[*INDENT, ("  ", "")])


def has_gap(block: TranscriptBlock, previous: TranscriptBlock | None) -> bool:
    """True if an empty row separates `block` from the one before it."""
    is_close = block.kind in _COMPACT or block.kind == "turn_end"
    return previous is not None and not (is_close and previous.kind in _COMPACT)


def can_open(block: TranscriptBlock) -> bool:
    """True if the block has more to show than its first row."""
    return block.kind in _OPENABLE or block.is_beside


def render_block(block: TranscriptBlock, width: int, *, is_open: bool, has_gap: bool) -> list[TextRow]:
    """Return the rows of a block, none wider than `width` cells; `has_gap` puts an empty row first."""
    indent = "  " * bool(block.program)
    rows = _RENDERERS.get(block.kind, _render_notice)(block, fit_width(width - len(indent)), is_open)
    if indent:
        rows = [replace(row, pieces=[(indent, ""), *row.pieces], lead=row.lead + len(indent)) for row in rows]
    return [TextRow([("", "")]), *rows] if has_gap else rows


def fit_width(width: int) -> int:
    """Return the cells for rows in a conversation of `width` cells."""
    return max(width - 1, 12)


def copy_text(block: TranscriptBlock) -> str:
    """Return the plain text of a block, as copying takes it; of a turn's end, its receipt as Markdown."""
    document = block.document
    match document:
        case None if block.receipt is not None:
            return render_prose(render_receipt(block.receipt))
        case None:
            acts = "\n".join(act.text for act in block.acts)
            text = block.text or acts or block.live or block.output or block.title
        case documents.TerminalCommandDocument(metadata=command):
            text = f"$ {command.command}\n{command.output}".rstrip()
        case documents.FileEditDocument(metadata=edit):
            edits = (*(file_edit_document.metadata for file_edit_document in block.folded), edit)
            text = "\n".join(
                [edit.file_path, *("".join(line) for file_edit in edits for line in diff_lines(file_edit))]
            )
        case documents.ToolCallDocument(metadata=call):
            text = f"{call.tool_name} {format_json(call.arguments)}\n{format_result(call)}".rstrip()
        case documents.ClarificationDocument(metadata=asked):
            text = "\n".join(question.text for question in asked.questions)
        case _:
            text = document.content or block.text or block.title
    return render_prose(text)


def preload_markdown() -> None:
    """Import the Markdown renderer, so that the first answer does not wait for it. Thread-safe."""
    from tui.widgets.markdown_rows import render_markdown

    render_markdown("```python\npass\n```", READING_WIDTH, highlight_code)


def _render_text(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    text_width = min(width, READING_WIDTH)
    if block.document is None:
        return []  # it is streamed
    from tui.widgets.markdown_rows import render_markdown

    text = shorten_lines(render_prose(block.document.content or ""), 20_000)
    rows = indent_answer(render_markdown(text, text_width - 2, highlight_code))
    if block.target:
        rows.append(TextRow([("  ▸ ", "accent"), (TO_THE_CALL, "accent")]))
    return rows


def indent_answer(rows: list[TextRow]) -> list[TextRow]:
    """Add the conversation's gutter to the rows of an answer."""
    for row in rows:
        row.pieces = [GUTTER, *row.pieces]
        row.lead += 2
    return rows


def _render_prompt(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    sign = "❯ " if block.kind == "prompt" else "↳ "
    text = shorten_lines(render_prose(block.text.strip("\n")))
    rows = wrap_text(text, width, "strong", first=[(sign, "accent")], rest=[GUTTER], fill="prompt")
    for attachment in block.attachments:
        if describe_attachment(attachment) not in block.text:  # otherwise its label has the same text
            name = format_path(attachment.name, 80)
            description = f"{classify_attachment(attachment)} {name} {describe_attachment(attachment)}"
            piece = (fit_line(description, width - 4), "muted")
            rows += wrap_pieces([piece], width, first=[("  ▣ ", "accent")], rest=INDENT, fill="prompt")
    return rows


def _render_reasoning(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    document = block.document
    if isinstance(document, documents.ReasoningDocument):
        took = document.metadata.duration_ms
        label = f"thought for {format_duration(took)}" if took else "thought"
        content = document.content or ""
    else:
        label, content = "thinking…", block.live
    sign = "▾" if is_open else "▸"
    if is_open:
        rows = wrap_text(shorten_lines(render_prose(content)).strip("\n"), width, "muted", first=INDENT, rest=INDENT)
        return [render_head(sign, [(label, "muted")], width), *rows]
    if block.is_running and content:  # its end, in the one row that it keeps
        room = max(width - len(label) - 6, 8)
        label += f" {' '.join(render_prose(content[-LIVE_REASONING:]).split())[-room:]}"
    return [render_head(sign, [(label, "muted")], width)]


def _render_plan(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    document = block.document
    if not isinstance(document, documents.PlanDocument):
        return [render_head("◌", [("plan", "tool"), (f" {fit_line(block.title)}", "muted")], width)]
    plan = document.metadata
    rows = wrap_pieces([(fit_line(plan.title), "heading")], width, first=[("  ◆ ", "accent")], rest=INDENT)
    is_brief = block.is_beside and not is_open  # the rest is in view in the plan's panel
    if not is_brief:
        rows += wrap_text(render_prose(plan.overview).strip(), min(width, READING_WIDTH), "", first=INDENT, rest=INDENT)
    for todo in () if is_brief else plan.todos:
        sign = _TODO_SIGNS[todo.status]
        after = f"← {', '.join(todo.dependencies)}" if todo.dependencies else ""
        first: list[Piece] = [*INDENT, (f"{sign} ", "accent")]
        pieces: list[Piece] = [(fit_line(todo.content), "")]
        pieces += [("  ", ""), (fit_line(after), "muted")] if after else []
        rows += wrap_pieces(pieces, width, first=first, rest=[*INDENT, GUTTER])
    if plan.path:
        notice = f"saved to {format_path(plan.path)}, no review needed"
        notice = f"{count('todo', len(plan.todos))} in the panel · {notice}" if is_brief else notice
        rows += wrap_pieces([(notice, "muted")], width, first=INDENT, rest=INDENT)
    return rows


def _render_todo_update(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    document = block.document
    marks = document.metadata.todos if isinstance(document, documents.TodoUpdateDocument) else ()
    pieces = [("todos", "tool")]
    pieces += [(f"  {_TODO_SIGNS[mark.status]} {fit_line(mark.id, 60)}", "muted") for mark in marks]
    rows = [render_head("◌" if block.is_running else "▸", pieces, width)]
    if block.is_running and block.output:  # a todo is being proved
        rows += render_live_output(block, width)
    return rows


def _render_clarification(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    document = block.document
    if not isinstance(document, documents.ClarificationDocument):
        return [render_head("?", [(fit_line(block.subject or "a question"), "warn")], width)]
    answers = {answer.question: answer for answer in document.metadata.answers}
    rows: list[TextRow] = []
    for question in document.metadata.questions:
        text = wrap_text(expose_text(shorten_lines(question.text)), width, "", first=[("  ? ", "warn")], rest=INDENT)
        if not is_open and len(text) > CLOSED_QUESTION_ROWS:
            text[CLOSED_QUESTION_ROWS - 1 :] = [TextRow([*INDENT, ("…", "muted")])]
        rows += text
        labels = {option.id: option.label for option in question.options}
        if answer := answers.get(question.id):
            reply = ", ".join(
                [*(labels.get(option_id, option_id) for option_id in answer.options), *filter(None, [answer.text])]
            )
            rows += wrap_text(
                expose_text(shorten_lines(reply)), width, "strong", first=[("  ↳ ", "accent")], rest=INDENT
            )
        elif is_open:
            for option in question.options:
                option_text = f"· {option.label}{' (recommended)' if option.recommended else ''}"
                rows += wrap_text(expose_text(option_text), width, "muted", first=INDENT, rest=INDENT)
    if not answers:
        words = "not answered yet" if block.status == "cancelled" else "not answered"
        rows.append(TextRow([*INDENT, (words, "muted")], lead=4))
    return rows


def _render_error(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    document = block.document
    text, hint = block.text, block.hint
    if isinstance(document, documents.ErrorDocument):
        text, hint = document.content or document.metadata.error_code, document.metadata.details
    rows = wrap_text(shorten_lines(render_prose(text)), width, "bad", first=[("  ✕ ", "bad")], rest=INDENT)
    if hint:
        rows += wrap_text(shorten_lines(render_prose(hint)), width, "muted", first=INDENT, rest=INDENT)
    return rows


def _render_notice(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    role = "warn" if block.level == "warning" else "muted"
    message = block.text or block.title
    text = (" " if message.endswith((".", "!", "?", ":")) else " · ").join(filter(None, (message, block.hint)))
    sign = "  ! " if role == "warn" else "  · "
    return wrap_text(shorten_lines(render_prose(text)), width, role, first=[(sign, role)], rest=INDENT)


_RENDERERS: Final[dict[str, BlockRenderer]] = {
    "prompt": _render_prompt,
    "steer": _render_prompt,
    "text": _render_text,
    "reasoning": _render_reasoning,
    "code_block": render_code,
    "code_reference": render_code_reference,
    "file_edit": render_edit,
    "tool_call": render_tool_call,
    "terminal_command": render_command,
    "plan": _render_plan,
    "clarification": _render_clarification,
    "error": _render_error,
    "error_raised": _render_error,
    "todo_update": _render_todo_update,
    "notice": _render_notice,
    "subagent": render_subagent,
    "turn_end": render_turn_end,
}
