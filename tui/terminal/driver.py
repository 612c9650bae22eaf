"""The terminal driver: any end of the program restores the terminal, and the loss of the terminal ends the program.

Textual restores the terminal at a regular end of an app. This module covers signals, a hang-up (the input ends or
fails, the output is unwritable), and an end that blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import termios
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from io import TextIOWrapper
from typing import IO, Any, Final

from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.terminal.capabilities import detect_capabilities
from tui.terminal.early_terminal import (
    ALTERNATE_SCREEN,
    ASK_OTHER_KEYS,
    COMMAND_PAUSE,
    DROP_OTHER_KEYS,
    SEQUENCE_GAP,
    EarlyTerminal,
)
from tui.terminal.exit_signals import EXIT_INTERRUPTED
from tui.terminal.input_parser import InputParser
from tui.terminal.replies import ASK_BACKGROUND, TerminalBackground
from tui.terminal.sequences import POP_TITLE, PUSH_TITLE, ProgressState, format_progress_report, format_title

# Paste, mouse and focus reports, resize reports, keyboard protocol, line wrap, screen, cursor, colours.
RESET_SEQUENCES: Final = (
    "\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2048l\x1b[<u"
    f"\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m{POP_TITLE}"
)


class StopEvent(threading.Event):
    """An event on which a selector can wait, too: its descriptor is readable while it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._wake_end, self._waker = ends = os.pipe()
        weakref.finalize(self, lambda: [*map(os.close, ends)])

    def fileno(self) -> int:
        return self._wake_end

    def set(self) -> None:
        if not self.is_set():
            super().set()
            os.write(self._waker, b".")

    def clear(self) -> None:
        if self.is_set():
            super().clear()
            os.read(self._wake_end, 1)


class TerminalOutput:
    """Standard error, where the screen is drawn. Text that can't be written is dropped, the failure reported once."""

    def __init__(self, file: IO[str], on_gone: Callable[[], None]) -> None:
        self._file, self._on_gone = file, on_gone
        if isinstance(file, TextIOWrapper) and not file.encoding.lower().startswith("utf"):
            file.reconfigure(errors="replace")  # one column for letters outside of the terminal's encoding
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
        self._on_gone()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class TerminalDriver(LinuxDriver):
    """A driver that ends the app when its terminal is gone, where Textual's would read nothing forever. It continues
    an `early` terminal, with its first frame and first keys."""

    exit_event: StopEvent

    def __init__(self, app: Any, *, early: EarlyTerminal | None = None, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self._early = early  # until the driver owns the terminal
        self._file: Any = TerminalOutput(self._file, self._exit_app)
        self._parser = InputParser()
        self.exit_event = StopEvent()
        self._has_told_background = False
        self._title = ""
        self._progress: ProgressState = "none"
        self._capabilities = detect_capabilities()
        self._handle_stops()

    def _handle_stops(self) -> None:
        """Suspend and resume between two steps of the loop. Textual's own handlers interrupt a step, and wait forever
        if it has just locked the output that they write to."""
        with contextlib.suppress(RuntimeError):  # a driver without a loop runs nothing
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
            loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again and redraw the whole screen; Textual redraws only changes since the stop.

        SIGSTOP can't be prepared for, so this ends the program's threads first: otherwise two would read the keys.
        """
        if self._auto_restart and not self._must_signal_resume:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()
        self._app.call_later(self._app.refresh)

    @contextlib.contextmanager
    def no_automatic_restart(self) -> Iterator[None]:
        """Leave stop signals to the kernel while another program has the terminal and the loop is blocked."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTSTP, signal.SIGCONT):
            loop.remove_signal_handler(number)
        with super().no_automatic_restart():
            try:
                yield
            finally:
                self._handle_stops()

    def start_application_mode(self) -> None:
        early = self._early
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if early is not None:
            early.adopt()
            self._early, self.attrs_before = None, early.attributes
        self.ask_background()
        if self._capabilities.multiplexer == "tmux":
            self.write_sequence(ASK_OTHER_KEYS)
        if self._title:
            self.write_sequence(PUSH_TITLE + format_title(self._title))
        self._report_progress(self._progress)

    def write(self, data: str) -> None:
        if data != ALTERNATE_SCREEN or self._early is None:  # otherwise it would be displayed and cleared
            super().write(data)

    def process_message(self, message: Message) -> None:
        super().process_message(message)
        if isinstance(message, TerminalBackground):
            self._has_told_background = True
        elif isinstance(message, events.AppFocus) and self._has_told_background:
            self.ask_background()  # the colours of the desktop may have been changed meanwhile

    def write_sequence(self, sequence: str) -> None:
        """Write a sequence that is not part of the screen."""
        if self._writer_thread is not None and sequence:
            self.write(sequence)
            self.flush()

    def show_title(self, title: str) -> None:
        """Set the title of the window; the previous one is restored at the end."""
        if title != self._title:
            self.write_sequence(("" if self._title else PUSH_TITLE) + format_title(title))
            self._title = title

    def show_progress(self, state: ProgressState) -> None:
        """Show progress on the terminal's tab, if the terminal is known to support that."""
        if state != self._progress and self._capabilities.has_progress:
            self._progress = state
            self._report_progress(state)

    def _report_progress(self, state: ProgressState) -> None:
        if self._capabilities.has_progress:
            self.write_sequence(format_progress_report(state, self._capabilities.multiplexer))

    def ask_background(self) -> None:
        """Ask the terminal for its background; it answers with `TerminalBackground`, or not at all."""
        self.write_sequence(ASK_BACKGROUND)

    def _exit_app(self) -> None:
        self._app.is_hung_up = True  # type: ignore[attr-defined]  # an attribute of `AgentApp`
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._app.call_later(self._app.exit, return_code=EXIT_INTERRUPTED)

    def run_input_thread(self) -> None:
        """Read keys until the app ends, or until the terminal's input ends or fails. Nothing wakes the thread at rest:
        it looks at the time only while the parser has a sequence that silence may end."""
        self._process_first_keys()
        with selectors.SelectSelector() as selector:
            for source in (self.fileno, self.exit_event):
                selector.register(source, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = {key.fd for key, _ in selector.select(self._parser.get_wait())}
                if self.fileno in ready and not self._read_input():
                    self._exit_app()
                    return
                self._process(self._parser.tick())

    def _process_first_keys(self) -> None:
        """Process the early input key by key, with the times at which the keys were pressed."""
        for timestamp, data, is_command in self._early.take_keys(self.exit_event) if self._early is not None else ():
            self._process(self._parser.feed(data), timestamp)
            if is_command:  # letters that follow at once would overtake it, or merge with it
                self.exit_event.wait(SEQUENCE_GAP if data == b"\x1b" else COMMAND_PAUSE)
                self._process(self._parser.tick(), timestamp)

    def _read_input(self) -> bool:
        """Read and process the available input. Return False at its end."""
        try:
            data = os.read(self.fileno, 1 << 12)
        except OSError:
            return False
        self._process(self._parser.feed(data))
        return bool(data)

    def _process(self, messages: Iterable[Message], timestamp: float | None = None) -> None:
        for message in messages:
            message.time = message.time if timestamp is None else timestamp
            self.process_message(message)

    def stop_application_mode(self) -> None:
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
        if self._capabilities.multiplexer == "tmux":
            self.write(DROP_OTHER_KEYS)
        if self._title:
            self.write(format_title("") + POP_TITLE)
        self._report_progress("none")
        super().stop_application_mode()


def get_attributes() -> list[Any] | None:
    """Return the attributes of the terminal, None without a terminal."""
    try:
        return termios.tcgetattr(0)
    except termios.error:
        return None


@contextlib.contextmanager
def restore_on_error(before: list[Any] | None) -> Iterator[None]:
    """Restore the terminal to its state `before` an app that raises an exception, even if Textual could not."""
    try:
        yield
    except BaseException:
        restore_terminal(before)
        raise


def restore_terminal(before: list[Any] | None) -> None:
    """Write the sequences that reset every mode, bypassing anything that blocks the program."""
    terminal = detect_capabilities()
    progress = format_progress_report("none", terminal.multiplexer) if terminal.has_progress else ""
    other_keys = DROP_OTHER_KEYS if terminal.multiplexer == "tmux" else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{RESET_SEQUENCES}{progress}{other_keys}".encode())
    if before is not None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)
