"""The terminal before Textual starts: it displays the first frame and typed text in the prompt.

One thread reads. Letters, backspace and short pastes become the text of the prompt, which the screen takes over; the
first other key and all input after it are buffered for the driver, and so are the terminal's replies to the driver's
queries. Every byte goes exactly one of these ways.

Ctrl+C, signals and the loss of the terminal end the program as they do later, after the terminal was restored.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import termios
import threading
import tty
from codecs import getincrementaldecoder
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

from core.patterns import compile_lazily
from tui.terminal.capabilities import detect_multiplexer

INPUT, OUTPUT = 0, 2  # where Textual reads keys and draws
ALTERNATE_SCREEN: Final = "\x1b[?1049h"
# xterm's modifyOtherKeys distinguishes Shift+Enter from Enter; tmux supports no other request for that.
ASK_OTHER_KEYS: Final = "\x1b[>4;1m"
DROP_OTHER_KEYS: Final = "\x1b[>4m"
_OPEN: Final = f"{ALTERNATE_SCREEN}\x1b[?25l\x1b[?2004h\x1b[?7l"
_CLOSE: Final = "\x1b[?7h\x1b[?2004l\x1b[0m\x1b[?1049l\x1b[?25h"
_INTERRUPT: Final = "\x03"
_ESCAPE: Final = "\x1b"
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
COMMAND_PAUSE: Final = 0.03  # seconds after a key that does something, before the next one
SEQUENCE_GAP: Final = 0.1  # seconds within which the rest of a sequence follows its start
MAX_PASTE: Final = 400  # characters

# Alternatives for one piece: a paste, another sequence, the start of one, or a letter.
_PASTE: Final = r"\x1b\[200~(?P<paste>.*?)\x1b\[201~"
_STRING: Final = r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[P_^][^\x1b]*\x1b\\"
_ANSWER: Final = rf"{_STRING}|\x1b\[\?[0-9;]*\$?[a-zA-Z]|\x1b\[[IO]|\x1b\[<[\d;]+[mM]"  # or of the focus, the mouse
_KEY: Final = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\[\]OP_^]"
_TOKEN: Final = compile_lazily(
    rf"{_PASTE}|(?P<answer>{_ANSWER})|(?P<unfinished>\x1b\[200~.*|\x1b(?:\[[0-?]*[ -/]*|[\]P_^].*|O)?\Z)"
    rf"|(?P<key>{_KEY})|(?P<letter>.)",
    re.DOTALL,
)


class Frame(Protocol):
    """A drawing of the screen before Textual runs. `theme`: the user's choice, "" = none that is known by now."""

    theme: str

    def render(self) -> str:
        """Return the whole frame, for a screen with unknown content."""

    def render_prompt(self, text: str) -> str:
        """Return the rows of the prompt with a text in it, as far as that fits on one row."""


class BufferedKeys(NamedTuple):
    """Typed bytes and their time. `is_command`: a key with an action, which takes a moment."""

    at: float
    data: bytes
    is_command: bool = False


class TypedText:
    """Separates letters of the prompt from other keys. `text`: of the prompt; `buffered`: the driver's input."""

    def __init__(self) -> None:
        self.text = ""
        self.buffered: list[BufferedKeys] = []
        self.is_interrupted = False  # Ctrl+C was pressed
        self._has_other_keys = False
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._unfinished = ""
        self._fed_at = float("-inf")

    def feed(self, data: bytes, timestamp: float) -> None:
        """Process the input of a moment."""
        if self._unfinished == _ESCAPE and timestamp - self._fed_at > SEQUENCE_GAP:
            self._unfinished, self._has_other_keys = "", True
            self.buffered.append(BufferedKeys(self._fed_at, _ESCAPE.encode(), is_command=True))
        text = self._unfinished + self._decoder.decode(data)
        self._unfinished = ""
        for match in _TOKEN.finditer(text):
            if match["unfinished"]:
                self._unfinished = match["unfinished"]
            else:
                self._take(match, timestamp)
        self._fed_at = timestamp

    def _take(self, match: re.Match[str], timestamp: float) -> None:
        token, letter, paste = match.group(), match["letter"], match["paste"]
        self.is_interrupted = self.is_interrupted or letter == _INTERRUPT
        is_text = letter is not None and letter.isprintable()
        if match["answer"] or self._has_other_keys:
            self._buffer(token, timestamp, is_command=not match["answer"] and not is_text)
        elif letter in {"\x7f", "\x08"}:
            self.text = self.text[:-1]
        elif is_text:
            self.text += token
        elif paste is not None and _is_short(paste):
            self.text += paste
        else:
            self._has_other_keys = True
            self._buffer(token, timestamp, is_command=True)

    def _buffer(self, token: str, timestamp: float, *, is_command: bool) -> None:
        self.buffered.append(BufferedKeys(timestamp, token.encode("utf-8", "surrogateescape"), is_command))

    def end(self) -> None:
        """Pass unfinished input to the driver as well, which receives the rest of it."""
        begun_letter, _ = self._decoder.getstate()
        if pending := self._unfinished.encode("utf-8", "surrogateescape") + begun_letter:
            self.buffered.append(BufferedKeys(self._fed_at, pending))
        self._unfinished = ""
        self._decoder.reset()


def _is_short(paste: str) -> bool:
    """True if a paste is words on one line: a longer one becomes a chip, and a path an attachment."""
    return len(paste) <= MAX_PASTE and paste.isprintable() and not re.search(r"[/\\]", paste) and paste.strip() != ""


class EarlyTerminal:
    """The terminal with a first frame, as a context manager that restores the terminal unless it was handed over.

    The driver adopts the terminal, then the screen takes the text, and when its prompt has the focus, the driver takes
    the keys.
    """

    def __init__(self, frame: Frame) -> None:
        self.attributes: list[Any] = termios.tcgetattr(INPUT)  # as the shell had them
        self.theme = frame.theme
        self._frame = frame
        self._typed = TypedText()
        self._is_in_tmux = detect_multiplexer() == "tmux"
        self._is_adopted = False
        self._released = threading.Event()
        self._wake_end, self._waker = os.pipe()
        self._reader = threading.Thread(target=self._read, name="first-keys", daemon=True)
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> EarlyTerminal:
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        for number in _ENDS:
            self._handlers[number] = signal.signal(number, _raise_interrupt)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._pause)
        self._draw()
        self._reader.start()

    def _draw(self) -> None:
        """Draw the frame on the alternate screen, and read keys."""
        raw = termios.tcgetattr(INPUT)
        raw[tty.LFLAG] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        raw[tty.IFLAG] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
        raw[tty.CC][termios.VMIN] = 1
        termios.tcsetattr(INPUT, termios.TCSANOW, raw)
        _write(_OPEN + (ASK_OTHER_KEYS if self._is_in_tmux else ""))
        _write(self._frame.render() + self._frame.render_prompt(self._typed.text))

    def _restore(self) -> None:
        _write((DROP_OTHER_KEYS if self._is_in_tmux else "") + _CLOSE)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(INPUT, termios.TCSANOW, self.attributes)

    def _pause(self, number: int, _: object) -> None:
        """Stop on SIGTSTP, with the terminal restored meanwhile."""
        self._restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._draw()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._stop_reading()
        if not self._is_adopted:
            self._restore()
        for number, handler in self._handlers.items():
            if signal.getsignal(number) in (_raise_interrupt, self._pause):  # nobody has taken it over
                signal.signal(number, handler)

    def adopt(self) -> None:
        """Note that the driver owns the terminal, and restores it."""
        self._is_adopted = True

    def take_text(self) -> str:
        """Return the initial text of the prompt. Nothing is read from here on until `release_keys`."""
        self._stop_reading()
        return self._typed.text

    def release_keys(self) -> None:
        """Release the keys to the driver, as a widget for them has the focus."""
        self._released.set()

    def take_keys(self, exit_event: threading.Event) -> list[BufferedKeys]:
        """Wait until they are released, or until `exit_event` is set. Return the keys that are not in the text."""
        while not self._released.wait(SEQUENCE_GAP) and not exit_event.is_set():
            continue
        self._stop_reading()
        return self._typed.buffered

    def _stop_reading(self) -> None:
        if self._reader.is_alive():
            os.write(self._waker, b".")
            self._reader.join()
        self._typed.end()

    def _read(self) -> None:
        was_cooked = bool(select.select([INPUT], [], [], 0)[0])  # typed before, with the end of a line for Enter
        while self._wake_end not in (ready := select.select([INPUT, self._wake_end], [], [])[0]):
            try:
                data = os.read(INPUT, 1 << 12) if ready else b""
            except OSError:
                data = b""
            if not data:
                os.kill(os.getpid(), signal.SIGHUP)
                return
            previous_text = self._typed.text
            self._typed.feed(data.replace(b"\n", b"\r") if was_cooked else data, monotonic())
            was_cooked = False
            if self._typed.is_interrupted:
                os.kill(os.getpid(), signal.SIGINT)
                return
            if self._typed.text != previous_text:
                _write(self._frame.render_prompt(self._typed.text))


def _raise_interrupt(number: int, _: object) -> None:
    if number == signal.SIGHUP:  # the kernel and the reader both tell of a hang-up, and one interrupt is enough
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _write(text: str) -> None:
    data = text.encode()
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(OUTPUT, data) :]
