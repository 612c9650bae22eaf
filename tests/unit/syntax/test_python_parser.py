"""Python's own parser under many threads: each of them gets its own answer, and no fault of another one."""

from __future__ import annotations

import ast
import gc
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.syntax.flaws import find_flaws, find_new_flaws
from core.syntax.python_parser import find_compile_error, is_parsed_by_python, parse_python, parse_python_expression

CORE = Path(__file__).parents[3] / "core"
# They run in the box, in processes of their own: the last in the Python of the project's tests, whose code it is.
OUTSIDE = {
    "core/sandbox/inside/python_driver.py",
    "core/sandbox/inside/program_driver.py",
    "core/proof/inside/agent_tui_lines.py",
}
BIG = "".join(
    f"def f{number}(a, *, b=[{{'x': (1, 2, {number})}}]):\n    return [a for a in b if a]\n" for number in range(100)
)


@pytest.fixture
def eager_threads():
    """Threads that take turns as often as they can, also in the middle of a tree, where the collector runs Python."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(100, 5, 1000)
    gc.callbacks.append(_spend_time)
    yield
    gc.callbacks.remove(_spend_time)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


def _spend_time(_phase: str, _info: dict[str, int]) -> None:
    sum(range(2000))


@pytest.mark.usefixtures("eager_threads")
def test_threads_that_check_at_once_all_get_the_right_answer():
    broken, refused = f"{BIG}x = (\n", f"{BIG}return 1\n"

    def check(number: int) -> tuple[bool, list[str], int, str]:
        parse_python(BIG)
        messages = [flaw.message for flaw in find_flaws("a.py", refused) or ()]
        is_broken = find_new_flaws("a.py", BIG, broken) != ()
        return (
            is_broken,
            messages,
            len(parse_python_expression(f"f({number}, {number})").args),
            ast.dump(parse_python("x"))[:6],
        )

    with ThreadPoolExecutor(8) as threads:
        answers = set(map(repr, threads.map(check, range(40))))
    assert answers == {repr((True, ["'return' outside function"], 2, "Module"))}


def test_core_asks_for_trees_and_code_in_one_place():
    asks = re.compile(r"\bast\.parse\(|(?<![\w.])compile\(|\bbuiltins\.compile\b")
    places = {str(path.relative_to(CORE.parent)) for path in CORE.rglob("*.py") if asks.search(path.read_text())}
    assert places - OUTSIDE == {"core/syntax/python_parser.py"}


@pytest.mark.parametrize(
    "fault", [SystemError("AST constructor recursion depth mismatch"), RecursionError(), ValueError("NUL")]
)
def test_a_fault_of_the_parser_is_no_error_of_the_text(monkeypatch, fault):
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("core.syntax.python_parser.compile", fail, raising=False)
    monkeypatch.setattr(ast, "parse", fail)
    assert find_compile_error("x = 1") is None
    assert not is_parsed_by_python("x = 1")
    assert find_flaws("a.py", "return 1\n") == ()
