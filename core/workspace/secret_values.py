"""Secret values in the files that are kept from commands, so that they can be masked in what a command prints.

A command can't read such a file, but its values may lie elsewhere: in git's history, in a log, in a process that was
started before. Only what looks like a secret is taken: a value of a setting with letters and digits, or a long one, and
the lines of a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from core.filesystem.regular_file import read_open_file
from core.secrets import MASK, count_overlap
from core.workspace.file_names import to_os_name
from core.workspace.secret_names import may_be_secret_path

MAX_FILES = 50
MAX_BYTES = 64 * 1024
MAX_VALUES = 200
MIN_LENGTH = 8
LONG_LENGTH = 20
_ASSIGNED = re.compile(r"""[\w.-]*?[\w-]["']?\s*[:=]\s*["']?(?P<value>[^\s"',;]+)""")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=_-]{40,2000}")


def find_secret_values(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the secret values of these files (workspace-relative), the longest first; an unreadable file has none."""
    values: set[str] = set()
    candidate_paths = [path for path in paths if may_be_secret_path(path)]
    for path in candidate_paths[:MAX_FILES]:
        for line in _read_text(root, path).splitlines():
            values.update(_find_in_line(line.strip()))
    return tuple(sorted(values, key=lambda value: (-len(value), value))[:MAX_VALUES])


def _find_in_line(line: str) -> list[str]:
    if line.startswith(("#", "-----")):
        return []
    if _KEY_LINE.fullmatch(line):
        return [line]
    return [match["value"] for match in _ASSIGNED.finditer(line) if _is_secret_value(match["value"])]


def _is_secret_value(value: str) -> bool:
    if len(value) < MIN_LENGTH or value.startswith(("/", "./", "~", "$")):
        return False
    if "://" in value:  # an address is harmless but for what it says of a user
        return "@" in value
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return has_both or len(value) >= LONG_LENGTH


def _read_text(root: Path, path: str) -> str:
    try:
        descriptor = os.open(os.fsencode(root) + b"/" + to_os_name(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return read_open_file(descriptor, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


class SecretMasker:
    """Passes text on, which arrives in chunks, with `values` masked; an end that may begin one waits for the rest."""

    def __init__(self, on_text: Callable[[str], None], values: tuple[str, ...] = ()) -> None:
        self.values = values
        self._on_text = on_text
        self._buffer = ""
        self.masked_count = 0

    def feed(self, text: str) -> None:
        text = self._buffer + text
        for value in self.values:
            if value in text:
                self.masked_count += text.count(value)
                text = text.replace(value, MASK)
        keep = max((count_overlap(text, value) for value in self.values), default=0)
        self._buffer = text[len(text) - keep :]
        if len(text) > keep:
            self._on_text(text[: len(text) - keep])

    def finish(self) -> None:
        """Pass on the rest: no more comes."""
        text, self._buffer = self._buffer, ""
        if text:
            self._on_text(text)
