"""Which projects the user trusts: whose own words to the agent, to git and to this program are heard (SAFETY I1, D39).

A project is known by its real path and by what the file system calls it (device and inode), so a directory that took
another's place is asked about anew. Nothing in the project has a say in it, and trust reaches no directory but this.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, field

from core.clock import now_ms
from core.config import state_dir
from core.permissions.state_file import StateFile
from core.workspace.names import from_os

FILE = "trust.json"
DEMO = "demo"  # below the state directory: samples that this program brought itself
# What is heard once a project is trusted, by where it stands.
SPEAKING = ("AGENTS.md", ".cursor/rules", ".agent-tui/config.toml", ".git")


class Trusted(Struct, frozen=True, kw_only=True):
    """A directory as it was when the user said yes. `at` in ms."""

    device: int
    inode: int
    at: int = 0


class _Book(Struct, frozen=True, kw_only=True):
    directories: dict[str, Trusted] = field(default_factory=dict)


class Trust:
    """Whether one project is trusted. `root` is its real path. Raises `StateError` when the file can't be used."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = from_os(os.fsencode(root))
        self._file = StateFile(FILE, _Book)

    def given(self) -> bool:
        if self._root.is_relative_to(state_dir().resolve() / DEMO):
            return True
        known = self._file.read().directories.get(self._name)
        return known is not None and (known.device, known.inode) == self._identity()

    def give(self) -> None:
        device, inode = self._identity()
        entry = {self._name: Trusted(device=device, inode=inode, at=now_ms())}
        self._file.change(lambda book: _Book(directories=book.directories | entry))

    def withdraw(self) -> None:
        name = self._name
        self._file.change(
            lambda book: _Book(directories={key: value for key, value in book.directories.items() if key != name})
        )

    def _identity(self) -> tuple[int, int]:
        found = self._root.stat()
        return found.st_dev, found.st_ino


def speaking(root: Path) -> tuple[str, ...]:
    """What of the project is not heard without trust. Names are looked for and nothing is opened."""
    return tuple(name for name in SPEAKING if os.path.lexists(root / name))


def is_empty(root: Path) -> bool:
    """Whether there is nothing in the directory that could say anything."""
    return next(root.iterdir(), None) is None
