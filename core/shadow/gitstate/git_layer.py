"""The layer of what is taken over of git's state: references and index as they may be, and the objects they need.

Objects of the project are never removed, and of new ones come only those that something accepted leads to. What is
neither known nor needed stays out: logs begin anew where commands left them, and no text of an unfinished commit comes
along.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from core.filesystem.open_beneath import open_parent
from core.git.history import list_references
from core.shadow.effects.path_classes import is_git_protected
from core.shadow.gitstate.outcome import STASH, GitOutcome
from core.shadow.gitstate.repository_copy import UNDER_WAY, RepositoryCopy
from core.shadow.layers.layer_files import copy_file
from core.shadow.layers.layer_stack import LayeredEntry
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_place, is_opaque, make_whiteout, set_opaque

_TAKEN_OVER = re.compile(
    r"(?:HEAD|index|sharedindex\.[0-9a-f]+|packed-refs|shallow|description|info/(?:exclude|sparse-checkout|refs)"
    r"|MERGE_HEAD|MERGE_MSG|MERGE_MODE|SQUASH_MSG|CHERRY_PICK_HEAD|REVERT_HEAD|BISECT_[A-Z_]+"
    r"|refs/.*|hooks/[a-z-]+\.sample)\Z"
)
_DIRECTORIES = re.compile(r"(?:info|hooks|branches|refs|refs/.*)\Z")
_QUIETLY_LEFT = re.compile(
    r"(?:objects|logs)(?:/|\Z)|(?:ORIG_HEAD|FETCH_HEAD|AUTO_MERGE|COMMIT_EDITMSG|TAG_EDITMSG|gc\.pid|gc\.log)\Z|.*\.lock\Z"
)
_KEPT_ANYWAY = {"refs", "logs", "objects", "config", "config.worktree", "hooks", "info", "modules", "worktrees", "lfs"}


class GitLayer(Struct, eq=False):
    """Write the layer of one repository below `place`; `left_out`: what was not taken over."""

    tree: MergedTree
    repository: RepositoryCopy
    outcome: GitOutcome
    place: Path
    left_out: list[str] = field(default_factory=list)

    def write(self) -> None:
        """Write the layer. Raises OSError and `GitFailed`."""
        rel = self.repository.rel
        self._get_path("").mkdir(mode=0o700, parents=True)
        for path, entry in self.tree.stack.walk(rel):
            self._take_entry(path.removeprefix(rel).lstrip("/"), entry)
        if self.tree.stack.list_directory(rel).closed:
            self._hide_the_rest()
        self._write_references()
        now = self.repository.now.directory / "index"
        if self._get_path("index").is_file() and now.is_file():
            self._get_path("index").write_bytes(now.read_bytes())
        self._write_logs()
        self._write_objects()
        found = self.tree.stack.find(rel)
        if isinstance(found, LayeredEntry):
            self._get_path("").chmod(stat.S_IMODE(found.stats.st_mode) | 0o700)

    def _get_path(self, inside: str) -> Path:
        return get_place(self.place, f"{self.repository.rel}/{inside}".rstrip("/"))

    # what is taken as it is

    def _take_entry(self, inside: str, entry: LayeredEntry | None) -> None:
        if not inside or is_git_protected(f"{self.repository.rel}/{inside}"):
            return
        if entry is not None and entry.is_directory:
            if _DIRECTORIES.match(inside):
                self._make_directory(inside, entry)
        elif _TAKEN_OVER.match(inside) or (entry is None and inside in UNDER_WAY):
            if entry is None:
                self._add_whiteout(inside)
            elif stat.S_ISREG(entry.stats.st_mode):
                self._copy_file(entry, inside)
        elif not _QUIETLY_LEFT.match(inside):
            self.left_out.append(inside)

    def _make_directory(self, inside: str, entry: LayeredEntry) -> None:
        target = self._make_parents(inside)
        target.mkdir(exist_ok=True)
        target.chmod(stat.S_IMODE(entry.stats.st_mode) | 0o700)
        if inside.startswith("refs"):
            set_opaque(target, is_opaque(entry.place))

    def _make_parents(self, inside: str) -> Path:
        target = self._get_path(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _copy_file(self, entry: LayeredEntry, inside: str) -> None:
        with open_parent(entry.place) as source, open_parent(os.fsencode(self._make_parents(inside))) as target:
            copy_file(source, target, sync=False)

    def _add_whiteout(self, inside: str) -> None:
        target = self._make_parents(inside)
        if not os.path.lexists(target):
            make_whiteout(target)

    def _hide_the_rest(self) -> None:
        """The directory was made again: what commands saw nothing of goes, but for objects and what makes git run."""
        rel = self.repository.rel
        if (self.tree.workspace.root / rel).is_dir():
            listed = self.tree.stack.list_directory(rel).entries
            for each in self.tree.workspace.list_dir(rel):
                if each.name not in listed and each.name not in _KEPT_ANYWAY:
                    self._add_whiteout(each.name)
        for name in ("refs", "logs"):
            self._get_path(name).mkdir(mode=0o755, exist_ok=True)
            set_opaque(self._get_path(name), True)

    # what is made

    def _write_references(self) -> None:
        made = self.outcome.made
        packed = self._get_path("packed-refs")
        if packed.is_file() and made:
            text = packed.read_bytes()
            for old, new in made.items():
                text = text.replace(old.encode(), new.encode()) if new else text
            packed.write_bytes(text)
        for name, oid in list_references(self.repository.now).items():
            final = self.outcome.after.get(name, "")
            if final == oid:
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                self._get_path(name).unlink()
            if final and final != self.outcome.before.get(name):
                self._make_parents(name).write_text(f"{final}\n")
        detached = not self.repository.head.startswith(b"ref: ")
        if detached and (head := self.outcome.after.get("HEAD")) and self._get_path("HEAD").is_file():
            self._get_path("HEAD").write_text(f"{head}\n")

    def _write_logs(self) -> None:
        """One line for every reference that moves; the stash is its log."""
        before, after = self.outcome.before, self.outcome.after
        none = "0" * (64 if self.repository.hash_name == "sha256" else 40)
        for name in {*before, *after}:
            inside = f"logs/{name}"
            source = self.repository.now.directory / inside
            if name not in after:
                if self.tree.find_on_disk(f"{self.repository.rel}/{inside}") and not source.exists():
                    self._add_whiteout(inside)
                continue
            if before.get(name) == after[name] or not source.is_file():
                continue
            if name == STASH:
                self._make_parents(inside).write_bytes(source.read_bytes())
                continue
            last = source.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
            head, has_more, rest = last.partition(b"> ")
            person = b" ".join(head.split(b" ")[2:])
            line = f"{before.get(name, none)} {after[name]} ".encode() + person + b"> " + rest + b"\n"
            self._make_parents(inside).write_bytes(self._read_old_log(inside) + (line if has_more else b""))

    def _read_old_log(self, inside: str) -> bytes:
        rel = f"{self.repository.rel}/{inside}"
        node = self.tree.find_on_disk(rel)
        return self.tree.workspace.read_bytes(rel) if node is not None and node.kind == "file" else b""

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
