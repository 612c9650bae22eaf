"""Checkpoints of files: restores pending changes, and reverts promoted changes and writes of plan files.

Promoted changes are reverted one by one, newest first, by three-way merge, so that later edits of the user stay. Where
that is impossible, the whole path is left alone and reported. The same journalled promotion as for verdicts writes
the files, so a restore that was interrupted can be repeated.

Plan files go to the disk without a review; every write is logged with the earlier content. A plan file is reverted
only if it still has the content that this session wrote.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, PathRefused, ReviewConflict, StateError
from core.protocol import events as ev
from core.protocol.review import Change, FileState, VerdictRecord
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.bulk.bulk_verdicts import BulkVerdicts
from core.shadow.content.contents import Contents
from core.shadow.content.paths import walk_directory
from core.shadow.layers.layer_store import RetainedLayers
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.promotion.journal import PathWrite
from core.shadow.promotion.promotion import Promotion, PromotionFailed, arrange_writes
from core.shadow.review.verdicts import Verdicts
from core.state.review import ReviewCheckpoint
from core.workspace import ABSENT
from core.workspace.plan_folder import PlanFolder

CHANGED_MEANWHILE = "the plan was changed meanwhile; it stays as it is."
EDITED_SINCE = "it was edited in the project at the same place since; it stays as it is."
NOT_KEPT = "ignored files no longer available: what commands left is no longer stored; it stays as it is now."
BULK_GONE = "it was accepted then, undone since, and is no longer stored; accept it again if you want it."


class PlanWrites(Struct, eq=False):
    """The plan files of one session; implements `PlanFiles` for those who read and write plans."""

    folder: PlanFolder
    contents: Contents
    emit: Callable[[ev.AnyEvent], None]

    @property
    def place(self) -> str:
        """The folder of new plans: relative to the project, or absolute if it is outside."""
        return self.folder.place

    def to_path(self, path: str) -> str:
        """Return the normalized path of a plan. Raises `PathRefused` for other paths."""
        return self.folder.to_path(path)

    def list_paths(self) -> list[str]:
        """Return the paths of the plans in the folder; nothing if the folder does not exist."""
        return self.folder.list_paths()

    def read(self, rel: str) -> bytes | None:
        """Return the whole file; None if it does not exist."""
        return self.folder.read(rel)

    def read_state(self, path: str) -> FileState:
        """Return the state of the file, and store its bytes."""
        return self.contents.store(*self.folder.read_state(path))

    def write(self, rel: str, data: bytes) -> None:
        """Create (with its folders) or replace a plan, and log the write."""
        path = self.to_path(rel)
        before = self.read_state(path)
        self.folder.write(path, data)
        self.emit(ev.PlanWritten(path=path, state=self.read_state(path), before=before))

    def revert(self, path: str, disk: FileState, target: FileState) -> None:
        """Write or remove a plan outside of the project, which is in the state `disk`. Raises `ReviewConflict` if it is
        not."""
        if self.read_state(path) != disk:
            raise ReviewConflict(CHANGED_MEANWHILE)
        if target.kind == "file":
            self.folder.write(path, self.contents.read(target))
        else:
            self.folder.remove(path)


class RestoreStep(Struct, frozen=True, kw_only=True):
    """The restore of one path: `change` becomes pending instead of `now`, and the disk gets `target` instead of `disk`
    (equal: nothing is written). `reason`: why the path is left alone, "" = it is restored."""

    path: str
    change: Change | None
    now: Change | None
    disk: FileState = ABSENT
    target: FileState = ABSENT
    reason: str = ""


class RestoreResult(Struct, frozen=True, kw_only=True):
    """The restored paths (`files`), and those that were left alone (`left`)."""

    files: tuple[str, ...]
    left: tuple[ev.SkippedPath, ...]


class FileCheckpoints(Struct, eq=False):
    """The files of one session's checkpoints."""

    tree: MergedTree
    promotion: Promotion
    verdicts: Verdicts
    bulks: BulkVerdicts
    plans: PlanWrites

    def describe_problem(self, name: str) -> str:
        """Describe the part of a checkpoint that cannot be restored, "" = none."""
        return "" if self._read_retained(name) is not None else NOT_KEPT

    def find_changed_paths(self, name: str) -> set[str]:
        """Return the paths whose pending change differs from the checkpoint's, or that were written since."""
        checkpoint = self._find_checkpoint(name)
        return {*self._find_changed_pending(checkpoint), *self._group_writes(checkpoint)}

    def find_changed_bulks(self, name: str) -> tuple[str, ...]:
        """Return the roots of the bulks that differ from the checkpoint's."""
        both = self._find_checkpoint(name).bulks, self.tree.state.bulks
        checkpoint_bulks, now = ({bulk.root: bulk for bulk in bulks} for bulks in both)
        return tuple(
            sorted(root for root in checkpoint_bulks.keys() | now.keys() if checkpoint_bulks.get(root) != now.get(root))
        )

    def _find_checkpoint(self, name: str) -> ReviewCheckpoint:
        checkpoint = self.tree.state.checkpoints.get(name)
        if checkpoint is None:
            raise CommandRejected(f"there is no checkpoint {name!r}.", code="checkpoint_unknown")
        return checkpoint

    def _list_given_since(self, checkpoint: ReviewCheckpoint) -> list[VerdictRecord]:
        """List the verdicts since a checkpoint that are not undone, oldest first."""
        verdict_ids = {verdict.id for verdict in checkpoint.verdicts}
        return [verdict for verdict in self.tree.state.verdicts if verdict.id not in verdict_ids]

    def _list_undone_since(self, checkpoint: ReviewCheckpoint) -> list[VerdictRecord]:
        """List the verdicts that have been undone since a checkpoint, oldest first."""
        now = {verdict.id for verdict in self.tree.state.verdicts}
        return [verdict for verdict in checkpoint.verdicts if verdict.id not in now]

    def _read_retained(self, name: str) -> RetainedLayers | None:
        return self.tree.layers.read_frozen(name) if self._find_checkpoint(name).generated else RetainedLayers()

    # planning

    def plan(self, name: str) -> list[RestoreStep]:
        """Plan one step for every path that differs. Stores the content of the user's files, without other effects."""
        checkpoint = self._find_checkpoint(name)
        writes = self._group_writes(checkpoint)
        return [
            self._plan_step(path, checkpoint, writes)
            for path in sorted({*self._find_changed_pending(checkpoint), *writes})
        ]

    def _find_changed_pending(self, checkpoint: ReviewCheckpoint) -> set[str]:
        checkpoint_changes, now = checkpoint.changes, self.tree.state.changes
        records = (*self._list_given_since(checkpoint), *self._list_undone_since(checkpoint))
        otherwise = {
            path for path in checkpoint_changes.keys() | now.keys() if checkpoint_changes.get(path) != now.get(path)
        }
        return otherwise | {record.path for record in records if record.bulk is None}

    def _group_writes(self, checkpoint: ReviewCheckpoint) -> dict[str, list[ev.FileWritten]]:
        writes_by_path = defaultdict[str, list[ev.FileWritten]](list)
        for write in self.tree.state.writes[checkpoint.written :]:
            writes_by_path[write.path].append(write)
        return writes_by_path

    def _plan_step(
        self, path: str, checkpoint: ReviewCheckpoint, writes: Mapping[str, Sequence[ev.FileWritten]]
    ) -> RestoreStep:
        step = RestoreStep(path=path, change=checkpoint.changes.get(path), now=self.tree.state.changes.get(path))
        if path not in writes:
            return step
        try:
            disk = self._read_disk(path, writes)
        except PathRefused as error:
            return replace(step, reason=error.message)
        target: FileState | None = disk
        for write in reversed(writes[path]):
            target = self.tree.contents.merge(write.state, target, write.before or ABSENT) if target else None
        return replace(step, disk=disk, target=target) if target else replace(step, disk=disk, reason=EDITED_SINCE)

    def _read_disk(self, path: str, writes: Collection[str]) -> FileState:
        if path.startswith("/"):  # a plan outside of the project
            return self.plans.read_state(path)
        try:
            return self.tree.contents.store(*self.tree.workspace.read_state(path))
        except PathRefused as error:
            below = walk_directory(self.tree.workspace, path) if error.code == "not_a_file" else None
            if below and all(kind == "directory" or child in writes for child, kind in below):
                return ABSENT  # the file is replaced by the earlier one
            raise

    # restoring

    def restore(self, name: str, fresh: Collection[str] = ()) -> RestoreResult:
        """Restore pending changes, retained layers and the files on disk.

        `fresh`: bulk roots whose undo an interrupted attempt had begun. Raises `StateError` when the session cannot be
        written.
        """
        checkpoint = self._find_checkpoint(name)
        plan = self.plan(name)
        skipped_paths = [ev.SkippedPath(path=step.path, reason=step.reason) for step in plan if step.reason]
        todo = [step for step in plan if not step.reason]
        retained_layers = self._read_retained(name)
        failures = self._carry_out(todo, checkpoint)
        roots, left_bulks = self._undo_bulks(checkpoint)
        directories = {path for record in self._list_given_since(checkpoint) for path in record.directories}
        self.tree.workspace.remove_directories(sorted(directories))  # directories with content stay
        if retained_layers is not None:
            left_bulks += self._redo_bulks(checkpoint)
            self._switch_layers(retained_layers, {*roots, *fresh})
        else:
            root_list = ", ".join(bulk.root for bulk in checkpoint.bulks) or "."
            left_bulks.append(ev.SkippedPath(path=root_list, reason=NOT_KEPT))
        for path in checkpoint.changes:
            self.verdicts.check_disk(path)  # the user may have edited a file that is pending again
        failed_paths = {skipped_path.path for skipped_path in failures}
        files = tuple(step.path for step in todo if step.path not in failed_paths)
        return RestoreResult(files=files, left=(*skipped_paths, *failures, *left_bulks))

    def list_bulk_roots(self, name: str) -> tuple[str, ...]:
        """Return the roots of the bulks that a restore undoes on disk."""
        return tuple(record.path for record in self._list_given_since(self._find_checkpoint(name)) if record.bulk)

    def _carry_out(self, todo: Sequence[RestoreStep], checkpoint: ReviewCheckpoint) -> list[ev.SkippedPath]:
        outside = [step for step in todo if step.path.startswith("/")]
        skipped_paths = [skipped_path for step in outside if (skipped_path := self._restore_outside(step, checkpoint))]
        todo = [step for step in todo if step not in outside]
        writing = [step for step in todo if step.target != step.disk]
        for step in todo:
            if step.target == step.disk:
                self.promotion.run((), self._build_events(step, checkpoint))
        try:
            self._promote(writing, checkpoint)
        except (ReviewConflict, PathRefused, PromotionFailed):
            skipped_paths += self._promote_one_by_one(writing, checkpoint)
        return skipped_paths

    def _restore_outside(self, step: RestoreStep, checkpoint: ReviewCheckpoint) -> ev.SkippedPath | None:
        """Restore a plan outside of the project, which the journal does not cover; return it if it was left alone."""
        try:
            if step.target != step.disk:
                self.plans.revert(step.path, step.disk, step.target)
        except (ReviewConflict, PathRefused) as problem:
            return ev.SkippedPath(path=step.path, reason=problem.message)
        self.promotion.run((), self._build_events(step, checkpoint))
        return None

    def _promote(self, steps: Sequence[RestoreStep], checkpoint: ReviewCheckpoint) -> None:
        events = [event for step in steps for event in self._build_events(step, checkpoint)]
        self.promotion.run([self._plan_write(step, checkpoint) for step in steps], events)

    def _promote_one_by_one(self, steps: Sequence[RestoreStep], checkpoint: ReviewCheckpoint) -> list[ev.SkippedPath]:
        """Promote the steps one by one, after a joint promotion failed; return those that were left alone."""
        by_path = {step.path: step for step in steps}
        skipped_paths = []
        for path in [write.path for write in arrange_writes([self._plan_write(step, checkpoint) for step in steps])]:
            try:
                self._promote([by_path[path]], checkpoint)
            except StateError:
                raise
            except AgentTuiError as problem:
                skipped_paths.append(ev.SkippedPath(path=path, reason=problem.message))
        return skipped_paths

    def _plan_write(self, step: RestoreStep, checkpoint: ReviewCheckpoint) -> PathWrite:
        write = self.promotion.plan_write(step.path, step.disk, step.target, step.now.pending if step.now else None)
        if step.target.kind != "absent":
            return write
        directory_groups = [
            record.directories for record in self._list_given_since(checkpoint) if record.path == step.path
        ]
        return replace(write, directories=tuple(sorted({*chain(*directory_groups), *write.directories})))

    def _build_events(self, step: RestoreStep, checkpoint: ReviewCheckpoint) -> list[ev.AnyEvent]:
        path, events = step.path, list[ev.AnyEvent]()
        if step.target != step.disk:
            kind = ev.PlanWritten if path in self.tree.state.plan_paths else ev.FileWritten
            events.append(kind(path=path, state=step.target, before=step.disk))
        if step.change is None:
            events += [ev.ChangeResolved(path=path)] if step.now else []
        elif step.change != step.now:
            events.append(ev.ChangeRevised(change=step.change) if step.now else ev.ChangeProposed(change=step.change))
        standing_records, undone = (
            [record for record in records if record.path == path and record.bulk is None]
            for records in (self._list_given_since(checkpoint), self._list_undone_since(checkpoint))
        )
        events += [ev.VerdictUndone(id=record.id, path=path) for record in reversed(standing_records)]
        return [*events, *(ev.VerdictGiven(verdict=record) for record in undone)]

    # bulks

    def _undo_bulks(self, checkpoint: ReviewCheckpoint) -> tuple[set[str], list[ev.SkippedPath]]:
        """Undo the verdicts on bulks since the checkpoint. Return the roots of those undone, and those that failed."""
        roots, skipped_paths = set[str](), list[ev.SkippedPath]()
        for record in reversed(self._list_given_since(checkpoint)):
            if record.bulk is None:
                continue
            try:
                self.bulks.undo(record.id)
            except (CommandRejected, ReviewConflict, PromotionFailed) as problem:
                skipped_paths.append(ev.SkippedPath(path=record.path, reason=problem.message))
            else:
                roots.add(record.path)
        return roots, skipped_paths

    def _redo_bulks(self, checkpoint: ReviewCheckpoint) -> list[ev.SkippedPath]:
        """Accept the bulks again that were accepted at the checkpoint and have been undone since."""
        skipped_paths = []
        for record in self._list_undone_since(checkpoint):
            if record.bulk is None:
                continue
            try:
                if record.verdict == "reject":
                    self.promotion.run((), [ev.VerdictGiven(verdict=record)])
                elif not self.bulks.redo(record):
                    skipped_paths.append(ev.SkippedPath(path=record.path, reason=BULK_GONE))
            except (CommandRejected, ReviewConflict, PromotionFailed) as problem:
                skipped_paths.append(ev.SkippedPath(path=record.path, reason=problem.message))
        return skipped_paths

    def _switch_layers(self, retained_layers: RetainedLayers, roots: Collection[str]) -> None:
        """Activate the checkpoint's retained layers. Undone bulks have newer times on disk, so their tops get the
        present time."""
        now = time.time_ns()
        tops = {
            path: replace(top, since=now) if top.root in roots else top for path, top in retained_layers.tops.items()
        }
        if (retained_layers := replace(retained_layers, tops=tops)) == self.tree.layers.retained:
            return
        self.tree.layers.switch_to(retained_layers)
        self.promotion.run((), [build_layers_changed(self.tree)])
