"""Whether a file with a probe in it still parses, and whether the probe's marks are comments there.

Python is asked itself, since it says best what is wrong; other languages are asked of their grammar, if there is one.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings

from core.debug.marks import MARK
from core.edits.breakage import new_flaws, told
from core.edits.lines import split_lines
from core.errors import ToolInputInvalid

_PYTHON = (".py", ".pyi", ".pyw")
_ASIDE = "Nothing was put in place. Give the statement anew, or another line."


def refuse_broken(path: str, before: str, after: str) -> None:
    """Raises `ToolInputInvalid` with the parser's message when `after`, with the probe, is worse than `before`."""
    if path.endswith(_PYTHON) and not _python_flaw(before):
        if flaw := _python_flaw(after):
            raise ToolInputInvalid(f"With this probe {path} does not parse: {flaw}.", hint=_ASIDE)
        if _marks(after) > _comments(after):
            raise ToolInputInvalid(
                f"{path}: at that line a probe would stand within a string, and not run.", hint=_ASIDE
            )
        return
    flaws = new_flaws(path, before, after)
    if flaws:
        lines = split_lines(after).bodies
        text = lines[flaws[0].line - 1].strip() if flaws[0].line <= len(lines) else ""
        raise ToolInputInvalid(f"With this probe {path} does not parse: {told(flaws[0])}: {text[:200]}", hint=_ASIDE)


def _python_flaw(text: str) -> str:
    """What Python says of a text, "" = it parses (or is more than can be asked of the parser)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        shown = (error.text or "").strip()
        return f"{error.msg} (line {error.lineno}{f': {shown[:200]}' if shown else ''})"
    except (ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _marks(text: str) -> int:
    return sum(MARK in line for line in split_lines(text).bodies)


def _comments(text: str) -> int:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return _marks(text)
    return sum(token.type == tokenize.COMMENT and MARK in token.string for token in tokens)
