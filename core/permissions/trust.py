"""Which projects the user trusts: whose own words to the agent, to git and to this program are heard (SAFETY I1, D39).

A project is known by its real path and by what tells it from a directory that took its place (`identity`), and what
it said when it was trusted by the digests of its files (`voices`). Nothing in the project has a say in it, and trust
reaches no directory but this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from core.clock import now_ms
from core.permissions.identity import Identity, identity_of
from core.permissions.state_file import StateFile
from core.permissions.voices import Voices, kept
from core.user_dirs import state_dir
from core.workspace.names import from_os

FILE = "trust.json"
DEMO = "demo"  # below the state directory: samples that this program brought itself
# What is heard once a project is trusted, by where it stands.
SPEAKING = ("AGENTS.md", ".cursor/rules", ".agent-tui/config.toml", ".git")


class Trusted(Struct, frozen=True, kw_only=True):
    """A directory as it was when the user said yes. `at` in ms. `files`: digests of what speaks in it, by path; None in
    a record of an earlier version, which is asked about anew."""

    device: int
    inode: int
    born: str = ""
    at: int = 0
    files: dict[str, list[str]] | None = None


class _Book(Struct, frozen=True, kw_only=True):
    directories: dict[str, Trusted] = field(default_factory=dict)


class Trust:
    """Whether one project is trusted. `root` is its real path. Raises `StateError` when the file can't be used."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = from_os(os.fsencode(root))
        self._file = StateFile(FILE, _Book)

    def given(self) -> bool:
        return self._is_demo() or self._entry() is not None

    def voices(self) -> Voices:
        """What of the project is heard, once it is trusted."""
        entry = None if self._is_demo() else self._entry()
        return Voices(None if self._is_demo() else entry.files if entry and entry.files else {}, self.keep)

    def give(self, files: Mapping[str, str]) -> None:
        """Trust it from now on, with these files: the digest of each by its path."""
        now = identity_of(self._root)
        known = self._entry()
        digests = dict(known.files or {}) if known else {}
        digests |= {path: kept(digests.get(path, ()), said) for path, said in files.items()}
        entry = Trusted(device=now.device, inode=now.inode, born=now.born, at=now_ms(), files=digests)
        self._file.change(lambda book: _Book(directories=book.directories | {self._name: entry}))

    def keep(self, files: Mapping[str, str]) -> None:
        """More bytes that are trusted in a project that is."""
        if self._entry() is not None:
            self.give(files)

    def sees_birth(self) -> bool:
        """Whether the file system tells this directory from one that is made in its place."""
        return bool(identity_of(self._root).born)

    def withdraw(self) -> None:
        name = self._name
        self._file.change(
            lambda book: _Book(directories={key: value for key, value in book.directories.items() if key != name})
        )

    def _is_demo(self) -> bool:
        return self._root.is_relative_to(state_dir().resolve() / DEMO)

    def _entry(self) -> Trusted | None:
        """What was kept of this very directory."""
        known = self._file.read().directories.get(self._name)
        if known is None or known.files is None:
            return None
        return known if Identity(known.device, known.inode, known.born) == identity_of(self._root) else None


def speaking(root: Path) -> tuple[str, ...]:
    """What of the project is not heard without trust. Names are looked for and nothing is opened."""
    return tuple(name for name in SPEAKING if os.path.lexists(root / name))


def is_empty(root: Path) -> bool:
    """Whether there is nothing in the directory that could say anything."""
    return next(root.iterdir(), None) is None
