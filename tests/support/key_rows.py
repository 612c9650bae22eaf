"""A pytest plug-in: which rows of the key table (docs/keys.md) the Pilot tests try.

A row is tried when a key that the table gives it was struck and its action carried out; a run of all of `tests/tui`
fails if a row is not. With `--dead-keys` that is not enough: a test is run again for each of its rows that no test has
missed so far, while the row's key does nothing, and the row is tried if the test fails then.
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

PILOT_TESTS = Path(__file__).parents[1] / "tui"
PATIENCE = 20  # seconds; what waits longer for a dead key waits for ever
KEY: ContextVar[str] = ContextVar("key", default="")  # the key whose binding is being looked up


class KeyRows:
    """The rows that the tests of this process, and of its workers, have tried, and the files they stand in. `here`:
    the rows that the test that runs has pressed; `dead`: the one whose key does nothing in it."""

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
        """Return the rows that no test tries; none if not all tests have run."""
        from tui.key_table import KEYS

        if self.is_part or not self.files >= {path.name for path in PILOT_TESTS.glob("test_*.py")}:
            return []
        return [key.id for key in KEYS if key.id not in self.tried]


ROWS = KeyRows()


def watch_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note for one test which rows are pressed; the key of the one that is dead does nothing."""
    from textual.app import App

    from tui.chat.prompt.editor import PromptEditor

    run_action = App.run_action

    def knowing_the_key(look_up: Any) -> Any:
        async def looked_up(self: Any, key: str, *rest: Any, **named: Any) -> Any:
            token = KEY.set(key)
            try:
                return await look_up(self, key, *rest, **named)
            finally:
                KEY.reset(token)

        return looked_up

    async def run(self: Any, action: Any, default_namespace: Any = None, *rest: Any, **named: Any) -> bool:
        row = _find_row(KEY.get(), action, default_namespace)
        if row and row == ROWS.dead:
            return True
        is_done = await run_action(self, action, default_namespace, *rest, **named)
        if row and is_done:
            ROWS.here.add(row)
        return is_done

    monkeypatch.setattr(App, "run_action", run)
    for owner, name in ((App, "_check_bindings"), (PromptEditor, "_act")):
        monkeypatch.setattr(owner, name, knowing_the_key(getattr(owner, name)))


def _find_row(key: str, action: Any, namespace: Any) -> str:
    """Return the id of the row that has this key in the table, and this action; "" for what no key has called."""
    bindings = namespace._bindings.key_to_bindings.get(key, ()) if key and namespace is not None else ()
    return next((each.id for each in bindings if each.action == action and each.id), "")


def is_missed(row: str, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """True if a test fails while the key of a row does nothing."""
    ROWS.dead = row
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
    parser.addoption("--dead-keys", action="store_true", help="each row of the key table has to be missed by a test")


def pytest_deselected(items: list[pytest.Item]) -> None:
    ROWS.is_part |= any(item.path.parent == PILOT_TESTS for item in items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    if item.path.parent != PILOT_TESTS:
        return (yield)
    ROWS.files.add(item.path.name)
    ROWS.here.clear()
    result = yield
    pressed = ROWS.here - ROWS.tried
    ROWS.tried |= {row for row in pressed if not item.config.getoption("dead_keys") or is_missed(row, item, nextitem)}
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
        terminalreporter.section("rows of docs/keys.md that no Pilot test tries", red=True)
        terminalreporter.write_line("\n".join(untried))
