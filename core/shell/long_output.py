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

MAX_RESULT = 120_000  # characters of a result that go to the model
MAX_SUMMARY = 200  # characters
SECRETS_HIDDEN = "Values from secret files were removed from its output."
OUTPUTS_FOLDER = "outputs"
_PLAIN = compile_lazily(r"[a-z0-9_]{1,64}")
_NAME = compile_lazily(r"output:(?P<call>[a-z0-9_]{1,64})\.txt")
HEAD_CHARS = TAIL_CHARS = 56_000  # characters of head and tail for the model


def clip_text(directory: Path, call: str, text: str, limit: int = MAX_RESULT) -> tuple[str, str]:
    """Return the text for the model, and the name of the file with the whole ("" = the text is whole)."""
    if len(text) <= limit:
        return text, ""
    name, reason = spill_output(directory, call, text)
    hint = f"full output: read_file {name}" if name else f"the full output could not be saved: {reason}"
    return shorten_middle(text, limit, unit=f"characters left out; {hint}"), name


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
    """A buffer for arriving output. The file is opened when head and tail are full."""

    def __init__(self, directory: Path, name: str) -> None:
        self.total = 0
        self.spilled_path = ""
        self._directory, self._name = directory, name
        self._head = ""
        self._tail = ""
        self._sink: IO[bytes] | None = None
        self._can_spill = True

    def add(self, text: str) -> None:
        room = HEAD_CHARS - len(self._head)
        rest = text[room:] if room > 0 else text
        if self._sink is None and self._can_spill and len(self._tail) + len(rest) > TAIL_CHARS:
            self._open_file()
        self._write_file(text)
        self.total += len(text)
        if room > 0:
            self._head += text[:room]
        self._tail = (self._tail + rest)[-TAIL_CHARS:]

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
        missing = self.total - len(self._head) - len(self._tail)
        if missing <= 0:
            return self._head + self._tail
        return f"{self._head}\n{self._format_gap(missing)}\n{self._tail}"

    def render_since(self, offset: int) -> str:
        """Return the buffered output after the first `offset` characters."""
        if offset < len(self._head) or not self.is_clipped:
            text = self._head + self._tail
            return (
                text[offset:] if not self.is_clipped else f"{self._head[offset:]}\n{self._format_gap()}\n{self._tail}"
            )
        missing = self.total - len(self._tail) - offset
        if missing <= 0:
            return self._tail[-(self.total - offset) :] if offset < self.total else ""
        return f"{self._format_gap(missing)}\n{self._tail}"

    def _format_gap(self, missing: int | None = None) -> str:
        count = self.total - len(self._head) - len(self._tail) if missing is None else missing
        hint = (
            f"full output: read_file {self.spilled_path}" if self.spilled_path else "the full output could not be saved"
        )
        return f"[… {count:,} characters left out; {hint} …]"
