"""A copy of the project for tiers that can't mount a layer over it, and its changes written as a layer.

The copy holds the workspace with the layers over it, as overlayfs would merge them. What git ignores is copied while it
is small; a larger part (an installed node_modules, a virtual environment) is *held*: the caller shows the original,
read-only. A copy that would take too long or too much room is refused before it is used: the user decides then.

After the command, `move_changes` writes the changes in overlayfs's format. A deletion becomes a whiteout (a character
device 0:0, which Linux lets anyone make since 5.8); new and changed files are moved out of the copy, and a new tree is
moved as a whole. No symbolic link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, field

from core.clock import monotonic
from core.errors import ToolFailed
from core.filesystem.overlay_support import is_whiteout
from core.filesystem.removal import remove_tree
from core.sandbox.box import BoxRequest
from core.sandbox.inside.mounts import list_mounts_below
from core.workspace.ignore_rules import IgnoreRules
from core.workspace.tree import Workspace

CopyKind = Literal["directory", "file", "link", "held", "withheld"]
_FICLONE = 0x40049409  # FICLONE: share the blocks, where the file system can (Btrfs, XFS, bcachefs)
_CHUNK = 1 << 24
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTRIES_PER_CLOCK_CHECK = 64


class CopyLimits(Struct, frozen=True, kw_only=True):
    """Limits of a copy: `seconds` to make it, `size` bytes in all; `ignored_*` of that for what git ignores."""

    seconds: float = 5.0
    size: int = 1 << 30
    ignored_size: int = 128 << 20
    ignored_files: int = 10_000


class FileSignature(NamedTuple):
    """Values of which at least one changes with any change of a file; the ctime can't be set back."""

    mode: int
    inode: int
    size: int
    modified: int
    changed: int


class ProjectCopy(Struct, kw_only=True):
    """A finished copy. `files` maps paths (bytes, relative; b"" is the root) to their signatures at the start.

    `held`: paths with empty entries in the copy, over which the caller mounts the originals. Changes of `withheld`
    entries do not count. `skipped`: number of FIFOs, sockets and devices, which are not copied.
    """

    root: Path
    files: dict[bytes, FileSignature] = field(default_factory=dict)
    held: list[bytes] = field(default_factory=list)
    withheld: list[bytes] = field(default_factory=list)
    skipped: int = 0


class _Entry(NamedTuple):
    path: bytes
    source: bytes
    kind: CopyKind


def copy_project(
    request: BoxRequest,
    target: Path,
    *,
    limits: CopyLimits | None = None,
    link_held: bool = False,
    owner: tuple[int, int] | None = None,
) -> ProjectCopy:
    """Copy the workspace of `request`, as its command sees it, to `target`, which must not exist.

    File systems mounted inside the workspace are held. A withheld path becomes an empty entry that nobody may read.
    `link_held`: held paths become symbolic links to the originals, else empty directories or files to mount them on.
    `owner`: user and group of the copy, for root; None: those of this process.
    Raises `ToolFailed` if it would exceed the limits or the disk is full; then `target` is removed.
    """
    bounds = limits or CopyLimits()
    survey = _Survey(request, bounds)
    copy = ProjectCopy(root=target)
    try:
        survey.list_entries()
        copy.withheld = [entry.path for entry in survey.entries if entry.kind == "withheld"]
        copy.held, copy.skipped = survey.held, survey.skipped
        _Copier(copy, bounds, os.fsencode(request.workspace), link_held=link_held, owner=owner).copy_entries(
            survey.entries
        )
    except OSError as error:
        remove_copy(target)
        if error.errno == errno.ENAMETOOLONG:
            raise _build_refusal("directories that are nested too deep to be copied") from error
        location = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        raise ToolFailed(
            f"The project could not be copied for this command: {error.strerror}{location}.", hint=_HINT
        ) from error
    except BaseException:
        remove_copy(target)
        raise
    return copy


def remove_copy(root: Path) -> None:
    """Remove a copy, whatever its permissions are. Files that can't be removed remain for the next sweep."""
    with contextlib.suppress(OSError):
        remove_tree(root)


_HINT = "A stronger tier needs no copy: `agent-tui doctor` says what it needs. Or run the command yourself."


class _Survey:
    """Lists the entries of a copy before anything is copied."""

    def __init__(self, request: BoxRequest, limits: CopyLimits) -> None:
        self.entries: list[_Entry] = []
        self.held: list[bytes] = []
        self.skipped = 0
        self._root = os.fsencode(request.workspace)
        self._lowers = [os.fsencode(lower) for lower in request.lowers]
        self._withheld = {os.fsencode(path) for path in (*request.withheld, *request.masked)}
        self._mounted = set(list_mounts_below(self._root))
        self._limits = limits
        self._size = 0
        self._ignored_left = (limits.ignored_size, limits.ignored_files)
        self._find_ignore_rules = IgnoreRules(Workspace(request.workspace)).open_snapshot()
        self._deadline = monotonic() + limits.seconds

    def list_entries(self) -> None:
        waiting: list[tuple[bytes, list[bytes]]] = [(b"", [*self._lowers, self._root])]
        while waiting:
            waiting += self._list_directory(*waiting.pop())

    def _list_directory(self, path: bytes, stack: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
        """Add the entries of a directory. Yields its subdirectories with the layers' directories merged into them."""
        is_ignored = (
            self._find_ignore_rules(os.fsdecode(path) or ".") if stack[-1] == self._resolve_in_workspace(path) else None
        )
        for name, entries in sorted(merge_directories(stack, self._resolve_in_workspace(path)).items()):
            child = path + b"/" + name if path else name
            mode = entries[0].mode
            if child in self._withheld:
                self.entries.append(_Entry(child, entries[0].path, "withheld"))
            elif self._is_held(child, name, entries, is_ignored):
                self.held.append(child)  # the caller omits withheld paths below it
                self.entries.append(_Entry(child, entries[0].path, "held"))
            elif stat.S_ISDIR(mode):
                self.entries.append(_Entry(child, entries[0].path, "directory"))
                yield child, [entry.path for entry in entries]
            else:
                self._add_file(child, entries[0])

    def _resolve_in_workspace(self, path: bytes) -> bytes:
        return os.path.join(self._root, path) if path else self._root

    def _is_held(
        self, child: bytes, name: bytes, entries: list[StackedEntry], is_ignored: Callable[[str, bool], bool] | None
    ) -> bool:
        path = entries[0].path
        return path in self._mounted or (self._is_ignored(child, name, entries, is_ignored) and not self._reserve(path))

    def _is_ignored(
        self, child: bytes, name: bytes, entries: list[StackedEntry], is_ignored: Callable[[str, bool], bool] | None
    ) -> bool:
        """True if git ignores the entry and no layer contributes to it. In `.git`, only the objects count."""
        if is_ignored is None or len(entries) > 1 or not entries[0].path.startswith(self._root + b"/"):
            return False
        if child == b".git" or child.startswith(b".git/"):
            return child == b".git/objects"
        return is_ignored(os.fsdecode(name), stat.S_ISDIR(entries[0].mode))

    def _reserve(self, path: bytes) -> bool:
        """Reserve space for an ignored path; return False if there is not enough."""
        size, files = self._ignored_left
        for file_size in _iterate_sizes(path):
            size, files = size - file_size, files - 1
            if size < 0 or files < 0:
                return False
        self._ignored_left = (size, files)
        return True

    def _add_file(self, child: bytes, entry: StackedEntry) -> None:
        if stat.S_ISLNK(entry.mode):
            self.entries.append(_Entry(child, entry.path, "link"))
        elif stat.S_ISREG(entry.mode):
            self.entries.append(_Entry(child, entry.path, "file"))
            self._size += entry.size
        else:
            self.skipped += 1
        if self._size > self._limits.size:
            raise _build_refusal(f"more than {self._limits.size:,} bytes of files")
        if len(self.entries) % _ENTRIES_PER_CLOCK_CHECK == 0 and monotonic() > self._deadline:
            raise _build_refusal(f"more files than can be counted in {self._limits.seconds:g} s")


class StackedEntry(NamedTuple):
    """An entry of one layer."""

    path: bytes
    mode: int
    size: int


def merge_directories(stack: Sequence[bytes], bottom: bytes) -> dict[bytes, list[StackedEntry]]:
    """Merge directories of stacked layers, topmost first; return the visible names with their entries.

    A file has one entry, a directory one per layer down to the layer that hides the rest.
    """
    entries_by_name: dict[bytes, list[StackedEntry]] = {}
    closed_names: set[bytes] = set()
    for directory in stack:
        for entry in _scan_directory(directory):
            if entry.name in closed_names:
                continue
            info = entry.stat(follow_symlinks=False)
            is_directory = stat.S_ISDIR(info.st_mode)
            is_layer = directory != bottom
            if is_layer and is_whiteout(info):
                closed_names.add(entry.name)
                continue
            if is_directory or entry.name not in entries_by_name:
                entries_by_name.setdefault(entry.name, []).append(StackedEntry(entry.path, info.st_mode, info.st_size))
            if not is_directory or (is_layer and is_opaque(entry.path)):
                closed_names.add(entry.name)
    return entries_by_name


def _scan_directory(directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, PermissionError):
        return []


def is_opaque(path: bytes) -> bool:
    """True if overlayfs hides the layers below this directory."""
    try:
        return os.getxattr(path, "user.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False


def _iterate_sizes(path: bytes) -> Iterator[int]:
    """Yield the size in bytes of every file in and below a path; directories count as empty files."""
    waiting = [path]
    while waiting:
        entry_path = waiting.pop()
        info = os.lstat(entry_path)
        yield info.st_size if stat.S_ISREG(info.st_mode) else 0
        if stat.S_ISDIR(info.st_mode):
            waiting += [entry.path for entry in _scan_directory(entry_path)]


def _build_refusal(reason: str) -> ToolFailed:
    return ToolFailed(
        f"This command needs a copy of the project, which has {reason}.", hint=_HINT, code="copy_too_large"
    )


class _Copier:
    def __init__(
        self,
        copy: ProjectCopy,
        limits: CopyLimits,
        workspace: bytes,
        *,
        link_held: bool,
        owner: tuple[int, int] | None,
    ) -> None:
        self._owner = owner
        self._copy = copy
        self._root = os.fsencode(copy.root)
        self._limits = limits
        self._workspace = workspace
        self._link_held = link_held
        self._can_clone = True

    def copy_entries(self, entries: list[_Entry]) -> None:
        deadline = monotonic() + self._limits.seconds
        os.mkdir(self._root, 0o700)
        for number, entry in enumerate(entries):
            if number % _ENTRIES_PER_CLOCK_CHECK == 0 and monotonic() > deadline:
                raise _build_refusal(f"more than can be copied in {self._limits.seconds:g} s: {len(entries):,} entries")
            with contextlib.suppress(FileNotFoundError):  # removed since the survey
                self._copy_entry(entry)
                self._give_away(os.path.join(self._root, entry.path))
        self._give_away(self._root)
        self._record_signatures(entries)

    def _give_away(self, target: bytes) -> None:
        if self._owner is not None:
            os.chown(target, *self._owner, follow_symlinks=False)

    def _copy_entry(self, entry: _Entry) -> None:
        target = os.path.join(self._root, entry.path)
        match entry.kind:
            case "directory":
                os.mkdir(target, 0o700)
            case "file":
                self._copy_file(entry.source, target)
            case "link":
                os.symlink(os.readlink(entry.source), target)
            case "held" if self._link_held:
                os.symlink(entry.source, target)
            case "held" | "withheld":
                self._make_placeholder(entry, target)

    def _make_placeholder(self, entry: _Entry, target: bytes) -> None:
        mode = 0o000 if entry.kind == "withheld" else 0o755
        if stat.S_ISDIR(os.lstat(entry.source).st_mode):
            os.mkdir(target)
            os.chmod(target, mode)
        else:
            os.close(os.open(target, _NEW_FILE, mode))

    def _copy_file(self, source: bytes, target: bytes) -> None:
        """Copy bytes, permissions and times. No link is followed, and an unreadable file becomes an empty one."""
        try:
            reader = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except PermissionError:
            os.close(os.open(target, _NEW_FILE, 0))
            return
        try:
            info = os.fstat(reader)
            writer = os.open(target, _NEW_FILE, 0o600)
            try:
                self._copy_bytes(reader, writer)
                os.fchmod(writer, info.st_mode & 0o777)
                os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def _copy_bytes(self, reader: int, writer: int) -> None:
        if self._can_clone:
            import fcntl

            try:
                fcntl.ioctl(writer, _FICLONE, reader)
                return
            except OSError:
                self._can_clone = False
        try:
            while os.copy_file_range(reader, writer, _CHUNK):
                pass
        except OSError:
            os.lseek(reader, 0, os.SEEK_SET)
            os.ftruncate(writer, 0)
            os.lseek(writer, 0, os.SEEK_SET)
            while piece := os.read(reader, _CHUNK):
                os.write(writer, piece)

    def _record_signatures(self, entries: list[_Entry]) -> None:
        """Restore permissions and times of directories, which filling them changed, and record all signatures."""
        for entry in reversed(entries):
            if entry.kind == "directory":
                self._copy_metadata(entry.source, os.path.join(self._root, entry.path))
        self._copy_metadata(self._workspace, self._root)
        for path in (b"", *(entry.path for entry in entries)):
            with contextlib.suppress(FileNotFoundError):
                self._copy.files[path] = make_signature(os.lstat(os.path.join(self._root, path)))

    def _copy_metadata(self, source: bytes, target: bytes) -> None:
        info = os.lstat(source)
        os.chmod(target, info.st_mode & 0o777 | 0o700)
        os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))


def make_signature(info: os.stat_result) -> FileSignature:
    """Return the signature of a file's status."""
    return FileSignature(info.st_mode, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def move_changes(copy: ProjectCopy, upper: Path, *, is_mounted: bool) -> None:
    """Move the changes since `copy` was made into the empty directory `upper`, on the same file system.

    `is_mounted`: the held paths were mounted over, so their entries in the copy are ignored. Raises `ToolFailed` if the
    layer can't be written; the copy is unusable afterwards in any case.
    """
    try:
        _Comparison(copy, upper, frozenset([*copy.withheld, *(copy.held if is_mounted else ())])).write_layer()
    except OSError as error:
        location = os.fsdecode(error.filename) if error.filename else str(upper)
        raise ToolFailed(
            f"The command's changes could not be saved: {error.strerror} ({location}).",
            hint="Your files are unchanged. Free some space or check the state directory, and run it again.",
        ) from error


class _Comparison:
    def __init__(self, copy: ProjectCopy, upper: Path, skipped_paths: frozenset[bytes]) -> None:
        self._files = copy.files
        self._from = os.fsencode(copy.root)
        self._to = os.fsencode(upper)
        self._skipped = skipped_paths
        self._children: dict[bytes, list[bytes]] = defaultdict(list)
        for path in copy.files:
            if path:
                above, _, name = path.rpartition(b"/")
                self._children[above].append(name)

    def write_layer(self) -> None:
        now = os.lstat(self._from)
        if now.st_mode != self._files[b""].mode:
            os.chmod(self._to, stat.S_IMODE(now.st_mode))
        waiting = [(b"", now)]
        while waiting:
            waiting += self._compare_directory(*waiting.pop())

    def _compare_directory(self, path: bytes, info: os.stat_result) -> Iterator[tuple[bytes, os.stat_result]]:
        """Compare a directory that existed before and after. Yields its subdirectories that did, too."""
        directory = os.path.join(self._from, path)
        if info.st_mode & 0o700 != 0o700:
            os.chmod(directory, stat.S_IMODE(info.st_mode) | 0o700)
        with os.scandir(directory) as entries:
            present = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        for name in self._children[path]:
            child = path + b"/" + name if path else name
            stats = present.pop(name, None)
            if child not in self._skipped and (child_stats := self._compare_entry(child, self._files[child], stats)):
                yield child, child_stats
        for name, new in present.items():
            self._move_entry(path + b"/" + name if path else name, new)

    def _compare_entry(self, path: bytes, before: FileSignature, now: os.stat_result | None) -> os.stat_result | None:
        """Write the change of an entry; return the status of a directory that still exists, for comparison."""
        if now is None or is_whiteout(now):
            self._write_whiteout(path)
        elif stat.S_ISDIR(before.mode) and stat.S_ISDIR(now.st_mode):
            if now.st_mode != before.mode:
                self._make_directories(path)
            return now
        elif make_signature(now) != before:
            self._move_entry(path, now)
        return None

    def _write_whiteout(self, path: bytes) -> None:
        self._make_directories(os.path.dirname(path))
        os.mknod(os.path.join(self._to, path), stat.S_IFCHR, os.makedev(0, 0))

    def _move_entry(self, path: bytes, info: os.stat_result) -> None:
        if is_whiteout(info):
            return  # the command made a whiteout for a missing name, which hides nothing
        self._make_directories(os.path.dirname(path))
        source, target = os.path.join(self._from, path), os.path.join(self._to, path)
        is_locked = stat.S_ISDIR(info.st_mode) and info.st_mode & 0o700 != 0o700
        if is_locked:
            os.chmod(source, stat.S_IMODE(info.st_mode) | 0o700)  # its `..` changes, which takes permission
        os.rename(source, target)
        if is_locked:
            os.chmod(target, stat.S_IMODE(info.st_mode))

    def _make_directories(self, path: bytes) -> None:
        """Create this directory in the layer if it is missing, with its present permissions in the copy."""
        missing = []
        while path and not os.path.isdir(os.path.join(self._to, path)):
            missing.append(path)
            path = os.path.dirname(path)
        for parent in reversed(missing):
            target = os.path.join(self._to, parent)
            os.mkdir(target, 0o700)
            os.chmod(target, stat.S_IMODE(os.lstat(os.path.join(self._from, parent)).st_mode) | 0o700)
