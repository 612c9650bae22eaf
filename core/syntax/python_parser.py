"""Python's own parser, used by one thread at a time; it never executes the text and shows no warnings.

In Python 3.11 two threads that parse at the same time corrupt a shared recursion count, which raises SystemError. An
internal error of the parser is no verdict on the text.
"""

from __future__ import annotations

import ast
import re
import warnings
from threading import Lock
from types import CodeType
from typing import Final

_PARSING: Final = Lock()
_TOO_DEEP: Final = "it is nested too deep to be parsed"
_NAME: Final = "<text that is only parsed>"
# NUL characters, too deep nesting, too long numbers, and internal errors of the parser.
_NO_ANSWER: Final = (ValueError, RecursionError, MemoryError, OverflowError, SystemError)


def parse_python(source: str) -> ast.Module:
    """Return the tree of a module. Raises `SyntaxError`, or `ValueError` for a text that the parser cannot process."""
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
    """Return the error with which Python rejects a module; None if it compiles, or if that is unknown."""
    with _PARSING:
        # The warnings concern the parsed text, not this program.
        warnings.filterwarnings("ignore", module=re.escape(_NAME))
        try:
            compile(source, _NAME, "exec", dont_inherit=True)
        except SyntaxError as error:
            return error
        except _NO_ANSWER:
            return None
    return None


def compile_python(source: str) -> CodeType | None:
    """Return the code of a module, which is not run; None if it does not compile."""
    with _PARSING:
        warnings.filterwarnings("ignore", module=re.escape(_NAME))
        try:
            return compile(source, _NAME, "exec", dont_inherit=True)
        except (SyntaxError, *_NO_ANSWER):
            return None


def is_parsed_by_python(source: str) -> bool:
    """Return True if a module parses, whether or not it compiles."""
    try:
        parse_python(source)
    except (SyntaxError, *_NO_ANSWER):
        return False
    return True
