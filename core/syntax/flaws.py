"""Flaws of syntax: the places of a text that do not parse, and which of them an edit has made.

Python that parses is compiled as well, since "'return' outside function" parses, and what it compiles has no flaw. A
file is called broken only where that is sure (`certainty`). A check that fails says nothing: the edit is made by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from core.crash_reports import save_crash_report
from core.syntax.certainty import LARGEST, is_read_as_loose_json, is_surely_broken, takes_loose_json
from core.syntax.grammars import parse_syntax
from core.syntax.python_parser import find_compile_error, is_parsed_by_python
from core.text.lines import split_lines

_ASKED: Final = 200
_PYTHON: Final = (".py", ".pyi")


class SyntaxFlaw(Struct, frozen=True, kw_only=True):
    """A place that does not parse: 1-indexed line, and what is missing there ("" for something unexpected).

    `message`: what the compiler says of a place that parses.
    """

    line: int
    missing: str = ""
    message: str = ""


def find_flaws(path: str, text: str, *, limit: int = 20) -> tuple[SyntaxFlaw, ...] | None:
    """Find what does not parse, in order; None when the language is not known, the text is too long, or a parser has
    failed by itself."""
    try:
        return _find_flaws(path, text, limit)
    except Exception as fault:  # of a foreign parser: what is checked is written by then
        save_crash_report(fault, "a check of syntax")
        return None


def _find_flaws(path: str, text: str, limit: int) -> tuple[SyntaxFlaw, ...] | None:
    root = parse_syntax(path, text)
    if root is None:
        return None
    flaws: list[SyntaxFlaw] = []
    waiting = [root] if root.has_error else []
    while waiting and len(flaws) < limit:
        node = waiting.pop()
        if node.is_missing or node.is_error:
            flaws.append(SyntaxFlaw(line=node.start_point[0] + 1, missing=node.type if node.is_missing else ""))
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return _ask_others(path, text, tuple(flaws))


def _ask_others(path: str, text: str, flaws: tuple[SyntaxFlaw, ...]) -> tuple[SyntaxFlaw, ...]:
    """Return the flaws that stay when those who read more of a language than its grammar, or less, were asked."""
    if path.endswith(".json"):
        return () if flaws and takes_loose_json(path) and is_read_as_loose_json(path, text) else flaws
    if not path.endswith(_PYTHON) or len(text) > LARGEST:
        return flaws
    problem = find_compile_error(text)
    if flaws or problem is None:
        return flaws if problem is not None else ()
    # What our own Python does not parse may be newer than it.
    is_certain = isinstance(problem, IndentationError) or is_parsed_by_python(text)
    return (SyntaxFlaw(line=problem.lineno or 1, message=problem.msg),) if is_certain else ()


def find_new_flaws(path: str, before: str, after: str) -> tuple[SyntaxFlaw, ...]:
    """Find the flaws of `after` whose line did not have them in `before`, in order; none for an unknown language."""
    now = find_flaws(path, after, limit=_ASKED) if before != after else ()
    if not now:
        return ()
    old_counts = Counter(_build_flaw_keys(before, find_flaws(path, before, limit=_ASKED) or ()))
    fresh = []
    for flaw, key in zip(now, _build_flaw_keys(after, now), strict=True):
        if old_counts[key]:
            old_counts[key] -= 1
        else:
            fresh.append(flaw)
    return tuple(fresh)


def _build_flaw_keys(text: str, flaws: Sequence[SyntaxFlaw]) -> list[tuple[str, str, str]]:
    bodies = split_lines(text).bodies
    rows = [bodies[flaw.line - 1].strip() if flaw.line <= len(bodies) else "" for flaw in flaws]
    return [(row, flaw.missing, flaw.message) for row, flaw in zip(rows, flaws, strict=True)]


def describe_first_flaw(path: str, before: str, after: str) -> str:
    """Describe the first place that does not parse, when everything parsed before and it is surely broken; "" else."""
    if before == after or find_flaws(path, before, limit=1) != ():
        return ""
    flaws = find_flaws(path, after, limit=1)
    return describe_flaw(flaws[0]) if flaws and breaks_syntax(path, before, after, flaws) else ""


def breaks_syntax(path: str, before: str, after: str, flaws: Sequence[SyntaxFlaw]) -> bool:
    """Return True if `flaws` of `after` are surely wrong, and not of a form that the grammar can't read."""
    earlier = {flaw.line for flaw in find_flaws(path, before, limit=_ASKED) or ()}
    try:
        if earlier and not is_surely_broken(path, "", before, earlier):
            return False
        return is_surely_broken(path, "" if earlier else before, after, {flaw.line for flaw in flaws})
    except Exception as fault:  # as above
        save_crash_report(fault, "a check of syntax")
        return False


def describe_flaw(flaw: SyntaxFlaw) -> str:
    """Describe a flaw with its line, for a model or a user."""
    message = flaw.message or (f"{flaw.missing!r} is missing" if flaw.missing else "this does not parse")
    return f"line {flaw.line}: {message}"
