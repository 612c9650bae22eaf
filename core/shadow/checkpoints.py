"""Going back to a checkpoint with the files: what waited for a verdict waits again, what was written is taken back.

What was written is taken back write by write, newest first, by three-way merge, so that what the user changed in the
meantime stays; where that can't be, the path is left alone as a whole, and named. Carried out by the same journalled
promotion as verdicts. Doing it once more after it was cut off comes to the same end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, PathRefused, ReviewConflict, StateError
from core.protocol.events import (
    AnyEvent,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    FileWritten,
    LeftAlone,
    VerdictGiven,
    VerdictUndone,
)
from core.protocol.review import Change, FileState, VerdictRecord
from core.shadow.bulks import Bulks
from core.shadow.contents import Contents
from core.shadow.disk import walked
from core.shadow.journal import Write
from core.shadow.layers import Kept, Layers
from core.shadow.promote import Promotion, PromotionFailed, arranged
from core.shadow.review import Point, ReviewState
from core.shadow.seen import Seen
from core.shadow.tally import layers_changed
from core.shadow.verdicts import Verdicts
from core.workspace import ABSENT, Workspace

EDITED = "the file in the project was edited in the same place since; it stays as it is."
NOT_KEPT = "ignored files no longer available: what commands had left is not kept any more; it stays as it is now."
BULK_GONE = "it was accepted then and taken back since, and is not kept any more; accept it again if you want it."


class Step(Struct, frozen=True, kw_only=True):
    """What is to become of one path: `change` waits there afterwards instead of `now`, and the disk holds `target`
    instead of `disk` (equal: nothing is written). `reason`: why it is left alone, "" = it is not."""

    path: str
    change: Change | None
    now: Change | None
    disk: FileState = ABSENT
    target: FileState = ABSENT
    reason: str = ""


class Restored(Struct, frozen=True, kw_only=True):
    """The paths that were restored, and those that were not."""

    files: tuple[str, ...]
    left: tuple[LeftAlone, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What of a shadow a restore works with."""

    workspace: Workspace
    contents: Contents
    promotion: Promotion
    verdicts: Verdicts
    bulks: Bulks
    state: ReviewState
    layers: Layers
    seen: Seen
    emit: Callable[[AnyEvent], None]


class Checkpoints:
    """The checkpoints of one session, as far as they concern files."""

    def __init__(self, parts: Parts) -> None:
        self._workspace, self._contents = parts.workspace, parts.contents
        self._promotion, self._verdicts, self._bulks = parts.promotion, parts.verdicts, parts.bulks
        self._state, self._layers, self._seen = parts.state, parts.layers, parts.seen
        self._emit = parts.emit

    def freeze(self, checkpoint: str, order: int) -> bool:
        """Keep what commands left, for a checkpoint about to be told; `order` grows from one to the next. Whether there
        was anything."""
        return self._layers.freeze(checkpoint, order)

    def problem(self, checkpoint: str) -> str:
        """What of a checkpoint can't be brought back, "" = nothing."""
        return "" if self._kept(checkpoint) is not None else NOT_KEPT

    def changed(self, checkpoint: str) -> set[str]:
        """The paths that wait otherwise, or were written, since a checkpoint."""
        return {*self._pending_otherwise(self._point(checkpoint)), *self._writes(self._point(checkpoint))}

    def changed_bulks(self, checkpoint: str) -> tuple[str, ...]:
        """The roots of generated files that are otherwise."""
        then, now = (
            {each.root: each for each in bulks} for bulks in (self._point(checkpoint).bulks, self._state.bulks)
        )
        return tuple(sorted(root for root in then.keys() | now.keys() if then.get(root) != now.get(root)))

    def _point(self, checkpoint: str) -> Point:
        point = self._state.points.get(checkpoint)
        if point is None:
            raise CommandRejected(f"there is no checkpoint {checkpoint!r}.", code="checkpoint_unknown")
        return point

    def _kept(self, checkpoint: str) -> Kept | None:
        return self._layers.thawed(checkpoint) if self._point(checkpoint).generated else Kept()

    # what is to be done

    def plan(self, checkpoint: str) -> list[Step]:
        """One step for each path that is otherwise by now. Only content of the user's files is stored."""
        point = self._point(checkpoint)
        writes = self._writes(point)
        return [self._step(path, point, writes) for path in sorted({*self._pending_otherwise(point), *writes})]

    def _pending_otherwise(self, point: Point) -> set[str]:
        then, now = point.changes, self._state.changes
        otherwise = {path for path in then.keys() | now.keys() if then.get(path) != now.get(path)}
        return otherwise | _judged_otherwise(point, self._state)

    def _writes(self, point: Point) -> dict[str, list[FileWritten]]:
        found: dict[str, list[FileWritten]] = {}
        for write in self._state.writes[point.written :]:
            found.setdefault(write.path, []).append(write)
        return found

    def _step(self, path: str, point: Point, writes: Mapping[str, Sequence[FileWritten]]) -> Step:
        step = Step(path=path, change=point.changes.get(path), now=self._state.changes.get(path))
        if path not in writes:
            return step
        try:
            disk = self._disk(path, writes)
        except PathRefused as error:
            return replace(step, reason=error.message)
        target: FileState | None = disk
        for write in reversed(writes[path]):
            target = self._contents.merge(write.state, target, write.before or ABSENT) if target else None
        return replace(step, disk=disk, target=target) if target else replace(step, disk=disk, reason=EDITED)

    def _disk(self, path: str, writes: Collection[str]) -> FileState:
        try:
            return self._contents.keep(*self._workspace.state_of(path))
        except PathRefused as error:
            below = walked(self._workspace, path) if error.code == "not_a_file" else None
            if below and all(kind == "directory" or each in writes for each, kind in below):
                return ABSENT  # it gives way to the file that was there
            raise

    # doing it

    def restore(self, checkpoint: str, fresh: Collection[str] = ()) -> Restored:
        """Bring pending changes, kept layers and the files on disk to what they were.

        `fresh`: roots that were being taken back when an earlier attempt was cut off. Raises `StateError` when the
        session can't be written.
        """
        point = self._point(checkpoint)
        plan = self.plan(checkpoint)
        left = [LeftAlone(path=each.path, reason=each.reason) for each in plan if each.reason]
        todo = [each for each in plan if not each.reason]
        kept = self._kept(checkpoint)
        failed = self._carry_out(todo, point)
        roots, left_bulks = self._bulks_back(point)
        self._workspace.remove_directories(sorted(self._directories(point)))
        if kept is not None:
            left_bulks += self._bulks_again(point)
            self._switch(kept, {*roots, *fresh})
        else:
            left_bulks.append(LeftAlone(path=", ".join(each.root for each in point.bulks) or ".", reason=NOT_KEPT))
        self._look_at_disk(point)
        missed = {each.path for each in failed}
        files = tuple(each.path for each in todo if each.path not in missed)
        return Restored(files=files, left=(*left, *failed, *left_bulks))

    def roots(self, checkpoint: str) -> tuple[str, ...]:
        """The bulks that a restore takes back from the disk."""
        return tuple(each.path for each in _since(self._point(checkpoint), self._state) if each.bulk)

    def _carry_out(self, todo: Sequence[Step], point: Point) -> list[LeftAlone]:
        writing = [each for each in todo if each.target != each.disk]
        for each in todo:
            if each.target == each.disk:
                self._tell(self._events(each, point))
        if not writing:
            return []
        try:
            self._promote(writing, point)
        except (ReviewConflict, PathRefused, PromotionFailed):
            return self._one_by_one(writing, point)
        return []

    def _promote(self, steps: Sequence[Step], point: Point) -> None:
        events = [event for each in steps for event in self._events(each, point)]
        self._promotion.run([self._write(each, point) for each in steps], events, self._emit)

    def _one_by_one(self, steps: Sequence[Step], point: Point) -> list[LeftAlone]:
        """Each for itself, after they could not be written together."""
        by_path = {each.path: each for each in steps}
        left = []
        for path in [write.path for write in arranged([self._write(each, point) for each in steps])]:
            try:
                self._promote([by_path[path]], point)
            except StateError:
                raise
            except AgentTuiError as problem:
                left.append(LeftAlone(path=path, reason=problem.message))
        return left

    def _write(self, step: Step, point: Point) -> Write:
        write = self._promotion.planned(step.path, step.disk, step.target, step.now.pending if step.now else None)
        if step.target.kind != "absent":
            return write
        made = {
            each for record in _since(point, self._state) if record.path == step.path for each in record.directories
        }
        return replace(write, directories=tuple(sorted(made.union(write.directories))))

    def _events(self, step: Step, point: Point) -> list[AnyEvent]:
        path, events = step.path, list[AnyEvent]()
        if step.target != step.disk:
            events.append(FileWritten(path=path, state=step.target, before=step.disk))
        if step.change is None:
            events += [ChangeResolved(path=path)] if step.now else []
        elif step.change != step.now:
            events.append(ChangeRevised(change=step.change) if step.now else ChangeProposed(change=step.change))
        since = [each for each in _since(point, self._state) if each.path == path and each.bulk is None]
        events += [VerdictUndone(id=each.id, path=path) for each in reversed(since)]
        again = [each for each in _undone(point, self._state) if each.path == path and each.bulk is None]
        return [*events, *(VerdictGiven(verdict=each) for each in again)]

    def _tell(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self._emit(event)

    def _directories(self, point: Point) -> set[str]:
        """What was made for files that were accepted since; those that hold something stay."""
        return {each for record in _since(point, self._state) for each in record.directories}

    # what commands left

    def _bulks_back(self, point: Point) -> tuple[set[str], list[LeftAlone]]:
        """Take back the verdicts on bulks since then. The roots that were, and those that could not be."""
        roots, left = set[str](), list[LeftAlone]()
        for record in reversed(_since(point, self._state)):
            if record.bulk is None:
                continue
            try:
                self._bulks.undo(record.id, self._emit)
            except (CommandRejected, ReviewConflict, PromotionFailed) as problem:
                left.append(LeftAlone(path=record.path, reason=problem.message))
            else:
                roots.add(record.path)
        return roots, left

    def _bulks_again(self, point: Point) -> list[LeftAlone]:
        """Accept once more what was accepted then."""
        left = []
        for record in _undone(point, self._state):
            if record.bulk is None:
                continue
            try:
                if record.verdict == "reject":
                    self._emit(VerdictGiven(verdict=record))
                elif not self._bulks.redo(record, self._emit):
                    left.append(LeftAlone(path=record.path, reason=BULK_GONE))
            except (CommandRejected, ReviewConflict, PromotionFailed) as problem:
                left.append(LeftAlone(path=record.path, reason=problem.message))
        return left

    def _switch(self, kept: Kept, roots: Collection[str]) -> None:
        """Let the kept layers of then count. What was taken back from the disk only looks newer there."""
        now = time.time_ns()
        tops = {path: replace(top, since=now) if top.root in roots else top for path, top in kept.tops.items()}
        if (kept := replace(kept, tops=tops)) == self._layers.kept:
            return
        self._layers.switch(kept)
        self._emit(layers_changed(self._layers, self._seen))

    def _look_at_disk(self, point: Point) -> None:
        """The user may have edited what waits again: merged, or marked as a conflict."""
        for path in point.changes:
            if path in self._state.changes:
                self._verdicts.check_disk(path)


def _since(point: Point, state: ReviewState) -> list[VerdictRecord]:
    """The standing verdicts that were given after a point, oldest first."""
    then = {each.id for each in point.verdicts}
    return [each for each in state.verdicts if each.id not in then]


def _undone(point: Point, state: ReviewState) -> list[VerdictRecord]:
    """The verdicts that stood at a point and do not any more, oldest first."""
    now = {each.id for each in state.verdicts}
    return [each for each in point.verdicts if each.id not in now]


def _judged_otherwise(point: Point, state: ReviewState) -> set[str]:
    return {each.path for each in (*_since(point, state), *_undone(point, state)) if each.bulk is None}
