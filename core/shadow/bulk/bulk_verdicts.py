"""Verdicts on bulks: accepting carries one from the kept layers into the project, rejecting drops it.

A transaction is recorded before anything happens: what will be replaced is saved first, then the disk is changed, then
the layers and the log follow. A crash at any point is finished or reverted at the next start. What was accepted or
rejected, and what it replaced, stays in a directory of the verdict's own, so that it can be undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, PathRefused, ReviewConflict, StateError
from core.filesystem.private_directories import make_private_directory
from core.ids import new_id
from core.protocol.events import AnyEvent, LayersChanged, VerdictGiven, VerdictUndone
from core.protocol.review import FileState, Verdict, VerdictRecord
from core.shadow.bulk.bulk_guard import GIT_BUSY, MAX_NAMED, BulkGuard, may_have_changed
from core.shadow.bulk.bulk_records import BulkDecision, BulkRecords, build_bulk_verdict
from core.shadow.bulk.bulk_redo import BulkRedo
from core.shadow.bulk.bulk_summary import build_layers_changed, summarize_place
from core.shadow.bulk.layer_transfer import LayerTransfer, TransferStep
from core.shadow.effects.path_classes import is_git_protected
from core.shadow.gitstate.git_state import GIT_REFUSED, GitState
from core.shadow.gitstate.preparation import GitPreparation, PreparedGitState
from core.shadow.gitstate.standing_repositories import refuse_lost_repositories
from core.shadow.layers.layer_files import fingerprint_entry
from core.shadow.layers.layer_stack import LayeredEntry, LayerStack
from core.shadow.layers.layer_store import KeptTop, drop_covered, select_bases
from core.shadow.layers.merged_tree import MergedTree
from core.shadow.layers.prune import move_place
from core.shadow.paths import collect_directories, walk_directory
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

    # giving

    def prepare(self, root: str) -> PreparedGitState | None:
        """Prepare the acceptance of a state of git, which takes long; may run in a thread.

        None: the bulk is no state of git, or `resolve` will say why not. Raises `ReviewConflict` if git's state may not
        be taken over.
        """
        tops, bases = self._select_kept(root)
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
        """Accept or reject a bulk; see `Shadow.resolve_bulk`. `name`: the id of a verdict that is given once more."""
        name = ready.name if ready else name
        bulk = next((each for each in self._state.bulks if each.root == root), None)
        tops, bases = self._select_kept(root)
        if bulk is None or not tops:
            self._preparation.drop(name)
            raise CommandRejected(f"Nothing is kept for {root!r}.", code="bulk_unknown")
        record = build_bulk_verdict(bulk, verdict, name=name, reason=reason)
        decided = BulkDecision(verdict=record, tops=tops, bases=bases, phase="saving")
        if verdict == "accept":
            decided = self._accept(decided, ready)
        else:
            self._records.get_directory(decided).mkdir(mode=0o700)
        self._finish(replace(decided, phase="applied"))
        return decided.verdict

    def _select_kept(self, root: str) -> tuple[dict[str, KeptTop], dict[str, FileState]]:
        kept = self._layers.kept
        tops = {path: top for path, top in kept.tops.items() if top.root == root}
        return tops, select_bases(tops, kept.bases)

    def check_conflicts(self) -> None:
        """Compare all bulks with the project, and emit what is new about their conflicts."""
        found = tuple(replace(each, conflict=self._find_conflict(each.root)) for each in self._state.bulks)
        if found != self._state.bulks:
            self._emit(LayersChanged(layers=self._layers.kept.layers, bulks=found))

    def _find_conflict(self, root: str) -> str:
        tops, bases = self._select_kept(root)
        try:
            self._refuse_denied(self._plan_steps(tops))
            if may_have_changed(self._workspace, self._tree.stack, tops, bases):
                self._guard.refuse_conflicts(tops, bases, self._plan_steps(tops))
        except ReviewConflict as error:
            return "" if error.code == GIT_BUSY else error.message
        except (OSError, PathRefused):  # said when it is to be accepted
            return ""
        return ""

    def _refuse_denied(self, ops: Sequence[TransferStep]) -> None:
        """Raise `ReviewConflict` if a rule denies one of the paths that the steps would write, make, change the mode of
        or remove, or if a repository of the project would be no directory any more."""
        refuse_lost_repositories(self._tree, (op.path for op in ops if op.what != "directory"))
        if not self._write_rules.deny_any:
            return
        written = {op.path: None for op in ops if op.what != "directory" and not self._transfer.is_done(op)}
        directories = [op.path for op in ops if op.what == "directory" and self._transfer.get_kind(op.path) is None]
        written |= dict.fromkeys((*directories, *self._find_changed_modes(ops)))
        removed = (walk_directory(self._workspace, op.path) or () for op in ops if op.what == "remove")
        self._write_rules.refuse([*written, *(path for below in removed for path, _ in below)])

    # what is older than the project

    def read_disk_state(self, path: str) -> FileState | None:
        """Return the project's state at a path, of any size; None: a directory."""
        return self._transfer.read_state(path)

    def is_refreshed_index(self, path: str, base: FileState) -> bool:
        """True if a path is git's index, and names the same content as `base`."""
        return self._guard.is_refreshed_index(path, base)

    def set_aside(self, path: str, top: KeptTop, reason: str) -> VerdictRecord:
        """Take a place out of the kept layers, because the project's is newer; undoing brings it back."""
        bulk = summarize_place(self._tree, path, top)
        record = build_bulk_verdict(bulk, "reject", reason=reason, superseded=True)
        tops = {path: replace(top, root=bulk.root)}
        decided = BulkDecision(
            verdict=record, tops=tops, bases=select_bases(tops, self._layers.kept.bases), phase="applied"
        )
        try:
            self._records.get_directory(decided).mkdir(mode=0o700)
        except OSError as error:
            raise StateError(f"{path} can't be set aside: {error.strerror}.") from error
        self._finish(decided)
        return record

    def _accept(self, decided: BulkDecision, ready: PreparedGitState | None) -> BulkDecision:
        try:
            self._guard.refuse_conflicts(decided.tops, decided.bases, self._plan_steps(decided.tops))
        except ReviewConflict:
            self._preparation.drop(decided.verdict.id)
            self.check_conflicts()
            raise
        try:
            decided = self._preparation.apply_to(decided, ready)
            ops = self._plan_steps(decided.tops, decided)
            self._guard.refuse_conflicts(decided.tops, decided.bases, ops)
            self._refuse_denied(ops)
            return self._apply(decided, ops)
        except ReviewConflict:
            self._records.forget(decided)
            raise
        except (OSError, PathRefused) as error:
            self._records.forget(decided)
            why = error.message if isinstance(error, PathRefused) else f"{error.filename!r}: {error.strerror}"
            raise PromotionFailed(
                f"{decided.verdict.path} can't be written: {why}. What was written has been put back.",
                hint="Mend that, then accept again.",
            ) from error

    def _apply(self, decided: BulkDecision, ops: list[TransferStep]) -> BulkDecision:
        home, saved = self._records.get_directory(decided), self._records.get_saved_layer(decided)
        made = [op.path for op in ops if op.what == "directory" and self._transfer.get_kind(op.path) is None]
        modes = self._find_changed_modes(ops)
        decided = replace(decided, made=tuple(made), modes=modes)
        try:
            self._records.write(decided)
            make_private_directory(saved.parent)
            saved.mkdir(mode=0o700)
            for op in ops:
                self._transfer.save(op, saved, renames=self._can_rename())
            self._step("saved")
            self._records.write(replace(decided, phase="applying"))
        except (OSError, AgentTuiError):
            self._records.forget(decided)
            raise
        try:
            self._transfer.run(ops, saved, renames=self._can_rename())
            self._remove_gone(ops)
        except (OSError, AgentTuiError):
            self._revert(decided)
            self._records.forget(decided)
            raise
        self._step(f"applied {home.name}")
        self._records.write(replace(decided, phase="applied"))
        return decided

    def _remove_gone(self, ops: list[TransferStep]) -> None:
        """Remove directories that the command removed, with the last of what was in them."""
        gone = self._layers.kept.gone
        self._transfer.remove_empty(collect_directories(op.path for op in ops if op.what == "remove") & gone.keys())

    def _find_changed_modes(self, ops: Sequence[TransferStep]) -> dict[str, int]:
        found = {}
        for op in ops:
            stats = self._workspace.stat(op.path) if op.what == "directory" else None
            if stats is not None and stats.kind == "directory" and stats.mode != op.mode:
                found[op.path] = stats.mode
        return found

    def _plan_steps(self, tops: Mapping[str, KeptTop], decided: BulkDecision | None = None) -> list[TransferStep]:
        """Plan the steps that bring the kept layers, or what was prepared of them, to the disk."""
        prepared = self._records.get_prepared_layer(decided) if decided is not None else None
        stack = LayerStack((prepared,)) if prepared is not None and prepared.is_dir() else self._tree.stack
        changes = self._state.changes
        return self._transfer.plan(stack, sorted(tops), lambda path: path in changes or is_git_protected(path))

    def _can_rename(self) -> bool:
        """True if whole directories can be renamed between the layers and the project."""
        return self._layers.place.stat().st_dev == self._workspace.root.stat().st_dev

    # taking back

    def undo(self, verdict_id: str) -> VerdictRecord:
        """Undo a verdict on a bulk; see `Shadow.undo`."""
        decided = self._records.read(verdict_id)
        if decided is None:
            raise CommandRejected(
                "What that verdict was on is not kept any more; it can't be undone.", code="undo_unknown"
            )
        if decided.verdict.verdict == "accept":
            changed = [op.path for op in self._plan_inverse(decided) if not self._is_unchanged(op, decided)]
            if changed:
                raise ReviewConflict(
                    f"{', '.join(changed[:MAX_NAMED])} changed since that verdict; it can't be undone.",
                    hint="Nothing was written.",
                )
            self._records.write(replace(decided, phase="undoing"))
            try:
                self._revert(decided)
            except (OSError, PathRefused) as error:
                raise PromotionFailed(f"The verdict can't be undone now: {error}.", hint="Try again.") from error
            # The disk is what it was; it only looks newer.
            now = time.time_ns()
            decided = replace(decided, tops={path: replace(top, since=now) for path, top in decided.tops.items()})
        elif decided.verdict.superseded:
            decided = replace(decided, tops={path: replace(top, insisted=True) for path, top in decided.tops.items()})
        self._return_to_layers(replace(decided, phase="undone"))
        return decided.verdict

    def _plan_inverse(self, decided: BulkDecision) -> list[TransferStep]:
        """Plan the inverse: what was put goes, unless something was there before, and that comes back."""
        place = self._records.get_saved_layer(decided)
        accepted, saved = self._open_accepted(decided), LayerStack((place,))
        removals = [
            TransferStep(path=path, what="remove")
            for top in sorted(decided.tops)
            for path, entry in accepted.walk(top)
            if entry is not None and not entry.is_directory and saved.find(path) is None
        ]
        tops = sorted(saved.list_directory(".").entries) if place.is_dir() else []
        restored = self._transfer.plan(saved, tops, lambda _: False)
        known = [op for op in restored if op.what != "directory" or self._transfer.get_kind(op.path) != "directory"]
        modes = [TransferStep(path=path, what="directory", mode=mode) for path, mode in decided.modes.items()]
        return [*removals, *known, *modes]

    def _open_accepted(self, decided: BulkDecision) -> LayerStack:
        """Open what was put: it lies beside the verdict, and until that is finished also in the kept layers."""
        if (prepared := self._records.get_prepared_layer(decided)).is_dir():
            return LayerStack((prepared,))
        return LayerStack((self._records.get_directory(decided) / "upper", *self._layers.list_uppers()))

    def _is_unchanged(self, op: TransferStep, decided: BulkDecision) -> bool:
        if op.what == "directory" or self._transfer.is_done(op):
            return True
        entry = self._open_accepted(decided).find(op.path)
        if not isinstance(entry, LayeredEntry):
            return self._transfer.read_state(op.path) == ABSENT
        if op.path.endswith(".git/index") and self._guard.has_same_index(
            op.path, Path(os.fsdecode(entry.place)).read_bytes()
        ):
            return True
        return self._transfer.read_state(op.path) == fingerprint_entry(entry)

    def _revert(self, decided: BulkDecision) -> None:
        """Carry out the inverse, except where others have changed something since."""
        ops = [op for op in self._plan_inverse(decided) if self._is_unchanged(op, decided)]
        saved = self._records.get_saved_layer(decided)
        self._transfer.run([op for op in ops if op.what == "remove"], saved, renames=False)
        self._transfer.remove_empty(decided.made)
        self._transfer.run([op for op in ops if op.what != "remove"], saved, renames=False)

    # the layers and the log

    def _finish(self, decided: BulkDecision) -> None:
        """Move what was decided out of the kept layers, and emit the events."""
        upper = self._records.get_directory(decided) / "upper"
        try:
            upper.mkdir(mode=0o755, exist_ok=True)
            self._records.write(decided)
            self._layers.unshare()
            for layer in reversed(self._layers.list_uppers()):
                for path in sorted(decided.tops):
                    move_place(layer, upper, path)
        except OSError as error:
            raise StateError(f"The kept layers can't be changed: {error.strerror}.") from error
        kept = self._layers.kept
        tops = {path: top for path, top in kept.tops.items() if path not in decided.tops}
        settled = select_bases(decided.tops, kept.bases)
        bases = {path: base for path, base in kept.bases.items() if path not in settled}
        empty = not tops and not self._layers.open_layers
        self._layers.switch_to(replace(kept, layers=() if empty else kept.layers, tops=tops, bases=bases))
        self._step("settled")
        if decided.verdict.id not in {each.id for each in self._state.verdicts}:
            self._emit(VerdictGiven(verdict=decided.verdict))
        self._emit(build_layers_changed(self._tree))
        self._records.write(decided, unfinished=False)
        self._layers.forget_size(decided.verdict.id)
        with suppress(OSError):
            self._layers.prune_undo()

    def _return_to_layers(self, decided: BulkDecision) -> None:
        """Put what was decided below the kept layers again, and emit the events."""
        home = self._records.get_directory(decided)
        layer = self.redo_store.name_layer(decided.verdict.id)
        kept = self._layers.kept
        if home.is_dir():
            self._records.write(decided)
            self.redo_store.keep_accepted(decided)
            with suppress(OSError):
                (self._layers.place / layer).mkdir(mode=0o700, exist_ok=True)
                (home / "upper").rename(self._layers.get_upper(layer))
        if layer not in kept.layers:
            tops, bases = drop_covered(decided.tops | kept.tops), kept.bases | decided.bases
            self._layers.write_record(replace(kept, layers=(layer, *kept.layers), tops=tops, bases=bases))
        self._step("returned")
        if decided.verdict.id in {each.id for each in self._state.verdicts}:
            self._emit(VerdictUndone(id=decided.verdict.id, path=decided.verdict.path))
        self._layers.squash()
        self._emit(build_layers_changed(self._tree))
        self._records.forget(decided)

    def redo(self, record: VerdictRecord) -> bool:
        """Accept once more what was accepted and undone since. The kept layers hold nothing else afterwards.

        Return False if it is no longer there.
        """
        if not self.redo_store.restore_layers(record.id):
            return False
        self._emit(build_layers_changed(self._tree))
        self.resolve(record.path, "accept", record.reason, name=record.id)
        return True

    # after a crash

    def recover(self) -> str:
        """Finish what a crash cut off. Return a sentence for the user, "" = there was nothing."""
        decided = self._records.read_unfinished() if self._layers.exists else None
        if decided is None:
            return ""
        root = decided.verdict.path
        self._transfer.clear_temporaries([*self._plan_steps(decided.tops), *self._plan_inverse(decided)])
        match decided.phase:
            case "saving":
                self._records.forget(decided)
                return f"An interrupted acceptance of {root} was taken back; nothing had been written."
            case "applying":
                ops = self._plan_steps(decided.tops, decided)
                try:
                    self._guard.refuse_conflicts(decided.tops, decided.bases, ops)
                    self._transfer.run(ops, self._records.get_saved_layer(decided), renames=self._can_rename())
                    self._remove_gone(ops)
                except (OSError, AgentTuiError):
                    self._revert(decided)
                    self._records.forget(decided)
                    return f"An interrupted acceptance of {root} was taken back."
                self._finish(replace(decided, phase="applied"))
            case "applied":
                self._finish(decided)
            case "undoing" | "undone":
                if decided.phase == "undoing":
                    self._revert(decided)
                self._return_to_layers(replace(decided, phase="undone"))
                return f"Finished taking {root} back."
        return f"Finished writing {root}."
