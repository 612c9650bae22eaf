from __future__ import annotations

import asyncio
import os
import queue
import selectors
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from textual import events

from tui.terminal.driver import StopEvent, TerminalDriver
from tui.terminal.exit_signals import EXIT_INTERRUPTED
from tui.terminal.input_parser import ESCAPE_TIMEOUT

PATIENCE = 60  # seconds


class HeardDriver(TerminalDriver):
    """A driver that reads a pseudo-terminal. `waits`: how long its thread was ready to wait, each time it did; an
    entry is there before the wait."""

    def __init__(self, app: Any, fileno: int) -> None:
        super().__init__(app, mouse=False)
        self.fileno = fileno
        self.keys: queue.Queue[str] = queue.Queue()
        self.waits: queue.Queue[float | None] = queue.Queue()

    def process_message(self, message: Any) -> None:
        if isinstance(message, events.Key):
            self.keys.put(message.key)

    def start(self) -> None:
        self._key_thread = threading.Thread(target=self._run_input_thread, daemon=True)
        self._key_thread.start()

    def has_thread(self) -> bool:
        return self._key_thread is not None and self._key_thread.is_alive()

    def await_end(self) -> None:
        assert self._key_thread is not None
        self._key_thread.join(PATIENCE)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ends = os.openpty()
    tty.setraw(ends[1], termios.TCSANOW)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # the test has hung up


@pytest.fixture
async def driver(terminal, monkeypatch) -> HeardDriver:
    exits: list[dict[str, int]] = []
    app = SimpleNamespace(
        call_later=lambda call, **words: call(**words), exit=lambda **words: exits.append(words), exits=exits
    )
    monkeypatch.setattr(sys, "__stdin__", SimpleNamespace(fileno=lambda: terminal[1], isatty=lambda: True))
    reader = HeardDriver(app, terminal[1])
    select = selectors.SelectSelector.select

    def note(self: selectors.SelectSelector, timeout: float | None = None) -> Any:
        reader.waits.put(timeout)
        return select(self, timeout)

    monkeypatch.setattr(selectors.SelectSelector, "select", note)
    return reader


async def test_a_thread_at_rest_waits_for_input_without_an_end_and_stops_at_once(driver):
    driver.start()
    assert await asyncio.to_thread(driver.waits.get, timeout=PATIENCE) is None
    driver.disable_input()
    assert not driver.has_thread()
    assert driver.waits.empty()
    assert not driver.exit_event.is_set()


async def test_a_stopped_thread_leaves_what_is_typed_to_another_program_and_the_next_one_reads_again(driver, terminal):
    driver.start()
    driver.disable_input()
    os.write(terminal[0], b"y")
    assert os.read(terminal[1], 1) == b"y"
    driver.start()
    os.write(terminal[0], b"x")
    assert await asyncio.to_thread(driver.keys.get, timeout=PATIENCE) == "x"
    driver.disable_input()
    assert not driver.has_thread()


async def test_an_escape_alone_is_a_key_after_a_moment_and_then_nothing_wakes_the_thread(driver, terminal):
    driver.start()
    os.write(terminal[0], b"\x1b")
    assert await asyncio.to_thread(driver.keys.get, timeout=PATIENCE) == "escape"
    waits = [await asyncio.to_thread(driver.waits.get, timeout=PATIENCE) for _ in range(2)]
    while waits[-1] is not None:
        waits.append(await asyncio.to_thread(driver.waits.get, timeout=PATIENCE))
    assert waits[0] is None
    assert all(0 <= wait <= ESCAPE_TIMEOUT for wait in waits[1:-1])
    driver.disable_input()
    assert driver.waits.empty()


async def test_the_rest_of_a_sequence_after_its_escape_makes_one_key(driver, terminal):
    driver.start()
    os.write(terminal[0], b"\x1b[")
    assert await asyncio.to_thread(driver.waits.get, timeout=PATIENCE) is None
    assert await asyncio.to_thread(driver.waits.get, timeout=PATIENCE) is not None
    os.write(terminal[0], b"A")
    assert await asyncio.to_thread(driver.keys.get, timeout=PATIENCE) == "up"
    driver.disable_input()
    assert driver.keys.empty()


async def test_a_terminal_that_is_gone_ends_the_thread_and_the_app(driver, terminal):
    driver.start()
    os.close(terminal[0])
    await asyncio.to_thread(driver.await_end)
    assert not driver.has_thread()
    assert driver._app.exits == [{"return_code": EXIT_INTERRUPTED}]


def test_a_stop_is_seen_by_a_selector_as_long_as_it_is_set():
    stop = StopEvent()
    with selectors.SelectSelector() as selector:
        selector.register(stop, selectors.EVENT_READ)
        seen = [bool(selector.select(0))]
        for change in (stop.set, stop.set, stop.clear, stop.clear, stop.set):
            change()
            seen.append(bool(selector.select(0)))
    assert seen == [False, True, True, False, False, True]


def test_a_stop_that_nobody_has_any_more_leaves_no_descriptor():
    stop = StopEvent()
    descriptors = stop._wake_end, stop._waker
    del stop
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
