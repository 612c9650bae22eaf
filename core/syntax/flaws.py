"""Flaws of syntax: the places of a text that do not parse, and which of them an edit has made.

Python that parses is compiled as well, since "'return' outside function" parses. Nothing of it runs.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from core.syntax.grammars import parse_syntax
from core.text.lines import split_lines

_ASKED: Final = 200
_MOST_COMPILED: Final = 200_000  # characters: the compiler holds everything else up
_COMPILED_NAME: Final = "<text of an edit>"


class SyntaxFlaw(Struct, frozen=True, kw_only=True):
    """A place that does not parse: 1-indexed line, and what is missing there ("" for something unexpected).

    `message`: what the compiler says of a place that parses.
    """

    line: int
    missing: str = ""
    message: str = ""


def find_flaws(path: str, text: str, *, limit: int = 20) -> tuple[SyntaxFlaw, ...] | None:
    """Find what does not parse, in order; None when the language is not known or the text is too long."""
    root = parse_syntax(path, text)
    if root is None:
        return None
    found: list[SyntaxFlaw] = []
    waiting = [root] if root.has_error else []
    while waiting and len(found) < limit:
        node = waiting.pop()
        if node.is_missing or node.is_error:
            found.append(SyntaxFlaw(line=node.start_point[0] + 1, missing=node.type if node.is_missing else ""))
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return tuple(found) or _compile_python(path, text)


def _compile_python(path: str, text: str) -> tuple[SyntaxFlaw, ...]:
    """Find what the compiler refuses in Python that parses. What our own Python does not parse may be newer than it."""
    if not path.endswith((".py", ".pyi")) or len(text) > _MOST_COMPILED:
        return ()
    warnings.filterwarnings("ignore", module=re.escape(_COMPILED_NAME))  # they are about the text, not about us
    has_parsed = False
    try:
        tree = ast.parse(text, _COMPILED_NAME)
        has_parsed = True
        compile(tree, _COMPILED_NAME, "exec", dont_inherit=True)
    except SyntaxError as problem:
        is_certain = has_parsed or isinstance(problem, IndentationError)
        return (SyntaxFlaw(line=problem.lineno or 1, message=problem.msg),) if is_certain else ()
    except (ValueError, RecursionError, MemoryError, OverflowError):  # NUL characters, too deep, a number too long
        return ()
    return ()


def find_new_flaws(path: str, before: str, after: str) -> tuple[SyntaxFlaw, ...]:
    """Find the flaws of `after` whose line did not have them in `before`, in order; none for an unknown language."""
    now = find_flaws(path, after, limit=_ASKED) if before != after else ()
    if not now:
        return ()
    known = Counter(_build_flaw_keys(before, find_flaws(path, before, limit=_ASKED) or ()))
    fresh = []
    for flaw, key in zip(now, _build_flaw_keys(after, now), strict=True):
        if known[key]:
            known[key] -= 1
        else:
            fresh.append(flaw)
    return tuple(fresh)


def _build_flaw_keys(text: str, found: Sequence[SyntaxFlaw]) -> list[tuple[str, str, str]]:
    bodies = split_lines(text).bodies
    rows = [bodies[flaw.line - 1].strip() if flaw.line <= len(bodies) else "" for flaw in found]
    return [(row, flaw.missing, flaw.message) for row, flaw in zip(rows, found, strict=True)]


def describe_first_flaw(path: str, before: str, after: str) -> str:
    """Describe the first place that does not parse, when everything parsed before; "" else."""
    if before == after or find_flaws(path, before, limit=1) != ():
        return ""
    found = find_flaws(path, after, limit=1)
    return describe_flaw(found[0]) if found else ""


def describe_flaw(flaw: SyntaxFlaw) -> str:
    """Describe a flaw with its line, for a model or a user."""
    what = flaw.message or (f"{flaw.missing!r} is missing" if flaw.missing else "this does not parse")
    return f"line {flaw.line}: {what}"
