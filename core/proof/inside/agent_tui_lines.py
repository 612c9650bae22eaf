"""Records the lines of some files: by `sys.monitoring` from Python 3.12 on, before that by calls inserted into them.

Before 3.12, a trace function would be called for each function of the whole program, which doubles the time of a run.
So a changed file is compiled with a call before each statement when it is imported; its line numbers stay as they are.
"""

from __future__ import annotations

import ast
import builtins
import sys
from importlib.machinery import SourceFileLoader
from typing import Any, List, Optional, Tuple

Recorder = Any  # that of `agent_tui_recorder`, which is no part of this package where it runs

_TOOL = 4  # of `sys.monitoring`: debuggers, profilers, optimizers and coverage tools have the others
_BODIES = ("body", "orelse", "finalbody")


def record_lines(recorder: Recorder) -> None:
    """Record the lines of the recorder's files from now on."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(_TOOL) is None:
        _monitor(recorder, monitoring)
    else:
        sys.meta_path.insert(0, _LineFinder(recorder))


def _monitor(recorder: Recorder, monitoring: Any) -> None:
    """Have only the code of the recorded files call back."""
    monitoring.use_tool_id(_TOOL, "agent-tui")
    events = monitoring.events

    def start_code(code: Any, _offset: int) -> Any:
        if recorder.find_number(code.co_filename) >= 0:
            monitoring.set_local_events(_TOOL, code, events.LINE)
        return monitoring.DISABLE

    def run_line(code: Any, line: int) -> None:
        recorder.current.add((recorder.numbers[code.co_filename], line))

    monitoring.register_callback(_TOOL, events.PY_START, start_code)
    monitoring.register_callback(_TOOL, events.LINE, run_line)
    monitoring.set_events(_TOOL, events.PY_START)


class _LineFinder:
    """Finds modules as the other finders do; those of recorded files get a loader that inserts calls."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a module of a recorded file."""
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        if isinstance(spec.loader, SourceFileLoader) and type(spec.loader).__name__ == "SourceFileLoader":
            number = self._recorder.find_number(str(spec.origin))
            if number >= 0:
                spec.loader = _LineLoader(spec.loader.name, spec.loader.path)
                spec.loader.recorder, spec.loader.number = self._recorder, number
        return spec


class _LineLoader(SourceFileLoader):
    recorder: Recorder
    number: int

    def get_code(self, fullname: str) -> Any:
        """Compile the source; what was compiled before has no calls in it."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def source_to_code(self, data: Any, path: Any, **options: Any) -> Any:  # type: ignore[override]
        tree = ast.parse(data, path)
        name = f"__agent_tui_line_{self.number}__"
        setattr(builtins, name, self._build_call())
        _insert_calls(tree, name, self.recorder, self.number)
        return compile(tree, path, "exec", dont_inherit=True)

    def _build_call(self) -> Any:
        recorder, number = self.recorder, self.number

        def run_line(line: int) -> None:
            recorder.current.add((number, line))

        return run_line


def _insert_calls(tree: ast.Module, name: str, recorder: Recorder, number: int) -> None:
    """Insert a call before each statement, and tell the recorder where the statements end."""
    for node in list(ast.walk(tree)):
        for field in _BODIES:
            statements = getattr(node, field, None)
            if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                header = _find_header(node) if field == "body" else None
                setattr(node, field, _interleave(statements, header, name, recorder, number))


def _interleave(
    statements: List[ast.stmt], header: Optional[Tuple[int, int]], name: str, recorder: Recorder, number: int
) -> List[ast.stmt]:
    result: List[ast.stmt] = []
    position = 0
    while position < len(statements) and _must_be_first(statements[position], is_first=position == 0):
        result.append(statements[position])
        position += 1
    spans = [header] if header is not None else []
    for index, statement in enumerate(statements[position:] or statements[-1:]):
        for first, last in (*spans, _find_span(statement)):
            recorder.ends[number, first] = max(last, recorder.ends.get((number, first), first))
            call = ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(first)], []))
            result.append(ast.fix_missing_locations(ast.copy_location(call, statement)))
        spans = []
        if position + index < len(statements):
            result.append(statement)
    return result


def _must_be_first(statement: ast.stmt, *, is_first: bool) -> bool:
    """Return True for a doc-string, and for what Python wants before everything else."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return True
    value = getattr(statement, "value", None) if is_first and isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _find_header(node: ast.AST) -> Optional[Tuple[int, int]]:
    """Return the lines of `except …:` and `case …:`, which are no statements of their own."""
    if isinstance(node, ast.ExceptHandler):
        return node.lineno, max(node.lineno, node.body[0].lineno - 1)
    if type(node).__name__ == "match_case":  # since Python 3.10
        case: Any = node
        return case.pattern.lineno, max(case.pattern.lineno, case.body[0].lineno - 1)
    return None


def _find_span(statement: ast.stmt) -> Tuple[int, int]:
    """Return the first and the last line of a statement, without those of the statements in it."""
    first = min([statement.lineno, *(item.lineno for item in getattr(statement, "decorator_list", []))])
    inner = [part for field in (*_BODIES, "handlers", "cases") for part in getattr(statement, field, None) or []]
    lines = [getattr(part, "lineno", 0) or getattr(part, "pattern", statement).lineno for part in inner]
    if lines:
        return first, max(statement.lineno, min(lines) - 1)
    return first, statement.end_lineno or statement.lineno
