"""The terminal is borrowed: whatever ends the program, it is given back as it was, and when it goes the program ends.

Textual restores it when an app comes to its end by itself. Here is what is left: signals, a terminal that hangs up (its
input ends or fails, its output can't be written any more), and an end that something holds up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import sys
import termios
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

# Paste, mouse and focus reports, resize reports, keyboard protocol, line wrap, screen, cursor, colours.
RESET: Final = (
    "\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2048l\x1b[<u"
    "\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)
ENDED_BY: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
INTERRUPTED: Final = 130  # the exit code, as of Ctrl+C
PATIENCE: Final = 20.0  # seconds that an orderly end may take; the engine has 15 of them to write what it has to
POLL: Final = 0.1  # seconds


class Screenward:
    """Standard error as the screen is drawn on it. What can't be written is dropped, and told once."""

    def __init__(self, file: IO[str], gone: Callable[[], None]) -> None:
        self._file, self._gone = file, gone
        self.is_gone = False

    def write(self, text: str) -> int:
        if not self.is_gone:
            try:
                return self._file.write(text)
            except (OSError, ValueError):
                self._fail()
        return len(text)

    def flush(self) -> None:
        if not self.is_gone:
            try:
                self._file.flush()
            except (OSError, ValueError):
                self._fail()

    def _fail(self) -> None:
        self.is_gone = True
        self._gone()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class TerminalDriver(LinuxDriver):
    """Ends the app when its terminal is gone, where Textual's own would read nothing for ever."""

    def __init__(self, app: Any, **more: Any) -> None:
        super().__init__(app, **more)
        self._file: Any = Screenward(self._file, self._gone)

    def _gone(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._app.call_later(self._app.exit, return_code=INTERRUPTED)

    def run_input_thread(self) -> None:
        """Read keys until the app ends, or the terminal does: its input is at an end, or fails."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(POLL) and not self._take(parser, decode):
                    self._gone()
                    return
                for event in parser.tick():
                    self.process_message(event)

    def _take(self, parser: XTermParser, decode: Callable[..., str]) -> bool:
        """Whether there was something to read."""
        try:
            data = os.read(self.fileno, 1 << 12)
        except OSError:
            return False
        for event in parser.feed(decode(data)) if data else ():
            self.process_message(event)
        return bool(data)

    def stop_application_mode(self) -> None:
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
        super().stop_application_mode()


@contextlib.contextmanager
def borrowed() -> Iterator[None]:
    """Around the life of an app: afterwards the terminal is as it was, also if Textual did not come to that."""
    try:
        before = termios.tcgetattr(0)
    except termios.error:
        before = None
    try:
        yield
    except BaseException:
        give_back(before)
        raise


def give_back(before: list[Any] | None) -> None:
    """Write what takes every mode back, past whatever holds the program up."""
    with contextlib.suppress(OSError):
        os.write(2, RESET.encode())
    if before is not None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)


def end_with(app: Any) -> None:
    """From now on a signal that means the end ends `app` as `ctrl+q` does, its engine too; and by force if need be."""
    loop = asyncio.get_running_loop()
    try:
        before = termios.tcgetattr(0)
    except termios.error:
        before = None

    def end(number: int) -> None:
        app.exit(return_code=INTERRUPTED)

    def force() -> None:
        give_back(before)
        os._exit(INTERRUPTED)

    def ended(number: int) -> None:
        timer = threading.Timer(PATIENCE, force)
        timer.daemon = True
        timer.start()
        end(number)

    for number in ENDED_BY:
        loop.add_signal_handler(number, ended, number)


def has_terminal() -> bool:
    """Whether keys can be read and a screen can be drawn."""
    return all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stderr__))
