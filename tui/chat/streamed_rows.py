"""Rows of a streaming answer, at its final width and in its final style, so that no row jumps.

Finished parts are rendered once: whole blocks and items of Markdown, whole lines of code. The tail after them is
rendered for every update, without syntax colours and with its open marks closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from core.patterns import compile_lazily
from tui.chat.block_rows import READING_WIDTH, indent_answer
from tui.chat.tool_call_rows import (
    DIFF_LANGUAGES,
    REFERENCE_ROWS,
    highlight_code,
    highlight_diff,
    render_code_label,
    render_code_line,
    render_head,
    render_more_lines,
)
from tui.text import format_path, render_prose, shorten_lines
from tui.widgets.text_rows import Piece, TextRow, wrap_pieces

LONG_PARAGRAPH: Final = 8_000  # characters; a longer line is split, to bound the time of a frame
# Starts whose meaning is still open: an item's mark, a rule, a heading, an emphasis, the head of a table.
_UNDECIDED: Final = compile_lazily(
    r"(?:^|(?<=\n))[ \t>]*(?:[-+*=#_~`|: ]+|\d{1,9}[.)]?)\Z|[*_~`]+\Z|!?\[\Z|(?:^|(?<=\n\n))\|[^\n]*(?:\n[-|: ]*)?\Z"
)
_FENCE: Final = compile_lazily(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_CODE_SPAN: Final = compile_lazily(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_NUMBER: Final = compile_lazily(r"\A\d{1,9}(?=[.)])")
_BACKTICKS: Final = compile_lazily("`+")
_OPEN_LINK: Final = compile_lazily(r"\[[^\]\n]+\]\([^)\s]*\Z")
_EMPHASIS: Final = compile_lazily(r"\*\*|~~|(?<![\w*])\*(?=[^\s*])|(?<=[^\s*])\*(?![\w*])")


def complete_markdown(text: str) -> str:
    """Close open marks at the end of a streamed text, and remove marks without a meaning yet."""
    if len(_FENCE.findall(text)) % 2:
        return text
    text = _UNDECIDED.sub("", text)
    bare = _CODE_SPAN.sub("", text[text.rfind("\n\n") + 1 :])
    code = _BACKTICKS.search(bare)
    before = bare[: code.start()] if code else bare
    closing = [code[0]] if code else [")"] if _OPEN_LINK.search(before) else []
    open_marks: list[str] = []
    for mark in _EMPHASIS.findall(before):
        if mark in open_marks:
            open_marks.remove(mark)
        else:
            open_marks.append(mark)
    closing += reversed(open_marks)
    return text.rstrip() + "".join(closing) if closing else text


class StreamedRows:
    """`rows` of the streamed text; the first `final_rows` are final."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[TextRow] = []
        self.final_rows = 0
        self._final_length = 0  # characters in the final rows

    def update(self, text: str) -> list[TextRow]:
        """Return all rows of `text`, which begins with the text of the call before."""
        raise NotImplementedError


class StreamedMarkdown(StreamedRows):
    """Markdown. The last block is the tail; of a list, the last item."""

    _is_inside_list = False
    _number = 0  # of the item that the tail begins with

    def update(self, text: str) -> list[TextRow]:
        from tui.widgets.markdown_rows import find_units

        tail = text[self._final_length :]
        del self.rows[self.final_rows :]
        clean_text = self._continue_numbering(render_prose(tail))
        last = find_units(complete_markdown(clean_text))[-1:]
        if last and clean_text.count("\n") == tail.count("\n"):  # otherwise a line of the change may be invisible
            cut = _find_line(tail, last[0].line)
            if last[0].kind == "paragraph" and len(tail) - cut > LONG_PARAGRAPH:
                cut = max(tail.rfind("\n") + 1, cut)
            if cut:
                self._add(tail[:cut], highlight_code)
                self._final_length, self.final_rows = self._final_length + cut, len(self.rows)
                self._is_inside_list, self._number = last[0].is_next, last[0].number
                tail = tail[cut:]
        self._add(complete_markdown(tail), _split_uncoloured)
        return self.rows

    def _add(self, text: str, highlight: Callable[[str, str], list[list[Piece]]]) -> None:
        from tui.widgets.markdown_rows import render_markdown

        width = min(self.width, READING_WIDTH) - 2
        rows = indent_answer(
            render_markdown(shorten_lines(self._continue_numbering(render_prose(text)), 20_000), width, highlight)
        )
        if rows and self.rows and not self._is_inside_list:
            self.rows += indent_answer([TextRow([])])
        self.rows += rows

    def _continue_numbering(self, text: str) -> str:
        """Return the tail with the number of its first item in the whole list, which overrides the author's."""
        return _NUMBER.sub(str(self._number), text) if self._number else text


class StreamedCode(StreamedRows):
    """A block of code. The last line is the tail."""

    def __init__(self, width: int, language: str) -> None:
        super().__init__(width)
        self._color = highlight_diff if language.lower() in DIFF_LANGUAGES else _split_uncoloured
        self.rows = render_code_label(language)
        self.final_rows = len(self.rows)

    def update(self, text: str) -> list[TextRow]:
        if not self._final_length:
            self._final_length = len(text) - len(text.lstrip("\n"))
        cut = max(text.rstrip("\n").rfind("\n") + 1, self._final_length)
        del self.rows[self.final_rows :]
        if cut > self._final_length:
            self._add(text[self._final_length : cut - 1])
            self._final_length, self.final_rows = cut, len(self.rows)
        self._add(text[self._final_length :].rstrip("\n"))
        return self.rows

    def _add(self, code: str) -> None:
        for line in self._color(render_prose(code)):
            self.rows += render_code_line(line, self.width)


class StreamedReference(StreamedRows):
    """The first lines of a referenced file, as for a closed reference, whose path comes later."""

    def __init__(self, width: int, path: str) -> None:
        super().__init__(width)
        self.rows = [render_head("▸", [(format_path(path, 200), "link")], width)]
        self.final_rows = 1

    def update(self, text: str) -> list[TextRow]:
        del self.rows[1:]
        lines = text.strip("\n").split("\n")
        for line in lines[:REFERENCE_ROWS]:
            self.rows += wrap_pieces(
                [(render_prose(line), "")], self.width, first=_NUMBERLESS, rest=_NUMBERLESS, fill="code_block"
            )
        self.rows += render_more_lines(len(lines) - REFERENCE_ROWS)
        return self.rows


_NUMBERLESS: Final[Sequence[Piece]] = [("        ", "")]


def _split_uncoloured(code: str, _: str = "") -> list[list[Piece]]:
    return [[(line, "")] for line in code.split("\n")]


def _find_line(text: str, number: int) -> int:
    """Return the offset at which line `number` begins, from 0."""
    offset = 0
    for _ in range(number):
        offset = text.index("\n", offset) + 1
    return offset
