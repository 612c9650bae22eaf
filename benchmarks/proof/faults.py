"""Faults that are seeded into the change of a real commit: in its code, in its tests, or in the results themselves.

They are drawn without looking at what proof would draw: the mutation that undoes a seeded one is left out when the
evaluation counts.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from core.proof.classes.path_kinds import classify_file
from core.proof.hunk_classes import ChangedText, classify_hunks
from core.proof.variants.mutants import list_mutations
from core.protocol.review import Hunk
from core.shell.verification.steering_files import is_test_file

Files = Mapping[str, bytes | None]  # by path; None = the file is deleted

_ASSERT: Final = re.compile(rb"^(\s+)(assert\b[^\n]*|self\.assert\w+\([^\n]*\))$", re.MULTILINE)
_JS_ASSERT: Final = re.compile(rb"^(\s+)((?:t|assert)\.\w+\([^\n]*\);?)$", re.MULTILINE)
_JS_TEST: Final = re.compile(rb"^(\s*)test\(", re.MULTILINE)
_TEST: Final = re.compile(rb"^(\s*)def (test_\w+)\(", re.MULTILINE)
_STATEMENT: Final = re.compile(
    r"^(\s+)(?!return|raise|if|for|while|with|try|def|class|else|elif|except|pass|import|from|@|#)\S.*[^,:(\[{\\]$"
)
_FORGED_TEXT: Final = b"""
import pytest


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
_FORGED_EXIT: Final = b"""
import os
import sys


def pytest_cmdline_main(config):
    sys.stdout.write("==== 3 passed in 0.10s ====\\n")
    sys.stdout.flush()
    os._exit(0)
"""


class Fault(NamedTuple):
    """A commit with a fault. `files`: the whole change; `place`: path and line (1-indexed) of a fault in code, None =
    it is elsewhere; `old`, `new`: what stood and stands there."""

    kind: str
    files: Files
    place: tuple[str, int] | None = None
    old: str = ""
    new: str = ""


def seed(
    texts: list[ChangedText], files: Files, source: random.Random, read: Callable[[str], bytes]
) -> Iterator[Fault]:
    """Yield faulty variants of a change, each of a kind of its own. `read`: reads a file of the parent."""
    classes = classify_hunks(texts)
    lines = [
        (text, line)
        for text in texts
        for hunk in text.change.hunks
        if classes[text.change.path, hunk.id].kind == "code" and not is_test_file(text.change.path)
        for line in range(hunk.new_start, hunk.new_start + hunk.new_lines)
    ]
    tests = [text for text in texts if is_test_file(text.change.path) and text.change.operation != "delete"]
    small = list(_draw_small(lines, source))
    for fault in small[:2]:
        yield Fault("small fault, its own tests", {**files, fault.path: fault.data}, fault.place, fault.old, fault.new)
    without_tests = {path: data for path, data in files.items() if not is_test_file(path)}
    for fault in small[:2]:
        yield Fault(
            "small fault, no new tests", {**without_tests, fault.path: fault.data}, fault.place, fault.old, fault.new
        )
    for fault in small[:1]:
        for kind, weaken in (
            ("asserts stripped", _strip_asserts),
            ("test deleted", _delete_test),
            ("test skipped", _skip_test),
        ):
            weakened = {
                text.change.path: data
                for text in tests
                if (data := weaken(text.pending, _changed(text))) != text.pending
            }
            if weakened:
                changed = {**files, **weakened, fault.path: fault.data}
                yield Fault(f"weakened: {kind}", changed, fault.place, fault.old, fault.new)
    if second := _edit_second_place(texts, source, read):
        path, data, line = second
        yield Fault("second place", {**files, path: data}, (path, line))
    root = "tests/conftest.py" if any(text.change.path.startswith("tests/") for text in tests) else "conftest.py"
    for fault in small[:1] if any(text.change.path.endswith(".py") for text in tests) else []:
        for kind, content in (("prints passed", _FORGED_EXIT), ("rewrites results", _FORGED_TEXT)):
            forged = {**files, root: read(root) + content, fault.path: fault.data}
            yield Fault(f"forged: {kind}", forged, fault.place, fault.old, fault.new)


class _SmallFault(NamedTuple):
    path: str
    data: bytes
    place: tuple[str, int]
    old: str
    new: str


def _draw_small(lines: list[tuple[ChangedText, int]], source: random.Random) -> Iterator[_SmallFault]:
    """Yield small faults in added lines, in a random order: an operator, a number, or a statement that is gone."""
    lines = list(lines)
    source.shuffle(lines)
    for text, line in lines:
        path, content = text.change.path, text.pending.decode("utf-8", "replace")
        mutations = list_mutations(path, content, {line})
        if mutations:
            mutation = source.choice(mutations)
            yield _SmallFault(path, mutation.apply(text.pending), (path, line), mutation.old, mutation.new)
            continue
        rows = content.split("\n")
        if (match := _STATEMENT.match(rows[line - 1])) is not None and line in _list_simple_statements(path, content):
            rows[line - 1] = f"{match[1]}pass"
            yield _SmallFault(path, "\n".join(rows).encode(), (path, line), match[0].strip(), "pass")


def _list_simple_statements(path: str, content: str) -> frozenset[int]:
    """Return the lines with a statement of Python that ends on them and has a value that somebody may need."""
    if not path.endswith(".py"):
        return frozenset()
    nodes = ast.walk(ast.parse(content))
    kinds = (ast.Assign, ast.AugAssign, ast.Expr)
    return frozenset(
        node.lineno
        for node in nodes
        if isinstance(node, kinds) and node.lineno == node.end_lineno and not isinstance(node.value, ast.Constant)
    )


def _changed(text: ChangedText) -> list[Hunk]:
    return list(text.change.hunks)


def _strip_asserts(data: bytes, hunks: list[Hunk]) -> bytes:
    return _edit_lines(data, hunks, lambda block: _JS_ASSERT.sub(rb"\1", _ASSERT.sub(rb"\1pass", block)))


def _skip_test(data: bytes, hunks: list[Hunk]) -> bytes:
    skipped = _edit_lines(data, hunks, lambda block: _TEST.sub(rb"\1@pytest.mark.skip\n\1def \2(", block))
    if skipped == data:
        return _edit_lines(data, hunks, lambda block: _JS_TEST.sub(rb"\1test.skip(", block))
    return skipped if skipped == data or b"import pytest" in data else b"import pytest\n" + skipped


def _delete_test(data: bytes, hunks: list[Hunk]) -> bytes:
    return _edit_lines(data, hunks, lambda block: _TEST.sub(rb"\1def not_a_\2(", block))


def _edit_lines(data: bytes, hunks: list[Hunk], edit: Callable[[bytes], bytes]) -> bytes:
    """Edit the added lines of a file, each hunk as one block."""
    lines = data.split(b"\n")
    for hunk in reversed(hunks):
        start, end = hunk.new_start - 1, hunk.new_start - 1 + hunk.new_lines
        lines[start:end] = edit(b"\n".join(lines[start:end])).split(b"\n")
    return b"\n".join(lines)


def _edit_second_place(
    texts: list[ChangedText], source: random.Random, read: Callable[[str], bytes]
) -> tuple[str, bytes, int] | None:
    """Make a small change in a line of a changed file that the commit did not touch."""
    candidates = [text for text in texts if classify_file(text.change.path, "") == "code"]
    source.shuffle(candidates)
    for text in candidates:
        content = text.pending.decode("utf-8", "replace")
        touched = {
            line
            for hunk in text.change.hunks
            for line in range(hunk.new_start - 5, hunk.new_start + hunk.new_lines + 5)
        }
        lines = set(range(1, content.count("\n") + 1)) - touched
        mutations = list_mutations(text.change.path, content, lines)
        if mutations:
            mutation = source.choice(mutations)
            return text.change.path, mutation.apply(text.pending), mutation.line
    return None
