"""Trust in projects: whether their instructions to the agent, to git and to this program are read.

A project is identified by its real path and by `identify_directory`, its instructions by the digests of their files
(`trusted_files`). Nothing in the project influences this, and trust covers no other directory.

A file system reuses a freed inode number for the next directory, so device and inode do not identify one. The birth
time (statx) does, or the inode's generation number (in the handle of name_to_handle_at). Where neither is available,
`born` is "", and only the contents of the project identify it.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from core.clock import now_ms
from core.permissions.state_file import StateFile
from core.permissions.trusted_files import FOLDERS, KINDS, TrustedFiles, append_digest
from core.user_dirs import get_state_dir
from core.workspace.file_names import from_os_name

_AT_FDCWD = -100
_STATX_BTIME = 0x800
_BTIME = 80  # bytes into struct statx: seconds (s64), nanoseconds (u32)
_STATX_SIZE = 256
_MAX_HANDLE = 128
FILE_NAME = "trust.json"
DEMO_DIRECTORY = "demo"  # below the state directory: samples of this program
# The paths of instructions, which are read once a project is trusted.
INSTRUCTION_PATHS = (
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".claude/CLAUDE.md",
    ".claude/rules",
    ".cursor/rules",
    ".cursorrules",
    ".agent-tui/config.toml",
    ".mcp.json",
    ".cursor/mcp.json",
    ".codex/config.toml",
    "opencode.json",
    "opencode.jsonc",
    *(f"{folder}/{kind}" for folder in FOLDERS for kind in KINDS),
    ".git",
)


class TrustedDirectory(Struct, frozen=True, kw_only=True):
    """A directory as it was when the user trusted it. `at` in ms.

    `files`: digests of its instruction files, by path; None in a record of an earlier version, which is asked about
    again. `hooks`: lines on the hooks of every file, to display later changes.
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
    """Trust in one project. `root`: its real path. Raises `StateError` when the file can't be used."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = from_os_name(os.fsencode(root))
        self._file = StateFile(FILE_NAME, _TrustBook)

    def has_trust(self) -> bool:
        return self._is_demo() or self._load_entry() is not None

    def load_files(self) -> TrustedFiles:
        """Load the digests of the files that are trusted."""
        if self._is_demo():
            return TrustedFiles(None, self.add_files)
        entry = self._load_entry()
        return TrustedFiles(entry.files if entry and entry.files else {}, self.add_files)

    def grant(self, files: Mapping[str, str], hooks: Mapping[str, Sequence[str]] = {}) -> None:
        """Trust the project from now on, with these files: digests by path, and lines on the hooks by file."""
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
        """Return the lines on the last trusted hooks, by file."""
        entry = self._load_entry()
        return entry.hooks if entry is not None else {}

    def add_files(self, files: Mapping[str, str]) -> None:
        """Trust more contents of files in a project that is trusted."""
        if self._load_entry() is not None:
            self.grant(files)

    def can_identify(self) -> bool:
        """True if the file system distinguishes this directory from a later one under the same path."""
        return bool(identify_directory(self._root).born)

    def revoke(self) -> None:
        self._file.update(
            lambda book: _TrustBook(directories={k: v for k, v in book.directories.items() if k != self._name})
        )

    def _is_demo(self) -> bool:
        return self._root.is_relative_to(get_state_dir().resolve() / DEMO_DIRECTORY)

    def _load_entry(self) -> TrustedDirectory | None:
        """Return the saved entry of this directory; None: it is not trusted."""
        entry = self._file.read().directories.get(self._name)
        if entry is None or entry.files is None:
            return None
        identity = DirectoryIdentity(entry.device, entry.inode, entry.born)
        return entry if identity == identify_directory(self._root) else None


def find_instructions(root: Path) -> tuple[str, ...]:
    """Return the existing instruction paths of the project, which are not read without trust. No file is opened."""
    return tuple(name for name in INSTRUCTION_PATHS if os.path.lexists(root / name))


def is_empty_directory(root: Path) -> bool:
    """True if the directory has no entries."""
    return next(root.iterdir(), None) is None


class DirectoryIdentity(Struct, frozen=True):
    """`born`: "b…" is a birth time, "g…" a handle with a generation number, "" neither is known."""

    device: int
    inode: int
    born: str


def identify_directory(directory: Path) -> DirectoryIdentity:
    """Return the identity of a directory. Raises OSError."""
    stats = directory.stat()
    born = getattr(stats, "st_birthtime", None)
    if born is None and sys.platform.startswith("linux"):
        path = os.fsencode(directory)
        birth_text = _read_birth_time(path) or _read_generation(path)
    else:
        birth_text = "" if born is None else f"b{born!r}"
    return DirectoryIdentity(stats.st_dev, stats.st_ino, birth_text)


def _read_birth_time(path: bytes) -> str:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if call is None or call(_AT_FDCWD, path, 0, _STATX_BTIME, buffer) != 0:
        return ""
    seconds, nanoseconds = struct.unpack_from("=qI", buffer.raw, _BTIME)
    is_known = struct.unpack_from("=I", buffer.raw)[0] & _STATX_BTIME and (seconds or nanoseconds)
    return f"b{seconds}.{nanoseconds:09}" if is_known else ""


def _read_generation(path: bytes) -> str:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "name_to_handle_at", None)
    handle = ctypes.create_string_buffer(struct.pack("=Ii", _MAX_HANDLE, 0), 8 + _MAX_HANDLE)
    if call is None or call(_AT_FDCWD, path, handle, ctypes.byref(ctypes.c_int()), 0) != 0:
        return ""
    size, kind = struct.unpack_from("=Ii", handle.raw)
    return f"g{kind}:{handle.raw[8 : 8 + size].hex()}"
