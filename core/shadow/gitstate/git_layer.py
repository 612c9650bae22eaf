"""The layer that accepting a state of git writes: references, HEAD, index, and the objects that they need.

It is written from the compared values; no file of the commands is copied. Objects of the project are never removed, and
only new objects that are reachable from something accepted are added. The log of a moved reference gets a line of ours,
and the text of an unfinished commit is not included. Everything else gets a note.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from core.clock import now_ms
from core.filesystem.overlay_support import make_whiteout
from core.git.history import is_object_name
from core.patterns import compile_lazily
from core.protocol.paths import list_parents
from core.shadow.gitstate.git_objects import RawObject, parse_person, read_object
from core.shadow.gitstate.outcome import STASH, GitOutcome
from core.shadow.gitstate.repository_copy import RepositoryCopy
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.overlayfs import get_layer_path

_LOGGED_BY = "agent-tui <agent-tui@localhost>"
_ACCEPTED = b"agent-tui: accepted from a command"
_VERB = compile_lazily(rb"(?:commit(?: \((?:amend|initial|merge|cherry-pick)\))?|cherry-pick|revert)\Z")
_CONTROLS = compile_lazily(rb"[\x00-\x1f\x7f]")


def _sign_line() -> bytes:
    return f"{_LOGGED_BY} {now_ms() // 1000} +0000".encode()


def _read_subject(commit: RawObject) -> bytes:
    return _CONTROLS.sub(b"?", commit.message.lstrip(b"\n").partition(b"\n")[0])


def _name_head(head: str) -> str:
    return head.removeprefix("ref: refs/heads/") or "nothing"


class GitLayer(Struct, eq=False):
    """Write the layer of one repository below `location`."""

    tree: MergedTree
    repository: RepositoryCopy
    outcome: GitOutcome
    location: Path

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
        return get_layer_path(self.location, f"{self.repository.rel}/{inside}".rstrip("/"))

    def _make_parents(self, inside: str) -> Path:
        target = self._get_path(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def _write_file(self, inside: str, data: bytes) -> None:
        """Write a file with the mode of the project's own."""
        target = self._make_parents(inside)
        target.write_bytes(data)
        node = self.tree.find_on_disk(f"{self.repository.rel}/{inside}")
        if node is not None and node.kind == "file":
            target.chmod(node.mode | 0o600)

    def _add_whiteout(self, inside: str) -> None:
        if not self._exists_on_disk(inside) or any(self._get_path(parent).is_file() for parent in list_parents(inside)):
            return
        target = self._make_parents(inside)
        if not os.path.lexists(target):
            make_whiteout(target)

    def _exists_on_disk(self, inside: str) -> bool:
        return self.tree.find_on_disk(f"{self.repository.rel}/{inside}") is not None

    def _set_directory_modes(self) -> None:
        """Set the modes of directories to those of the project, as commands' modes are no state."""
        top = self._get_path("")
        for directory in (top, *(path for path in top.rglob("*") if path.is_dir())):
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
        removed_names = before.keys() - after.keys() - {"HEAD"}
        for name in sorted(removed_names):
            self._add_whiteout(name)
        if removed_names:
            self._remove_packed(removed_names)

    def _remove_packed(self, names: Iterable[str]) -> None:
        """Remove references, with their peeled targets, from `packed-refs`."""
        data, remaining_lines, is_removed = self._read_disk("packed-refs"), list[bytes](), False
        removed_names = {name.encode("utf-8", "surrogateescape") for name in names}
        for line in data.splitlines(keepends=True):
            if line.startswith(b"^"):
                remaining_lines += [] if is_removed else [line]
                continue
            is_removed = line.rstrip(b"\n").partition(b" ")[2] in removed_names
            remaining_lines += [] if is_removed else [line]
        if b"".join(remaining_lines) != data:
            self._write_file("packed-refs", b"".join(remaining_lines))

    def _read_disk(self, inside: str) -> bytes:
        rel = f"{self.repository.rel}/{inside}"
        node = self.tree.find_on_disk(rel)
        return self.tree.workspace.read_bytes(rel) if node is not None and node.kind == "file" else b""

    # logs and objects

    def _write_logs(self) -> None:
        """Write one line for every reference that moves; the stash consists of its log."""
        before, after = self.outcome.before, self.outcome.after
        none = "0" * (64 if self.repository.hash_name == "sha256" else 40)
        for name in {*before, *after}:
            inside = f"logs/{name}"
            source = self.repository.now.directory / inside
            if name not in after:
                if not source.exists():
                    self._add_whiteout(inside)
                continue
            old, new = self.outcome.head
            is_switched = name == "HEAD" and old != new
            if (before.get(name) == after[name] and not is_switched) or not source.is_file():
                continue
            if name == STASH:
                self._write_file(inside, self._build_stash_log(source.read_bytes(), none))
                continue
            message = self._describe_move(source.read_bytes(), after[name])
            if is_switched:
                message = os.fsencode(f"checkout: moving from {_name_head(old)} to {_name_head(new)}")
            line = f"{before.get(name, none)} {after[name]} ".encode() + _sign_line() + b"\t" + message + b"\n"
            self._write_file(inside, self._read_disk(inside) + line)

    def _describe_move(self, log: bytes, oid: str) -> bytes:
        """Return git's description of a move if the last line of the log matches the commit's subject, else our own."""
        verb, _, text = log.rstrip(b"\n").rpartition(b"\n")[2].partition(b"\t")[2].partition(b": ")
        if not _VERB.match(verb):
            return _ACCEPTED
        subject = _read_subject(read_object(self.repository.now, "commit", f"{oid}^{{commit}}"))
        return verb + b": " + subject if text == subject else _ACCEPTED

    def _build_stash_log(self, data: bytes, none: str) -> bytes:
        """Build the log of the stash: the project's own lines unchanged, others from their commits."""
        own_lines, last, lines = set(self._read_disk(f"logs/{STASH}").split(b"\n")), none, list[bytes]()
        for line in data.split(b"\n"):
            names = line.split(b" ")[:2]
            if len(names) < 2 or not is_object_name(names[1]):
                continue
            oid = names[1].decode()
            lines.append(line if line in own_lines else self._describe_stash(last, oid))
            last = oid
        return b"".join(line + b"\n" for line in lines)

    def _describe_stash(self, before: str, oid: str) -> bytes:
        commit = read_object(self.repository.now, "commit", f"{oid}^{{commit}}")
        person = commit.get(b"committer")
        person = person if parse_person(person) and not _CONTROLS.search(person) else _sign_line()
        return f"{before} {oid} ".encode() + person + b"\t" + _read_subject(commit)

    def _write_objects(self) -> None:
        """Write all new and accepted objects, loose or as one pack."""
        repository = self.repository.now
        before = set(self.outcome.before.values())
        oids = {*self.outcome.after.values(), *self.outcome.others, *self.outcome.loose} - before
        if not oids:
            return
        revisions = [*sorted(oids), *(f"^{oid}" for oid in sorted(before))]
        lines = "".join(f"{revision}\n" for revision in revisions).encode()
        output = repository.run("rev-list", "--objects", "--ignore-missing", "--stdin", stdin=lines, seconds=60.0)
        names = [line.split(b" ")[0].decode() for line in output.splitlines()]
        loose = [self.repository.now.directory / "objects" / name[:2] / name[2:] for name in names]
        if all(path.is_file() for path in loose):
            for path in loose:
                target = self._make_parents(f"objects/{path.parent.name}/{path.name}")
                target.write_bytes(path.read_bytes())
                target.chmod(0o444)
        else:
            self._write_pack("".join(f"{name}\n" for name in names).encode())

    def _write_pack(self, names: bytes) -> None:
        packs = self._make_parents("objects/pack/x").parent
        self.repository.now.run("pack-objects", "-q", str(packs / "pack"), stdin=names, seconds=120.0)
        for path in packs.iterdir():
            if path.suffix not in {".pack", ".idx"}:
                path.unlink()
        for path in (packs.parent, packs):
            path.chmod(0o755)
