"""The work of another session on the same project, taken into this one's shadow: file by file, hunk by hunk, and what
its commands left beside the review.

The other session began with a copy of what was pending here. What it made of each path since is merged, three ways,
with what is pending here by now; nothing of either side is lost. Doing it once more for the paths that are left comes
to the same end, so that it can be carried on after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.protocol.review import Change, FileState, Origin
from core.shadow.delta import Delta
from core.shadow.editing import Left
from core.shadow.layers import Kept
from core.shadow.review import Point
from core.shadow.rivals import clashes_with
from core.shadow.stack import Stack
from core.shadow.view import Shadow
from core.workspace.names import is_git_internal

NAMED = 6  # paths in a note


class Joined(Struct, frozen=True, kw_only=True):
    """What became of it: `paths` that it changed, those of them in conflict now, and those that could not be put here
    at all; `generated`: files beside the review; `notes` on what is not as it was."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    generated: int = 0
    refused: tuple[str, ...] = ()


class Work:
    """What the session of `shadow` did since a checkpoint of its own (`begun` and its name)."""

    def __init__(self, shadow: Shadow, begun: Point, name: str) -> None:
        self._shadow = shadow
        self._begun = begun
        self._name = name

    def changed(self, origin: Origin) -> list[Left]:
        """What it made of the reviewed paths, deletions first."""
        before, now = self._begun.changes, self._shadow.state.changes
        found = []
        for path in sorted({*before, *now}):
            then, wanted = self._then(path), self._wanted(path)
            if then is None or wanted is None or then == wanted:
                continue
            from_ = now[path].renamed_from if path in now else ""
            found.append(Left(path=path, then=then, wanted=wanted, origin=origin, renamed_from=from_))
        return sorted(found, key=lambda left: (left.wanted.kind != "absent", left.path))

    def _then(self, path: str) -> FileState | None:
        """What it began with: what was pending, or else what its own change is made from."""
        if path in self._begun.changes:
            return self._begun.changes[path].pending
        return self._shadow.state.changes[path].base

    def _wanted(self, path: str) -> FileState | None:
        change = self._shadow.state.changes.get(path)
        try:
            return change.pending if change else self._shadow.seen.disk_state(path)
        except PathRefused:
            return None

    def left_behind(self) -> Delta | None:
        """What its commands left beside the review; None: it is not known any more what was there before."""
        if not self._shadow.layers.kept.layers and not self._begun.generated:
            return Delta(Stack(()), Stack(()))
        return self._since_begun(self._shadow)

    def others(self, shadow: Shadow) -> Delta | None:
        """What has changed beside the review in another session since this one was copied from it."""
        return self._since_begun(shadow)

    def _since_begun(self, shadow: Shadow) -> Delta | None:
        """From what this session began with to what is beside the review of `shadow` now."""
        layers = self._shadow.layers
        kept = layers.thawed(self._name) if self._begun.generated else Kept()
        if kept is None:
            return None
        begun = Stack([layers.upper(each) for each in reversed(kept.layers)])
        return Delta(begun, shadow.seen.stack)

    def blob(self, state: FileState) -> bytes | None:
        return None if state.kind == "absent" else self._shadow.blobs.get(state.blob)

    def removed(self) -> dict[str, int]:
        """The directories that are gone, with the modes that they had."""
        return dict(self._shadow.layers.kept.gone)


class Joining:
    """Into `shadow`, the work of another session. `step` is called between its effects (tests stop there)."""

    def __init__(self, shadow: Shadow, work: Work, *, step: Callable[[str], None] = lambda _: None) -> None:
        self._shadow = shadow
        self._work = work
        self._step = step

    def join(self, origin: Origin, *, since: int, done: Collection[str] = (), without: Collection[str] = ()) -> Joined:
        """`since`: when that work began (ns since 1970); `done`: paths that were joined before a crash; `without`:
        paths that are not joined at all. Emits what the shadow emits for edits and for commands."""
        changed = self._work.changed(origin)
        notes = [f"What it wrote to {each.path} was left out." for each in changed if each.path in without]
        left = [each for each in changed if each.path not in without]
        refused = []
        for each in left:
            if each.path not in done:
                if why := self._join(each):
                    notes.append(why)
                    refused.append(each.path)
                self._step(each.path)
        self._directories_go()
        generated = self._generated(origin, since, notes)
        self._step("generated")
        paths = tuple(each.path for each in left)
        return Joined(
            paths=paths,
            conflicts=tuple(path for path in paths if clashes_with(self._shadow.state.changes.get(path), origin.call)),
            notes=tuple(notes),
            generated=generated,
            refused=tuple(refused),
        )

    def _join(self, left: Left) -> str:
        """Why a path can't be put here, "" = it was."""
        for state in (left.then, left.wanted):
            if (data := self._work.blob(state)) is not None:
                self._shadow.blobs.put(data)
        try:
            self._shadow.join(left)
        except StateError:
            raise
        except AgentTuiError as problem:
            return f"{left.path} could not be taken over: {problem.message}"
        return ""

    # beside the review

    def _directories_go(self) -> None:
        """The directories that it removed, so that they go when the last of their files is accepted."""
        layers = self._shadow.layers
        if more := {path: mode for path, mode in self._work.removed().items() if path not in layers.kept.gone}:
            layers.record(replace(layers.kept, gone=layers.kept.gone | more))

    def _generated(self, origin: Origin, since: int, notes: list[str]) -> int:
        theirs = self._work.left_behind()
        if theirs is not None and not theirs.paths:
            return 0
        ours = self._work.others(self._shadow)
        if theirs is None or ours is None:
            notes.append("What its commands left beside the review was not taken over: there was no room to keep it.")
            return 0
        notes += _apart(theirs, ours)
        if not theirs.paths:
            return 0
        layer = self._shadow.open_layer()
        try:
            theirs.lay_out(layer.upper)
            effects = self._shadow.absorb(layer, origin=origin, started_ns=since)
        except OSError as error:
            self._shadow.drop_layer(layer)
            raise StateError(f"What commands left can't be taken over: {error.strerror}.") from error
        except BaseException:
            self._shadow.drop_layer(layer)
            raise
        notes += effects.notes
        return effects.generated


def _apart(theirs: Delta, ours: Delta) -> Iterator[str]:
    """What both changed beside the review: of git's state ours stays, of the rest theirs is the latest."""
    gits = sorted({git for path in theirs.paths if (git := _git_of(path))})
    for git in gits:
        if any(_git_of(path) == git for path in ours.paths):
            theirs.without(git)
            yield f"Its state of git ({git}: index, commits) was left out, because others changed that, too."
    both = sorted(theirs.paths & ours.paths)
    if both:
        named = ", ".join(both[:NAMED]) + (f" and {len(both) - NAMED} more" if len(both) > NAMED else "")
        yield f"Generated files that others made, too, are now as it left them: {named}."


def _git_of(path: str) -> str:
    parts = path.split("/")
    at = next((index for index, part in enumerate(parts) if is_git_internal(part)), None)
    return "" if at is None else "/".join(parts[: at + 1])


def begun_with(changes: Collection[Change]) -> list[Change]:
    """Pending changes as another session begins with them: whole, and without what the user has to settle here."""
    return [replace(each, conflict="", rivals=(), check=None) for each in changes if each.base != each.pending]
