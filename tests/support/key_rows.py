"""A pytest plug-in: which keys of which rows of the key table (docs/keys.md) the Pilot tests try.

A key of a row is tried when it was struck and the row's action carried out; a run of all of `tests/tui` fails if one
is not. With `--dead-keys` that is not enough: a test is run again for each of its keys that no test has missed so far,
while that key does nothing, and it is tried if the test fails then.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.support.slow_tier import KEYS, is_slow

PILOT_TESTS = Path(__file__).parents[1] / "tui"
PATIENCE = 20  # seconds; what waits longer for a dead key waits for ever
KEY: ContextVar[str] = ContextVar("key", default="")  # the key whose binding is being looked up


class KeyRows:
    """The keys ("review.accept a") that the tests of this process, and of its workers, have tried, and the files they
    stand in. `here`: those that the test that runs has pressed; `dead`: the one that does nothing in it."""

    def __init__(self) -> None:
        self.tried: set[str] = set()
        self.files: set[str] = set()
        self.is_part = False
        self.here: set[str] = set()
        self.dead = ""

    def merge(self, other: dict[str, Any]) -> None:
        self.tried |= {*other["tried"]}
        self.files |= {*other["files"]}
        self.is_part |= other["is_part"]

    def dump(self) -> dict[str, Any]:
        """Return what `merge` takes, as the plain data that a worker may send."""
        return {"tried": sorted(self.tried), "files": sorted(self.files), "is_part": self.is_part}

    def find_untried(self) -> list[str]:
        """Return the keys that no test tries; none if not all tests have run."""
        if self.is_part or not self.files or not self.files >= {path.name for path in PILOT_TESTS.glob("test_*.py")}:
            return []
        return [key for key in list_keys() if key not in self.tried]


ROWS = KeyRows()


def list_keys() -> list[str]:
    """Return all keys of all rows, each by the id of its row and the name that Textual has for it."""
    from textual.binding import Binding

    from tui.key_table import KEYS

    bindings = Binding.make_bindings(Binding(key.keys, key.action, id=key.id) for key in KEYS)
    return [f"{binding.id} {binding.key}" for binding in bindings]


def watch_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note for one test which keys are pressed; the one that is dead does nothing."""
    from textual.app import App

    from tui.input.keystrokes import OrderedBindings

    run_action = App.run_action

    def knowing_the_key(look_up: Any) -> Any:
        async def looked_up(self: Any, key: str, *rest: Any, **kwargs: Any) -> Any:
            token = KEY.set(key)
            try:
                return await look_up(self, key, *rest, **kwargs)
            finally:
                KEY.reset(token)

        return looked_up

    async def run(self: Any, action: Any, default_namespace: Any = None, *rest: Any, **kwargs: Any) -> bool:
        pressed = _find_key(KEY.get(), action, default_namespace)
        if pressed and pressed == ROWS.dead:
            return True
        is_done = await run_action(self, action, default_namespace, *rest, **kwargs)
        if pressed and is_done:
            ROWS.here.add(pressed)
        return is_done

    monkeypatch.setattr(App, "run_action", run)
    for owner, name in ((App, "_check_bindings"), (OrderedBindings, "_run_binding")):
        monkeypatch.setattr(owner, name, knowing_the_key(getattr(owner, name)))


def _find_key(key: str, action: Any, namespace: Any) -> str:
    """Return a key with the row that has it in the table, and this action; "" for what no such key has called."""
    bindings = namespace._bindings.key_to_bindings.get(key, ()) if key and namespace is not None else ()
    return next((f"{binding.id} {key}" for binding in bindings if binding.action == action and binding.id), "")


def is_missed(key: str, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """True if a test fails while a key does nothing."""
    ROWS.dead = key
    item._initrequest()  # type: ignore[attr-defined]
    try:
        with _no_patience():
            return any(report.failed for report in runtestprotocol(item, log=False, nextitem=nextitem))
    finally:
        ROWS.dead = ""


@contextmanager
def _no_patience() -> Iterator[None]:
    """Cancel what still runs after `PATIENCE`: the first task of the loop is the test."""

    def cancel(*_: object) -> None:
        tasks = asyncio.all_tasks(asyncio.get_running_loop())
        min(tasks, key=lambda task: int(task.get_name().rpartition("-")[2])).cancel()

    before = signal.signal(signal.SIGALRM, cancel)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# What pytest calls


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--dead-keys", action="store_true", help="each key of the key table has to be missed by a test")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Without some of the slow tests it is a whole run all the same: the others have to try all keys."""
    ROWS.is_part |= any(item.path.parent == PILOT_TESTS and not is_slow(item) for item in items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if item.path.parent != PILOT_TESTS:
        return (yield)
    ROWS.files.add(item.path.name)
    ROWS.here.clear()
    result = yield
    KEYS[item.nodeid] = sorted(ROWS.here)
    pressed = ROWS.here - ROWS.tried
    ROWS.tried |= {key for key in pressed if not item.config.getoption("dead_keys") or is_missed(key, item, nextitem)}
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    ROWS.merge(getattr(node, "workeroutput", {}).get("key_rows") or KeyRows().dump())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["key_rows"] = ROWS.dump()
    elif session.exitstatus == pytest.ExitCode.OK and ROWS.find_untried():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if untried := ROWS.find_untried():
        terminalreporter.section("keys of docs/keys.md that no Pilot test tries", red=True)
        terminalreporter.write_line("\n".join(untried))
