"""What is secret in the files that are kept from commands, so that it can be taken out of what a command prints.

A command can't read such a file, but what stands in it may lie elsewhere: in git's history, in a log, in a process that
was started before. Only what is told by its looks is taken: a value of a setting with letters and digits, or a long
one, and the lines of a key.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from core.secrets import MASK
from core.workspace.names import to_os
from core.workspace.secret_names import may_be_secret

MAX_FILES = 50
MAX_BYTES = 64 * 1024
MAX_VALUES = 200
SHORTEST = 8
LONG = 20
_ASSIGNED = re.compile(r"""[\w.-]*?[\w-]["']?\s*[:=]\s*["']?(?P<value>[^\s"',;]+)""")
_OF_A_KEY = re.compile(r"[A-Za-z0-9+/=_-]{40,2000}")


def values_of(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """The secret values of these files (workspace-relative), the longest first; what can't be read has none."""
    found: set[str] = set()
    named = [path for path in paths if may_be_secret(path.rpartition("/")[2])]
    for path in named[:MAX_FILES]:
        for line in _text(root, path).splitlines():
            found.update(_of_line(line.strip()))
    return tuple(sorted(found, key=lambda value: (-len(value), value))[:MAX_VALUES])


def _of_line(line: str) -> list[str]:
    if line.startswith(("#", "-----")):
        return []
    if _OF_A_KEY.fullmatch(line):
        return [line]
    return [each["value"] for each in _ASSIGNED.finditer(line) if _is_telling(each["value"])]


def _is_telling(value: str) -> bool:
    if len(value) < SHORTEST or value.startswith(("/", "./", "~", "$")):
        return False
    if "://" in value:  # an address is harmless but for what it says of a user
        return "@" in value
    has_both = any(each.isdigit() for each in value) and any(each.isalpha() for each in value)
    return has_both or len(value) >= LONG


def _text(root: Path, path: str) -> str:
    try:
        descriptor = os.open(os.fsencode(root) + b"/" + to_os(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return file.read(MAX_BYTES).decode("utf-8", "replace")


class Veil:
    """Hands text on, which comes in pieces, without `values`; an end that may begin one waits for what follows."""

    def __init__(self, give: Callable[[str], None], values: tuple[str, ...] = ()) -> None:
        self.values = values
        self._give = give
        self._held = ""
        self.hidden = 0

    def feed(self, text: str) -> None:
        text = self._held + text
        for value in self.values:
            if value in text:
                self.hidden += text.count(value)
                text = text.replace(value, MASK)
        keep = max((_begun(text, value) for value in self.values), default=0)
        self._held = text[len(text) - keep :]
        if len(text) > keep:
            self._give(text[: len(text) - keep])

    def finish(self) -> None:
        """No more comes."""
        held, self._held = self._held, ""
        if held:
            self._give(held)


def _begun(text: str, value: str) -> int:
    """How many of the last characters of a text may be the beginning of a value."""
    start = text.find(value[0], max(0, len(text) - len(value) + 1))
    while start >= 0:
        if value.startswith(text[start:]):
            return len(text) - start
        start = text.find(value[0], start + 1)
    return 0
