"""Signals that end the app: it exits as by `ctrl+q`, with its engine, and by force after a timeout.

While another program such as an editor has the terminal, its Ctrl+C and Ctrl+\\ reach this process as signals, too:
they belong to that program and are ignored here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

EXIT_INTERRUPTED: Final = 130  # the exit code, as of Ctrl+C
EXIT_TIMEOUT: Final = 20.0  # timeout of an orderly end in seconds; the engine has 15 of them to write its records
_OF_KEYS: Final = (signal.SIGINT, signal.SIGQUIT)
_OF_OTHERS: Final = (signal.SIGTERM, signal.SIGHUP)


class ExitSignals:
    """The signal handlers of one app. `restore`: restores the terminal to its state before the app."""

    def __init__(self, app: Any, restore: Callable[[], None]) -> None:
        self._app, self._restore = app, restore

    def install(self) -> None:
        """Handle the signals in the running loop."""
        loop = asyncio.get_running_loop()
        for number in (*_OF_KEYS, *_OF_OTHERS):
            loop.add_signal_handler(number, self._end, number)

    @contextlib.contextmanager
    def ignore_signals(self) -> Iterator[None]:
        """Ignore the terminal's signals while another program has the terminal and the loop is blocked. Signals from
        other sources are handled afterwards."""
        loop = asyncio.get_running_loop()
        signal_numbers: list[int] = []
        for number in (*_OF_KEYS, *_OF_OTHERS):
            loop.remove_signal_handler(number)
            # A function, because SIG_IGN would be inherited by that program.
            signal.signal(
                number, (lambda *_: None) if number in _OF_KEYS else (lambda other, _: signal_numbers.append(other))
            )
        signal.set_wakeup_fd(-1)  # or the loop would find the signals when it runs again
        try:
            yield
        finally:
            self.install()
            for other in signal_numbers:
                loop.call_soon(self._end, other)

    def _end(self, number: int) -> None:
        self._app.is_hung_up = self._app.is_hung_up or number == signal.SIGHUP
        timer = threading.Timer(EXIT_TIMEOUT, self._force)
        timer.daemon = True
        timer.start()
        self._app.exit(return_code=EXIT_INTERRUPTED)

    def _force(self) -> None:
        self._restore()
        os._exit(EXIT_INTERRUPTED)
