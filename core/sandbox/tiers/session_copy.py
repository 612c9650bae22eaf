"""Copies of the project that live as long as the box, brought up to date for each command.

A command takes a free copy; commands that run at the same time have one each. Before the command, every entry of the
view (the workspace with its layers) is compared with what the copy was made from, and only what differs is copied anew:
so a large repository is copied once, and what the last command changed, kept or dropped, is reset. After the command
the copy is compared with its manifest, and the differences become a layer.

Processes may outlive their command here. What they change between two commands is left to them, and counts as changes
of the next one; their open files stay the same files as long as the view has the same content.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from core.errors import ToolFailed
from core.filesystem.private_files import make_private_directory
from core.filesystem.removal import remove_path
from core.sandbox.box import BoxRequest
from core.sandbox.tiers.boxed_process import make_scratch_path
from core.sandbox.tiers.clone_files import Cloner
from core.sandbox.tiers.dropped_changes import describe_deleted_secrets
from core.sandbox.tiers.project_copy import (
    CopyClock,
    EntryPlacer,
    LayerWriter,
    TreeScan,
    explain_copy_failure,
    explain_layer_failure,
    get_directory_mode,
    remove_copy,
)
from core.sandbox.tiers.project_survey import CopyKind, CopyLimits, FileSignature, Survey, SurveyEntry, make_signature

_SPARE, _MOST = 4, 16
_COMPARED = 1 << 20  # bytes that are read at a time
_MOST_NAMED = 3


class _Record(NamedTuple):
    """The origin of an entry of the copy, and its own signature after it was made."""

    kind: CopyKind
    source: bytes
    source_signature: FileSignature
    own: FileSignature


class SessionCopies:
    """The copies of one box; safe for use from several threads.

    `spare`: number of copies that wait for their next command; `most`: of those in use at the same time. `link_held`:
    as in `copy_project`. All copies are removed by `close`.
    """

    def __init__(
        self,
        state: Path,
        *,
        limits: CopyLimits | None = None,
        spare: int = _SPARE,
        most: int = _MOST,
        link_held: bool = True,
    ) -> None:
        self._top = make_scratch_path(state)
        self._limits = limits or CopyLimits()
        self._spare, self._most = spare, most
        self._link_held = link_held
        self._lock = Lock()
        self._free: dict[Path, list[SessionCopy]] = {}
        self._in_use: set[SessionCopy] = set()
        self._count = 0
        self._is_closed = False

    def acquire(self, request: BoxRequest) -> CopyLease:
        """Return a copy of the workspace, up to date, for one command; its `collect` gives it back.

        Raises `ToolFailed` if it would exceed the limits, if too many commands have one, or if the disk is full.
        """
        copy = self._take(request.workspace)
        try:
            copy.update(request)
        except BaseException as error:
            self.give_back(copy, is_usable=copy.is_complete)
            raise explain_copy_failure(error) if isinstance(error, OSError) else error from None
        return CopyLease(self, copy)

    def _take(self, workspace: Path) -> SessionCopy:
        with self._lock:
            if self._is_closed:
                raise ToolFailed("The sandbox is closed.")
            if len(self._in_use) >= self._most:
                raise ToolFailed(
                    f"{self._most} commands are running, each in its own copy of the project, and no more can.",
                    hint="Wait for one of them, or stop a background job.",
                )
            free_copies = self._free.get(workspace, [])
            if free_copies:
                copy = free_copies.pop()
            else:
                self._count += 1
                directory = self._top / str(self._count)
                make_private_directory(directory.parent)
                make_private_directory(directory)
                copy = SessionCopy(workspace, directory, self._limits, link_held=self._link_held)
            self._in_use.add(copy)
            return copy

    def give_back(self, copy: SessionCopy, *, is_usable: bool) -> None:
        """Keep a copy for the next command, or remove it."""
        with self._lock:
            self._in_use.discard(copy)
            free_copies = self._free.setdefault(copy.workspace, [])
            is_kept = is_usable and not self._is_closed and len(free_copies) < self._spare
            if is_kept:
                free_copies.append(copy)
        if not is_kept:
            remove_copy(copy.root.parent)

    def close(self) -> None:
        """Remove all copies; those in use are removed when their command has ended."""
        with self._lock:
            self._is_closed = True
            free_copies = [copy for copies in self._free.values() for copy in copies]
            self._free.clear()
            is_unused = not self._in_use
        for copy in free_copies:
            remove_copy(copy.root.parent)
        if is_unused:
            remove_copy(self._top)


class CopyLease:
    """The right of one command to a copy. `collect` must be called exactly once, when the command has ended."""

    def __init__(self, pool: SessionCopies, copy: SessionCopy) -> None:
        self._pool, self._copy = pool, copy
        self.root = copy.root

    @property
    def held(self) -> list[bytes]:
        """The paths that are not copied; see `copy_project`."""
        return self._copy.held

    @property
    def withheld(self) -> list[bytes]:
        """The paths that are empty and unreadable for the command."""
        return self._copy.withheld

    @property
    def paths(self) -> Iterable[bytes]:
        """All paths of the copy, b"" for its root."""
        return self._copy.manifest

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on what the copy lacks."""
        return self._copy.describe()

    def collect(self, upper: Path | None, *, has_survivors: bool = False) -> tuple[str, ...]:
        """Write the command's changes into the empty directory `upper` (None: drop them) and give the copy back.

        `has_survivors`: a process of the command may still use its files, so they stay where they are. Returns notes
        for the user. Raises `ToolFailed` if the layer can't be written; then the copy is discarded.
        """
        is_usable = False
        try:
            notes = self._copy.collect(upper, keep=has_survivors)
            is_usable = True
        except OSError as error:
            raise explain_layer_failure(error, upper or self.root) from error
        finally:
            self._pool.give_back(self._copy, is_usable=is_usable)
        return notes


class SessionCopy:
    """One copy. `manifest`: what it was made from, by path. `is_complete`: the last update came to its end."""

    def __init__(self, workspace: Path, directory: Path, limits: CopyLimits, *, link_held: bool) -> None:
        self.workspace = workspace
        self.root = directory / (workspace.name or "root")
        self.manifest: dict[bytes, _Record] = {}
        self.held: list[bytes] = []
        self.withheld: list[bytes] = []
        self.left: dict[bytes, FileSignature] | None = None  # signatures after the last command was collected
        self.cloner = Cloner()
        self.is_complete = False
        self.link_held = link_held
        self.offline: set[bytes] = set()
        self._limits = limits

    def update(self, request: BoxRequest) -> None:
        """Make the copy equal to the view of `request`, but for what surviving processes changed meanwhile."""
        survey = Survey(request, self._limits)
        survey.list_entries()
        self.is_complete = False
        is_cloned = False
        if not _is_directory(self.root):
            remove_path(self.root)
            self.left, self.manifest = None, {}
            is_cloned = self.cloner.clone_tree(os.fsencode(self.workspace), os.fsencode(self.root))
            if not is_cloned:
                self.root.mkdir(mode=0o700)
        clock = CopyClock(self._limits, len(survey.entries))
        _Update(self, survey.entries, clock, is_cloned=is_cloned).run()
        self.held = survey.held
        self.withheld = [entry.path for entry in survey.entries if entry.kind == "withheld"]
        self.is_complete = True

    def collect(self, upper: Path | None, *, keep: bool) -> tuple[str, ...]:
        """Write the differences to the manifest into `upper`, and note what is left here."""
        if not _is_directory(self.root):  # it may have removed its directory
            remove_path(self.root)
            self.root.mkdir(mode=0o700)
        scan = TreeScan(self.root)
        if upper is None:
            self.left = scan.entries
            for path, mode in reversed(scan.locked):
                scan.relock(path, mode)
            return self.describe()
        before = {path: record.own for path, record in self.manifest.items()}
        skipped = frozenset([*self.withheld, *self.offline, *(() if self.link_held else self.held)])
        writer = LayerWriter(before, scan, self.root, upper, keep=keep)
        writer.write(skipped=skipped, held=frozenset(self.held))
        self.left = {path: signature for path, signature in scan.entries.items() if path not in writer.moved}
        self.left |= writer.restored
        return (*describe_deleted_secrets(upper, self.withheld), *self.describe())

    def describe(self) -> tuple[str, ...]:
        """Return notes on what the copy lacks."""
        held, offline = _format_names(self.held), _format_names(self.offline)
        return (
            *((f"Read-only in this tier, because too large to copy: {held}",) if held else ()),
            *((f"Empty for commands, because they are only in iCloud; open them once: {offline}",) if offline else ()),
            *((self.cloner.refusal,) if self.cloner.refusal else ()),
        )


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _format_names(paths: Iterable[bytes]) -> str:
    names = sorted(os.fsdecode(path) for path in paths)
    return ", ".join(names[:_MOST_NAMED]) + (
        f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    )


class _Update:
    """One update of a copy to the entries of a survey. `is_cloned`: the copy was just cloned as a whole."""

    def __init__(self, copy: SessionCopy, entries: list[SurveyEntry], clock: CopyClock, *, is_cloned: bool) -> None:
        self._copy, self._entries, self._clock = copy, entries, clock
        self._root = os.fsencode(copy.root)
        self._is_cloned = is_cloned
        self._placer = EntryPlacer(self._root, link_held=copy.link_held, cloner=copy.cloner)
        self._scan = TreeScan(copy.root)
        self._present = self._scan.entries
        self._manifest: dict[bytes, _Record] = {}
        self._directories = {b""}
        left = copy.left
        self._changed = set() if left is None else _list_changed(left, self._present)
        self._needed = {above for path in self._changed if path in self._present for above in _iterate_parents(path)}

    def run(self) -> None:
        self._remove_unwanted()
        for entry in self._entries:
            self._clock.check()
            with contextlib.suppress(FileNotFoundError):  # removed since the survey, or by a surviving process
                self._manifest[entry.path] = self._settle(entry)
        for entry in reversed(self._entries):  # filling the directories changed their times
            if entry.kind == "directory" and entry.path not in self._changed and entry.path in self._directories:
                self._placer.copy_metadata(entry)
        for path, mode in reversed(self._scan.locked):
            record = self._manifest.get(path)
            if path in self._changed or (record is not None and stat.S_IMODE(record.own.mode) == mode):
                self._scan.relock(path, mode)
        self._copy.offline = {path for path in self._copy.offline if path in self._manifest} | {*self._placer.offline}
        self._copy.manifest = self._manifest

    def _remove_unwanted(self) -> None:
        """Remove what the view lacks, or has in another form, children first."""
        wanted = {entry.path: entry for entry in self._entries}
        for path, signature in reversed([*self._present.items()]):
            if not path or path in self._changed or path in self._needed:
                continue
            entry = wanted.get(path)
            is_directory = stat.S_ISDIR(signature.mode)
            if entry is not None and is_directory == self._becomes_directory(entry):
                continue
            target = os.path.join(self._root, path)
            if path in self._scan.too_deep:
                remove_copy(Path(os.fsdecode(target)))
            else:
                (os.rmdir if is_directory else os.unlink)(target)
            del self._present[path]

    def _becomes_directory(self, entry: SurveyEntry) -> bool:
        if entry.kind == "held" and self._copy.link_held:
            return False
        return entry.kind in {"directory", "held", "withheld"} and stat.S_ISDIR(entry.signature.mode)

    def _settle(self, entry: SurveyEntry) -> _Record:
        """Bring one entry up to date, unless a surviving process changed it. Returns its record."""
        path = entry.path
        present = self._present.get(path)
        is_theirs = path in self._changed or (path in self._needed and not self._becomes_directory(entry))
        if is_theirs or (path and os.path.dirname(path) not in self._directories):
            if present is not None and stat.S_ISDIR(present.mode):
                self._directories.add(path)
            return _Record(entry.kind, entry.source, entry.signature, self._build_foreign_signature(entry))
        if self._becomes_directory(entry):
            return self._settle_directory(entry, present)
        record = self._copy.manifest.get(path)
        if record is not None and present == record.own and record[:3] == (entry.kind, entry.source, entry.signature):
            return record
        target = os.path.join(self._root, path)
        if present is not None and not self._adapt(entry, target, present):
            os.unlink(target)
            present = None
        if present is None:
            self._copy.offline.discard(path)
            self._placer.place(entry)
        return _Record(entry.kind, entry.source, entry.signature, make_signature(os.lstat(target)))

    def _build_foreign_signature(self, entry: SurveyEntry) -> FileSignature:
        """Return a signature of the view's entry that no file of the copy has, so that it counts as changed."""
        if self._becomes_directory(entry):
            return FileSignature(stat.S_IFDIR | get_directory_mode(entry), 0, -1, 0, 0)
        return FileSignature(stat.S_IFREG, 0, -1, 0, 0)

    def _settle_directory(self, entry: SurveyEntry, present: FileSignature | None) -> _Record:
        target = os.path.join(self._root, entry.path)
        if present is None:
            self._placer.place(entry)
        elif entry.kind != "directory":
            os.chmod(target, 0o000 if entry.kind == "withheld" else 0o755)
        if entry.kind != "directory":
            return _Record(entry.kind, entry.source, entry.signature, make_signature(os.lstat(target)))
        self._directories.add(entry.path)
        mode = stat.S_IFDIR | get_directory_mode(entry)
        return _Record(entry.kind, entry.source, entry.signature, FileSignature(mode, 0, -1, 0, 0))

    def _adapt(self, entry: SurveyEntry, target: bytes, present: FileSignature) -> bool:
        """Adapt an entry that has the right content already; return False if it has another."""
        if entry.kind == "link" or (entry.kind == "held" and stat.S_ISLNK(present.mode)):
            source = entry.source if entry.kind == "held" else os.readlink(entry.source)
            return stat.S_ISLNK(present.mode) and os.readlink(target) == source
        if entry.kind != "file" or not stat.S_ISREG(present.mode) or present.size != entry.signature.size:
            return False
        is_same = self._is_cloned and present.modified == entry.signature.modified
        if not is_same and not _has_same_content(entry.source, target):
            return False
        mode = entry.signature.mode & 0o777
        if stat.S_IMODE(present.mode) != mode:
            os.chmod(target, mode)
        if present.modified != entry.signature.modified:
            os.utime(target, ns=(entry.signature.modified, entry.signature.modified))
        return True


def _list_changed(left: dict[bytes, FileSignature], present: dict[bytes, FileSignature]) -> set[bytes]:
    """Return the paths that surviving processes changed, added or removed; of directories only the mode counts."""
    return {path for path in left.keys() | present.keys() if _reduce(left.get(path)) != _reduce(present.get(path))}


def _reduce(signature: FileSignature | None) -> FileSignature | None:
    if signature is not None and stat.S_ISDIR(signature.mode):
        return FileSignature(signature.mode, 0, 0, 0, 0)
    return signature


def _iterate_parents(path: bytes) -> Iterable[bytes]:
    while path := os.path.dirname(path):
        yield path


def _has_same_content(source: bytes, target: bytes) -> bool:
    """True if two files have the same bytes; False, too, if one can't be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with (
            open(os.open(source, flags), "rb", buffering=0) as one,
            open(os.open(target, flags), "rb", buffering=0) as two,
        ):
            while piece := one.read(_COMPARED):
                if piece != two.read(len(piece)):
                    return False
            return not two.read(1)
    except PermissionError:
        return False
