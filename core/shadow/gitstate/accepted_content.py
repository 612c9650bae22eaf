"""The comparison of git's content with what the user accepted: the disk, byte for byte or as git stores it."""

from __future__ import annotations

import hashlib
import os

from core.errors import PathRefused
from core.git.history import LINK_MODE, MISSING_MODE, SUBMODULE_MODE, GitEntry
from core.git.repository import GitFailed, open_repository
from core.protocol.review import FileState
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.shadow.layers.merged_tree import MergedTree
from core.workspace.file_names import from_os_name

_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_EMPTY_BLOBS = frozenset({"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"})


class AcceptedContent:
    """Compare with the disk as it is now; for one repository, whose worktree begins at `prefix`."""

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
        """True if the disk has what the entry says, or nothing where it says nothing. Raises `GitFailed`."""
        if entry.mode == SUBMODULE_MODE:
            return self._is_submodule_at(entry)
        state = self._read_state(self.get_path(entry))
        if entry.mode == MISSING_MODE:
            return state.kind == "absent"
        if entry.oid in _EMPTY_BLOBS and state.kind != "file":
            return True  # nothing is in it: a file that is only to be added
        if (entry.mode == LINK_MODE) != (state.kind == "symlink") or state.kind == "absent":
            return False
        data = self._contents.read(state)
        if entry.mode != LINK_MODE and (entry.mode == "100755") != bool(state.mode & 0o100):
            return False
        is_same = entry.oid in map(self._hash_blob, (data, data.replace(b"\r\n", b"\n")))
        return is_same or self._is_lfs_pointer_to(entry, data)

    def is_rejected_or_pending(self, entry: GitEntry) -> bool:
        """True if a change of the path was rejected, or is pending."""
        return self.get_path(entry) in self._rejected or self.is_pending(entry)

    def is_pending(self, entry: GitEntry) -> bool:
        """True if something at the path is still to be decided."""
        path = self.get_path(entry)
        return path in self._state.changes or self._tree.stack.find(path) is not None

    def find_acceptable(self, entry: GitEntry) -> GitEntry | None:
        """Return what a commit that changes the entry may hold of it: the entry, the disk's content instead, or None
        for what was there before. Raises `GitFailed` if that can't be told."""
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
