"""What each kind of block looks like, as rows: one function a kind, no widget, no colour.

Every foreign word passes `tui.text` here. Calls of tools are one line until they are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.protocol import documents
from core.protocol.attachments import described, kind_of
from tui.state import Block
from tui.text import clean, named, one_line, shortened
from tui.widgets.calls import (
    changed_lines,
    command_row,
    details,
    edit_row,
    head,
    json_text,
    live_lines,
    result_text,
    seconds,
    tool_row,
)
from tui.widgets.crew_rows import subagent_row
from tui.widgets.rows import GUTTER, INDENT, Piece, Row, wrap, wrap_text
from tui.widgets.status import dollars

READING_WIDTH: Final = 110
LIVE_REASONING: Final = 600
ASKED_ROWS: Final = 3  # of a question that is closed

# Kinds that stand close together: the work between two things that are read.
_COMPACT: Final = frozenset(
    {"tool_call", "file_edit", "terminal_command", "reasoning", "todo_update", "notice", "subagent"}
)
_OPENABLE: Final = frozenset(
    {"tool_call", "file_edit", "terminal_command", "reasoning", "code_reference", "clarification", "subagent"}
)
_TODO_SIGNS: Final = {"pending": "○", "in_progress": "◐", "completed": "●", "cancelled": "✕"}

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
            acts = "\n".join(act.text for act in block.acts)
            text = block.text or acts or block.live or block.output or block.title
        case documents.TerminalCommand(metadata=command):
            text = f"$ {command.command}\n{command.output}".rstrip()
        case documents.FileEdit(metadata=edit):
            text = "\n".join([edit.file_path, *(_signed(line) for line in changed_lines(edit))])
        case documents.ToolCallDocument(metadata=call):
            text = f"{call.tool_name} {json_text(call.arguments)}\n{result_text(call)}".rstrip()
        case documents.Clarification(metadata=asked):
            text = "\n".join(question.text for question in asked.questions)
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


def warm_up() -> None:
    """Load what styles an answer, so that the first one that is finished does not wait for it. Safe in a thread."""
    from tui.markdown import render

    render("```python\npass\n```", READING_WIDTH, highlight)


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
    rows = wrap_text(text, width, "strong", first=[(sign, "accent")], rest=[GUTTER], fill="prompt")
    for each in block.attachments:
        if described(each) not in block.text:  # else its label says the same
            told = one_line(f"{kind_of(each)} {named(each.name, 80)} {described(each)}", width - 4)
            rows += wrap([(told, "muted")], width, first=[("  ▣ ", "accent")], rest=INDENT, fill="prompt")
    return rows


def _reasoning(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    if isinstance(document, documents.Reasoning):
        took = document.metadata.duration_ms
        label = f"thought for {seconds(took)}" if took else "thought"
        content = document.content or ""
    else:
        label, content = "thinking…", block.live
    rows = [head("▾" if opened else "▸", [(label, "muted")], width)]
    if opened:
        rows += wrap_text(shortened(clean(content)).strip("\n"), width, "muted", first=INDENT, rest=INDENT)
    elif block.running and content:
        tail = one_line(content[-LIVE_REASONING:], max(width - 6, 8))
        rows.append(Row([*INDENT, (tail, "muted")], lead=4))
    return rows


def _code(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.CodeBlock):
        return wrap_text(clean(block.live), width, "", first=INDENT, rest=INDENT, fill="code_block")
    label = one_line(document.metadata.language, 30)
    rows = [Row([*INDENT, (label, "muted")], lead=len(label) + 4, fill="code_block")] if label else []
    for line in highlight(clean(document.content or "").strip("\n"), document.metadata.language):
        rows += wrap(line, width, first=INDENT, rest=_hanging(line, width), fill="code_block")
    return rows


def _hanging(line: Sequence[Piece], width: int) -> list[Piece]:
    """The indent of a wrapped line of code: deeper than the line itself, as long as there is room."""
    text = "".join(piece[0] for piece in line)
    return [*INDENT, (" " * min(len(text) - len(text.lstrip(" ")) + 2, width // 3), "")]


def _code_reference(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.CodeReference):
        return wrap_text(clean(block.live), width, "", first=INDENT, rest=INDENT, fill="code_block")
    where = document.metadata
    name = f"{named(where.file_path, 200)}:{where.start_line}–{where.end_line}"
    rows = [head("▾" if opened else "▸", [(name, "link")], width)]
    lines = highlight(clean(document.content or "").strip("\n"), where.language or where.file_path)
    for number, line in enumerate(lines if opened else lines[:12], where.start_line):
        gutter: list[Piece] = [(f"  {number:>5} ", "muted")]
        rows += wrap(line, width, first=gutter, rest=[("        ", "")], fill="code_block")
    if not opened and len(lines) > 12:
        rows.append(Row([*INDENT, (f"… {len(lines) - 12} more lines", "muted")], lead=4))
    return rows


def _plan(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.PlanDocument):
        return [head("◌", [("plan", "tool"), (f" {one_line(block.title)}", "muted")], width)]
    plan = document.metadata
    rows = wrap([(one_line(plan.title), "heading")], width, first=[("  ◆ ", "accent")], rest=INDENT)
    rows += wrap_text(clean(plan.overview).strip(), min(width, READING_WIDTH), "", first=INDENT, rest=INDENT)
    for todo in plan.todos:
        sign = _TODO_SIGNS[todo.status]
        after = f"← {', '.join(todo.dependencies)}" if todo.dependencies else ""
        first: list[Piece] = [*INDENT, (f"{sign} ", "accent")]
        pieces: list[Piece] = [(one_line(todo.content), "")]
        pieces += [("  ", ""), (one_line(after), "muted")] if after else []
        rows += wrap(pieces, width, first=first, rest=[*INDENT, GUTTER])
    if plan.path:
        rows += wrap([(named(plan.path), "muted")], width, first=INDENT, rest=INDENT)
    return rows


def _todo_update(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    marks = document.metadata.todos if isinstance(document, documents.TodoUpdate) else ()
    pieces: list[Piece] = [("todos", "tool")]
    for mark in marks:
        pieces.append((f"  {_TODO_SIGNS[mark.status]} {one_line(mark.id, 60)}", "muted"))
    rows = [head("◌" if block.running else "▸", pieces, width)]
    return [*rows, *live_lines(block, width)] if block.running and block.output else rows  # a todo is being proved


def _clarification(block: Block, width: int, opened: bool) -> list[Row]:
    document = block.document
    if not isinstance(document, documents.Clarification):
        return [head("?", [(one_line(block.subject or "a question"), "warn")], width)]
    answers = {answer.question: answer for answer in document.metadata.answers}
    rows: list[Row] = []
    for question in document.metadata.questions:
        text = wrap_text(shortened(clean(question.text)), width, "", first=[("  ? ", "warn")], rest=INDENT)
        rows += text if opened or len(text) <= ASKED_ROWS else [*text[: ASKED_ROWS - 1], Row([*INDENT, ("…", "muted")])]
        labels = {option.id: option.label for option in question.options}
        if answer := answers.get(question.id):
            said = ", ".join([*(labels.get(each, each) for each in answer.options), *filter(None, [answer.text])])
            rows += wrap_text(shortened(clean(said)), width, "strong", first=[("  ↳ ", "accent")], rest=INDENT)
        elif opened:
            for option in question.options:
                told = f"· {option.label}{' (recommended)' if option.recommended else ''}"
                rows += wrap_text(clean(told), width, "muted", first=INDENT, rest=INDENT)
    if not answers:
        words = "not answered yet" if block.status == "cancelled" else "not answered"
        rows.append(Row([*INDENT, (words, "muted")], lead=4))
    return rows


def _error(block: Block, width: int, _: bool) -> list[Row]:
    document = block.document
    text, hint = block.text, block.hint
    if isinstance(document, documents.ErrorDocument):
        text, hint = document.content or document.metadata.error_code, document.metadata.details
    rows = wrap_text(shortened(clean(text)), width, "bad", first=[("  ✕ ", "bad")], rest=INDENT)
    if hint:
        rows += wrap_text(shortened(clean(hint)), width, "muted", first=INDENT, rest=INDENT)
    return rows


def _notice(block: Block, width: int, _: bool) -> list[Row]:
    role = "warn" if block.level == "warning" else "muted"
    told = block.text or block.title
    text = (" " if told.endswith((".", "!", "?", ":")) else " · ").join(filter(None, (told, block.hint)))
    sign = "  ! " if role == "warn" else "  · "
    return wrap_text(shortened(clean(text)), width, role, first=[(sign, role)], rest=INDENT)


def _turn_end(block: Block, width: int, _: bool) -> list[Row]:
    usage = block.usage
    words = {"done": "done", "interrupted": "interrupted", "limit": "stopped at a limit", "failed": "failed"}
    role = {"done": "muted", "failed": "bad"}.get(block.status, "warn")
    pieces: list[Piece] = [(words.get(block.status, block.status), role)]
    pieces += details(
        one_line(block.text),
        f"{block.steps} step{'s' if block.steps != 1 else ''}" if block.steps else "",
        seconds(block.duration_ms) if block.duration_ms else "",
        f"{usage.prompt_tokens + usage.completion_tokens:,} tokens" if usage and usage.prompt_tokens else "",
        dollars(usage.cost) if usage and usage.cost else "",
    )
    return wrap(pieces, width, first=[("  ─ ", "muted")], rest=INDENT)


_PAINTERS: Final[dict[str, Painter]] = {
    "prompt": _prompt,
    "steer": _prompt,
    "text": _text,
    "reasoning": _reasoning,
    "code_block": _code,
    "code_reference": _code_reference,
    "file_edit": edit_row,
    "tool_call": tool_row,
    "terminal_command": command_row,
    "plan": _plan,
    "clarification": _clarification,
    "error": _error,
    "error_raised": _error,
    "todo_update": _todo_update,
    "notice": _notice,
    "subagent": subagent_row,
    "turn_end": _turn_end,
}
