"""What each kind of block looks like, as rows: one function a kind, no widget, no colour.

Every foreign word passes `tui.text` here. Calls of tools are one line until they are opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from core.protocol import documents
from tui.state import Block
from tui.text import clean, console, exposed, one_line, shortened
from tui.widgets.rows import Piece, Row, wrap, wrap_text

GUTTER: Final[Piece] = ("  ", "")
READING_WIDTH: Final = 110
LIVE_ROWS: Final = 8
OPEN_ROWS: Final = 400
LIVE_REASONING: Final = 600

# Kinds that stand close together: the work between two things that are read.
_COMPACT: Final = frozenset({"tool_call", "file_edit", "terminal_command", "reasoning", "todo_update", "notice"})
_OPENABLE: Final = frozenset({"tool_call", "file_edit", "terminal_command", "reasoning", "code_reference"})
_TODO_SIGNS: Final = {"pending": "○", "in_progress": "◐", "completed": "●", "cancelled": "✕"}
_STATUS_ROLES: Final = {"failed": "bad", "denied": "warn", "cancelled": "warn"}
_INDENT: Final[list[Piece]] = [("    ", "")]

Painter = Callable[[Block, int, bool], list[Row]]


def has_gap(block: Block, previous: Block | None) -> bool:
    """Whether an empty row stands between a block and the one before it."""
    if previous is None:
        return False
    if block.kind == "turn_end":
        return previous.kind not in _COMPACT
    return not (block.kind in _COMPACT and previous.kind in _COMPACT)


def can_open(block: Block) -> bool:
    """Whether there is more to see of a block than its first line."""
    return block.kind in _OPENABLE


def draw(block: Block, width: int, *, opened: bool, gap: bool) -> list[Row]:
    """The rows of a block, none wider than `width` cells."""
    width = max(width - 1, 12)
    rows = _PAINTERS.get(block.kind, _notice)(block, width, opened)
    return [Row([("", "")]), *rows] if gap else rows


def source(block: Block) -> str:
    """What `copy` takes: the text of a block without any decoration."""
    document = block.document
    match document:
        case None:
            text = block.text or block.live or block.output or block.title
        case documents.TerminalCommand(metadata=command):
            text = f"$ {command.command}\n{command.output}".rstrip()
        case documents.FileEdit(metadata=edit):
            text = "\n".join([edit.file_path, *(_signed(line) for line in _changed_lines(edit))])
        case documents.ToolCallDocument(metadata=call):
            text = f"{call.tool_name} {_json(call.arguments)}\n{_result(call)}".rstrip()
        case _:
            text = document.content or block.text or block.title
    return clean(text)


def _signed(line: tuple[str, str]) -> str:
    return "".join(line)


def highlight(code: str, language: str) -> list[list[Piece]]:
    """Lines of code with roles for their colours; plain for a language nobody knows. `language` may be a path."""
    from tui.highlight import Painting

    lines = code.split("\n")
    is_path = "." in language or "/" in language
    painting = Painting(lines, "" if is_path else language, language if is_path else "")
    for chunk in range(painting.chunk(len(lines) - 1) + 1):
        painting.paint(chunk)
    return [_coloured(line, painting.spans(index) or ()) for index, line in enumerate(lines)]


def _coloured(line: str, spans: Sequence[tuple[int, int, str]]) -> list[Piece]:
    pieces: list[Piece] = []
    done = 0
    for start, end, role in spans:
        pieces += [(line[done:start], ""), (line[start:end], role)]
        done = end
    return [piece for piece in (*pieces, (line[done:], "")) if piece[0]] or [("", "")]


def _text(block: Block, width: int, _: bool) -> list[Row]:
    text_width = min(width, READING_WIDTH)
    if block.document is None:
        return wrap_text(clean(block.live), text_width, "", first=[GUTTER], rest=[GUTTER])
    from tui.markdown import render

    rows = render(shortened(clean(block.document.content or ""), 20_000), text_width - 2, highlight)
    for row in rows:
        row.pieces = [GUTTER, *row.pieces]
        row.lead += 2
    return rows


def _prompt(block: Block, width: int, _: bool) -> list[Row]:
    sign = "❯ " if block.kind == "prompt" else "↳ "
    text = shortened(clean(block.text.strip("\n")))
    return wrap_text(text, width, "strong", first=[(sign, "accent")], rest=[GUTTER], fill="prompt")


def _reasoning(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    if isinstance(document, documents.Reasoning):
        took = document.metadata.duration_ms
        label = f"thought for {_seconds(took)}" if took else "thought"
        content = document.content or ""
    else:
        label, content = "thinking…", block.live
    rows = [_head("▾" if opened else "▸", [(label, "muted")], width)]
    if opened:
        rows += wrap_text(shortened(clean(content)).strip("\n"), width, "muted", first=_INDENT, rest=_INDENT)
    elif block.running and content:
        tail = one_line(content[-LIVE_REASONING:], max(width - 6, 8))
        rows.append(Row([*_INDENT, (tail, "muted")], lead=4))
    return rows


def _head(sign: str, pieces: Sequence[Piece], width: int) -> Row:
    """The one line of a collapsed block; what does not fit is cut at the end."""
    line = wrap([(f"{sign} ", "muted"), *pieces], width, first=[GUTTER])
    if len(line) > 1:
        return Row([*line[0].pieces, ("…", "muted")], lead=2)
    return line[0]


def _seconds(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def _sign(block: Block, opened: bool) -> str:
    if block.running:
        return "◌"
    if block.status in _STATUS_ROLES:
        return "✕" if block.status == "failed" else "⊘"
    return "▾" if opened else "▸"


def _details(*parts: str) -> list[Piece]:
    return [(f" · {part}", "muted") for part in parts if part]


def _tool(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    call = document.metadata if isinstance(document, documents.ToolCallDocument) else None
    name = one_line(call.tool_name if call else block.title or "tool", 40)
    summary = one_line(block.summary or (call.summary if call else "") or ("" if call else block.title), 300)
    summary = summary.removeprefix(name).strip(" ·") if summary.startswith(name) else summary
    took = block.duration_ms or (call.duration_ms if call else 0)
    status = block.status if block.status in _STATUS_ROLES else ""
    pieces: list[Piece] = [(name, _STATUS_ROLES.get(block.status, "tool"))]
    pieces += [(f" {summary}", "muted")] if summary else []
    pieces += _details(status, _seconds(took) if took else "")
    rows = [_head(_sign(block, opened), pieces, width)]
    if opened and call:
        rows += _lines(_json(call.arguments), width, "muted", OPEN_ROWS)
        rows += _lines(_result(call), width, "bad" if call.result and call.result.status == "error" else "", OPEN_ROWS)
    elif block.output:
        rows += _lines(block.output, width, "muted", -LIVE_ROWS)
    return rows


def _json(value: object) -> str:
    if isinstance(value, dict) and all(not isinstance(each, dict | list) for each in value.values()):
        return "\n".join(f"{name}: {each}" for name, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _result(call: documents.ToolCallMetadata) -> str:
    return _json(call.result.data) if call.result is not None and call.result.data is not None else ""


def _lines(text: str, width: int, role: str, limit: int) -> list[Row]:
    """Text below a head, at most `limit` lines of its start (of its end, when negative); the rest is counted."""
    lines = shortened(console(text).strip("\n"), 500).split("\n") if text.strip() else []
    hidden = len(lines) - abs(limit)
    shown = (lines[:limit] if limit > 0 else lines[limit:]) if hidden > 0 else lines
    rows = [row for line in shown for row in wrap([(line, role)], width, first=_INDENT, rest=_INDENT)]
    if hidden > 0:
        note = Row([*_INDENT, (f"… {hidden:,} more lines", "muted")], lead=4)
        rows = [*rows, note] if limit > 0 else [note, *rows]
    return rows


def _file_edit(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.FileEdit):
        return [_head("◌", [("edit", "tool"), (f" {one_line(block.summary or block.title, 300)}", "muted")], width)]
    edit = document.metadata
    failed = edit.status == "error"
    pieces: list[Piece] = [(edit.operation, "bad" if failed else "tool"), (f" {one_line(edit.file_path, 300)}", "")]
    pieces += [(f"  +{edit.added}", "ok"), (f" −{edit.removed}", "bad")] if not failed else _details("failed")
    rows = [_head(_sign(block, opened), pieces, width)]
    if opened:
        for sign, line in _changed_lines(edit)[:OPEN_ROWS]:
            role = {"+": "added", "-": "removed"}.get(sign, "muted")
            first: list[Piece] = [*_INDENT, (f"{sign} ", role)]
            rows += wrap([(line, role)], width, first=first, rest=[*_INDENT, ("  ", "")])
    if opened and document.content and (failed or edit.diff is None):
        rows += _lines(document.content, width, "bad" if failed else "muted", OPEN_ROWS)
    return rows


def _changed_lines(edit: documents.FileEditMetadata) -> list[tuple[str, str]]:
    """The edit as `(sign, line)`, with three unchanged lines around."""
    if edit.diff is None:
        return []
    from difflib import unified_diff

    old, new = (clean(text).removesuffix("\n").split("\n") for text in (edit.diff.old_string, edit.diff.new_string))
    old, new = old[:2_000], new[:2_000]
    if not edit.diff.old_string:
        return [("+", line) for line in new]
    lines = list(unified_diff(old, new, n=3, lineterm=""))[3:]
    return [("⋯", "") if line.startswith("@@") else (line[:1], line[1:]) for line in lines if line]


def _terminal(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    run = document.metadata if isinstance(document, documents.TerminalCommand) else None
    command = one_line(exposed(run.command if run else block.summary or block.title), 300)
    pieces: list[Piece] = [("$ ", "accent"), (command, "")]
    if run and run.exit_code is None:
        pieces += [(f" · {block.status or 'did not run'}", "warn")]
    elif run:
        pieces += [(f" · exit {run.exit_code}", "bad" if run.exit_code else "ok")]
        pieces += _details(_seconds(run.duration_ms))
    rows = [_head(_sign(block, opened), pieces, width)]
    if opened and run:
        more = [exposed(run.command)] if "\n" in run.command.strip() else []
        rows += [row for text in more for row in _lines(text, width, "strong", OPEN_ROWS)]
        rows += _lines(run.output, width, "", OPEN_ROWS)
    elif block.running and block.output:
        rows += _lines(block.output, width, "muted", -LIVE_ROWS)
    return rows


def _code(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.CodeBlock):
        return wrap_text(clean(block.live), width, "", first=_INDENT, rest=_INDENT, fill="code_block")
    label = one_line(document.metadata.language, 30)
    rows = [Row([*_INDENT, (label, "muted")], lead=len(label) + 4, fill="code_block")] if label else []
    for line in highlight(clean(document.content or "").strip("\n"), document.metadata.language):
        rows += wrap(line, width, first=_INDENT, rest=_INDENT, fill="code_block")
    return rows


def _code_reference(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.CodeReference):
        return wrap_text(clean(block.live), width, "", first=_INDENT, rest=_INDENT, fill="code_block")
    where = document.metadata
    name = f"{one_line(where.file_path, 200)}:{where.start_line}–{where.end_line}"
    rows = [_head("▾" if opened else "▸", [(name, "link")], width)]
    lines = highlight(clean(document.content or "").strip("\n"), where.language or where.file_path)
    for number, line in enumerate(lines if opened else lines[:12], where.start_line):
        gutter: list[Piece] = [(f"  {number:>5} ", "muted")]
        rows += wrap(line, width, first=gutter, rest=[("        ", "")], fill="code_block")
    if not opened and len(lines) > 12:
        rows.append(Row([*_INDENT, (f"… {len(lines) - 12} more lines", "muted")], lead=4))
    return rows


def _plan(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.PlanDocument):
        return [_head("◌", [("plan", "tool"), (f" {one_line(block.title)}", "muted")], width)]
    plan = document.metadata
    rows = wrap([(one_line(plan.title), "heading")], width, first=[("  ◆ ", "accent")], rest=_INDENT)
    rows += wrap_text(clean(plan.overview).strip(), min(width, READING_WIDTH), "", first=_INDENT, rest=_INDENT)
    for todo in plan.todos:
        sign = _TODO_SIGNS[todo.status]
        after = f"  ← {', '.join(todo.dependencies)}" if todo.dependencies else ""
        first: list[Piece] = [*_INDENT, (f"{sign} ", "accent")]
        pieces: list[Piece] = [(one_line(todo.content), ""), (one_line(after), "muted")]
        rows += wrap(pieces, width, first=first, rest=[*_INDENT, GUTTER])
    if plan.path:
        rows += wrap([(one_line(plan.path), "muted")], width, first=_INDENT, rest=_INDENT)
    return rows


def _todo_update(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    marks = document.metadata.todos if isinstance(document, documents.TodoUpdate) else ()
    pieces: list[Piece] = [("todos", "tool")]
    for mark in marks:
        pieces.append((f"  {_TODO_SIGNS[mark.status]} {one_line(mark.id, 60)}", "muted"))
    return [_head("◌" if block.running else "▸", pieces, width)]


def _clarification(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.Clarification):
        return [_head("?", [(one_line(block.title or "a question"), "warn")], width)]
    answers = {answer.question: answer for answer in document.metadata.answers}
    rows: list[Row] = []
    for question in document.metadata.questions:
        rows += wrap_text(clean(question.text), width, "", first=[("  ? ", "warn")], rest=_INDENT)
        labels = {option.id: option.label for option in question.options}
        if answer := answers.get(question.id):
            said = ", ".join([*(labels.get(each, each) for each in answer.options), *filter(None, [answer.text])])
            rows += wrap_text(clean(said), width, "strong", first=[("  ↳ ", "accent")], rest=_INDENT)
        else:
            rows.append(Row([*_INDENT, ("not answered", "muted")], lead=4))
    return rows


def _error(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    text, hint = block.text, block.hint
    if isinstance(document, documents.ErrorDocument):
        text, hint = document.content or document.metadata.error_code, document.metadata.details
    rows = wrap_text(shortened(clean(text)), width, "bad", first=[("  ✕ ", "bad")], rest=_INDENT)
    if hint:
        rows += wrap_text(shortened(clean(hint)), width, "muted", first=_INDENT, rest=_INDENT)
    return rows


def _notice(block: Block, width: int, _: bool) -> list[Row]:
    role = "warn" if block.level == "warning" else "muted"
    text = " · ".join(filter(None, (block.text or block.title, block.hint)))
    sign = "  ! " if role == "warn" else "  · "
    return wrap_text(shortened(clean(text)), width, role, first=[(sign, role)], rest=_INDENT)


def _turn_end(block: Block, width: int, _: bool) -> list[Row]:
    usage = block.usage
    words = {"done": "done", "interrupted": "interrupted", "limit": "stopped at a limit", "failed": "failed"}
    role = {"done": "muted", "failed": "bad"}.get(block.status, "warn")
    pieces: list[Piece] = [(words.get(block.status, block.status), role)]
    pieces += _details(
        one_line(block.text),
        f"{block.steps} step{'s' if block.steps != 1 else ''}" if block.steps else "",
        _seconds(block.duration_ms) if block.duration_ms else "",
        f"{usage.prompt_tokens + usage.completion_tokens:,} tokens" if usage and usage.prompt_tokens else "",
        f"${usage.cost:.4f}" if usage and usage.cost else "",
    )
    return wrap(pieces, width, first=[("  ─ ", "muted")], rest=_INDENT)


_PAINTERS: Final[dict[str, Painter]] = {
    "prompt": _prompt,
    "steer": _prompt,
    "text": _text,
    "reasoning": _reasoning,
    "code_block": _code,
    "code_reference": _code_reference,
    "file_edit": _file_edit,
    "tool_call": _tool,
    "terminal_command": _terminal,
    "plan": _plan,
    "clarification": _clarification,
    "error": _error,
    "error_raised": _error,
    "todo_update": _todo_update,
    "notice": _notice,
    "turn_end": _turn_end,
}
