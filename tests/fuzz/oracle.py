"""What has to be on disk: the start, what the user did, and what they accepted. Worked out from bytes and line numbers,
without the code that is under test."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct, field

from core.protocol.renames import find_renames
from core.protocol.review import Change, FileState, Hunk
from tests.fuzz.disk import Entry, Tree, marks
from tests.fuzz.project import BY_RULE

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_PLAN = re.compile(r"\.cursor/plans/[^/]+\.plan\.md")

Blob = Callable[[str], bytes]


class Broken(Exception):
    """A promise that did not hold; the text says which."""


class Allowance(Struct, kw_only=True):
    """What an action may do to the disk. `exact`: the states that a path may have afterwards (None = absent), beside
    the one that it has. `loose`: paths that may change in a way that is not foreseen byte by byte; then the agent's
    marks that come have to be in `gained` and the user's that go in `lost`, or in another file if the path is one of
    `moved` (the new paths of renames, whose lines go back where they were when that is undone) or generated (commands
    copy lines into what git ignores). `generated`: what git
    ignores may change, as a whole; `git`: so may its own files."""

    exact: dict[str, list[Entry | None]] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)
    generated: bool = False
    git: bool = False
    gained: set[bytes] = field(default_factory=set)
    lost: set[bytes] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)

    def is_loose(self, path: str) -> bool:
        return path in self.loose or (self.generated and is_generated(path)) or (self.git and path.startswith(".git/"))


class Oracle:
    """`disk` is what has to be there. `accepted`: the agent's marks that the user ever let through; `exposed`: secrets
    that the user made none."""

    def __init__(self, disk: Tree) -> None:
        self.disk = disk
        self.accepted: set[bytes] = set()
        self.written: set[str] = set()
        self.moved: set[str] = set()
        self.before: dict[str, dict[str, Entry | None]] = {}
        self.exposed: set[str] = set()

    def copy(self) -> Oracle:
        """Another one with the same expectations."""
        other = Oracle(self.disk)
        other.accepted, other.written, other.before = set(self.accepted), set(self.written), dict(self.before)
        other.exposed, other.moved = set(self.exposed), set(self.moved)
        return other

    def check(self, tree: Tree, may: Allowance) -> list[str]:
        """The differences that `may` does not allow; what is found is what is expected from now on."""
        faults = []
        self.moved |= may.moved
        for path in sorted(tree.keys() | self.disk.keys()):
            was, now = self.disk.get(path), tree.get(path)
            if was != now:
                copied = path in self.moved or is_generated(path)
                elsewhere = {mark for state in tree.values() for mark in _users(state)} if copied else set()
                faults += self._judged(path, was, now, may, elsewhere)
                if _is_shut(now) and not _is_shut(was):
                    faults.append(f"{path}: its owner can't read it any more")
                if not _PLAN.fullmatch(path):
                    self.written.add(path)
        self.disk = tree
        rules = tree.get(".gitignore", Entry("file", 0, b"")).data
        self.exposed |= {name for name, rule in BY_RULE.items() if rule not in rules}
        return faults

    def _judged(
        self, path: str, was: Entry | None, now: Entry | None, may: Allowance, elsewhere: set[bytes]
    ) -> list[str]:
        if _PLAN.fullmatch(path) and (now is None or now.kind == "file"):
            return []
        if path in may.exact and any(_same(now, state) for state in may.exact[path]):
            self.accepted |= _agents(now)
            return []
        if not may.is_loose(path):
            foreseen = [_shown(state) for state in may.exact.get(path, [])]
            return [f"{path} is {_shown(now)}, was {_shown(was)}" + (f", foreseen {foreseen}" if foreseen else "")]
        came, went = _agents(now) - _agents(was), _users(was) - _users(now)
        strange = set() if is_generated(path) else came - may.gained - self.accepted
        faults = [f"{path}: the agent's {mark!r} came, and nobody accepted it" for mark in strange]
        faults += [f"{path}: the user's {mark!r} is lost" for mark in went - may.lost - elsewhere]
        self.accepted |= came
        return faults


def is_generated(path: str) -> bool:
    """Whether git ignores it from the start; what is accepted there is accepted as a whole."""
    return path == ".env" or path.startswith(("build/", "local/")) or path.endswith(".log")


def _same(one: Entry | None, other: Entry | None) -> bool:
    """Equal in kind and content: which of two modes an edit keeps is for other tests."""
    return (one and (one.kind, one.data)) == (other and (other.kind, other.data))


def _is_shut(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == "file" and not entry.mode & stat.S_IRUSR


def _agents(entry: Entry | None) -> set[bytes]:
    return marks(entry.data, b"ag") if entry else set()


def _users(entry: Entry | None) -> set[bytes]:
    return marks(entry.data, b"us") if entry else set()


def _shown(entry: Entry | None) -> str:
    return "absent" if entry is None else f"{entry.kind} {entry.mode:o} {entry.data[-160:]!r}"


def foreseen(
    changes: Collection[Change], selection: Iterable[tuple[Change, Collection[str]]], disk: Tree, blob: Blob
) -> Allowance:
    """What accepting these hunks (none named: all) of these changes may do."""
    may = Allowance()
    chosen = list(selection)
    # Both paths of a rename go together, as do those of a rename that makes way.
    by_path = {change.path: change for change in changes}
    pairs = [(by_path[new], by_path[old]) for new, old in find_renames(by_path).items()]
    reached = {change.path for change, _ in chosen}
    for one, other in pairs * 2:
        if {one.path, other.path} & reached or any(_in_the_way(other.path, path) for path in reached):
            chosen += [(side, ()) for side in (one, other) if side.path not in reached]
            reached |= {one.path, other.path}
    for change, ids in chosen:
        _allow(may, change, [hunk for hunk in change.hunks if not ids or hunk.id in ids], disk, blob)
    own = {change.path for change, _ in chosen}
    names = {name for change, _ in chosen for name in (change.path, change.renamed_from) if name}
    for change in changes:  # what can't be on disk beside a chosen one goes with it
        if change.path not in own and any(_in_the_way(change.path, name) for name in names):
            _allow(may, change, list(change.hunks), disk, blob)
    return may


def _in_the_way(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def _allow(may: Allowance, change: Change, chosen: list[Hunk], disk: Tree, blob: Blob) -> None:
    base, pending = entry(change.base, blob), entry(change.pending, blob)
    old, new = lines(entry(change.counted_state, blob)), lines(pending)
    if _same(disk.get(change.path), base) and not change.conflict:
        whole = len(chosen) == len(change.hunks)
        data = b"".join(spliced(old, new, chosen))
        target = pending if whole else Entry("file", (pending or base or Entry("", 0, b"")).mode, data)
        may.exact.setdefault(change.path, []).append(target)
    else:
        may.loose.add(change.path)
    for hunk in chosen:
        may.gained |= marks(b"".join(new[hunk.new_start - 1 :][: hunk.new_lines]), b"ag")
        may.lost |= marks(b"".join(old[hunk.old_start - 1 :][: hunk.old_lines]), b"us")
    if change.renamed_from:
        may.exact.setdefault(change.renamed_from, []).append(None)
        may.moved.add(change.path)


def entry(state: FileState, blob: Blob) -> Entry | None:
    if state.kind == "absent":
        return None
    data = blob(state.blob) if state.blob else b""
    return Entry("link", 0, data) if state.kind == "symlink" else Entry("file", state.mode, data)


def lines(of: Entry | None) -> list[bytes]:
    return _LINE.findall(of.data) if of else []


def spliced(old: list[bytes], new: list[bytes], chosen: list[Hunk]) -> list[bytes]:
    """`old` with the chosen hunks in it."""
    result_lines, at = [], 0
    for hunk in chosen:
        result_lines += old[at : hunk.old_start - 1] + new[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_lines]
        at = hunk.old_start - 1 + hunk.old_lines
    return result_lines + old[at:]
