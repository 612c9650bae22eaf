"""Comparison of git's content with the files that the user accepted, and the index that accepting writes.

Content counts as accepted if it is on the disk, byte for byte or as git stores it. The index has the entries that
commands staged, and for other paths those of the project's own index. An index also has extensions (a cached tree that
a commit would use, a shared file, a monitor), cached file status, and marks that hide a file from git; none of these
are written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from core.errors import PathRefused
from core.git.history import LINK_MODE, MISSING_MODE, SUBMODULE_MODE, GitEntry
from core.git.index import IndexEntry, read_entries, rebuild_index
from core.git.repository import GitFailed, GitRepository, open_repository
from core.protocol.review import FileState
from core.shadow.content.paths import format_paths
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.shadow.layers.merged_tree import MergedTree
from core.workspace.file_names import from_os_name

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_EMPTY_BLOBS = frozenset({"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"})
_Content = tuple[bytes, bytes, int]  # mode, object, intent to add
_PLAIN_MODE = "100644"
_MAX_NAMED = 20  # paths in a line
_DIRECTORY_MODE = bytes.fromhex("00004000")
_HIDING = 0x8000, 0x4000  # assume-unchanged in the flags, skip-worktree in the extended flags


class AcceptedContent:
    """Compare with the present disk, for one repository whose worktree is at `prefix`."""

    def __init__(self, tree: MergedTree, repository: RepositoryCopy) -> None:
        self._tree, self._contents, self._state = tree, tree.contents, tree.state
        self.repository = repository
        self._prefix = repository.rel.removesuffix(".git")
        verdicts = [verdict for verdict in tree.state.verdicts if verdict.bulk is None]
        self._rejected = {verdict.path for verdict in verdicts if verdict.verdict == "reject"}
        self._taken = {verdict.path for verdict in verdicts if verdict.verdict == "accept"}
        self._states: dict[str, FileState] = {}

    def get_path(self, entry: GitEntry) -> str:
        return self._prefix + from_os_name(entry.path)

    def is_on_disk(self, entry: GitEntry) -> bool:
        """True if the disk has the content of the entry, or no file where the entry has none. Raises `GitFailed`."""
        if entry.mode == SUBMODULE_MODE:
            return self._is_submodule_at(entry)
        state = self._read_state(self.get_path(entry))
        if entry.mode == MISSING_MODE:
            return state.kind == "absent"
        if entry.oid in _EMPTY_BLOBS and state.kind != "file":
            return True  # an intent-to-add entry without content
        if (entry.mode == LINK_MODE) != (state.kind == "symlink") or state.kind == "absent":
            return False
        data = self._contents.read(state)
        if entry.mode != LINK_MODE and (entry.mode == "100755") != bool(state.mode & 0o100):
            return False
        is_same = entry.oid in map(self._hash_blob, (data, data.replace(b"\r\n", b"\n")))
        return is_same or self._is_lfs_pointer_to(entry, data)

    def is_rejected_or_pending(self, entry: GitEntry) -> bool:
        """True if a change of the path was rejected or is pending."""
        return self.get_path(entry) in self._rejected or self.is_pending(entry)

    def is_pending(self, entry: GitEntry) -> bool:
        """True if a change of the path is undecided."""
        path = self.get_path(entry)
        return path in self._state.changes or self._tree.stack.find(path) is not None

    def find_acceptable(self, entry: GitEntry) -> GitEntry | None:
        """Return the acceptable version of a commit's entry: the entry itself, the disk's content, or None for the
        previous version. Raises `GitFailed` if that cannot be determined."""
        if self.is_on_disk(entry):
            return entry
        if self.get_path(entry) not in self._taken or entry.mode == SUBMODULE_MODE:
            return None
        state = self._read_state(self.get_path(entry))
        if state.kind == "absent":
            return GitEntry(entry.path, MISSING_MODE, "0" * len(entry.oid or entry.old))
        if state.kind == "symlink":
            return GitEntry(entry.path, LINK_MODE, self._write_object(self._contents.read(state), ""))
        if self._is_lfs_pointer(entry):
            raise GitFailed(f"{self.get_path(entry)} is stored by a filter (LFS), which is not run here")
        oid = self._write_object(self._contents.read(state), os.fsdecode(entry.path))
        return GitEntry(entry.path, "100755" if state.mode & 0o100 else "100644", oid)

    def _write_object(self, data: bytes, path: str) -> str:
        options = [f"--path={path}"] if path else ["--no-filters"]
        return self.repository.now.run("hash-object", "-w", "--stdin", *options, stdin=data).decode().strip()

    def _read_state(self, path: str) -> FileState:
        if path not in self._states:
            try:
                self._states[path] = self._tree.read_disk_state(path)
            except PathRefused as error:
                if error.code != "not_found":
                    raise GitFailed(f"{path} can't be compared with git: {error.message}") from error
                self._states[path] = FileState(kind="absent")
        return self._states[path]

    def _hash_blob(self, data: bytes) -> str:
        return hashlib.new(self.repository.hash_name, b"blob %d\0" % len(data) + data).hexdigest()

    def _is_lfs_pointer(self, entry: GitEntry) -> bool:
        if entry.mode in {MISSING_MODE, LINK_MODE, SUBMODULE_MODE}:
            return False
        is_small = int(self.repository.now.run("cat-file", "-s", entry.oid)) < 1024
        return is_small and self._read_blob(entry).startswith(_LFS_POINTER)

    def _is_lfs_pointer_to(self, entry: GitEntry, data: bytes) -> bool:
        pointer_lines = f"oid sha256:{hashlib.sha256(data).hexdigest()}\nsize {len(data)}\n".encode()
        return self._is_lfs_pointer(entry) and pointer_lines in self._read_blob(entry)

    def _read_blob(self, entry: GitEntry) -> bytes:
        return self.repository.now.run("cat-file", "blob", entry.oid)

    def _is_submodule_at(self, entry: GitEntry) -> bool:
        """True if a submodule's own HEAD is at the entry's commit."""
        with open_repository(self._tree.workspace.root / self.get_path(entry)) as module:
            return module is not None and module.run("rev-parse", "HEAD").decode().strip() == entry.oid


class StagedIndex(Struct, frozen=True):
    """The index to be written. `data`: its bytes; b"" = none; None: it stages the same as the project's own. `lines`
    describe the paths that are staged differently than before, and `paths` list them; `marked`: paths whose flags
    commands changed, which is reverted."""

    data: bytes | None = None
    lines: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def compute_staged_index(repository: RepositoryCopy, committed_entries: Iterable[GitEntry]) -> StagedIndex:
    """Compute the index from that of `repository.now`. `committed_entries`: the entries of the future HEAD. Raises
    `GitFailed`."""
    now = _read_index(repository.now, repository.now.directory / "index", repository)
    before = list[IndexEntry]()
    if repository.before is not None:
        before = _read_index(repository.before, repository.before.directory / "index", repository)
    entries_by_key = {entry.key: entry for entry in before}
    prefix = repository.rel.removesuffix(".git")
    marked_paths = sorted(
        {prefix + from_os_name(entry.name) for entry in now if _has_new_flags(entry, entries_by_key.get(entry.key))}
    )
    staged_contents = {entry.key: entry.content for entry in now}
    earlier_contents = {entry.key: entry.content for entry in before}
    if staged_contents == earlier_contents:
        return StagedIndex(marked=tuple(marked_paths))
    is_there = (repository.now.directory / "index").is_file()
    data = rebuild_index(now, before, repository.oid_bytes) if is_there else b""
    heads = {
        entry.path: (int(entry.mode, 8).to_bytes(4, "big"), bytes.fromhex(entry.oid), 0) for entry in committed_entries
    }
    keys = sorted(
        {
            key
            for key in staged_contents.keys() | earlier_contents.keys()
            if staged_contents.get(key) != earlier_contents.get(key)
        }
    )
    follows = [name for name, stage in keys if stage == 0 and staged_contents.get((name, 0)) == heads.get(name)]
    others = [key for key in keys if key[1] or key[0] not in follows]
    states = [(name, _describe_entry(staged_contents.get((name, stage)), heads.get(name))) for name, stage in others]
    paths = sorted({prefix + from_os_name(name) for name, _ in keys})
    lines = tuple(_describe(prefix, follows, states))
    return StagedIndex(data=data, lines=lines, marked=tuple(marked_paths), paths=tuple(paths))


def _describe_entry(content: _Content | None, head: _Content | None) -> str:
    """Describe the staged entry of a path compared to the future HEAD, with modes where they matter."""
    if content is None:
        return "removed"
    mode = _format_mode(content)
    if head is None:
        return "new" if mode == _PLAIN_MODE else f"new, mode {mode}"
    return "changed" if mode == _format_mode(head) else f"changed, mode {_format_mode(head)} → {mode}"


def _format_mode(content: _Content) -> str:
    return f"{int.from_bytes(content[0], 'big'):06o}"


def _describe(prefix: str, follows: list[bytes], others: list[tuple[bytes, str]]) -> Iterator[str]:
    if others:
        labels = dict.fromkeys(f"{prefix}{from_os_name(name)} ({state})" for name, state in others)
        yield f"Staged: {format_paths(list(labels), _MAX_NAMED)}."
    if follows:
        labels = dict.fromkeys(prefix + from_os_name(name) for name in follows)
        yield f"The index, as HEAD will be: {format_paths(list(labels), _MAX_NAMED)}."


def _has_new_flags(entry: IndexEntry, old_entry: IndexEntry | None) -> bool:
    marks = tuple(word & bit for word, bit in zip((entry.flags, entry.extended), _HIDING, strict=True))
    old = (old_entry.flags, old_entry.extended) if old_entry is not None else (0, 0)
    return marks != tuple(word & bit for word, bit in zip(old, _HIDING, strict=True))


def _read_index(now_repository: GitRepository, source: Path, repository: RepositoryCopy) -> list[IndexEntry]:
    """Read an index that may be split or sparse, from a complete copy that git writes."""
    if not source.is_file():
        return []
    copy = now_repository.directory / "index-as-a-whole"
    copy.write_bytes(source.read_bytes())
    variables = {"GIT_INDEX_FILE": str(copy)}
    now_repository.run("update-index", "--no-split-index", "--force-write-index", variables=variables, seconds=30.0)
    try:
        entries = read_entries(copy.read_bytes(), repository.oid_bytes)
    except ValueError as problem:
        raise GitFailed(f"the index of {repository.rel} is damaged.") from problem
    if any(entry.status[24:28] == _DIRECTORY_MODE for entry in entries):
        raise GitFailed(f"the index of {repository.rel} leaves out directories, which can't be compared here.")
    return entries
