"""What the entries of a command's layer mean for the tree as the agent saw it: which files are put, which go, and what
stays in the layer to be decided in bulk.

The layer itself is cleared of what does not stay: special files, copies of what was there already, and the marks of
directories whose files are accounted for one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from core.shadow.disk import Within, directories_of
from core.shadow.layers import Top
from core.shadow.overlay import is_opaque, make_whiteout, missing_above, set_opaque
from core.shadow.path_classes import PathClass, PathClasses, is_lever
from core.shadow.scan import Found, Scanned
from core.shadow.seen import LARGEST, Node, Seen
from core.workspace.beneath import holder
from core.workspace.git_index import read_index
from core.workspace.names import is_git_internal, to_os
from core.workspace.removing import remove

_LEVERLESS = {"refs", "logs"}  # directories of git's
NAMED = 5  # of a kind, in a note


class Sorting:
    """Works through one layer; `puts` are reviewed files and links by path, still in the layer; `deletes` reviewed
    removals; `tops` what stays, by its highest place; `gone` directories that went, with their modes, and `returned`
    those that are there (again); `replaced` those in whose place a file or link is put; `unhidden` removals that were
    decided in bulk until now."""

    def __init__(self, upper: Path, scanned: Scanned, seen: Seen, classes: PathClasses) -> None:
        self._upper = upper
        self._scanned = scanned
        self._seen = seen
        self._classes = classes
        self._entries = {each.path: each for each in scanned.entries}
        self._hidden: dict[str, Top] = {}
        self._dropped: list[str] = []
        self._stripped: list[str] = []
        self._shut: list[str] = []
        self._large: list[str] = []
        self._bare: list[str] = []
        self._closed: set[str] = set()
        self._is_closed = Within(self._closed.__contains__)
        self.puts: dict[str, Found] = {}
        self.deletes: dict[str, None] = {}
        self.tops: dict[str, Top] = {}
        self.gone: dict[str, int] = {}
        self.returned: set[str] = set()
        self.replaced: set[str] = set()
        self.unhidden: set[str] = set()

    def at(self, path: str) -> Path:
        return Path(os.fsdecode(self._place(path)))

    def _place(self, path: str) -> bytes:
        return os.fsencode(self._upper) + b"/" + to_os(path)

    def is_closed(self, path: str) -> bool:
        """Whether the path lies in a directory that stays in the layer and hides all that is below it."""
        return self._is_closed(path)

    def _close(self, path: str) -> None:
        self._closed.add(path)
        self._is_closed = Within(self._closed.__contains__)

    def sort(self) -> None:
        """Fill the fields. Raises OSError."""
        for path in self._scanned.too_deep:
            self._dropped.append(path)
            remove(self.at(path))
        for each in self._scanned.entries:
            self._one(each)

    def settle(self) -> None:
        """Bring the layer to what stays in it; for when the puts that are pending have been taken out. Raises OSError.

        A put that was there before as it is goes, unless it would be hidden then.
        """
        for path in self.puts:
            if not self.is_closed(path):
                self.at(path).unlink(missing_ok=True)
        is_covered = Within(self.puts.__contains__)
        for path, top in self._hidden.items():
            if not is_covered(path):
                self._hide(path, top)
        needed = directories_of(self.puts)
        live = directories_of(path for path in self._seen.pending_files() if path not in self.deletes)
        for each in reversed(self._scanned.entries):
            if each.kind == "directory":
                self._settle_directory(each, needed, live)
        for each in self._scanned.entries:
            if each.kind == "directory" and each.mode & 0o700 != 0o700 and self.at(each.path).is_dir():
                self.at(each.path).chmod(each.mode)

    def notes(self) -> Iterator[str]:
        """What was dropped or is decided apart, in sentences for the user and the model."""
        for paths, what in (
            (self._dropped, "not kept (no regular file, link or directory, or its path is too long)"),
            (self._stripped, "kept without its setuid, setgid or sticky bits"),
            (self._shut, "kept so that its owner can read it, and not shut"),
            (self._large, f"larger than {LARGEST >> 20} MB: decided as a whole, without its lines"),
            (self._bare, "an empty directory, or a directory's mode: git does not know it, it is decided by itself"),
        ):
            if paths:
                more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
                yield f"{', '.join(paths[:NAMED])}{more}: {what}."

    # entries

    def _class(self, found: Found) -> PathClass:
        return self._classes.of(found.path, found.kind == "directory")

    def _one(self, found: Found) -> None:
        if found.kind == "special":
            self._dropped.append(found.path)
            self.at(found.path).unlink()
            return
        cls = self._class(found)
        if found.kind == "whiteout":
            self._whiteout(found, cls)
        elif found.kind == "directory":
            self._directory(found, cls)
        elif (
            cls.kind == "reviewed" or (cls.kind == "git" and is_lever(found.path)) or self._seen.is_pending(found.path)
        ):
            self._put(found)
        else:
            self._stay(found, cls)

    def _put(self, found: Found) -> None:
        if found.kind == "file" and found.size > LARGEST:
            self._large.append(found.path)
            self._stay(found, PathClass("large", found.path, found.path))
            return
        if found.mode & 0o7000 and found.kind == "file":
            self._stripped.append(found.path)
        node = self._seen.node(found.path)
        if node is not None and node.kind == "directory":
            for path in self._children(found.path):
                self._delete_all(path)
            self._goes(found.path, node)
            self.replaced.add(found.path)
        self._delete_rest(found.path)
        self.puts[found.path] = found

    def _goes(self, path: str, node: Node) -> None:
        """A directory is removed; its mode on disk is what it comes back with."""
        self.gone[path] = (self._seen.disk_node(path) or node).mode

    def _delete_rest(self, path: str) -> None:
        """A file takes the place of a directory that is hidden already: what was to be decided in bulk goes with it."""
        for each, below in self._seen.disk_tree(path):
            if below.kind == "directory":
                self._goes(each, below)
                self.replaced.add(path)
            elif self._seen.node(each) is None and not self._seen.is_pending(each):
                self.deletes[each] = None
                self.unhidden.add(each)

    def _stay(self, found: Found, cls: PathClass) -> None:
        if found.kind == "file" and found.mode & 0o7400 != 0o400:
            if found.mode & 0o7000:
                self._stripped.append(found.path)
            if not found.mode & 0o400:
                self._shut.append(found.path)
            self.at(found.path).chmod(found.mode & 0o777 | 0o400)  # it is read again: compared, copied, accepted
        node = self._seen.node(found.path)
        if node is not None and not self.is_closed(found.path) and self._is_as_before(found, node):
            self.at(found.path).unlink()
        else:
            self.tops.setdefault(cls.top, _top(cls))

    def _is_as_before(self, found: Found, node: Node) -> bool:
        """Whether a command has copied a file up without a change, or refreshed what git remembers of the disk."""
        if node.kind != found.kind or node.mode != found.mode & 0o777:
            return False
        if found.path.endswith(".git/index"):
            data = self._seen.read(found.path, node, LARGEST)
            old, new = read_index(data), read_index(self.at(found.path).read_bytes())
            return old is not None and new is not None and old.facts == new.facts
        if node.size != found.size:
            return False
        if found.kind == "symlink":
            return os.fsencode(self.at(found.path).readlink()) == self._seen.read(found.path, node, LARGEST)
        return node.size <= LARGEST and self.at(found.path).read_bytes() == self._seen.read(found.path, node, LARGEST)

    def _directory(self, found: Found, cls: PathClass) -> None:
        node = self._seen.node(found.path)
        if node is not None and node.kind in {"file", "symlink"} and self._is_reviewed_file(found.path):
            self.deletes[found.path] = None
        if cls.kind != "reviewed":
            self.tops.setdefault(cls.top, _top(cls))
            if found.opaque:
                self._close(found.path)
                self._delete_pending(found.path)
                self._delete_levers(found.path)
            return
        self.returned.add(found.path)
        if found.opaque:
            if node is not None and node.kind == "directory":
                self._replace(found.path)
            set_opaque(self.at(found.path), False)

    def _is_reviewed_file(self, path: str) -> bool:
        return self._seen.is_pending(path) or self._classes.of(path, False).kind == "reviewed"

    def _delete_pending(self, path: str) -> None:
        """What is decided in bulk went, and with it what was pending there."""
        for each in self._seen.pending_below(path):
            if each not in self._entries or self._entries[each].kind == "whiteout":
                self.deletes[each] = None

    def _delete_levers(self, path: str) -> None:
        """A directory of git's was made again: what made git run something in the old one goes file by file."""
        waiting = [path] if is_git_internal(path) else []
        while waiting:
            directory = waiting.pop()
            is_crowd = directory.endswith("/objects")
            for name, kind in self._seen.names(directory).items():
                each = f"{directory}/{name}"
                if kind == "directory":
                    waiting += [each] if name not in _LEVERLESS and (name == "info" or not is_crowd) else []
                elif is_lever(each) and not self._is_put(each):
                    self.deletes[each] = None

    def _is_put(self, path: str) -> bool:
        return path in self._entries and self._entries[path].kind in {"file", "symlink"}

    def _whiteout(self, found: Found, cls: PathClass) -> None:
        node = self._seen.node(found.path)
        lever = cls.kind == "git" and is_lever(found.path) and node is not None and node.kind != "directory"
        if cls.kind != "reviewed" and not lever:
            self._delete_pending(found.path)
            if node is None:
                self.at(found.path).unlink()
            else:
                self.tops.setdefault(cls.top, _top(cls))
            return
        self.at(found.path).unlink()
        if lever:
            self.deletes[found.path] = None
        elif node is not None:
            self._hidden |= self._deleted(found.path)

    # directories that were removed or replaced

    def _children(self, path: str) -> list[str]:
        return [f"{path}/{name}" for name in sorted(self._seen.names(path))]

    def _deleted(self, path: str) -> dict[str, Top]:
        """Account for the removal of what was at a path. Returns what is to be hidden in the layer that stays: of what
        is not reviewed, the highest places."""
        hidden: dict[str, Top] = {}
        directories: dict[str, Node] = {}
        reviewed = []
        waiting = [path]
        while waiting:
            each = waiting.pop()
            node = self._seen.node(each)
            if node is None:
                continue
            cls = self._classes.of(each, node.kind == "directory")
            if cls.kind != "reviewed":
                self._delete_pending(each)
                hidden[each] = _top(cls)
            elif node.kind == "directory":
                directories[each] = node
                waiting += reversed(self._children(each))
            elif node.kind in {"file", "symlink"} and node.size <= LARGEST:
                reviewed.append(each)
            else:
                hidden[each] = Top(root=each, kind="large")
        self.deletes |= dict.fromkeys(reviewed)
        above = directories_of(reviewed)
        for each in reversed(directories):
            if each in above:
                self._goes(each, directories[each])
            else:
                hidden[each] = Top(root=each)
        is_below = Within(hidden.__contains__)
        return {each: top for each, top in hidden.items() if not is_below(each)}

    def _delete_all(self, path: str) -> None:
        """A file takes the place of the directory above: all that was in it goes with one decision."""
        waiting = [path]
        while waiting:
            each = waiting.pop()
            node = self._seen.node(each)
            if node is not None and node.kind == "directory":
                self._goes(each, node)
                waiting += self._children(each)
            elif node is not None:
                self.deletes[each] = None

    def _replace(self, path: str) -> None:
        """A directory was removed and made again: what is not in the layer has gone."""
        waiting = [path]
        while waiting:
            for child in self._children(waiting.pop()):
                now, before = self._entries.get(child), self._seen.node(child)
                if now is None:
                    self._hidden |= self._deleted(child)
                elif now.kind == "directory" and before is not None and before.kind == "directory" and not now.opaque:
                    if self._class(now).kind == "reviewed":
                        waiting.append(child)
                    else:
                        set_opaque(self.at(child), True)
                        self._close(child)

    # what stays

    def _hide(self, path: str, top: Top) -> None:
        for each in missing_above(self._upper, path):
            node = self._seen.node(each)
            with holder(self._place(each)) as (above, name):
                os.mkdir(name, dir_fd=above)
                os.chmod(name, node.mode if node else self._seen.directory_mode, dir_fd=above)
        make_whiteout(self.at(path))
        self.tops[path] = top

    def _settle_directory(self, found: Found, needed: set[str], live: set[str]) -> None:
        """Keep a directory only for what is in it, or for what it is itself: empty, or of another mode.

        `needed` by what was put, `live` by what is still pending: those are there without a layer.
        """
        place = self._place(found.path)
        mode = found.mode & 0o777
        if found.mode != mode:
            self.at(found.path).chmod(mode)
        if self.is_closed(found.path):
            return
        reviewed = self._class(found).kind == "reviewed"
        below = self._seen.below(found.path)
        node = self._seen.node(found.path) or (below if reviewed else None)
        is_there = found.path in live or (below is not None and below.kind == "directory")
        if is_there and node is not None and node.kind == "directory":
            is_container = mode == node.mode
        else:
            holds = found.path in needed or not _is_empty(place)
            is_container = reviewed and holds and mode == self._seen.directory_mode
        if is_container:
            if _is_empty(place) and not is_opaque(place):
                with holder(place) as (above, name):
                    os.rmdir(name, dir_fd=above)
        elif reviewed:
            self._bare.append(found.path)
            self.tops[found.path] = Top(root=found.path, kind="directory")


def _is_empty(directory: bytes) -> bool:
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def _top(cls: PathClass) -> Top:
    return Top(root=cls.root, kind=cls.kind)
