"""The workspace: every path is checked and opened here, relative to one directory descriptor.

Paths are workspace-relative POSIX text in wire form (see `names`); "." is the workspace itself.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from core import user_dirs
from core.errors import PathRefused
from core.protocol.review import FileState
from core.workspace import levers, names
from core.workspace.beneath import DIRECTORY, LinkTarget, follow, open_direct, resolve
from core.workspace.renaming import plan_name
from core.workspace.roots import refuse_too_wide

Kind = Literal["file", "directory", "symlink", "other"]

ABSENT = FileState(kind="absent", mode=0)
LARGEST = 64 * 1024 * 1024  # bytes of a file that may be edited
PERMISSIONS = 0o777  # setuid, setgid and sticky bits are neither recorded nor applied
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_CHUNK = 1 << 20


class PathStat(Struct, frozen=True, kw_only=True):
    """`size` in bytes; `mode` the permission bits; `links` how many names the file has."""

    kind: Kind
    size: int
    mode: int
    links: int = 1


class Entry(Struct, frozen=True, kw_only=True):
    """One name in a directory. A symbolic link is "symlink", whatever it points at."""

    name: str
    kind: Kind


class Workspace:
    """A directory that the agent works for. Raises `PathRefused` for roots that are too wide to be a project."""

    def __init__(self, root: Path, *, state_dir: Path | None = None) -> None:
        try:
            self.root = root.expanduser().resolve(strict=True)
            self._top = os.open(self.root, DIRECTORY)
        except OSError as error:
            raise PathRefused(
                f"{root} can't be opened as a workspace: {error.strerror}.", hint="Name an existing directory."
            ) from error
        spelled = root.expanduser().absolute()
        refuse_too_wide(self.root, spelled, state_dir or user_dirs.state_dir(), user_dirs.config_dir())
        self._root = os.fsencode(self.root)
        self._spellings = tuple({str(self.root), str(spelled)})
        umask = os.umask(0o077)
        os.umask(umask)
        self.new_file_mode = 0o644 & ~umask
        self.directory_mode = 0o777 & ~umask

    def __del__(self) -> None:
        if hasattr(self, "_top"):
            with suppress(OSError):
                os.close(self._top)

    # names

    def relative(self, path: str) -> str:
        """The normalised form of a relative path, or of an absolute one within the workspace. Links are not followed
        in the answer, but one that leads out of the workspace is refused, as are "..", NUL and foreign places."""
        if "\0" in path:
            raise PathRefused(f"{path!r} is no path: it holds a NUL.")
        parts = [part for part in self._stripped(path).split("/") if part not in {"", "."}]
        if ".." in parts:
            raise PathRefused(f"{path!r} is refused: it contains '..'.", hint="Give the path from the workspace.")
        if not parts:
            return "."
        rel = names.from_os(names.to_os("/".join(parts)))
        self.canonical(rel)
        return rel

    def _stripped(self, path: str) -> str:
        if not path.startswith("/"):
            return path
        for root in self._spellings:
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :]
        raise PathRefused(f"{path!r} is outside the workspace.", hint="Only files of the workspace can be reached.")

    def canonical(self, rel: str, link_target: LinkTarget | None = None) -> str:
        """`rel` with all symbolic links followed; refused when one of them leads out of the workspace. `link_target`:
        says where the links of a tree that lies over this one lead."""
        path = names.to_os(rel)
        try:
            found = follow(self._root, path, link_target) if link_target else resolve(self._top, self._root, path)
            return names.from_os(found) or "."
        except OSError as error:
            raise _refusal(rel, error) from error

    def entry(self, rel: str) -> str:
        """`rel` with the links of its directory followed, but not the last part: the name itself, to remove it."""
        directory, _, name = rel.rpartition("/")
        above = self.canonical(directory or ".")
        return name if above == "." else f"{above}/{name}"

    def is_protected(self, rel: str) -> bool:
        return levers.is_protected(rel)

    def is_git_internal(self, rel: str) -> bool:
        return names.is_git_internal(rel)

    # reading

    def open_read(self, rel: str) -> int:
        """A descriptor of a regular file, links within the workspace followed. Never blocks on a FIFO or device."""
        try:
            descriptor = self._open(rel, _READ)
        except OSError as error:
            raise _refusal(rel, error) from error
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        mode = os.fstat(descriptor).st_mode
        os.close(descriptor)
        raise PathRefused(f"{rel!r} is not a regular file but {_what(mode)}.", code="not_a_file")

    def _open(self, rel: str, flags: int) -> int:
        path = names.to_os(rel)
        try:
            return open_direct(self._top, path, flags)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return open_direct(self._top, resolve(self._top, self._root, path), flags)

    def read_bytes(self, rel: str, limit: int = LARGEST) -> bytes:
        """At most `limit` bytes of a regular file; `PathRefused` when it is none or can't be read."""
        descriptor = self.open_read(rel)
        try:
            return _read_all(descriptor, limit)
        except OSError as error:
            raise _refusal(rel, error) from error
        finally:
            os.close(descriptor)

    def stat(self, rel: str) -> PathStat | None:
        """What is there, links within the workspace followed; None: nothing (a dangling link is nothing)."""
        try:
            with self.directory(self.canonical(rel)) as (descriptor, name):
                return _as_stat(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _refusal(rel, error) from error

    def signature(self, rel: str) -> tuple[int, int, int] | None:
        """What tells one content of a file from another (time in ns, size, inode), links followed; None: it is none."""
        try:
            found = os.stat(names.to_os(rel), dir_fd=self._top)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def list_dir(self, rel: str = ".") -> tuple[Entry, ...]:
        """Directories first, then the rest, each by name."""
        try:
            descriptor = self._open(rel, DIRECTORY)
        except OSError as error:
            raise _refusal(rel, error) from error
        try:
            with os.scandir(descriptor) as entries:
                found = [Entry(name=names.from_os(os.fsencode(each.name)), kind=_kind_of(each)) for each in entries]
        except OSError as error:
            raise _refusal(rel, error) from error
        finally:
            os.close(descriptor)
        return tuple(sorted(found, key=lambda each: (each.kind != "directory", each.name)))

    def state_of(self, rel: str) -> tuple[FileState, bytes | None]:
        """What the path itself holds, no link followed, with its bytes (a link's target; None when absent).

        `blob` is the hash of the bytes; nothing is stored. `PathRefused` for directories, devices and the like.
        """
        try:
            with self.directory(rel) as (descriptor, name):
                return state_at(descriptor, name, rel)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT, None
        except OSError as error:
            raise _refusal(rel, error) from error

    # changing

    @contextmanager
    def directory(self, rel: str) -> Iterator[tuple[int, bytes]]:
        """The descriptor of the directory that holds `rel`, and the name in it. No link is passed; raises OSError."""
        above, _, name = names.to_os(rel).rpartition(b"/")
        descriptor = open_direct(self._top, above, DIRECTORY)
        try:
            yield descriptor, name
        finally:
            os.close(descriptor)

    def missing_directories(self, rel: str) -> list[str]:
        """The directories that have to be made before `rel` can be, outermost first."""
        missing: list[str] = []
        directory = rel.rpartition("/")[0]
        while directory and self.state_is_absent(directory):
            missing.append(directory)
            directory = directory.rpartition("/")[0]
        return missing[::-1]

    def state_is_absent(self, rel: str) -> bool:
        try:
            with self.directory(rel) as (descriptor, name):
                os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def make_directories(self, directories: list[str]) -> None:
        """Create them, outermost first; raises OSError."""
        for each in directories:
            with self.directory(each) as (descriptor, name), suppress(FileExistsError):
                os.mkdir(name, self.directory_mode, dir_fd=descriptor)

    def remove_directories(self, directories: list[str]) -> None:
        """Remove those of them that are empty, innermost first."""
        for each in reversed(directories):
            with suppress(OSError), self.directory(each) as (descriptor, name):
                os.rmdir(name, dir_fd=descriptor)

    def write_atomic(self, rel: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a regular file: whole or not at all. Missing directories are made; `mode` None keeps the
        file's. No link is passed or replaced, and no file that has a second name (`PathRefused`).

        For files that are the program's own business (plans); accepted changes go through the journal instead.
        """
        temporary = plan_name()
        try:
            self.make_directories(self.missing_directories(rel))
            with self.directory(rel) as (descriptor, name):
                present = _mode_of_file(descriptor, name, rel)
                wanted = mode if mode is not None else self.new_file_mode if present is None else present
                write_new(descriptor, temporary, data, wanted)
                try:
                    os.rename(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                except OSError:
                    os.unlink(temporary, dir_fd=descriptor)
                    raise
                sync_directory(descriptor)
        except OSError as error:
            raise _refusal(rel, error) from error


def sync_directory(descriptor: int) -> None:
    """Make renames in a directory durable, where the file system offers that; raises OSError when it failed."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise


def write_new(directory: int, name: bytes, data: bytes, mode: int) -> None:
    """Write a new file and sync it; on an error nothing stays behind. Raises OSError."""
    descriptor = os.open(name, _CREATE | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view[: 1 << 26]) :]
        os.fchmod(descriptor, mode & PERMISSIONS)
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)
        raise
    finally:
        os.close(descriptor)


def state_at(directory: int, name: bytes, rel: str) -> tuple[FileState, bytes | None]:
    """The state of one name in an open directory; raises OSError and `PathRefused` (not a file, too large)."""
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=directory)
        return FileState(kind="symlink", blob=_digest(target), mode=PERMISSIONS, size=len(target)), target
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{rel!r} is not a regular file but {_what(found.st_mode)}.", code="not_a_file")
    if found.st_size > LARGEST:
        raise PathRefused(f"{rel!r} is too large to be edited ({found.st_size:,} bytes).", code="too_large")
    descriptor = os.open(name, _READ | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        mode = os.fstat(descriptor).st_mode
        data = _read_all(descriptor, LARGEST)
    finally:
        os.close(descriptor)
    return FileState(kind="file", blob=_digest(data), mode=mode & PERMISSIONS, size=len(data)), data


def _mode_of_file(directory: int, name: bytes, rel: str) -> int | None:
    """The permissions of a file that may be replaced; None: nothing is there."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise PathRefused(f"{rel!r} is not a regular file but {_what(found.st_mode)}.", code="not_a_file")
    if found.st_nlink > 1:
        raise PathRefused(f"{rel!r} has a second name (a hard link).", hint="Copy it to a file of its own.")
    return found.st_mode & PERMISSIONS


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_all(descriptor: int, limit: int) -> bytes:
    size = os.fstat(descriptor).st_size
    data = os.read(descriptor, min(limit, size + 1))
    if len(data) >= limit or not data or len(data) == size:
        return data
    parts, left = [data], limit - len(data)
    while left > 0 and (more := os.read(descriptor, min(left, _CHUNK))):
        parts.append(more)
        left -= len(more)
    return b"".join(parts)


def _as_stat(found: os.stat_result) -> PathStat:
    mode = found.st_mode & PERMISSIONS
    return PathStat(kind=_kind(found.st_mode), size=found.st_size, mode=mode, links=found.st_nlink)


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_symlink():
            return "symlink"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


def _what(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def _refusal(rel: str, error: OSError) -> PathRefused:
    match error.errno:
        case errno.EXDEV:
            return PathRefused(f"{rel!r} leads out of the workspace by a symbolic link.", code="path_escapes")
        case errno.ELOOP:
            return PathRefused(f"{rel!r} passes a symbolic link that can't be followed.", code="path_escapes")
        case errno.ENOENT:
            return PathRefused(f"{rel!r} does not exist.", code="not_found")
        case errno.ENXIO | errno.ENODEV:
            return PathRefused(f"{rel!r} is not a regular file.", code="not_a_file")
        case _:
            return PathRefused(f"{rel!r}: {error.strerror or error}.")
