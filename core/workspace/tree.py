"""The workspace: every path is checked and opened here, relative to one directory descriptor.

Paths are workspace-relative POSIX text in wire form (see `file_names`); "." is the workspace itself.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path

from core import user_dirs
from core.errors import PathRefused
from core.filesystem.atomic_write import create_file, make_plan_temporary_name, rename_over
from core.filesystem.name_spelling import NameSpelling, fold_spelling, resolve_spelled
from core.filesystem.open_beneath import (
    DIRECTORY,
    LinkTarget,
    follow_links,
    open_beneath,
    read_link,
    resolve_links,
    split_components,
)
from core.protocol.review import FileState
from core.workspace import file_names
from core.workspace.path_status import (
    ABSENT,
    MAX_EDITED_BYTES,
    READ_FLAGS,
    DirectoryEntry,
    PathStat,
    classify_entry,
    describe_mode,
    read_all,
    read_replaceable_mode,
    read_state_at,
    to_path_stat,
)


class Workspace:
    """The root directory of a project. Raises `PathRefused` for roots that are too wide to be a project."""

    def __init__(self, root: Path, *, state_dir: Path | None = None) -> None:
        try:
            self.root = resolve_spelled(root.expanduser(), strict=True)
            self._top = os.open(self.root, DIRECTORY)
        except OSError as error:
            raise PathRefused(
                f"{root} can't be opened as a workspace: {error.strerror}.", hint="Name an existing directory."
            ) from error
        absolute_root = root.expanduser().absolute()
        user_dirs.refuse_wide_root(
            self.root, absolute_root, state_dir or user_dirs.get_state_dir(), user_dirs.get_config_dir()
        )
        self._root = os.fsencode(self.root)
        self._spelling = NameSpelling(self._top, self._root)
        self._spellings = tuple({str(self.root), str(absolute_root)})
        umask = os.umask(0o077)
        os.umask(umask)
        self.new_file_mode = 0o666 & ~umask
        self.directory_mode = 0o777 & ~umask

    def __del__(self) -> None:
        if hasattr(self, "_top"):
            with suppress(OSError):
                os.close(self._top)

    # names

    def to_relative(self, path: str) -> str:
        """Return the normalised form of a relative path, or of one within the workspace that is absolute or begins with
        `~/`, the home.

        Names have their spelling on disk, and links are not followed in the result. Raises `PathRefused` for a link
        that leads out of the workspace, for "..", NUL and paths elsewhere.
        """
        if "\0" in path:
            raise PathRefused(f"{path!r} is not a path: it contains a NUL.")
        if path.startswith("~/") and not os.path.lexists(self.root / "~"):
            path = str(Path.home() / path[2:])
        below = self._strip_root(path) if path.startswith("/") else path
        parts = [part for part in below.split("/") if part not in {"", "."}]
        if ".." in parts:
            raise PathRefused(f"{path!r} is not allowed: it contains '..'.", hint="Give the path from the workspace.")
        if not parts:
            return "."
        rel = file_names.from_os_name(file_names.to_os_name("/".join(parts)))
        self.resolve(rel)
        return self.spell(rel)

    def _strip_root(self, path: str) -> str:
        for root in self._spellings:
            if path == root or path.startswith(root.rstrip("/") + "/"):
                return path[len(root) :]
        if (below := self._follow_spelling(path)) is not None:
            return below
        raise PathRefused(f"{path!r} is outside the workspace.", hint="Only files of the workspace can be reached.")

    def _follow_spelling(self, path: str) -> str | None:
        """Return the path below the workspace of an absolute path that leads there by a link outside of it (`~/src` for
        `/data/src`); None: it does not. The part after the link is returned unchanged."""
        parts = path.split("/")
        for count in range(2, len(parts) + 1):
            if parts[count - 1] == "..":
                return None
            with suppress(OSError, RuntimeError):
                directory = resolve_spelled(Path("/".join(parts[:count])))
                if directory.is_relative_to(self.root):
                    return "/".join((directory.relative_to(self.root).as_posix(), *parts[count:]))
        return None

    def resolve(self, rel: str, link_target: LinkTarget | None = None) -> str:
        """Return `rel` with all symbolic links followed, in its spelling on disk. Raises `PathRefused` if one leads out
        of the workspace.

        `link_target` returns the targets of links in an overlay of this tree.
        """
        path = file_names.to_os_name(rel)
        try:
            target = (
                follow_links(self._root, path, link_target)
                if link_target
                else resolve_links(self._top, self._root, path)
            )
            if not (self._spelling.is_exact(path) and (target == path or self._spelling.is_exact(target))):
                target = follow_links(self._root, path, link_target or self._read_link, self._spelling.spell)
            return file_names.from_os_name(target) or "."
        except OSError as error:
            raise _to_refusal(rel, error) from error

    def _read_link(self, path: bytes) -> bytes | None:
        return read_link(self._top, path)

    def spell(self, rel: str) -> str:
        """Return `rel` in its spelling on disk, without following links; names that do not exist remain.

        Where no directory folds names it is `rel` itself. Raises `PathRefused` as `resolve` does.
        """
        path = file_names.to_os_name(rel)
        if self._spelling.is_exact(path):
            return rel
        spelled_parts, real = list[bytes](), b""
        try:
            for part in split_components(path):
                spelled_parts.append(self._spelling.spell(real, part))
                real = follow_links(self._root, real + b"/" + spelled_parts[-1], self._read_link)
        except OSError as error:
            raise _to_refusal(rel, error) from error
        return file_names.from_os_name(b"/".join(spelled_parts)) or "."

    @property
    def folds_names(self) -> bool:
        """True if the file system of the root ignores case or normal form."""
        return self._spelling.folds(b"")

    def find_folded_twin(self, rel: str, paths: Iterable[str]) -> str | None:
        """Return the one of the paths, or of their directories, that is the same file as `rel` or one of its
        directories though it is spelled otherwise; None: there is none, or no directory here folds names."""
        path = file_names.to_os_name(rel)
        if self._spelling.is_exact(path):
            return None
        own_prefixes = {fold_spelling(prefix): prefix for prefix in _list_prefixes(path)}
        for prefix in (prefix for other in paths for prefix in _list_prefixes(file_names.to_os_name(other))):
            if own_prefixes.get(fold_spelling(prefix), prefix) != prefix:
                return file_names.from_os_name(prefix)
        return None

    # reading

    def _open(self, rel: str, flags: int) -> int:
        path = file_names.to_os_name(rel)
        try:
            return open_beneath(self._top, path, flags)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return open_beneath(self._top, resolve_links(self._top, self._root, path), flags)

    def read_bytes(self, rel: str, limit: int = MAX_EDITED_BYTES) -> bytes:
        """Return at most `limit` bytes of a regular file, links within the workspace followed.

        Never blocks on a FIFO or device. Raises `PathRefused` if it is no file or can't be read.
        """
        try:
            descriptor = self._open(rel, READ_FLAGS)
            try:
                mode = os.fstat(descriptor).st_mode
                if stat.S_ISREG(mode):
                    return read_all(descriptor, limit)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _to_refusal(rel, error) from error
        raise PathRefused(f"{rel!r} is not a regular file but {describe_mode(mode)}.", code="not_a_file")

    def stat(self, rel: str) -> PathStat | None:
        """Return the status of a path, links within the workspace followed; None: missing (as is a dangling link)."""
        try:
            with self.open_parent(self.resolve(rel)) as (descriptor, name):
                return to_path_stat(os.stat(name, dir_fd=descriptor, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _to_refusal(rel, error) from error

    def read_signature(self, rel: str) -> tuple[int, int, int] | None:
        """Return time in ns, size and inode of a file, links followed, as a signature of its content; None: no file."""
        try:
            file_stat = os.stat(file_names.to_os_name(rel), dir_fd=self._top)
        except OSError:
            return None
        return file_stat.st_mtime_ns, file_stat.st_size, file_stat.st_ino

    def list_dir(self, rel: str = ".") -> tuple[DirectoryEntry, ...]:
        """Return the entries of a directory: directories first, then the rest, sorted by name."""
        try:
            descriptor = self._open(rel, DIRECTORY)
        except OSError as error:
            raise _to_refusal(rel, error) from error
        try:
            with os.scandir(descriptor) as entries:
                directory_entries = [
                    DirectoryEntry(name=file_names.from_os_name(os.fsencode(entry.name)), kind=classify_entry(entry))
                    for entry in entries
                ]
        except OSError as error:
            raise _to_refusal(rel, error) from error
        finally:
            os.close(descriptor)
        return tuple(sorted(directory_entries, key=lambda entry: (entry.kind != "directory", entry.name)))

    def read_state(self, rel: str) -> tuple[FileState, bytes | None]:
        """Return the state of the path itself, without following a link, with its bytes (a link's target; None if
        absent).

        `blob` is the hash of the bytes; nothing is stored. Raises `PathRefused` for directories, devices and other
        kinds.
        """
        try:
            with self.open_parent(rel) as (descriptor, name):
                return read_state_at(descriptor, name, rel)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT, None
        except OSError as error:
            raise _to_refusal(rel, error) from error

    # changing

    @contextmanager
    def open_parent(self, rel: str) -> Iterator[tuple[int, bytes]]:
        """Yield the descriptor of the directory of `rel`, and the name in it; no link is passed. Raises OSError."""
        above, _, name = file_names.to_os_name(rel).rpartition(b"/")
        descriptor = open_beneath(self._top, above, DIRECTORY)
        try:
            yield descriptor, name
        finally:
            os.close(descriptor)

    def list_missing_directories(self, rel: str) -> list[str]:
        """Return the missing parent directories of `rel`, outermost first."""
        missing: list[str] = []
        directory = rel.rpartition("/")[0]
        while directory and self.is_absent(directory):
            missing.append(directory)
            directory = directory.rpartition("/")[0]
        return missing[::-1]

    def is_absent(self, rel: str) -> bool:
        try:
            with self.open_parent(rel) as (descriptor, name):
                os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def make_directories(self, directories: list[str]) -> None:
        """Create directories, in the order outermost first. Raises OSError."""
        for directory in directories:
            with self.open_parent(directory) as (descriptor, name), suppress(FileExistsError):
                os.mkdir(name, self.directory_mode, dir_fd=descriptor)

    def remove_directories(self, directories: list[str]) -> None:
        """Remove those of the directories that are empty, innermost first."""
        for directory in reversed(directories):
            with suppress(OSError), self.open_parent(directory) as (descriptor, name):
                os.rmdir(name, dir_fd=descriptor)

    def write_atomic(self, rel: str, data: bytes, mode: int | None = None) -> None:
        """Create or replace a regular file atomically; missing directories are created.

        `mode` None: the file's permissions remain. Raises `PathRefused` for links, and for files with a second name.
        For the program's own files (plans); accepted changes go through the journal instead.
        """
        temporary = make_plan_temporary_name()
        try:
            self.make_directories(self.list_missing_directories(rel))
            with self.open_parent(rel) as (descriptor, name):
                present = read_replaceable_mode(descriptor, name, rel)
                file_mode = mode if mode is not None else self.new_file_mode if present is None else present
                with create_file(descriptor, temporary, file_mode) as file:
                    file.write(data)
                rename_over(descriptor, temporary, name)
        except OSError as error:
            raise _to_refusal(rel, error) from error


def _list_prefixes(path: bytes) -> Iterator[bytes]:
    """Yield the directories above a path, outermost first, and the path itself."""
    return accumulate(path.split(b"/"), lambda above, name: above + b"/" + name)


def _to_refusal(rel: str, error: OSError) -> PathRefused:
    match error.errno:
        case errno.EXDEV:
            return PathRefused(f"{rel!r} points outside the workspace through a symbolic link.", code="path_escapes")
        case errno.ELOOP:
            return PathRefused(f"{rel!r} goes through a symbolic link that can't be followed.", code="path_escapes")
        case errno.ENOENT:
            return PathRefused(f"{rel!r} does not exist.", code="not_found")
        case errno.ENXIO | errno.ENODEV:
            return PathRefused(f"{rel!r} is not a regular file.", code="not_a_file")
        case _:
            return PathRefused(f"{rel!r}: {error.strerror or error}.")
