"""Rows of tool calls, edits and code: one row with the subject and the outcome, more when opened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from rich.cells import cell_len, set_cell_size

from core.patterns import compile_lazily
from core.protocol import documents
from core.protocol.messages import Usage
from core.state.call_words import describe_call, describe_edit
from core.text.counting import count
from core.text.display_names import mark_lookalikes
from tui.block import TranscriptBlock
from tui.quantities import format_duration
from tui.text import expose_text, fit_line, format_path, render_output, render_prose, shorten_lines
from tui.widgets.text_rows import GUTTER, INDENT, Piece, TextRow, measure_pieces, wrap_pieces

LIVE_ROWS: Final = 8
OPEN_ROWS: Final = 400
MIN_SUBJECT_WIDTH: Final = 16  # minimum columns for a call's subject
NOTED_DURATION: Final = 100  # ms; shorter durations are not displayed
_STATUS_ROLES: Final = {"failed": "bad", "denied": "warn", "cancelled": "warn"}
_SERVER_TOOL: Final = "mcp__"
_SHOWN_VALUE: Final = 60  # columns of one argument of a server's tool
_NOT_IN_MODE: Final = compile_lazily(r"(\w+) mode does not allow")
REFERENCE_ROWS: Final = 12  # of a reference that is closed
DIFF_LANGUAGES: Final = frozenset({"diff", "patch", "udiff"})
_DIFF_ROLES: Final = (("+++", "muted"), ("---", "muted"), ("@@", "muted"), ("+", "added"), ("-", "removed"))


def render_head(sign: str, pieces: Sequence[Piece], width: int, *, outcome: Sequence[Piece] = ()) -> TextRow:
    """Return the one row of a closed block. `pieces` are cut to fit, the `outcome` is not."""
    outcome_width = measure_pieces(outcome)
    if width - outcome_width < MIN_SUBJECT_WIDTH:
        pieces, outcome, outcome_width = [*pieces, *outcome], (), 0
    return TextRow([*_cut_pieces([GUTTER, (f"{sign} ", "muted"), *pieces], width - outcome_width), *outcome], lead=2)


def _cut_pieces(pieces: Sequence[Piece], width: int) -> list[Piece]:
    """Return the pieces that fit `width` cells, with an ellipsis where something is left out."""
    if measure_pieces(pieces) <= width:
        return list(pieces)
    fitting_pieces: list[Piece] = []
    room = width - 1
    for text, role in pieces:
        if (size := cell_len(text)) > room:
            return [*fitting_pieces, (set_cell_size(text, room).rstrip(), role), ("…", "muted")]
        fitting_pieces.append((text, role))
        room -= size
    return fitting_pieces


def format_usage(usage: Usage | None) -> tuple[str, str]:
    """Format tokens and cost, "" for an unknown one."""
    tokens = usage.prompt_tokens + usage.completion_tokens if usage and usage.prompt_tokens else 0
    return f"{tokens:,} tokens" if tokens else "", usage.format_cost() if usage else ""


def format_details(*parts: str) -> list[Piece]:
    """Format muted details, each after a dot, without empty ones."""
    return [(f" · {part}", "muted") for part in parts if part]


def choose_sign(block: TranscriptBlock, is_open: bool) -> str:
    """Return the sign of a call or subagent: running, failed, stopped, open or closed."""
    if block.is_running:
        return "◌"
    if block.status in _STATUS_ROLES:
        return "✕" if block.status == "failed" else "⊘"
    return "▾" if is_open else "▸"


def format_outcome(block: TranscriptBlock, summary: str) -> tuple[str, str]:
    """Return the outcome of a call in a few words, and their role."""
    text = fit_line(summary, 300)
    if block.status == "denied":
        match = _NOT_IN_MODE.search(text)
        first = text.removeprefix("Not run: ").partition(". ")[0].rstrip(".")
        first = first.removesuffix("The user refused this call")  # words for the model; "refused" says it to the user
        return (f"not in {match[1].capitalize()} mode" if match else first) or "refused", "warn"
    role = _STATUS_ROLES.get(block.status, "")
    return (text or block.status, role) if role else (text, "muted")


def _format_subject(block: TranscriptBlock, call: documents.ToolCallMetadata | None) -> str:
    """Return a call's subject; the number of lines read is part of the outcome."""
    arguments = call.arguments if call else {}
    subject = block.subject or ("" if call else block.title)
    if call and call.result is not None and isinstance(path := arguments.get("target_file"), str):
        return format_path(path, 300)
    pattern = next((arguments[key] for key in ("query", "pattern") if isinstance(arguments.get(key), str)), "")
    if pattern and subject.startswith(pattern):
        subject = f'"{pattern}"{subject.removeprefix(pattern)}'
    return fit_line(mark_lookalikes(subject), 300)


def _format_values(arguments: dict[str, Any]) -> str:
    """Return the plain values of a call's arguments, shortened."""
    values = (
        str(argument)
        for argument in arguments.values()
        if isinstance(argument, str | int | float) and str(argument).strip()
    )
    return ", ".join(fit_line(mark_lookalikes(value), _SHOWN_VALUE) for value in values)


def render_tool_call(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    """Return the rows of any call without rows of its own kind."""
    document = block.document
    call = document.metadata if isinstance(document, documents.ToolCallDocument) else None
    tool = fit_line(call.tool_name if call else block.title or "tool", 40)
    name = describe_call(tool, is_running=block.is_running, has_failed=block.status in _STATUS_ROLES)
    subject = _format_subject(block, call).removeprefix(tool).strip(" ·")
    if name.startswith(_SERVER_TOOL) and subject:  # it is `server:tool`, the same in the words of the rules
        name, subject = subject, _format_values(call.arguments) if call else ""
    outcome_text, role = format_outcome(block, block.summary or (call.summary if call else ""))
    took = block.duration_ms or (call.duration_ms if call else 0)
    pieces: list[Piece] = [(name, _STATUS_ROLES.get(block.status, "tool"))]
    pieces += [(f" {subject}", "")] if subject else []
    pieces += [(" · ", "muted"), (outcome_text, role)] if outcome_text else []
    pieces += format_details(format_duration(took) if took >= NOTED_DURATION else "")
    rows = [render_head(choose_sign(block, is_open), pieces, width)]
    if is_open and call:
        rows += render_lines(render_prose(format_json(call.arguments)), width, "muted", OPEN_ROWS)
        role = "bad" if call.result and call.result.status == "error" else ""
        rows += render_lines(render_prose(format_result(call)), width, role, OPEN_ROWS)
    elif block.output:
        rows += render_live_output(block, width)
    return rows


def format_json(value: object) -> str:
    """Return a JSON value as text; an object of plain values as `name: value` lines."""
    if isinstance(value, dict) and all(not isinstance(entry, dict | list) for entry in value.values()):
        return "\n".join(f"{name}: {entry}" for name, entry in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def format_result(call: documents.ToolCallMetadata) -> str:
    """Format the result that the model received."""
    return format_json(call.result.data) if call.result is not None and call.result.data is not None else ""


def render_live_output(block: TranscriptBlock, width: int) -> list[TextRow]:
    """Return the end of a running call's output."""
    return render_lines(render_output(block.output), width, "muted", -LIVE_ROWS)


def render_lines(text: str, width: int, role: str, limit: int) -> list[TextRow]:
    """Return at most `limit` lines of a rendered text from its start (its end if negative); the rest is counted."""
    lines = shorten_lines(text.strip("\n"), 500).split("\n") if text.strip() else []
    hidden_count = len(lines) - abs(limit)
    visible_lines = (lines[:limit] if limit > 0 else lines[limit:]) if hidden_count > 0 else lines
    rows = [row for line in visible_lines for row in wrap_pieces([(line, role)], width, first=INDENT, rest=INDENT)]
    if hidden_count > 0:
        note = TextRow([*INDENT, (f"… {count('more line', hidden_count)}", "muted")], lead=4)
        rows = [*rows, note] if limit > 0 else [note, *rows]
    return rows


def render_edit(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    """Return the edits of a file with the size of the change; opened, also the changed lines."""
    document = block.document
    if not isinstance(document, documents.FileEditDocument):
        name = describe_call(block.title, is_running=True)
        return [render_head("◌", [(name, "tool"), (f" {format_path(block.subject, 300)}", "")], width)]
    edit, earlier_edits = document.metadata, [folded_document.metadata for folded_document in block.folded]
    has_failed = edit.status == "error"
    outcome: list[Piece] = []
    path = " → ".join(format_path(file_path, 300) for file_path in (edit.renamed_from, edit.file_path) if file_path)
    operation = describe_edit((earlier_edits or [edit])[0].operation, has_failed=has_failed)
    pieces: list[Piece] = [(operation, "bad" if has_failed else "tool"), (f" {path}", "")]
    if has_failed:
        outcome_text, role = format_outcome(block, block.summary or "failed")
        pieces += [(" · ", "muted"), (outcome_text, role or "bad")]
    else:
        added_lines, removed_lines = (
            sum(getattr(file_edit, name) for file_edit in (*earlier_edits, edit)) for name in ("added", "removed")
        )
        outcome = [(f"  +{added_lines}", "ok"), (f" −{removed_lines}", "bad")]
        outcome += format_details(count("edit", len(earlier_edits) + 1) if earlier_edits else "")
    rows = [render_head(choose_sign(block, is_open), pieces, width, outcome=outcome)]
    if is_open:
        for file_edit in (*earlier_edits, edit):
            rows += _render_diff(file_edit, width)
    if is_open and document.content and (has_failed or edit.diff is None):
        rows += render_lines(render_prose(document.content), width, "bad" if has_failed else "muted", OPEN_ROWS)
    return rows


def _render_diff(edit: documents.FileEditMetadata, width: int) -> list[TextRow]:
    rows: list[TextRow] = []
    for sign, line in diff_lines(edit)[:OPEN_ROWS]:
        role = {"+": "added", "-": "removed"}.get(sign, "muted")
        first: list[Piece] = [*INDENT, (f"{sign} ", role)]
        rows += wrap_pieces([(line, role)], width, first=first, rest=[*INDENT, ("  ", "")])
    return rows


def diff_lines(edit: documents.FileEditMetadata) -> list[tuple[str, str]]:
    """Return the edit as (sign, line), with three unchanged lines around every change."""
    if edit.diff is None:
        return []
    from difflib import unified_diff

    old, new = (
        expose_text(text).removesuffix("\n").split("\n") for text in (edit.diff.old_string, edit.diff.new_string)
    )
    old, new = old[:2_000], new[:2_000]
    if not edit.diff.old_string:
        return [("+", line) for line in new]
    lines = list(unified_diff(old, new, n=3, lineterm=""))[3:]
    return [("⋯", "") if line.startswith("@@") else (line[:1], line[1:]) for line in lines if line]


def highlight_code(code: str, language: str) -> list[list[Piece]]:
    """Return lines of (text, syntax role) pieces. `language` may be a path; an unknown one leaves the code plain."""
    if language.lower() in DIFF_LANGUAGES:
        return highlight_diff(code)
    from tui.widgets.highlight import HighlightedText

    lines = code.split("\n")
    is_path = "." in language or "/" in language
    painting = HighlightedText(lines, "" if is_path else language, language if is_path else "")
    for chunk in range(painting.find_chunk(len(lines) - 1) + 1):
        painting.highlight_chunk(chunk)
    return [_split_by_role(line, painting.get_spans(index) or ()) for index, line in enumerate(lines)]


def highlight_diff(code: str) -> list[list[Piece]]:
    """Return the lines of a unified diff, in the roles of their signs."""
    return [
        [(line, next((role for sign, role in _DIFF_ROLES if line.startswith(sign)), ""))] for line in code.split("\n")
    ]


def _split_by_role(line: str, spans: Sequence[tuple[int, int, str]]) -> list[Piece]:
    pieces: list[Piece] = []
    position = 0
    for start, end, role in spans:
        pieces += [(line[position:start], ""), (line[start:end], role)]
        position = end
    return [piece for piece in (*pieces, (line[position:], "")) if piece[0]] or [("", "")]


def render_code(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    """Return a block of code below the name of its language."""
    document = block.document
    if not isinstance(document, documents.CodeBlockDocument):
        return []  # it is streamed
    rows = render_code_label(document.metadata.language)
    for line in highlight_code(render_prose(document.content or "").strip("\n"), document.metadata.language):
        rows += render_code_line(line, width)
    return rows


def render_code_label(language: str) -> list[TextRow]:
    """Return the row above a block of code; none if its language isn't known."""
    label = fit_line(language, 30)
    return [TextRow([*INDENT, (label, "muted")], lead=len(label) + 4, fill="code_block")] if label else []


def render_code_line(line: Sequence[Piece], width: int) -> list[TextRow]:
    """Return the rows of one line of code; wrapped rows are indented by two, at most by a third of `width`."""
    text = "".join(piece[0] for piece in line)
    hanging = (" " * min(len(text) - len(text.lstrip(" ")) + 2, width // 3), "")
    return wrap_pieces(line, width, first=INDENT, rest=[*INDENT, hanging], fill="code_block")


def render_code_reference(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    """Return lines of a file with their numbers; closed, the first ones."""
    document = block.document
    if not isinstance(document, documents.CodeReferenceDocument):
        return []  # it is streamed
    reference = document.metadata
    name = f"{format_path(reference.file_path, 200)}:{reference.start_line}–{reference.end_line}"
    doubt: list[Piece] = [(f" · {reference.doubt}", "warn")] if reference.doubt else []
    rows = [render_head("▾" if is_open else "▸", [(name, "link"), *doubt], width)]
    lines = highlight_code(render_prose(document.content or "").strip("\n"), reference.language or reference.file_path)
    for number, line in enumerate(lines if is_open else lines[:REFERENCE_ROWS], reference.start_line):
        gutter: list[Piece] = [(f"  {number:>5} ", "muted")]
        rows += wrap_pieces(line, width, first=gutter, rest=[("        ", "")], fill="code_block")
    return rows if is_open else [*rows, *render_more_lines(len(lines) - REFERENCE_ROWS)]


def render_more_lines(number: int) -> list[TextRow]:
    """Return a row that counts hidden lines, or no row."""
    return [TextRow([*INDENT, (f"… {count('more line', number)}", "muted")], lead=4)] if number > 0 else []
