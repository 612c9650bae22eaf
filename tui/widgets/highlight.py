"""Syntax highlighting: lines of code become spans with roles, chunk by chunk, so that only visible lines are lexed.

A role is a name in `tui.themes.SYNTAX`. Nothing here touches a widget: `highlight_chunk` is meant for a thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from core.text.exposure import BLANK_SIGN, TAB_SIGN

Span = tuple[int, int, str]

CHUNK_LINES: Final = 200
LEAD_LINES: Final = 60  # lines before a chunk that are lexed with it, so that it starts in the right state
MAX_LINE_LENGTH: Final = 600
_BLANKS: Final = dict.fromkeys(map(ord, (TAB_SIGN, BLANK_SIGN)), " ")

_ROLES: Final = (
    ("Token.Comment.Preproc", "syntax_keyword"),
    ("Token.Comment", "syntax_comment"),
    ("Token.Keyword.Constant", "syntax_constant"),
    ("Token.Keyword.Type", "syntax_type"),
    ("Token.Keyword", "syntax_keyword"),
    ("Token.Operator.Word", "syntax_keyword"),
    ("Token.Literal.String", "syntax_string"),
    ("Token.Literal.Number", "syntax_number"),
    ("Token.Name.Function", "syntax_name"),
    ("Token.Name.Class", "syntax_name"),
    ("Token.Name.Decorator", "syntax_name"),
    ("Token.Name.Builtin", "syntax_name"),
    ("Token.Name.Attribute", "syntax_name"),
    ("Token.Name.Tag", "syntax_keyword"),
    ("Token.Generic.Heading", "syntax_heading"),
    ("Token.Generic.Subheading", "syntax_heading"),
    ("Token.Generic.Strong", "syntax_heading"),
)


class HighlightedText:
    """The spans of one text. `lines` have no line ends; `breaks` are indices at which the text does not go on from the
    line before (a diff with gaps). `language` is a name that pygments knows; without one, `path` decides."""

    def __init__(self, lines: Sequence[str], language: str, path: str, breaks: Iterable[int] = ()) -> None:
        self._lines = lines
        self._language, self._path = language, path
        self._spans: dict[int, Sequence[Span]] = {}
        self._highlighted: set[int] = set()
        self._floors, self._starts = _split_chunks(len(lines), breaks)

    def get_spans(self, index: int) -> Sequence[Span] | None:
        """Return `(start, end, role)` of the coloured parts of a line; None while its chunk is not highlighted."""
        return self._spans.get(index, () if self.find_chunk(index) in self._highlighted else None)

    def find_chunk(self, index: int) -> int:
        """Return the number of the chunk that a line belongs to."""
        return bisect_right(self._starts, index) - 1

    def highlight_chunk(self, chunk: int) -> None:
        """Lex one chunk. Blocks for some ten milliseconds: call it in a thread."""
        start = self._starts[chunk]
        end = self._starts[chunk + 1] if chunk + 1 < len(self._starts) else len(self._lines)
        lead = max(self._floors[chunk], start - LEAD_LINES)
        lines = [_restore_signs(line) if len(line) <= MAX_LINE_LENGTH else "" for line in self._lines[lead:end]]
        if (lexer := _find_lexer(self._language.strip().lower(), self._path)) is not None:
            for offset, spans in enumerate(_lex_lines(lexer, lines)):
                if lead + offset >= start and spans:
                    self._spans[lead + offset] = spans
        self._highlighted.add(chunk)


def _restore_signs(line: str) -> str:
    """Return a line for the lexer: signs for tabs and blanks become these again."""
    return line if line.isascii() else line.translate(_BLANKS)


def _split_chunks(count: int, breaks: Iterable[int]) -> tuple[list[int], list[int]]:
    """Return for every chunk the first line to lex, and its own first line."""
    edges = sorted({0, count, *(edge for edge in breaks if 0 < edge < count)})
    chunks = [(low, start) for low, high in pairwise(edges) for start in range(low, high, CHUNK_LINES)] or [(0, 0)]
    return [low for low, _ in chunks], [start for _, start in chunks]


@lru_cache(maxsize=256)
def _find_role(token: Any) -> str:
    name = str(token)
    return next((role for start, role in _ROLES if name.startswith(start)), "")


@lru_cache(maxsize=64)
def _find_lexer(language: str, path: str) -> Any:
    from pygments.lexers import (  # type: ignore[import-untyped]
        get_lexer_by_name,
        get_lexer_for_filename,
    )
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    for find, name in ((get_lexer_by_name, language), (get_lexer_for_filename, path)):
        try:
            if name:
                return find(name, stripnl=False, ensurenl=False)
        except ClassNotFound:
            continue
    return None


def _lex_lines(lexer: Any, lines: Sequence[str]) -> list[list[Span]]:
    line_spans: list[list[Span]] = [[]]
    column = 0
    try:
        for token, text in lexer.get_tokens("\n".join(lines)):
            role = _find_role(token)
            for index, part in enumerate(text.split("\n")):
                if index:
                    line_spans.append([])
                    column = 0
                if role and part.strip():
                    _append_span(line_spans[-1], (column, column + len(part), role))
                column += len(part)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        pass  # a lexer that stumbles over this text leaves the rest of it plain
    return line_spans


def _append_span(spans: list[Span], span: Span) -> None:
    if spans and spans[-1][1] == span[0] and spans[-1][2] == span[2]:
        spans[-1] = (spans[-1][0], span[1], span[2])
    else:
        spans.append(span)
