"""Output of one command: its head and its tail in memory, the whole in a file that the model can read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO

from core.shell.spill import create_output_file, get_output_name

HEAD_CHARS = TAIL_CHARS = 56_000  # characters of each that go to the model


class CommandOutput:
    """A buffer for output as it comes. The file is opened when there is more than head and tail can hold."""

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
        """Open the file and write what there is so far. Without a file the middle is lost, and the text says so."""
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
        """Return head and tail, with a line between them that says how much is missing and where it is."""
        missing = self.total - len(self._head) - len(self._tail)
        if missing <= 0:
            return self._head + self._tail
        return f"{self._head}\n{self._format_gap(missing)}\n{self._tail}"

    def render_since(self, offset: int) -> str:
        """Return what came after the first `offset` characters, as far as it is held."""
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
            f"the whole is kept: read_file {self.spilled_path}" if self.spilled_path else "the whole could not be kept"
        )
        return f"[… {count:,} characters left out; {hint} …]"
