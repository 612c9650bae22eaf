"""Rows of code in an answer: blocks of it, a diff in the colours of one, and lines of a file that are pointed at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.protocol import documents
from core.text.counting import count
from tui.block import TranscriptBlock
from tui.chat.tool_call_rows import render_head
from tui.text import fit_line, format_path, render_prose
from tui.widgets.text_rows import INDENT, Piece, TextRow, wrap_pieces

REFERENCE_ROWS: Final = 12  # of a reference that is closed
DIFF_LANGUAGES: Final = frozenset({"diff", "patch", "udiff"})
_DIFF_ROLES: Final = (("+++", "muted"), ("---", "muted"), ("@@", "muted"), ("+", "added"), ("-", "removed"))


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
    """Return the lines of a unified diff, each in the role of its sign."""
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
    """Return the rows of one line of code: what is wrapped stands two deeper, at most a third of `width`."""
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
    rows = [render_head("▾" if is_open else "▸", [(name, "link")], width)]
    lines = highlight_code(render_prose(document.content or "").strip("\n"), reference.language or reference.file_path)
    for number, line in enumerate(lines if is_open else lines[:REFERENCE_ROWS], reference.start_line):
        gutter: list[Piece] = [(f"  {number:>5} ", "muted")]
        rows += wrap_pieces(line, width, first=gutter, rest=[("        ", "")], fill="code_block")
    return rows if is_open else [*rows, *render_more_lines(len(lines) - REFERENCE_ROWS)]


def render_more_lines(number: int) -> list[TextRow]:
    """Return a row that counts lines which are not shown; none if there are none."""
    return [TextRow([*INDENT, (f"… {count('more line', number)}", "muted")], lead=4)] if number > 0 else []
