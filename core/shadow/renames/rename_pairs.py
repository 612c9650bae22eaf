"""Pairs of a creation and a deletion that are renames: looked for after every change of what is pending.

A pair is emitted as the same change, revised: hunks counted in the old file, the first of them the rename itself. It
stays as long as both paths are pending as they were and half of the file is the same. While one of its paths is in
conflict it is two changes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from msgspec.structs import replace

from core.errors import ContentLost
from core.protocol.events import AnyEvent, ChangeRevised
from core.protocol.renames import are_apart, find_renames
from core.protocol.review import Change, FileState
from core.shadow.content.contents import ChangeSides, Contents
from core.shadow.diff.hunks import is_divisible
from core.shadow.renames.similarity import (
    MAX_COMPARED_BYTES,
    MIN_SIMILARITY,
    compute_similarity,
    count_pieces,
    match_identical,
    match_similar,
)
from core.state.review import ReviewState

_MAX_SCORES = 16_384  # scores of two contents


class RenamePairs:
    """The renames of one session. `emit` tells the log."""

    def __init__(self, contents: Contents, state: ReviewState, emit: Callable[[AnyEvent], None]) -> None:
        self.contents, self.state, self.emit = contents, state, emit
        self._score = lru_cache(maxsize=_MAX_SCORES)(self._compare)
        self._pieces = lru_cache(maxsize=64)(lambda state: count_pieces(self.contents.read(state)))
        self._version = -1

    def refresh(self) -> None:
        """Emit the changes that have become renames or stopped being ones."""
        changes = self.state.changes
        if self.state.version == self._version:
            return
        self._version = self.state.version
        if not any(change.pending.kind == "absent" or change.source for change in changes.values()):
            return
        known_renames = {
            new: old for new, old in find_renames(changes).items() if self._is_still_rename(changes[new], changes[old])
        }
        renames = known_renames | self._find_new(known_renames)
        revised_changes = (self._revise(changes[path], old) for path, old in renames.items())
        separated_changes = (self._separate(change) for path, change in changes.items() if path not in renames)
        for change in [change for change in (*revised_changes, *separated_changes) if change is not None]:
            self.emit(ChangeRevised(change=change))

    def is_involved(self, path: str) -> bool:
        """True if a path is, or was, one of two that go together."""
        change = self.state.changes.get(path)
        if change is None or change.pending.kind == "absent":
            return any(path == other.renamed_from for other in self.state.changes.values())
        return bool(change.renamed_from)

    def _is_still_rename(self, new: Change, old: Change) -> bool:
        if new.apart or new.conflict or old.conflict or new.competing_versions or old.competing_versions:
            return False
        return old.base.blob == new.pending.blob or self._score(old.base, new.pending) >= MIN_SIMILARITY

    def _find_new(self, known_renames: dict[str, str]) -> dict[str, str]:
        taken_paths = {*known_renames, *known_renames.values()}
        free = [
            change
            for change in self.state.changes.values()
            if change.path not in taken_paths and not (change.apart or change.conflict or change.competing_versions)
        ]
        removed_states = {
            change.path: change.base
            for change in free
            if change.pending.kind == "absent" and _is_candidate(change.base)
        }
        new = {
            change.path: change.pending
            for change in free
            if change.base.kind == "absent" and _is_candidate(change.pending)
        }
        if not removed_states or not new:
            return {}
        blobs = ({path: state.blob for path, state in states.items()} for states in (removed_states, new))
        renames = match_identical(*blobs)
        renames = {path: old for path, old in renames.items() if are_apart(path, old)}
        olds = {path: state.size for path, state in removed_states.items() if path not in renames.values()}
        news = {path: state.size for path, state in new.items() if path not in renames}
        if olds and news:
            renames |= match_similar(
                olds,
                news,
                lambda old, path: self._score(removed_states[old], new[path]) if are_apart(old, path) else 0.0,
            )
        return renames

    def _compare(self, old: FileState, new: FileState) -> float:
        """Return the share of two contents that is the same; 0 for those that are no texts of one encoding."""
        try:
            sides = self.contents.read(old), self.contents.read(new)
            if max(map(len, sides)) > MAX_COMPARED_BYTES or not is_divisible(*sides):
                return 0.0
            return compute_similarity(self._pieces(old), self._pieces(new))
        except ContentLost:
            return 0.0

    def _revise(self, change: Change, old: str) -> Change | None:
        """Return a new file as a rename; None if it is one already, or its content is lost."""
        source = self.state.changes[old].base
        if (change.renamed_from, change.source) == (old, source):
            return None
        with suppress(ContentLost):
            return recount_hunks(self.contents, change, (old, source))
        return None

    def _separate(self, change: Change) -> Change | None:
        """Return a former rename as a new file, with its old name as long as that is pending; None as `_revise`."""
        if change.source is None:
            return None
        old = self.state.changes.get(change.renamed_from)
        is_tied = old is not None and old.pending.kind == "absent" and bool(old.conflict or change.conflict)
        with suppress(ContentLost):
            new_change = recount_hunks(self.contents, change, None)
            return replace(new_change, renamed_from=change.renamed_from) if is_tied else new_change
        return None


def recount_hunks(contents: Contents, change: Change, rename_source: tuple[str, FileState] | None) -> Change:
    """Return the change with its hunks counted as those of a rename, or (None) of a new file. Raises `ContentLost`."""
    sides = ChangeSides(base=change.base, pending=change.pending)
    new_change = contents.build_change(change.path, sides, change.hunks, rename_source, change.origin)
    todos = {hunk.todo for hunk in change.hunks}
    hunks = (
        tuple(replace(hunk, todo=next(iter(todos))) for hunk in new_change.hunks)
        if len(todos) == 1
        else new_change.hunks
    )
    return replace(
        new_change,
        hunks=hunks,
        conflict=change.conflict,
        competing_versions=change.competing_versions,
        check=change.check,
        broken=change.broken,
        protected=new_change.protected or change.protected,
        risk=new_change.risk or change.risk,
    )


def _is_candidate(state: FileState) -> bool:
    return state.kind == "file" and state.size > 0
