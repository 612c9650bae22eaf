"""Long output: the model gets its head and its tail, and the whole goes into a file that the model can read."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from core.filesystem.private_files import make_private_directory
from core.patterns import compile_lazily
from core.secrets import mask_secrets
from core.state.live_text import TAKE_BACK, TAKE_BACK_ABOVE, count_before_line, split_piece

MAX_RESULT = 120_000  # characters of a result that go to the model
MAX_SUMMARY = 200  # characters
SECRETS_HIDDEN = "Values from secret files were removed from its output."
OUTPUTS_FOLDER = "outputs"
_PLAIN = compile_lazily(r"[a-z0-9_]{1,64}")
OUTPUT_FILE = compile_lazily(r"output:[a-z0-9_]{1,64}\.txt")
_NAME = compile_lazily(r"output:(?P<call>[a-z0-9_]{1,64})\.txt")
MAX_TRIMMED = 500  # characters of a part of a line that are left out at a gap
HEAD_CHARS, TAIL_CHARS = 11_500, 23_000  # characters of a command's output for the model
LINE_BREAK = "\n"


def clip_text(directory: Path, call: str, text: str, limit: int = MAX_RESULT) -> tuple[str, str]:
    """Return the text for the model, and the name of the file with the whole ("" = the text is whole).

    The end of a result says more than its beginning, so it gets two thirds of the room."""
    if len(text) <= limit:
        return text, ""
    name, reason = spill_output(directory, call, text)
    head, tail = trim_to_lines(text[: limit // 3], text[-(limit * 2 // 3) :])
    end = len(text) - len(tail)
    n_lines = text.count(LINE_BREAK) + 1
    lines = (head.count(LINE_BREAK) + 1, n_lines - text.count(LINE_BREAK, end - 1), n_lines)
    gap = describe_gap(end - len(head), len(text), name, lines, reason)
    return join_around_gap(head, gap, tail), name


def trim_to_lines(head: str, tail: str) -> tuple[str, str]:
    """Return head and tail without the parts of lines at the gap, unless these are long."""
    end, start = head.rfind("\n") + 1, tail.find("\n") + 1
    return head[:end] if end and len(head) - end < MAX_TRIMMED else head, tail[start:] if start < MAX_TRIMMED else tail


def join_around_gap(head: str, gap: str, tail: str) -> str:
    """Join head and tail by the line that describes the gap between them."""
    return f"{head}{'' if head.endswith(LINE_BREAK) or not head else LINE_BREAK}{gap}\n{tail}"


def describe_gap(
    missing: int, total: int, name: str, lines: tuple[int, int, int] | None = None, reason: str = ""
) -> str:
    """Describe, in a line of a result, `missing` of its `total` characters.

    `lines`: the first and the last line of the gap and the number of all, None = unknown. `name`: the file with the
    whole, "" = it could not be saved for `reason`."""
    if not name:
        return f"[… {missing:,} characters left out; the full output could not be saved{reason and f': {reason}'} …]"
    where = f", in lines {lines[0]:,} to {lines[1]:,} of {lines[2]:,}" if lines else ""
    offset = f" from offset {lines[0]}" if lines and lines[0] > 1 else ""
    return (
        f"[… {missing:,} characters left out{where}; the whole output ({total:,} characters): "
        f"read_file {name}{offset}, or grep with this path …]"
    )


def shorten_middle(text: str, limit: int, *, unit: str = "characters") -> str:
    """Cut the middle of a text that is longer than `limit`, and name its size in a line between head and tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} {unit} …]\n{text[-tail:]}"


def extract_first_line(text: str) -> str:
    """Return the first line of a result, shortened for display."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= MAX_SUMMARY else f"{line[:MAX_SUMMARY].rpartition(' ')[0]}…"


def create_output_file(directory: Path, name: str) -> IO[bytes]:
    """Create or empty a file that the model can read. Raises OSError."""
    folder = directory / OUTPUTS_FOLDER
    make_private_directory(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(folder / f"{get_output_name(name)}.txt", flags, 0o600), "wb")


def get_output_name(call: str) -> str:
    """Return the name of the file for a call. Models and agents choose ids of calls freely, so an id that is no plain
    name is replaced by its digest."""
    return call if _PLAIN.fullmatch(call) else hashlib.sha256(call.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def spill_output(directory: Path, name: str, text: str) -> tuple[str, str]:
    """Write a text to a file that the model can read. Returns its name, and the reason if writing failed ("" =
    none)."""
    try:
        with create_output_file(directory, name) as file:
            file.write(mask_secrets(text).encode("utf-8", "replace"))
    except OSError as error:
        return "", error.strerror or "it can't be written"
    return f"output:{get_output_name(name)}.txt", ""


def read_spilled(directory: Path, path: str) -> bytes | None:
    """Return the content of a spilled result; None for any other path."""
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    try:
        return (directory / OUTPUTS_FOLDER / f"{match['call']}.txt").read_bytes()
    except OSError:
        return None


class CommandOutput:
    """A buffer for arriving output, which comes in pieces (`core.state.live_text`). The file is opened when head and
    tail are full."""

    def __init__(self, directory: Path, name: str) -> None:
        self.total = 0
        self.spilled_path = ""
        self._directory, self._name = directory, name
        self._head = ""
        self._tail = ""
        self._line_breaks = 0
        self._read_chars = 0
        self._sink: IO[bytes] | None = None
        self._can_spill = True

    def add(self, piece: str) -> None:
        """Add a piece of output, which may take the last lines back first."""
        for part in split_piece(piece):
            if part in {TAKE_BACK, TAKE_BACK_ABOVE}:
                self._take_back(is_above=part == TAKE_BACK_ABOVE)
            else:
                self._append(part)

    def _append(self, text: str) -> None:
        room = HEAD_CHARS - len(self._head)
        rest = text[room:] if room > 0 else text
        if self._sink is None and self._can_spill and len(self._tail) + len(rest) > TAIL_CHARS:
            self._open_file()
        self._write_file(text)
        self.total += len(text)
        self._line_breaks += text.count("\n")
        if room > 0:
            self._head += text[:room]
        self._tail = (self._tail + rest)[-TAIL_CHARS:]

    def _take_back(self, *, is_above: bool) -> None:
        """Take the current line back. A line that is longer than the tail can't be: a new one is begun instead."""
        if self.is_clipped and "\n" not in self._tail:
            self._append("\n")
            return
        text = self._tail if self.is_clipped else self._head + self._tail
        line = text[count_before_line(text, is_above=is_above) :]
        in_tail = min(len(line), len(self._tail))
        self._tail = self._tail[: len(self._tail) - in_tail]
        self._head = self._head[: len(self._head) - (len(line) - in_tail)]
        self.total -= len(line)
        self._line_breaks -= line.count("\n")
        self._read_chars = min(self._read_chars, self.total)
        if self._sink is not None:
            with suppress(OSError):
                self._sink.seek(-len(line.encode("utf-8", "replace")), os.SEEK_END)
                self._sink.truncate()

    def _open_file(self) -> None:
        """Open the file and write the output so far. Without a file the middle is lost, and the text mentions that."""
        try:
            self._sink = create_output_file(self._directory, self._name)
        except OSError:
            self._can_spill = False
            return
        self.spilled_path = f"output:{get_output_name(self._name)}.txt"
        self._write_file(self._head + self._tail)

    def _write_file(self, text: str) -> None:
        if self._sink is None:
            return
        try:
            self._sink.write(text.encode("utf-8", "replace"))
            self._sink.flush()
        except OSError:
            self.close()
            self.spilled_path, self._can_spill = "", False

    def close(self) -> None:
        if self._sink is not None:
            with suppress(OSError):
                self._sink.close()
            self._sink = None

    @property
    def is_clipped(self) -> bool:
        return self.total > len(self._head) + len(self._tail)

    def render_text(self) -> str:
        """Return head and tail, with a line between them on the size of the gap and the file of the whole."""
        if not self.is_clipped:
            return self._head + self._tail
        return self._render_clipped(0)

    def read_new(self) -> str:
        """Return the output since the last call, with lines that were rewritten since then, and a line on what is no
        longer in the buffer."""
        offset, self._read_chars = self._read_chars, self.total
        if not self.is_clipped:
            return (self._head + self._tail)[offset:]
        if offset < len(self._head):
            return self._render_clipped(offset)
        missing = self.total - len(self._tail) - offset
        if missing <= 0:
            return self._tail[-(self.total - offset) :] if offset < self.total else ""
        return f"{describe_gap(missing, self.total, self.spilled_path, None)}\n{self._tail}"

    def _render_clipped(self, offset: int) -> str:
        """Return the rest of the head after `offset`, the tail, and what is missing between them."""
        head, tail = trim_to_lines(self._head, self._tail) if self.spilled_path else (self._head, self._tail)
        n_lines = self._line_breaks + 1
        last = n_lines - self._tail.count(LINE_BREAK, max(len(self._tail) - len(tail) - 1, 0))
        lines = (head.count(LINE_BREAK) + 1, last, n_lines)
        gap = describe_gap(self.total - len(head) - len(tail), self.total, self.spilled_path, lines)
        return join_around_gap(head[offset:], gap, tail)
