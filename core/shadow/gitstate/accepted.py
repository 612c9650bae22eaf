"""Whether what git holds of a path is what the user accepted: what is on disk, byte for byte or as git stores it."""

from __future__ import annotations

import hashlib
import os

from core.errors import PathRefused
from core.git.history import GONE, LINK, MODULE, Entry
from core.git.room import GitFailed, room
from core.protocol.review import FileState
from core.shadow.contents import Contents
from core.shadow.gitstate.laid import LaidRepository
from core.shadow.review import ReviewState
from core.shadow.seen import Seen
from core.workspace import Workspace
from core.workspace.names import from_os

_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_EMPTY = frozenset({"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"})


class Accepted:
    """Compares with the disk as it is now; for one repository, whose worktree begins at `prefix`."""

    def __init__(
        self, workspace: Workspace, contents: Contents, seen: Seen, state: ReviewState, laid: LaidRepository
    ) -> None:
        self._workspace = workspace
        self._contents = contents
        self._seen = seen
        self._state = state
        self._laid = laid
        self._prefix = laid.rel.removesuffix(".git")
        verdicts = [each for each in state.verdicts if each.bulk is None]
        self._rejected = {each.path for each in verdicts if each.verdict == "reject"}
        self._taken = {each.path for each in verdicts if each.verdict == "accept"}
        self._states: dict[str, FileState] = {}

    def path(self, entry: Entry) -> str:
        return self._prefix + from_os(entry.path)

    def holds(self, entry: Entry) -> bool:
        """Whether the disk has what the entry says, or nothing where it says nothing."""
        state = self._state_of(self.path(entry))
        if entry.mode == GONE:
            return state.kind == "absent"
        if entry.mode == MODULE:
            return self._module_holds(entry)
        if entry.oid in _EMPTY and state.kind != "file":
            return True  # nothing is in it: a file that is only to be added
        if (entry.mode == LINK) != (state.kind == "symlink") or state.kind == "absent":
            return False
        data = self._contents.data(state)
        if entry.mode != LINK and (entry.mode == "100755") != bool(state.mode & 0o100):
            return False
        return entry.oid in {self._name(data), self._name(data.replace(b"\r\n", b"\n"))} or self._is_pointer(
            entry, data
        )

    def was_judged(self, entry: Entry) -> bool:
        """Whether a change of the path was rejected, or waits."""
        return self.path(entry) in self._rejected or self.waits(entry)

    def waits(self, entry: Entry) -> bool:
        """Whether something at the path is still to be decided."""
        path = self.path(entry)
        return path in self._state.changes or self._seen.stack.find(path) is not None

    def settled(self, entry: Entry) -> Entry | None:
        """What a commit that changes the entry may hold of it: what it says, what the disk has instead, or None: what
        was there before. `GitFailed`: that can't be told."""
        if self.holds(entry):
            return entry
        state = self._state_of(self.path(entry))
        if self.path(entry) not in self._taken or entry.mode == MODULE:
            return None
        if state.kind == "absent":
            return Entry(entry.path, GONE, "0" * len(entry.oid or entry.old))
        if state.kind == "symlink":
            return Entry(entry.path, LINK, self._written(self._contents.data(state), ""))
        if self._is_pointer_at_all(entry):
            raise GitFailed(f"{self.path(entry)} is stored by a filter (LFS), which is not run here")
        oid = self._written(self._contents.data(state), os.fsdecode(entry.path))
        return Entry(entry.path, "100755" if state.mode & 0o100 else "100644", oid)

    def _written(self, data: bytes, path: str) -> str:
        named = [f"--path={path}"] if path else ["--no-filters"]
        return self._laid.now.run("hash-object", "-w", "--stdin", *named, stdin=data).decode().strip()

    def _state_of(self, path: str) -> FileState:
        if path not in self._states:
            try:
                self._states[path] = self._seen.disk_state(path)
            except PathRefused as error:
                if error.code != "not_found":
                    raise GitFailed(f"{path} can't be compared with git: {error.message}") from error
                self._states[path] = FileState(kind="absent")
        return self._states[path]

    def _name(self, data: bytes) -> str:
        return hashlib.new(self._laid.hashes, b"blob %d\0" % len(data) + data).hexdigest()

    def _is_pointer_at_all(self, entry: Entry) -> bool:
        if entry.mode in {GONE, LINK, MODULE}:
            return False
        return int(self._laid.now.run("cat-file", "-s", entry.oid)) < 1024 and self._blob(entry).startswith(_POINTER)

    def _is_pointer(self, entry: Entry, data: bytes) -> bool:
        return self._is_pointer_at_all(
            entry
        ) and f"oid sha256:{hashlib.sha256(data).hexdigest()}\nsize {len(data)}\n".encode() in self._blob(entry)

    def _blob(self, entry: Entry) -> bytes:
        return self._laid.now.run("cat-file", "blob", entry.oid)

    def _module_holds(self, entry: Entry) -> bool:
        """A submodule: whether its own HEAD is at that commit."""
        with room(self._workspace.root / self.path(entry)) as module:
            return module is not None and module.run("rev-parse", "HEAD").decode().strip() == entry.oid
