"""The canary: a fault that the check has to notice, if what it says of itself is true.

A function that the tests are said to execute raises at once. If no test of those fails then, the check proves nothing,
whatever it prints: its results do not come from the code.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from core.proof.hunk_classes import ChangedText
from core.proof.runs.records import IMPORT, RunRecord
from core.proof.runs.variant_runs import VariantRuns
from core.shell.verification.clean_layer import FileVariant
from core.syntax.python_parser import parse_python

# No `except Exception` catches it.
_FAULT: Final = 'raise type("Fault", (BaseException,), {})("agent-tui: does the check notice this?")'
_MOST_TESTS: Final = 20


class Canary(NamedTuple):
    """A place for the fault: before this line (1-indexed) of a file, with these characters before it. `tests`: those
    that are said to execute it."""

    path: str
    line: int
    indentation: str
    tests: frozenset[str]


def choose_canaries(
    texts: Mapping[str, ChangedText], record: RunRecord, paths: Iterable[str], count: int
) -> list[Canary]:
    """Choose places that nobody can foresee; none = no test is said to execute any."""
    places = [place for path in sorted(paths) for place in _list_places(texts[path], record)]
    return random.sample(places, min(count, len(places)))


async def is_noticed(canary: Canary, text: ChangedText, runs: VariantRuns, seconds: float) -> bool:
    """Return True if a test fails, and the check says so. Raises `AgentTuiError`."""
    lines = text.pending.split(b"\n")
    lines.insert(canary.line - 1, f"{canary.indentation}{_FAULT}".encode())
    variant = FileVariant(b"\n".join(lines), text.change.pending.mode)
    result = await runs.run({canary.path: variant}, tests=canary.tests, is_brief=True, seconds=seconds)
    if result.result.exit_code == 0:
        return False
    return not result.record.ends or any(end.phase in ("setup", "call") for end in result.record.failures)


def _list_places(text: ChangedText, record: RunRecord) -> Iterator[Canary]:
    path, source = text.change.path, text.pending.decode("utf-8", "replace")
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, SystemError):
        return
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_generator(node):
            continue
        first = node.body[0]
        is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if is_docstring and len(node.body) > 1:
            first = node.body[1]
        tests = record.find_tests(path, [first.lineno]) - {IMPORT}
        before = lines[first.lineno - 1][: first.col_offset]
        if tests and not before.strip():
            yield Canary(path, first.lineno, before, frozenset(sorted(tests)[:_MOST_TESTS]))


def _is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if calling the function does not run it: nobody may ask the generator for a value."""
    return any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
