"""The layer of what is taken over of git's state: references, HEAD and index as they may be, and the objects they need.

All of it is written from what was compared, nothing is copied as commands left it. Objects of the project are never
removed, and of new ones come only those that something accepted leads to. Logs begin anew where commands left them, and
no text of an unfinished commit comes along. Whatever else lies there is named.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from core.shadow.effects.path_classes import is_git_protected
from core.shadow.gitstate.outcome import STASH, GitOutcome
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_place, make_whiteout
from core.shadow.paths import list_parents

_STATE = re.compile(r"(?:HEAD|index|packed-refs|refs|logs|objects)(?:/|\Z)|sharedindex\.[0-9a-f]+\Z")
# What git writes at every turn and never reads again by itself.
_QUIETLY_LEFT = re.compile(r"(?:COMMIT_EDITMSG|TAG_EDITMSG|AUTO_MERGE|gc\.pid|gc\.log)\Z|.*\.lock\Z")
_MAX_SINGLE = 3  # files of one directory that are named each


def list_left_out(tree: MergedTree, repository: RepositoryCopy, outcome: GitOutcome) -> list[str]:
    """List what commands changed in a repository and what is not taken over, as a person reads it."""
    rel, left = repository.rel, dict.fromkeys(outcome.strange)
    moved = {f"logs/{name}" for name in {*outcome.before, *outcome.after}}
    for path, entry in tree.stack.walk(rel):
        inside = path.removeprefix(rel).lstrip("/")
        is_directory = entry is not None and entry.is_directory
        if not inside or is_directory or is_git_protected(path) or _QUIETLY_LEFT.match(inside):
            continue
        if (not _STATE.match(inside) or (inside.startswith("logs/") and inside not in moved)) and (
            entry is not None or tree.find_on_disk(path) is not None
        ):
            left[inside] = None
    return _join_directories(left)


def _join_directories(names: Iterable[str]) -> list[str]:
    by_directory = defaultdict[str, list[str]](list)
    for name in sorted(names):
        by_directory[name.partition("/")[0] if "/" in name else ""].append(name)
    found = by_directory.pop("", [])
    for directory, files in by_directory.items():
        found += files if len(files) <= _MAX_SINGLE else [f"{directory}/ ({len(files)} files)"]
    return sorted(found)


class GitLayer(Struct, eq=False):
    """Write the layer of one repository below `place`."""

    tree: MergedTree
    repository: RepositoryCopy
    outcome: GitOutcome
    place: Path

    def write(self) -> None:
        """Write the layer. Raises OSError and `GitFailed`."""
        self._get_path("").mkdir(mode=0o700, parents=True)
        self._write_references()
        old, new = self.outcome.head
        if new and new != old:
            self._write_file("HEAD", f"{new}\n".encode())
        if self.outcome.index:
            self._write_file("index", self.outcome.index)
        elif self.outcome.index is not None:
            self._add_whiteout("index")
        self._write_logs()
        self._write_objects()
        self._set_directory_modes()

    def _get_path(self, inside: str) -> Path:
        return get_place(self.place, f"{self.repository.rel}/{inside}".rstrip("/"))

    def _make_parents(self, inside: str) -> Path:
        target = self._get_path(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _write_file(self, inside: str, data: bytes) -> None:
        """Write a file, with the mode that the project's own has."""
        target = self._make_parents(inside)
        target.write_bytes(data)
        node = self.tree.find_on_disk(f"{self.repository.rel}/{inside}")
        if node is not None and node.kind == "file":
            target.chmod(node.mode | 0o600)

    def _add_whiteout(self, inside: str) -> None:
        if not self._exists_on_disk(inside) or any(self._get_path(each).is_file() for each in list_parents(inside)):
            return
        target = self._make_parents(inside)
        if not os.path.lexists(target):
            make_whiteout(target)

    def _exists_on_disk(self, inside: str) -> bool:
        return self.tree.find_on_disk(f"{self.repository.rel}/{inside}") is not None

    def _set_directory_modes(self) -> None:
        """Give directories the modes that they have in the project: those of commands are no state."""
        top = self._get_path("")
        for directory in (top, *(each for each in top.rglob("*") if each.is_dir())):
            inside = directory.relative_to(top).as_posix()
            node = self.tree.find_on_disk(self.repository.rel if inside == "." else f"{self.repository.rel}/{inside}")
            is_there = node is not None and node.kind == "directory"
            directory.chmod((node.mode if node and is_there else self.tree.workspace.directory_mode) | 0o700)

    # references

    def _write_references(self) -> None:
        before, after, symbolic = self.outcome.before, self.outcome.after, self.outcome.symbolic
        for name, oid in after.items():
            if name != "HEAD" and (before.get(name) != oid or name in symbolic):
                target = symbolic.get(name)
                self._write_file(name, f"ref: {target}\n".encode() if target else f"{oid}\n".encode())
        gone = before.keys() - after.keys() - {"HEAD"}
        for name in sorted(gone):
            self._add_whiteout(name)
        if gone:
            self._remove_packed(gone)

    def _remove_packed(self, names: Iterable[str]) -> None:
        """Remove references, with what is said of their targets, from the file that holds many."""
        data, left, removed = self._read_disk("packed-refs"), list[bytes](), False
        gone = {name.encode("utf-8", "surrogateescape") for name in names}
        for line in data.splitlines(keepends=True):
            if line.startswith(b"^"):
                left += [] if removed else [line]
                continue
            removed = line.rstrip(b"\n").partition(b" ")[2] in gone
            left += [] if removed else [line]
        if b"".join(left) != data:
            self._write_file("packed-refs", b"".join(left))

    def _read_disk(self, inside: str) -> bytes:
        rel = f"{self.repository.rel}/{inside}"
        node = self.tree.find_on_disk(rel)
        return self.tree.workspace.read_bytes(rel) if node is not None and node.kind == "file" else b""

    # what is made

    def _write_logs(self) -> None:
        """One line for every reference that moves; the stash is its log."""
        before, after = self.outcome.before, self.outcome.after
        none = "0" * (64 if self.repository.hash_name == "sha256" else 40)
        for name in {*before, *after}:
            inside = f"logs/{name}"
            source = self.repository.now.directory / inside
            if name not in after:
                if not source.exists():
                    self._add_whiteout(inside)
                continue
            if before.get(name) == after[name] or not source.is_file():
                continue
            if name == STASH:
                self._write_file(inside, source.read_bytes())
                continue
            last = source.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
            head, has_more, rest = last.partition(b"> ")
            person = b" ".join(head.split(b" ")[2:])
            line = f"{before.get(name, none)} {after[name]} ".encode() + person + b"> " + rest + b"\n"
            self._write_file(inside, self._read_disk(inside) + (line if has_more else b""))

    def _write_objects(self) -> None:
        """All that is new and accepted: as it lies there, else as one pack."""
        room = self.repository.now
        before = set(self.outcome.before.values())
        wanted = {*self.outcome.after.values(), *self.outcome.others, *self.outcome.loose} - before
        if not wanted:
            return
        asked = [*sorted(wanted), *(f"^{oid}" for oid in sorted(before))]
        lines = "".join(f"{each}\n" for each in asked).encode()
        listed = room.run("rev-list", "--objects", "--ignore-missing", "--stdin", stdin=lines, seconds=60.0)
        names = [line.split(b" ")[0].decode() for line in listed.splitlines()]
        loose = [self.repository.now.directory / "objects" / name[:2] / name[2:] for name in names]
        if all(each.is_file() for each in loose):
            for each in loose:
                target = self._make_parents(f"objects/{each.parent.name}/{each.name}")
                target.write_bytes(each.read_bytes())
                target.chmod(0o444)
        else:
            self._write_pack("".join(f"{name}\n" for name in names).encode())

    def _write_pack(self, names: bytes) -> None:
        packs = self._make_parents("objects/pack/x").parent
        self.repository.now.run("pack-objects", "-q", str(packs / "pack"), stdin=names, seconds=120.0)
        for each in packs.iterdir():
            if each.suffix not in {".pack", ".idx"}:
                each.unlink()
        for each in (packs.parent, packs):
            each.chmod(0o755)
