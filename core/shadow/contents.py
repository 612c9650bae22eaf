"""What a path holds, as a state and its bytes: storing, merging and describing the difference of two of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ContentLost
from core.languages import language_of
from core.protocol.review import Change, FileState, Hunk, Operation
from core.shadow.blobs import BlobStore
from core.shadow.hunks import divisible, hunks, split_lines, whole
from core.shadow.lines import is_binary
from core.shadow.merge import merge3
from core.workspace.levers import Lever, lever_of, link_lever

_NO_LEVER = Lever("")


@contextmanager
def content_of(path: str) -> Iterator[None]:
    """Names the file whose stored bytes are lost, and what can be done about it."""
    try:
        yield
    except ContentLost as error:
        raise ContentLost(
            f"{path}: {error.message[0].lower()}{error.message[1:]}",
            hint="It can't be shown or accepted any more: reject the file, and have the change made again.",
        ) from error


class Sides(Struct, frozen=True, kw_only=True):
    """A path's base and what is proposed instead."""

    base: FileState
    pending: FileState


class Contents:
    """States whose bytes are kept in a `BlobStore`. `around`: what makes a path red beside its name; see `Risks`."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self.around: dict[str, str] = {}

    def data(self, state: FileState) -> bytes:
        """The bytes of a state; none for an absent path."""
        return b"" if state.kind == "absent" else self._blobs.get(state.blob)

    def keep(self, state: FileState, data: bytes | None) -> FileState:
        """Store the bytes of a state that was read from disk."""
        if data is not None:
            self._blobs.put(data)
        return state

    def file(self, data: bytes, mode: int) -> FileState:
        return FileState(kind="file", blob=self._blobs.put(data), mode=mode, size=len(data))

    def merge(
        self, base: FileState, ours: FileState, theirs: FileState, *, prefer_ours: bool = False
    ) -> FileState | None:
        """Three-way merge of states: of their bytes by lines, of their modes, and of whether they exist at all."""
        if theirs in (ours, base):
            return ours
        if ours == base:
            return theirs
        if not (base.kind == ours.kind == theirs.kind == "file"):
            return ours if prefer_ours else None
        merged = merge3(self.data(base), self.data(ours), self.data(theirs), prefer_ours=prefer_ours)
        if merged is None:
            return None
        return self.file(merged, ours.mode if ours.mode != base.mode else theirs.mode)

    def change(
        self, path: str, sides: Sides, known: Iterable[Hunk] = (), moved: tuple[str, FileState] | None = None
    ) -> Change:
        """The difference of two states, compared anew; hunks of equal content keep their `known` ids and todos.
        `moved`: what is a new file is a rename of this one; see `Change.moved`."""
        moved = moved if sides.base.kind == "absent" and sides.pending.kind == "file" else None
        counted = replace(sides, base=moved[1]) if moved else sides
        old, new = self.data(counted.base), self.data(sides.pending)
        earlier = tuple(each for each in known if not each.moves)
        found = _hunks(counted, old, new, earlier) if not moved or old != new else ()
        found = for_todo((*(_moving(path, moved[0]) if moved else ()), *found), earlier)
        before = old if counted is sides else b""
        lever = (link_lever(path, new) if sides.pending.kind == "symlink" else None) or lever_of(path, before, new)
        lever = lever or _NO_LEVER
        if not lever.is_red and path in self.around:
            lever = Lever(self.around[path], is_red=True)
        return Change(
            path=path,
            operation="rename" if moved else _operation(sides),
            base=sides.base,
            pending=sides.pending,
            renamed_from=moved[0] if moved else "",
            source=moved[1] if moved else None,
            hunks=found,
            added=sum(each.new_lines for each in found),
            removed=sum(each.old_lines for each in found),
            binary=is_binary(old) or is_binary(new),
            language=language_of(path),
            protected=lever.is_red,
            risk=lever.risk,
        )


def for_todo(found: tuple[Hunk, ...], known: Iterable[Hunk], todo: str = "") -> tuple[Hunk, ...]:
    """Hunks that know what they were made for: those that were `known` as they did, the others for `todo`."""
    todos = {each.id: each.todo for each in known}
    if not todo and not any(todos.values()):
        return found
    return tuple(replace(each, todo=todos.get(each.id, todo)) for each in found)


def narrowed(change: Change, sides: Sides, left: tuple[Hunk, ...]) -> Change:
    """The change after a verdict (or its undoing) moved one side, with the hunks that are pending now."""
    is_rename = change.source is not None and sides.base.kind == "absent" and sides.pending.kind == "file"
    return replace(
        change,
        operation="rename" if is_rename else _operation(sides),
        renamed_from=change.renamed_from if is_rename else "",
        source=change.source if is_rename else None,
        base=sides.base,
        pending=sides.pending,
        hunks=left,
        added=sum(each.new_lines for each in left),
        removed=sum(each.old_lines for each in left),
        check=change.check if sides.pending == change.pending else None,
        broken="",
    )


def _operation(sides: Sides) -> Operation:
    base, pending = sides.base, sides.pending
    if base.kind == "absent":
        return "create" if pending.kind != "absent" else "edit"
    if pending.kind == "absent":
        return "delete"
    return "mode" if base.blob == pending.blob and base.kind == pending.kind and base.mode != pending.mode else "edit"


def _moving(path: str, old: str) -> tuple[Hunk, ...]:
    """The hunk that is the rename itself."""
    return tuple(replace(each, moves=True) for each in whole(["rename", old, path]))


def _hunks(sides: Sides, old: bytes, new: bytes, known: Iterable[Hunk]) -> tuple[Hunk, ...]:
    if sides.base == sides.pending:
        return ()
    text = "symlink" not in {sides.base.kind, sides.pending.kind} and not is_binary(old) and not is_binary(new)
    if text and old != new and divisible(old, new):
        return hunks(old, new, known)
    identity = [f"{each.kind} {each.blob} {each.mode:o}" for each in (sides.base, sides.pending)]
    if text and old != new:
        return whole(identity, len(split_lines(old)), len(split_lines(new)))
    return whole(identity)
