"""Creations and deletions that are renames: found after every change of what is pending, and let go when they are none.

What is found is told by the same change, revised: hunks that are counted in the old file, the first of them the rename
itself. A pair stays as long as both paths wait as they did and half of the file is the same. While one of its paths is
in conflict it is two changes.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from core.errors import ContentLost
from core.protocol.moves import are_apart, renames
from core.protocol.review import Change, FileState
from core.shadow.contents import Contents, Sides
from core.shadow.hunks import divisible
from core.shadow.moving.similar import LARGEST, LEAST, alike, pieces, same, share
from core.shadow.review import ReviewState

_REMEMBERED = 16_384  # scores of two contents


class Pairs:
    """The renames of one session."""

    def __init__(self, contents: Contents, state: ReviewState) -> None:
        self._contents = contents
        self._state = state
        self._score = lru_cache(maxsize=_REMEMBERED)(self._compared)
        self._pieces = lru_cache(maxsize=64)(self._read)
        self._seen = -1

    def revised(self) -> list[Change]:
        """The changes that are renames now and were none, or the other way round."""
        changes = self._state.changes
        if self._state.version == self._seen:
            return []
        self._seen = self._state.version
        known = {new: old for new, old in renames(changes).items() if self._holds(changes[new], changes[old])}
        found = known | self._found(known)
        moved = (self._revised(changes[path], old) for path, old in found.items())
        apart = (self._parted(each) for path, each in changes.items() if path not in found)
        return [each for each in (*moved, *apart) if each is not None]

    def concerns(self, path: str) -> bool:
        """Whether a path is, or was, one of two that go together."""
        change = self._state.changes.get(path)
        if change is None or change.pending.kind == "absent":
            return any(path == each.renamed_from for each in self._state.changes.values())
        return bool(change.renamed_from)

    def _holds(self, new: Change, old: Change) -> bool:
        if new.apart or new.conflict or old.conflict or new.rivals or old.rivals:
            return False
        return old.base.blob == new.pending.blob or self._score(old.base, new.pending) >= LEAST

    def _found(self, known: dict[str, str]) -> dict[str, str]:
        taken = {*known, *known.values()}
        free = [
            each
            for each in self._state.changes.values()
            if each.path not in taken and not (each.apart or each.conflict or each.rivals)
        ]
        gone = {each.path: each.base for each in free if each.pending.kind == "absent" and _is_worth(each.base)}
        new = {each.path: each.pending for each in free if each.base.kind == "absent" and _is_worth(each.pending)}
        if not gone or not new:
            return {}
        found = same({path: each.blob for path, each in gone.items()}, {path: each.blob for path, each in new.items()})
        found = {path: old for path, old in found.items() if are_apart(path, old)}
        olds = {path: each.size for path, each in gone.items() if path not in found.values()}
        news = {path: each.size for path, each in new.items() if path not in found}
        if olds and news:
            found |= alike(olds, news, lambda old, path: self._of_paths(gone[old], new[path], old, path))
        return found

    def _of_paths(self, gone: FileState, new: FileState, old: str, path: str) -> float:
        return self._score(gone, new) if are_apart(old, path) else 0.0

    def _compared(self, old: FileState, new: FileState) -> float:
        """How much of two contents is the same; 0 for those that are no texts of one encoding."""
        try:
            sides = self._contents.data(old), self._contents.data(new)
            if max(map(len, sides)) > LARGEST or not divisible(*sides):
                return 0.0
            return share(self._pieces(old), self._pieces(new))
        except ContentLost:
            return 0.0

    def _read(self, state: FileState) -> dict[bytes, int]:
        return pieces(self._contents.data(state))

    def _revised(self, change: Change, old: str) -> Change | None:
        """A new file as a rename; None: it is one."""
        source = self._state.changes[old].base
        if (change.renamed_from, change.source) == (old, source):
            return None
        return self._recounted(change, (old, source))

    def _parted(self, change: Change) -> Change | None:
        """What was a rename as a new file; None: it was none. Where it came from is known as long as that waits."""
        if change.source is None:
            return None
        old = self._state.changes.get(change.renamed_from)
        is_tied = old is not None and old.pending.kind == "absent" and bool(old.conflict or change.conflict)
        found = self._recounted(change, None)
        return replace(found, renamed_from=change.renamed_from) if found is not None and is_tied else found

    def _recounted(self, change: Change, moved: tuple[str, FileState] | None) -> Change | None:
        """None: its content is lost."""
        try:
            return recounted(self._contents, change, moved)
        except ContentLost:
            return None


def recounted(contents: Contents, change: Change, moved: tuple[str, FileState] | None) -> Change:
    """The same change, its hunks counted anew as those of a rename, or (None) of a new file. Raises `ContentLost`."""
    found = contents.change(change.path, Sides(base=change.base, pending=change.pending), change.hunks, moved)
    todos = {each.todo for each in change.hunks}
    hunks = tuple(replace(each, todo=next(iter(todos))) for each in found.hunks) if len(todos) == 1 else found.hunks
    return replace(
        found,
        hunks=hunks,
        origin=change.origin,
        conflict=change.conflict,
        rivals=change.rivals,
        check=change.check,
        broken=change.broken,
        protected=found.protected or change.protected,
        risk=found.risk or change.risk,
    )


def _is_worth(state: FileState) -> bool:
    return state.kind == "file" and state.size > 0
