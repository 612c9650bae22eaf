"""The lines of a hunk that a run executed, and the tests that did."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import CodeType
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from core.proof.runs.records import ANY_TEST, IMPORT, RunRecord
from core.protocol.evidence import Executed
from core.protocol.review import Hunk
from core.syntax.grammars import parse_syntax
from core.syntax.python_parser import compile_python

if TYPE_CHECKING:
    from tree_sitter import Node

_UNRUN: Final = frozenset({"import_statement", "interface_declaration", "type_alias_declaration", "comment"})
_BLOCKS: Final = frozenset({"statement_block", "formal_parameters", "identifier"})
NEIGHBOURS: Final = 3  # lines around a deletion that stand for it


class HunkExecution(Struct, frozen=True):
    """The part of a run in a hunk. `tests`: those that executed a line of it, outside of imports; `not_run`: lines
    (1-indexed, in the pending file) that no test and no import executed; `in_tests`: those that tests executed."""

    executed: Executed = "unknown"
    tests: frozenset[str] = frozenset()
    not_run: tuple[int, ...] = ()
    in_tests: frozenset[int] = frozenset()


def find_execution(record: RunRecord, path: str, hunk: Hunk, executable: Collection[int] | None) -> HunkExecution:
    """Return what a run executed of a hunk. `executable`: the lines of the pending file that can be executed, None = it
    is not known, as for a file whose lines are not recorded."""
    if executable is None or not record.lines:
        return HunkExecution()
    lines = _list_lines(hunk, executable)
    if not lines:
        return HunkExecution()
    tests = record.find_tests(path, lines) - {IMPORT}
    in_tests = frozenset[int]().union(*(record.lines[test].get(path, frozenset()) for test in tests)) & lines
    at_import = record.lines.get(IMPORT, {}).get(path, frozenset()) & lines
    not_run = lines - in_tests - at_import
    executed: Executed = "part" if not_run else "all"
    if not in_tests:
        executed = "none" if not_run else "import"
    if not hunk.new_lines:  # what is gone can't have run; its neighbours tell which tests come near
        return HunkExecution("all" if in_tests else "unknown", tests - {ANY_TEST})
    return HunkExecution(executed, tests - {ANY_TEST}, tuple(sorted(not_run)) if hunk.new_lines else (), in_tests)


def _list_lines(hunk: Hunk, executable: Collection[int]) -> frozenset[int]:
    """Return the executable lines of a hunk, of what is around it where it has none of its own."""
    own = range(hunk.new_start, hunk.new_start + hunk.new_lines)
    lines = frozenset(own).intersection(executable)
    if lines:
        return lines
    before = [line for line in executable if line < hunk.new_start]
    after = [line for line in executable if line >= hunk.new_start + hunk.new_lines]
    if hunk.new_lines:  # the middle of a statement, which began above
        return frozenset(sorted(before)[-1:])
    near = [line for line in sorted(before)[-1:] if hunk.new_start - line <= NEIGHBOURS]
    near += [line for line in sorted(after)[:1] if line - hunk.new_start < NEIGHBOURS]
    return frozenset(near)


def list_executable_lines(path: str, text: str) -> frozenset[int] | None:
    """Return the lines of a file of Python that can be executed, None = that is not known."""
    code = compile_python(text) if path.endswith(".py") else None
    return None if code is None else frozenset(_iterate_lines(code))


def list_script_lines(sources: Mapping[str, bytes]) -> dict[str, frozenset[int]]:
    """Return the lines of scripts, by path, on which statements begin, of those that can be parsed."""
    roots = {path: parse_syntax(path, data.decode("utf-8", "replace")) for path, data in sources.items()}
    return {path: frozenset(_iterate_statements(root)) for path, root in roots.items() if root is not None}


def _iterate_statements(root: Node) -> Iterator[int]:
    """Yield the lines on which statements of JavaScript begin."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in _UNRUN:
            continue
        if node.type.endswith(("_statement", "_declaration")) or (
            node.type not in _BLOCKS and node.parent is not None and node.parent.type == "arrow_function"
        ):
            yield node.start_point[0] + 1
        waiting.extend(node.named_children)


def _iterate_lines(code: CodeType) -> Iterator[int]:
    waiting = [code]
    while waiting:
        current = waiting.pop()
        yield from (line for _, _, line in current.co_lines() if line)
        waiting += [constant for constant in current.co_consts if isinstance(constant, CodeType)]
