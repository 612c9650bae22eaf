"""Checks of a probe's syntax: the file still parses, the marks are comments, and the code around belongs together.

Python is asked itself, since it says best what is wrong; other languages are asked of their grammar, if there is one.
"""

from __future__ import annotations

import io
import tokenize

from core.debug.probe_regions import find_region_comments, has_regions
from core.errors import ToolInputInvalid
from core.syntax.flaws import describe_flaw, find_new_flaws
from core.syntax.python_parser import find_compile_error
from core.syntax.symbols import find_position
from core.text.lines import split_lines

_PYTHON = (".py", ".pyi", ".pyw")
_HINT = "Nothing was put in place. Give the statement anew, or another line."


def check_probe_syntax(path: str, before: str, after: str, line: int) -> None:
    """Raise `ToolInputInvalid` if a probe before `line` (1-indexed) of `before` makes `after` worse than it."""
    if path.endswith(_PYTHON) and not _find_python_flaw(before):
        if flaw := _find_python_flaw(after):
            raise ToolInputInvalid(f"With this probe {path} does not parse: {flaw}.", hint=_HINT)
        if len(find_region_comments(after)) > _count_comment_marks(after):
            raise _build_not_run_error(path, "string")
        return
    flaws = find_new_flaws(path, before, after)
    if flaws:
        lines = split_lines(after).bodies
        text = lines[flaws[0].line - 1].strip() if flaws[0].line <= len(lines) else ""
        raise ToolInputInvalid(
            f"With this probe {path} does not parse: {describe_flaw(flaws[0])}: {text[:200]}", hint=_HINT
        )
    _check_not_hidden(path, after)
    _check_not_between(path, before, after, line)


def _check_not_hidden(path: str, after: str) -> None:
    """Raise if a mark stands in a string, a comment or text: the probe would stand there, too, and not run."""
    for mark in find_region_comments(after):
        position = find_position(path, after, mark.line)
        if (
            position is not None
            and "ERROR" not in position.within
            and not any("comment" in kind for kind in position.begins)
        ):
            raise _build_not_run_error(
                path, position.within[0].replace("_", " ").removesuffix(" fragment").removesuffix(" content")
            )


def _check_not_between(path: str, before: str, after: str, line: int) -> None:
    """Raise if a probe parts what belongs together, or takes the only statement of an `if` from it."""
    line_numbers = [number for number, body in enumerate(before.split("\n"), start=1) if body.strip()]
    down = after.count("\n") - before.count("\n")
    above = [(number, number) for number in line_numbers if number < line][-1:]
    below = [(number, number + down) for number in line_numbers if number >= line][:1]
    for number, new_number in above + below:
        old_position, now = find_position(path, before, number), find_position(path, after, new_number)
        if old_position is not None and now is not None and old_position.within != now.within:
            node_kind = next(
                (kind for kind in old_position.within if old_position.within.count(kind) != now.within.count(kind)),
                "statement",
            )
            raise ToolInputInvalid(
                f"{path}: before line {line} a probe would part what belongs together ({node_kind.replace('_', ' ')}).",
                hint="Nothing was put in place. Give the line before the whole statement.",
            )


def _build_not_run_error(path: str, kind: str) -> ToolInputInvalid:
    return ToolInputInvalid(f"{path}: at that line a probe would stand within a {kind}, and not run.", hint=_HINT)


def _find_python_flaw(text: str) -> str:
    """Return Python's error for a text; "" = it compiles (or is more than can be asked of the compiler)."""
    error = find_compile_error(text)
    if error is None:
        return ""
    source_line = (error.text or "").strip()
    return f"{error.msg} (line {error.lineno}{f': {source_line[:200]}' if source_line else ''})"


def _count_comment_marks(text: str) -> int:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return len(find_region_comments(text))
    return sum(
        token.type == tokenize.COMMENT and has_regions(token.string.encode("utf-8", "replace")) for token in tokens
    )
