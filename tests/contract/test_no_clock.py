"""No test compares a time that something took with a bound: on a slow machine that says nothing about the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.contract.source_tree import Function, modules

CLOCKS = {"perf_counter", "monotonic", "process_time", "thread_time", "time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
SHORTEST_GUARD = 30  # seconds: what is to end a test that hangs must not end one that is slow


def name_of(call: ast.Call) -> str:
    """The last part of what is called: `perf_counter` of `time.perf_counter()`."""
    return ast.unparse(call.func).rpartition(".")[2]


def tells_time(node: ast.AST, names: set[str]) -> bool:
    """Whether a clock is read in it, or one of the names used that stand for a time."""
    return any(
        (isinstance(descendant, ast.Call) and not descendant.args and name_of(descendant) in CLOCKS)
        or (isinstance(descendant, ast.Name) and descendant.id in names)
        for descendant in ast.walk(node)
    )


def written(node: ast.AST) -> tuple[ast.AST | None, list[ast.expr]]:
    """What is kept by an assignment or an `append`, and where."""
    match node:
        case ast.Assign(value=value, targets=targets):
            return value, targets
        case ast.AnnAssign(value=value, target=target) | ast.AugAssign(value=value, target=target):
            return value, [target]
        case ast.NamedExpr(value=value, target=target):
            return value, [target]
        case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[value]):
            return value, [target]
    return None, []


def times_in(function: Function, names: set[str]) -> set[str]:
    """`names` and the variables of a function that are computed from a clock or from them."""
    time_names = set(names)
    for node in ast.walk(function):
        value, targets = written(node)
        if value is not None and tells_time(value, time_names):
            time_names |= {
                variable.id for target in targets for variable in ast.walk(target) if isinstance(variable, ast.Name)
            }
    return time_names


def timers_in(functions: list[Function]) -> set[str]:
    """The functions of a file that return a time."""
    return {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None and tells_time(node.value, times_in(function, set()))
    }


def timed(tree: ast.AST) -> Iterator[int]:
    """The lines on which a time is compared by size."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    timers = timers_in(functions)
    for function in functions:
        names = times_in(function, timers)
        for node in ast.walk(function):
            by_size = isinstance(node, ast.Compare) and not all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
            if by_size and tells_time(node, names):
                yield node.lineno


def hurried(tree: ast.AST) -> Iterator[int]:
    """The lines on which a test gives something less than `SHORTEST_GUARD` seconds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node) in {"timeout", "wait_for"}:
            limits = [*node.args[-1:], *(keyword.value for keyword in node.keywords if keyword.arg == "timeout")]
            values = [limit.value for limit in limits if isinstance(limit, ast.Constant)]
            if any(isinstance(value, int | float) and value < SHORTEST_GUARD for value in values):
                yield node.lineno


TIMED = [
    "begun = time.perf_counter()\n    run()\n    assert time.perf_counter() - begun < 0.8",
    "begun = monotonic()\n    run()\n    took = monotonic() - begun\n    assert 0.5 > took",
    "took = []\n    took.append(time.process_time() - begun)\n    assert sorted(took)[10] < 0.005",
    "spent = loop.time() - begun\n    assert spent / count <= 0.008",
    "def seconds():\n        return time.process_time() - begun\n    assert seconds() < 16 * seconds()",
]
UNTIMED = [
    "assert count(5) < 10",
    "now = [0.0]\n    patch(retry, 'monotonic', lambda: now[0])\n    assert now[0] < 3",
    "event = Envelope(at=time.time_ns())\n    assert rows == [event]",
]


@pytest.mark.parametrize("body", TIMED)
def test_a_timed_assertion_is_recognised(body):
    assert list(timed(ast.parse(f"def test():\n    {body}")))


@pytest.mark.parametrize("body", UNTIMED)
def test_what_is_not_timed_is_left_alone(body):
    assert list(timed(ast.parse(f"def test():\n    {body}"))) == []


def test_a_short_guard_is_recognised():
    source = "async with asyncio.timeout(0.3):\n    await asyncio.wait_for(run(), timeout=5)\nasyncio.timeout(40)"
    assert list(hurried(ast.parse(source))) == [1, 2]


def test_no_test_asserts_how_long_something_took():
    locations = [f"{module.path.name}:{line}" for module in modules("tests") for line in timed(module.tree)]
    assert locations == [], "assert what makes it fast: by count or by order; times belong into benchmarks/"


def test_no_test_is_ended_for_being_slow():
    locations = [f"{module.path.name}:{line}" for module in modules("tests") for line in hurried(module.tree)]
    assert locations == [], f"what guards against hanging waits at least {SHORTEST_GUARD} s"
