"""Python's own parser: asked in this one place, by one thread at a time, and nothing of the text runs or warns.

In Python 3.11 two threads that build trees at the same moment count each other's depth, and are told a SystemError.
A fault of the parser is its own: it says nothing of the text.
"""

from __future__ import annotations

import ast
import re
import warnings
from threading import Lock
from typing import Final

_PARSING: Final = Lock()
_TOO_DEEP: Final = "it is nested too deep to be parsed"
_NAME: Final = "<text that is only parsed>"
# NUL characters, too deep, a number too long, and what the parser trips over by itself.
_NO_ANSWER: Final = (ValueError, RecursionError, MemoryError, OverflowError, SystemError)


def parse_python(source: str) -> ast.Module:
    """Return the tree of a module. Raises `SyntaxError`, or `ValueError` for a text that is no module to the parser."""
    with _PARSING:
        try:
            return ast.parse(source, _NAME)
        except (RecursionError, MemoryError) as problem:
            raise ValueError(_TOO_DEEP) from problem


def parse_python_expression(source: str) -> ast.expr:
    """Return the tree of an expression. Raises as `parse_python` does."""
    with _PARSING:
        try:
            return ast.parse(source, _NAME, mode="eval").body
        except (RecursionError, MemoryError) as problem:
            raise ValueError(_TOO_DEEP) from problem


def find_compile_error(source: str) -> SyntaxError | None:
    """Return why Python does not compile a module; None: it does, or it can't be said."""
    with _PARSING:
        warnings.filterwarnings("ignore", module=re.escape(_NAME))  # they are about the text, not about us
        try:
            compile(source, _NAME, "exec", dont_inherit=True)
        except SyntaxError as error:
            return error
        except _NO_ANSWER:
            return None
    return None


def is_parsed_by_python(source: str) -> bool:
    """Return True if a module parses, whether or not it compiles."""
    try:
        parse_python(source)
    except (SyntaxError, *_NO_ANSWER):
        return False
    return True
