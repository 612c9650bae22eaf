"""A copy of the project for tiers that can't mount a layer over it, and its changes written as a layer.

The copy holds what `project_survey` lists. A copy that would take too long or too much room is refused before it is
used: the user decides then.

After the command, the changes are written in overlayfs's format. A deletion becomes a whiteout, which Linux lets anyone
make since 5.8; new and changed files are moved out of the copy, and a new tree is moved as a whole. Where they can't be
moved (to another file system), or must stay for a process that still uses them, they are cloned or copied. No symbolic
link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from core.clock import monotonic
from core.errors import ToolFailed
from core.filesystem.overlay_support import is_whiteout, make_whiteout, set_opaque
from core.filesystem.removal import remove_tree
from core.sandbox.box import BoxRequest
from core.sandbox.tiers.clone_files import NEW_FILE, Cloner, Outcome
from core.sandbox.tiers.project_survey import (
    ENTRIES_PER_CLOCK_CHECK,
    STRONGER_TIER_HINT,
    CopyLimits,
    FileSignature,
    Survey,
    SurveyEntry,
    build_refusal,
    make_signature,
)


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
    survey = Survey(request, bounds)
    copy = ProjectCopy(root=target)
    try:
        survey.list_entries()
        copy.withheld = [entry.path for entry in survey.entries if entry.kind == "withheld"]
        copy.held, copy.skipped = survey.held, survey.skipped
        _copy_entries(copy, survey.entries, CopyClock(bounds, len(survey.entries)), link_held=link_held, owner=owner)
    except OSError as error:
        remove_copy(target)
        raise explain_copy_failure(error) from error
    except BaseException:
        remove_copy(target)
        raise
    return copy


def _copy_entries(
    copy: ProjectCopy,
    entries: list[SurveyEntry],
    clock: CopyClock,
    *,
    link_held: bool,
    owner: tuple[int, int] | None,
) -> None:
    root = os.fsencode(copy.root)
    placer = EntryPlacer(root, link_held=link_held)
    os.mkdir(copy.root, 0o700)
    for entry in entries:
        clock.check()
        if entry.path:
            with contextlib.suppress(FileNotFoundError):  # removed since the survey
                placer.place(entry)
        if owner is not None:
            with contextlib.suppress(FileNotFoundError):
                os.chown(os.path.join(root, entry.path), *owner, follow_symlinks=False)
    for entry in reversed(entries):  # filling the directories changed their times
        if entry.kind == "directory":
            placer.copy_metadata(entry)
    for entry in entries:
        with contextlib.suppress(FileNotFoundError):
            copy.files[entry.path] = make_signature(os.lstat(os.path.join(root, entry.path)))


def explain_copy_failure(error: OSError) -> ToolFailed:
    """Return the error for a copy that the system refused."""
    if error.errno == errno.ENAMETOOLONG:
        return build_refusal("directories that are nested too deep to be copied")
    location = f" ({os.fsdecode(error.filename)})" if error.filename else ""
    return ToolFailed(
        f"The project could not be copied for this command: {error.strerror}{location}.", hint=STRONGER_TIER_HINT
    )


def remove_copy(root: Path) -> None:
    """Remove a copy, whatever its permissions are. Files that can't be removed remain for the next sweep."""
    with contextlib.suppress(OSError):
        remove_tree(root)


class CopyClock:
    """The time that copying may take; asked for each entry, it looks at the clock now and then."""

    def __init__(self, limits: CopyLimits, total: int) -> None:
        self._deadline = monotonic() + limits.seconds
        self._seconds, self._total, self._count = limits.seconds, total, 0

    def check(self) -> None:
        """Raise `ToolFailed` if the time is over."""
        if self._count % ENTRIES_PER_CLOCK_CHECK == 0 and monotonic() > self._deadline:
            raise build_refusal(f"more than can be copied in {self._seconds:g} s: {self._total:,} entries")
        self._count += 1


class EntryPlacer:
    """Makes the entries of a survey in a copy. `offline`: paths of files whose content is only in the cloud."""

    def __init__(self, root: bytes, *, link_held: bool, cloner: Cloner | None = None) -> None:
        self._root = root
        self._link_held = link_held
        self.cloner = cloner or Cloner()
        self.offline: list[bytes] = []

    def place(self, entry: SurveyEntry) -> None:
        """Make an entry, which must not exist. Raises OSError, `FileNotFoundError` if its original is gone."""
        target = os.path.join(self._root, entry.path)
        match entry.kind:
            case "directory":
                os.mkdir(target, 0o700)
            case "file":
                outcome: Outcome = self.cloner.clone_file(entry.source, target)
                if outcome == "offline":
                    self.offline.append(entry.path)
            case "link":
                os.symlink(os.readlink(entry.source), target)
            case "held" if self._link_held:
                os.symlink(entry.source, target)
            case "held" | "withheld":
                self._make_placeholder(entry, target)

    def _make_placeholder(self, entry: SurveyEntry, target: bytes) -> None:
        mode = 0o000 if entry.kind == "withheld" else 0o755
        if stat.S_ISDIR(entry.signature.mode):
            os.mkdir(target)
            os.chmod(target, mode)
        else:
            os.close(os.open(target, NEW_FILE, mode))

    def copy_metadata(self, entry: SurveyEntry) -> None:
        """Give a directory the permissions and the time of its original."""
        target = os.path.join(self._root, entry.path)
        os.chmod(target, get_directory_mode(entry))
        os.utime(target, ns=(entry.signature.modified, entry.signature.modified))


def get_directory_mode(entry: SurveyEntry) -> int:
    """Return the permissions of a directory in the copy: we must be able to list and change it."""
    return entry.signature.mode & 0o777 | 0o700


class TreeScan:
    """The entries of a copy, parents first, with their signatures; b"" is the root.

    Directories that their owner may not list or change are unlocked for the time being, except for root; `relock`
    restores them. `too_deep`: directories whose content no path can name.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)
        self.entries: dict[bytes, FileSignature] = {}
        self.whiteouts: set[bytes] = set()
        self.locked: list[tuple[bytes, int]] = []
        self.too_deep: list[bytes] = []
        self.entries[b""] = make_signature(os.lstat(self._root))
        waiting = [b""]
        while waiting:
            waiting += reversed(self._scan_directory(waiting.pop()))

    def _scan_directory(self, path: bytes) -> list[bytes]:
        directory = os.path.join(self._root, path) if path else self._root
        mode = self.entries[path].mode
        try:
            if mode & 0o700 != 0o700:
                os.chmod(directory, stat.S_IMODE(mode) | 0o700)
                self.locked.append((path, stat.S_IMODE(mode)))
            with os.scandir(directory) as entries:
                children = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        except FileNotFoundError:  # a process of the last command removes it at this moment
            return []
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            self.too_deep.append(path)
            return []
        below = []
        for name, info in children:
            child = path + b"/" + name if path else name
            self.entries[child] = make_signature(info)
            if stat.S_ISDIR(info.st_mode):
                below.append(child)
            elif is_whiteout(info):
                self.whiteouts.add(child)
        return below

    def relock(self, path: bytes, mode: int, moved_to: bytes | None = None) -> None:
        """Restore a directory's permissions in the copy, or where it was moved to."""
        with contextlib.suppress(OSError):
            os.chmod(os.path.join(self._root if moved_to is None else moved_to, path), mode)


def move_changes(copy: ProjectCopy, upper: Path, *, is_mounted: bool) -> None:
    """Move the changes since `copy` was made into the empty directory `upper`, if possible on the same file system.

    `is_mounted`: the held paths were mounted over, so their entries in the copy are ignored. Raises `ToolFailed` if the
    layer can't be written; the copy is unusable afterwards in any case.
    """
    skipped_paths = frozenset([*copy.withheld, *(copy.held if is_mounted else ())])
    try:
        writer = LayerWriter(copy.files, TreeScan(copy.root), copy.root, upper)
        writer.write(skipped=skipped_paths, held=frozenset(copy.held))
    except OSError as error:
        raise explain_layer_failure(error, upper) from error


def explain_layer_failure(error: OSError, upper: Path) -> ToolFailed:
    """Return the error for a layer that could not be written."""
    location = os.fsdecode(error.filename) if error.filename else str(upper)
    return ToolFailed(
        f"The command's changes could not be saved: {error.strerror} ({location}).",
        hint="Your files are unchanged. Free some space or check the state directory, and run it again.",
    )


class _NewDirectory(NamedTuple):
    path: bytes
    signature: FileSignature


class LayerWriter:
    """Writes the differences between the signatures `before` and a scan of a copy into a layer.

    `keep`: files are cloned or copied, not moved, because a process may still write to them. `moved`: the paths that
    are no longer in the copy. `restored`: new signatures of files whose permissions had to be changed for a moment.
    `special`: sockets, FIFOs and devices that could not be copied.
    """

    def __init__(
        self, before: Mapping[bytes, FileSignature], scan: TreeScan, root: Path, upper: Path, *, keep: bool = False
    ) -> None:
        self._before, self._scan = before, scan
        self._from, self._to = os.fsencode(root), os.fsencode(upper)
        self._may_move = not keep
        self._cloner = Cloner()
        self._new_directories: list[_NewDirectory] = []
        self.moved: set[bytes] = set()
        self.restored: dict[bytes, FileSignature] = {}
        self.special: list[bytes] = []

    def write(self, *, skipped: Collection[bytes] = (), held: Collection[bytes] = ()) -> None:
        """Write the layer. Changes of `skipped` paths and below do not count; one of `held` replaces all of it."""
        present = self._scan.entries
        if present[b""].mode != self._before[b""].mode:
            os.chmod(self._to, stat.S_IMODE(present[b""].mode))
        omitted = set(skipped)
        for path, now in present.items():
            above = os.path.dirname(path)
            if above in self.moved:
                self.moved.add(path)
            elif path in omitted or (above in omitted and path):
                omitted.add(path)
            elif path and path not in self._scan.whiteouts:
                self._compare(path, now, is_held=path in held)
        for path in self._before:
            if path and path not in omitted and not self._is_present(path) and self._is_merged(os.path.dirname(path)):
                self._make_directories(os.path.dirname(path))
                make_whiteout(os.path.join(self._to, path))
        self._finish_directories()

    def _compare(self, path: bytes, now: FileSignature, *, is_held: bool) -> None:
        before = self._before.get(path)
        if before is not None and stat.S_ISDIR(before.mode) and stat.S_ISDIR(now.mode):
            if now.mode != before.mode:
                self._make_directories(path)
        elif now != before:
            self._transfer(path, now)
            if is_held and stat.S_ISDIR(now.mode):
                set_opaque(os.path.join(self._to, path), True)

    def _is_present(self, path: bytes) -> bool:
        return path in self._scan.entries and path not in self._scan.whiteouts

    def _is_merged(self, path: bytes) -> bool:
        """True if a path is the root or a directory before and after, in which the layer must hide deleted names."""
        now, before = self._scan.entries.get(path), self._before.get(path)
        return now is not None and before is not None and stat.S_ISDIR(now.mode) and stat.S_ISDIR(before.mode)

    def _transfer(self, path: bytes, now: FileSignature) -> None:
        self._make_directories(os.path.dirname(path))
        source, target = os.path.join(self._from, path), os.path.join(self._to, path)
        if self._may_move:
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._may_move = False
            else:
                self.moved.add(path)
                return
        with contextlib.suppress(FileNotFoundError):  # a surviving process has just removed it
            self._copy(path, source, target, now)

    def _copy(self, path: bytes, source: bytes, target: bytes, now: FileSignature) -> None:
        if stat.S_ISDIR(now.mode):
            os.mkdir(target, 0o700)
            self._new_directories.append(_NewDirectory(path, now))
        elif stat.S_ISLNK(now.mode):
            os.symlink(os.readlink(source), target)
        elif stat.S_ISREG(now.mode):
            self._clone_own(path, source, target, now)
        else:
            self.special.append(path)

    def _clone_own(self, path: bytes, source: bytes, target: bytes, now: FileSignature) -> None:
        """Clone a file of the copy, even one that its owner may not read."""
        if now.mode & 0o400:
            self._cloner.clone_file(source, target)
            return
        os.chmod(source, stat.S_IMODE(now.mode) | 0o400)
        try:
            self._cloner.clone_file(source, target)
            os.chmod(target, stat.S_IMODE(now.mode) & 0o777)
        finally:
            os.chmod(source, stat.S_IMODE(now.mode))
            self.restored[path] = make_signature(os.lstat(source))

    def _make_directories(self, path: bytes) -> None:
        """Create this directory in the layer if it is missing, with its present permissions in the copy."""
        missing = []
        while path and not os.path.isdir(os.path.join(self._to, path)):
            missing.append(path)
            path = os.path.dirname(path)
        for parent in reversed(missing):
            target = os.path.join(self._to, parent)
            os.mkdir(target, 0o700)
            os.chmod(target, stat.S_IMODE(self._scan.entries[parent].mode) | 0o700)

    def _finish_directories(self) -> None:
        """Give copied directories their times and permissions, and lock again what the scan unlocked."""
        for path, signature in reversed(self._new_directories):
            target = os.path.join(self._to, path)
            os.utime(target, ns=(signature.modified, signature.modified))
            os.chmod(target, stat.S_IMODE(signature.mode))
        for path, mode in reversed(self._scan.locked):
            self._scan.relock(path, mode, self._to if path in self.moved else None)
