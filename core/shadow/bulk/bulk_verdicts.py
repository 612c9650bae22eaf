"""Verdicts on bulks: accepting moves a bulk from the retained layers into the project, rejecting removes it.

A transaction is recorded before any effect: first the files to be replaced are saved, then the disk is changed, then
the layers and the log follow. The next start finishes or reverts what a crash interrupted. The files of the bulk and
those that they replaced stay in a directory of the verdict, so that it can be undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, PathRefused, ReviewConflict, StateError
from core.filesystem.private_files import make_private_directory
from core.ids import new_id
from core.protocol.events import AnyEvent, LayersChanged, VerdictGiven, VerdictUndone
from core.protocol.review import FileState, Verdict, VerdictRecord
from core.shadow.bulk.bulk_records import BulkDecision, BulkRecords, BulkRedo, build_bulk_verdict
from core.shadow.bulk.bulk_summary import build_layers_changed, summarize_path
from core.shadow.bulk.git_preparation import GitPreparation, PreparedGitState
from core.shadow.bulk.layer_transfer import (
    GIT_BUSY,
    MAX_NAMED,
    BulkGuard,
    LayerTransfer,
    TransferStep,
    may_have_changed,
)
from core.shadow.content.paths import collect_directories, walk_directory
from core.shadow.gitstate.git_state import GIT_REFUSED, GitState
from core.shadow.gitstate.lost_repositories import refuse_lost_repositories
from core.shadow.layers.layer_files import fingerprint_entry
from core.shadow.layers.layer_stack import LayeredEntry, LayerStack
from core.shadow.layers.layer_store import RetainedTop, drop_covered, select_bases
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.path_classes import is_git_protected
from core.shadow.layers.prune import move_entry
from core.shadow.promotion.promotion import PromotionFailed
from core.shadow.review.write_rules import WriteRules
from core.workspace import ABSENT


class BulkVerdicts:
    """Verdicts on the bulks of one session. `step` is called between any two effects."""

    def __init__(
        self,
        tree: MergedTree,
        emit: Callable[[AnyEvent], None],
        step: Callable[[str], None],
        write_rules: WriteRules,
    ) -> None:
        self._workspace, self._layers, self._state, self._tree = tree.workspace, tree.layers, tree.state, tree
        self._emit, self._step, self._write_rules = emit, step, write_rules
        self._transfer = LayerTransfer(tree.workspace, step, tree.contents.blobs.directory)
        self._records = BulkRecords(tree.layers)
        self._guard = BulkGuard(tree.workspace, self._transfer, tree.contents.blobs)
        self.redo_store = BulkRedo(tree.layers, self._records, tree.state)
        self.git = GitState(tree, write_rules.find_denials)
        self._preparation = GitPreparation(tree, self.git)

    # verdicts

    def prepare(self, root: str) -> PreparedGitState | None:
        """Prepare the acceptance of a state of git, which takes long; may run in a thread.

        Returns None if the bulk is no state of git, or if `resolve` will refuse it. Raises `ReviewConflict` if the
        state must not be accepted.
        """
        tops, bases = self._select_retained(root)
        try:
            self._guard.refuse_conflicts(tops, bases, self._plan_steps(tops))
            return self._preparation.build(tops, new_id("verdict"))
        except ReviewConflict as conflict:
            if conflict.code == GIT_REFUSED:
                raise
        except (OSError, PathRefused):
            pass
        return None

    def resolve(
        self, root: str, verdict: Verdict, reason: str, *, name: str = "", ready: PreparedGitState | None = None
    ) -> VerdictRecord:
        """Accept or reject a bulk; see `Shadow.resolve_bulk`. `name`: the id of a verdict that is repeated."""
        name = ready.name if ready else name
        bulk = next((candidate for candidate in self._state.bulks if candidate.root == root), None)
        tops, bases = self._select_retained(root)
        if bulk is None or not tops:
            self._preparation.drop(name)
            raise CommandRejected(f"Nothing is pending for {root!r}.", code="bulk_unknown")
        record = build_bulk_verdict(bulk, verdict, name=name, reason=reason)
        decision = BulkDecision(verdict=record, tops=tops, bases=bases, phase="saving")
        if verdict == "accept":
            decision = self._accept(decision, ready)
        else:
            self._records.get_directory(decision).mkdir(mode=0o700)
        self._finish(replace(decision, phase="applied"))
        return decision.verdict

    def _select_retained(self, root: str) -> tuple[dict[str, RetainedTop], dict[str, FileState]]:
        retained_layers = self._layers.retained
        tops = {path: top for path, top in retained_layers.tops.items() if top.root == root}
        return tops, select_bases(tops, retained_layers.bases)

    def check_conflicts(self) -> None:
        """Compare all bulks with the project, and emit changes of their conflicts."""
        bulks = tuple(replace(bulk, conflict=self._find_conflict(bulk.root)) for bulk in self._state.bulks)
        if bulks != self._state.bulks:
            self._emit(LayersChanged(layers=self._layers.retained.layers, bulks=bulks))

    def _find_conflict(self, root: str) -> str:
        tops, bases = self._select_retained(root)
        try:
            self._refuse_denied(self._plan_steps(tops))
            if may_have_changed(self._workspace, self._tree.stack, tops, bases):
                self._guard.refuse_conflicts(tops, bases, self._plan_steps(tops))
        except ReviewConflict as error:
            return "" if error.code == GIT_BUSY else error.message
        except (OSError, PathRefused):  # reported when the bulk is accepted
            return ""
        return ""

    def _refuse_denied(self, ops: Sequence[TransferStep]) -> None:
        """Raise `ReviewConflict` if a rule denies one of the paths that the steps would change, or if a repository of
        the project would no longer be a directory."""
        refuse_lost_repositories(self._tree, (op.path for op in ops if op.what != "directory"))
        if not self._write_rules.deny_any:
            return
        written_paths = {op.path: None for op in ops if op.what != "directory" and not self._transfer.is_done(op)}
        directories = [op.path for op in ops if op.what == "directory" and self._transfer.get_kind(op.path) is None]
        written_paths |= dict.fromkeys((*directories, *self._find_changed_modes(ops)))
        removals = (walk_directory(self._workspace, op.path) or () for op in ops if op.what == "remove")
        self._write_rules.refuse([*written_paths, *(path for below in removals for path, _ in below)])

    # comparison with the project

    def read_disk_state(self, path: str) -> FileState | None:
        """Return the project's state at a path, of any size; None for a directory."""
        return self._transfer.read_state(path)

    def is_refreshed_index(self, path: str, base: FileState) -> bool:
        """True if a path is git's index with the same entries as `base`."""
        return self._guard.is_refreshed_index(path, base)

    def set_aside(self, path: str, top: RetainedTop, reason: str) -> VerdictRecord:
        """Remove a path from the retained layers, because the project's version is newer; undo restores it."""
        bulk = summarize_path(self._tree, path, top)
        record = build_bulk_verdict(bulk, "reject", reason=reason, is_superseded=True)
        tops = {path: replace(top, root=bulk.root)}
        decision = BulkDecision(
            verdict=record, tops=tops, bases=select_bases(tops, self._layers.retained.bases), phase="applied"
        )
        try:
            self._records.get_directory(decision).mkdir(mode=0o700)
        except OSError as error:
            raise StateError(f"{path} can't be moved away: {error.strerror}.") from error
        self._finish(decision)
        return record

    def _accept(self, decision: BulkDecision, ready: PreparedGitState | None) -> BulkDecision:
        try:
            self._guard.refuse_conflicts(decision.tops, decision.bases, self._plan_steps(decision.tops))
        except ReviewConflict:
            self._preparation.drop(decision.verdict.id)
            self.check_conflicts()
            raise
        try:
            decision = self._preparation.apply_to(decision, ready)
            ops = self._plan_steps(decision.tops, decision)
            self._guard.refuse_conflicts(decision.tops, decision.bases, ops)
            self._refuse_denied(ops)
            return self._apply(decision, ops)
        except ReviewConflict:
            self._records.forget(decision)
            raise
        except (OSError, PathRefused) as error:
            self._records.forget(decision)
            reason = error.message if isinstance(error, PathRefused) else f"{error.filename!r}: {error.strerror}"
            raise PromotionFailed(
                f"{decision.verdict.path} can't be written: {reason}. Everything was put back.",
                hint="Fix that, then accept again.",
            ) from error

    def _apply(self, decision: BulkDecision, ops: list[TransferStep]) -> BulkDecision:
        directory, saved_layer = self._records.get_directory(decision), self._records.get_saved_layer(decision)
        new_directories = [op.path for op in ops if op.what == "directory" and self._transfer.get_kind(op.path) is None]
        modes = self._find_changed_modes(ops)
        decision = replace(decision, made=tuple(new_directories), modes=modes)
        try:
            self._records.write(decision)
            make_private_directory(saved_layer.parent)
            saved_layer.mkdir(mode=0o700)
            for op in ops:
                self._transfer.save(op, saved_layer, renames=self._can_rename())
            self._step("saved")
            self._records.write(replace(decision, phase="applying"))
        except (OSError, AgentTuiError):
            self._records.forget(decision)
            raise
        try:
            self._transfer.run(ops, saved_layer, renames=self._can_rename())
            self._remove_gone(ops)
        except (OSError, AgentTuiError):
            self._revert(decision)
            self._records.forget(decision)
            raise
        self._step(f"applied {directory.name}")
        self._records.write(replace(decision, phase="applied"))
        return decision

    def _remove_gone(self, ops: list[TransferStep]) -> None:
        """Remove directories that the command removed, once they are empty."""
        removed_directories = self._layers.retained.gone
        self._transfer.remove_empty(
            collect_directories(op.path for op in ops if op.what == "remove") & removed_directories.keys()
        )

    def _find_changed_modes(self, ops: Sequence[TransferStep]) -> dict[str, int]:
        modes = {}
        for op in ops:
            stats = self._workspace.stat(op.path) if op.what == "directory" else None
            if stats is not None and stats.kind == "directory" and stats.mode != op.mode:
                modes[op.path] = stats.mode
        return modes

    def _plan_steps(self, tops: Mapping[str, RetainedTop], decision: BulkDecision | None = None) -> list[TransferStep]:
        """Plan the steps that write the retained layers, or the prepared state of git, to the disk."""
        prepared_layer = self._records.get_prepared_layer(decision) if decision is not None else None
        stack = (
            LayerStack((prepared_layer,))
            if prepared_layer is not None and prepared_layer.is_dir()
            else self._tree.stack
        )
        changes = self._state.changes
        return self._transfer.plan(stack, sorted(tops), lambda path: path in changes or is_git_protected(path))

    def _can_rename(self) -> bool:
        """True if whole directories can be renamed between the layers and the project."""
        return self._layers.location.stat().st_dev == self._workspace.root.stat().st_dev

    # undo

    def undo(self, verdict_id: str) -> VerdictRecord:
        """Undo a verdict on a bulk; see `Shadow.undo`."""
        decision = self._records.read(verdict_id)
        if decision is None:
            raise CommandRejected(
                "The content of that verdict is no longer stored; it can't be undone.", code="undo_unknown"
            )
        if decision.verdict.verdict == "accept":
            changed_paths = [op.path for op in self._plan_inverse(decision) if not self._is_unchanged(op, decision)]
            if changed_paths:
                raise ReviewConflict(
                    f"{', '.join(changed_paths[:MAX_NAMED])} changed since that verdict; it can't be undone.",
                    hint="Nothing was written.",
                )
            self._records.write(replace(decision, phase="undoing"))
            try:
                self._revert(decision)
            except (OSError, PathRefused) as error:
                raise PromotionFailed(f"The verdict can't be undone now: {error}.", hint="Try again.") from error
            # The disk has its old content again, with newer times.
            now = time.time_ns()
            decision = replace(decision, tops={path: replace(top, since=now) for path, top in decision.tops.items()})
        elif decision.verdict.superseded:
            decision = replace(
                decision, tops={path: replace(top, insisted=True) for path, top in decision.tops.items()}
            )
        self._return_to_layers(replace(decision, phase="undone"))
        return decision.verdict

    def _plan_inverse(self, decision: BulkDecision) -> list[TransferStep]:
        """Plan the inverse: remove the accepted files, and restore the files that they replaced."""
        saved_layer = self._records.get_saved_layer(decision)
        accepted_stack, saved_stack = self._open_accepted(decision), LayerStack((saved_layer,))
        removals = [
            TransferStep(path=path, what="remove")
            for top in sorted(decision.tops)
            for path, entry in accepted_stack.walk(top)
            if entry is not None and not entry.is_directory and saved_stack.find(path) is None
        ]
        tops = sorted(saved_stack.list_directory(".").entries) if saved_layer.is_dir() else []
        restoration_steps = self._transfer.plan(saved_stack, tops, lambda _: False)
        needed_steps = [
            op for op in restoration_steps if op.what != "directory" or self._transfer.get_kind(op.path) != "directory"
        ]
        modes = [TransferStep(path=path, what="directory", mode=mode) for path, mode in decision.modes.items()]
        return [*removals, *needed_steps, *modes]

    def _open_accepted(self, decision: BulkDecision) -> LayerStack:
        """Open the accepted files: they are in the verdict's directory and, until it is finished, also in the retained
        layers."""
        if (prepared_layer := self._records.get_prepared_layer(decision)).is_dir():
            return LayerStack((prepared_layer,))
        return LayerStack((self._records.get_directory(decision) / "upper", *self._layers.list_uppers()))

    def _is_unchanged(self, op: TransferStep, decision: BulkDecision) -> bool:
        if op.what == "directory" or self._transfer.is_done(op):
            return True
        entry = self._open_accepted(decision).find(op.path)
        if not isinstance(entry, LayeredEntry):
            return self._transfer.read_state(op.path) == ABSENT
        if op.path.endswith(".git/index") and self._guard.has_same_index(
            op.path, Path(os.fsdecode(entry.location)).read_bytes()
        ):
            return True
        return self._transfer.read_state(op.path) == fingerprint_entry(entry)

    def _revert(self, decision: BulkDecision) -> None:
        """Carry out the inverse, except where others have changed something since."""
        ops = [op for op in self._plan_inverse(decision) if self._is_unchanged(op, decision)]
        saved_layer = self._records.get_saved_layer(decision)
        self._transfer.run([op for op in ops if op.what == "remove"], saved_layer, renames=False)
        self._transfer.remove_empty(decision.made)
        self._transfer.run([op for op in ops if op.what != "remove"], saved_layer, renames=False)

    # layers and log

    def _finish(self, decision: BulkDecision) -> None:
        """Move the bulk out of the retained layers, and emit the events."""
        upper = self._records.get_directory(decision) / "upper"
        try:
            upper.mkdir(mode=0o755, exist_ok=True)
            self._records.write(decision)
            self._layers.unshare()
            for layer in reversed(self._layers.list_uppers()):
                for path in sorted(decision.tops):
                    move_entry(layer, upper, path)
        except OSError as error:
            raise StateError(f"The stored layers can't be changed: {error.strerror}.") from error
        retained_layers = self._layers.retained
        tops = {path: top for path, top in retained_layers.tops.items() if path not in decision.tops}
        settled_bases = select_bases(decision.tops, retained_layers.bases)
        bases = {path: base for path, base in retained_layers.bases.items() if path not in settled_bases}
        empty = not tops and not self._layers.open_layers
        self._layers.switch_to(
            replace(retained_layers, layers=() if empty else retained_layers.layers, tops=tops, bases=bases)
        )
        self._step("settled")
        if decision.verdict.id not in {verdict.id for verdict in self._state.verdicts}:
            self._emit(VerdictGiven(verdict=decision.verdict))
        self._emit(build_layers_changed(self._tree))
        self._records.write(decision, is_unfinished=False)
        self._layers.forget_size(decision.verdict.id)
        with suppress(OSError):
            self._layers.prune_undo()

    def _return_to_layers(self, decision: BulkDecision) -> None:
        """Restore the bulk below the retained layers, and emit the events."""
        directory = self._records.get_directory(decision)
        layer = self.redo_store.name_layer(decision.verdict.id)
        retained_layers = self._layers.retained
        if directory.is_dir():
            self._records.write(decision)
            self.redo_store.save_accepted(decision)
            with suppress(OSError):
                (self._layers.location / layer).mkdir(mode=0o700, exist_ok=True)
                (directory / "upper").rename(self._layers.get_upper(layer))
        if layer not in retained_layers.layers:
            tops, bases = drop_covered(decision.tops | retained_layers.tops), retained_layers.bases | decision.bases
            self._layers.write_record(
                replace(retained_layers, layers=(layer, *retained_layers.layers), tops=tops, bases=bases)
            )
        self._step("returned")
        if decision.verdict.id in {verdict.id for verdict in self._state.verdicts}:
            self._emit(VerdictUndone(id=decision.verdict.id, path=decision.verdict.path))
        self._layers.squash()
        self._emit(build_layers_changed(self._tree))
        self._records.forget(decision)

    def redo(self, record: VerdictRecord) -> bool:
        """Accept an undone bulk again. The retained layers have no other content afterwards.

        Return False if its files no longer exist.
        """
        if not self.redo_store.restore_layers(record.id):
            return False
        self._emit(build_layers_changed(self._tree))
        self.resolve(record.path, "accept", record.reason, name=record.id)
        return True

    # recovery

    def recover(self) -> str:
        """Finish what a crash interrupted. Return a sentence for the user, "" = there was nothing to do."""
        decision = self._records.read_unfinished() if self._layers.exists else None
        if decision is None:
            return ""
        root = decision.verdict.path
        self._transfer.clear_temporaries([*self._plan_steps(decision.tops), *self._plan_inverse(decision)])
        match decision.phase:
            case "saving":
                self._records.forget(decision)
                return f"An interrupted acceptance of {root} was undone; nothing had been written."
            case "applying":
                ops = self._plan_steps(decision.tops, decision)
                try:
                    self._guard.refuse_conflicts(decision.tops, decision.bases, ops)
                    self._transfer.run(ops, self._records.get_saved_layer(decision), renames=self._can_rename())
                    self._remove_gone(ops)
                except (OSError, AgentTuiError):
                    self._revert(decision)
                    self._records.forget(decision)
                    return f"An interrupted acceptance of {root} was undone."
                self._finish(replace(decision, phase="applied"))
            case "applied":
                self._finish(decision)
            case "undoing" | "undone":
                if decision.phase == "undoing":
                    self._revert(decision)
                self._return_to_layers(replace(decision, phase="undone"))
                return f"Finished undoing {root}."
        return f"Finished writing {root}."
