"""Code to pieces: the lexers of pygments, reduced to the few roles that the palette has colours for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from tui.widgets.rows import Piece

TOO_MUCH: Final = 200_000

_ROLES: Final = (
    ("Token.Comment", "syntax_comment"),
    ("Token.Keyword", "syntax_keyword"),
    ("Token.Operator.Word", "syntax_keyword"),
    ("Token.Literal.String", "syntax_string"),
    ("Token.Literal.Number", "syntax_number"),
    ("Token.Name.Function", "syntax_name"),
    ("Token.Name.Class", "syntax_name"),
    ("Token.Name.Decorator", "syntax_name"),
    ("Token.Name.Tag", "syntax_keyword"),
    ("Token.Name.Builtin", "syntax_name"),
    ("Token.Generic.Deleted", "removed"),
    ("Token.Generic.Inserted", "added"),
    ("Token.Generic.Heading", "heading"),
)


@lru_cache(maxsize=256)
def _role(token: Any) -> str:
    name = str(token)
    return next((role for start, role in _ROLES if name.startswith(start)), "")


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    """The lexer of a language's name or of a file's name; None when there is none."""
    from pygments.lexers import get_lexer_by_name, get_lexer_for_filename  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    find = get_lexer_for_filename if "." in language or "/" in language else get_lexer_by_name
    try:
        return find(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def pieces(code: str, language: str) -> list[list[Piece]]:
    """One list of pieces a line."""
    lexer = _lexer(language.strip().lower()) if language.strip() and len(code) < TOO_MUCH else None
    if lexer is None:
        return [[(line, "")] for line in code.split("\n")]
    lines: list[list[Piece]] = [[]]
    for token, text in lexer.get_tokens(code):
        role = _role(token)
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append((part, role))
    return lines
