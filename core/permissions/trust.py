"""Trust in projects: whether their own instructions to the agent, to git and to this program are read (SAFETY I1, D39).

A project is known by its real path and by the identity of its directory (`directory_identity`), and its instructions by
the digests of their files (`trusted_files`). Nothing in the project has a say in it, and trust reaches no directory but
this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from core.clock import now_ms
from core.extensions.extension_files import FOLDERS, KINDS
from core.permissions.directory_identity import DirectoryIdentity, identify_directory
from core.permissions.state_file import StateFile
from core.permissions.trusted_files import TrustedFiles, append_digest
from core.user_dirs import get_state_dir
from core.workspace.file_names import from_os_name

FILE_NAME = "trust.json"
DEMO_DIRECTORY = "demo"  # below the state directory: samples that this program brought itself
# What is heard once a project is trusted, by where it stands.
INSTRUCTION_PATHS = (
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/rules",
    ".cursor/rules",
    ".cursorrules",
    ".agent-tui/config.toml",
    ".mcp.json",
    ".cursor/mcp.json",
    *(f"{folder}/{kind}" for folder in FOLDERS for kind in KINDS),
    ".git",
)


class TrustedDirectory(Struct, frozen=True, kw_only=True):
    """A directory as it was when the user trusted it. `at` in ms.

    `files`: digests of its instruction files, by path; None in a record of an earlier version, asked about anew.
    `hooks`: what each file would run, a line each, so that a change of it can be shown.
    """

    device: int
    inode: int
    born: str = ""
    at: int = 0
    files: dict[str, list[str]] | None = None
    hooks: dict[str, list[str]] = field(default_factory=dict)


class _TrustBook(Struct, frozen=True, kw_only=True):
    directories: dict[str, TrustedDirectory] = field(default_factory=dict)


class TrustStore:
    """Trust in one project. `root` is its real path. Raises `StateError` when the file can't be used."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = from_os_name(os.fsencode(root))
        self._file = StateFile(FILE_NAME, _TrustBook)

    def is_given(self) -> bool:
        return self._is_demo() or self._load_entry() is not None

    def load_files(self) -> TrustedFiles:
        """Load the digests of the files that are trusted."""
        if self._is_demo():
            return TrustedFiles(None, self.add_files)
        entry = self._load_entry()
        return TrustedFiles(entry.files if entry and entry.files else {}, self.add_files)

    def grant(self, files: Mapping[str, str], hooks: Mapping[str, Sequence[str]] = {}) -> None:
        """Trust the project from now on, with these files: the digest of each by its path, and lines on its hooks."""
        now = identify_directory(self._root)
        old_entry = self._load_entry()
        digests = dict(old_entry.files or {}) if old_entry else {}
        digests |= {path: append_digest(digests.get(path, ()), digest) for path, digest in files.items()}
        lines = {
            **(old_entry.hooks if old_entry else {}),
            **{path: list(hook_lines) for path, hook_lines in hooks.items()},
        }
        entry = TrustedDirectory(
            device=now.device, inode=now.inode, born=now.born, at=now_ms(), files=digests, hooks=lines
        )
        self._file.update(lambda book: _TrustBook(directories=book.directories | {self._name: entry}))

    def load_hooks(self) -> Mapping[str, Sequence[str]]:
        """Return the lines on the hooks that were trusted last, by their file."""
        entry = self._load_entry()
        return entry.hooks if entry is not None else {}

    def add_files(self, files: Mapping[str, str]) -> None:
        """Trust more contents of files in a project that is trusted."""
        if self._load_entry() is not None:
            self.grant(files)

    def can_identify(self) -> bool:
        """True if the file system tells this directory from one that is made in its place."""
        return bool(identify_directory(self._root).born)

    def revoke(self) -> None:
        self._file.update(
            lambda book: _TrustBook(directories={k: v for k, v in book.directories.items() if k != self._name})
        )

    def _is_demo(self) -> bool:
        return self._root.is_relative_to(get_state_dir().resolve() / DEMO_DIRECTORY)

    def _load_entry(self) -> TrustedDirectory | None:
        """Return the saved entry of this very directory; None: it is not trusted."""
        entry = self._file.read().directories.get(self._name)
        if entry is None or entry.files is None:
            return None
        identity = DirectoryIdentity(entry.device, entry.inode, entry.born)
        return entry if identity == identify_directory(self._root) else None


def find_instructions(root: Path) -> tuple[str, ...]:
    """Return the places of instructions in the project, which are not read without trust. No file is opened."""
    return tuple(name for name in INSTRUCTION_PATHS if os.path.lexists(root / name))


def is_empty_directory(root: Path) -> bool:
    """True if there is nothing in the directory."""
    return next(root.iterdir(), None) is None
