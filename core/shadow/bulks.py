"""Verdicts on what is decided in bulk: accepting carries it from the kept layers into the project, rejecting drops it.

A transaction is noted before anything happens: what will be replaced is saved first, then the disk is changed, then
the layers and the log follow. A crash at any point is finished or taken back at the next start. What was accepted or
rejected, and what it replaced, stays in a directory of the verdict's own, so that it can be undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, PathRefused, ReviewConflict, StateError
from core.ids import new_id
from core.protocol.events import AnyEvent, LayersChanged, VerdictGiven, VerdictUndone
from core.protocol.review import FileState, Verdict, VerdictRecord
from core.shadow.again import Again
from core.shadow.blobs import BlobStore
from core.shadow.bulk_guard import GIT_BUSY, NAMED, Guard, moved_on
from core.shadow.bulk_notes import Decided, Notes
from core.shadow.contents import Contents
from core.shadow.disk import Within, directories_of
from core.shadow.gitstate.beforehand import Beforehand, Ready
from core.shadow.gitstate.state import GIT_REFUSED, GitState
from core.shadow.layers import Layers, Top
from core.shadow.path_classes import is_lever
from core.shadow.promote import PromotionFailed
from core.shadow.review import ReviewState
from core.shadow.seen import Seen
from core.shadow.stack import Layered, Stack
from core.shadow.tally import described, layers_changed
from core.shadow.tidy import move
from core.shadow.transfer import Op, Transfer, layered_fingerprint
from core.workspace import ABSENT, Workspace


class Bulks:
    """The bulks of one session."""

    def __init__(
        self,
        workspace: Workspace,
        layers: Layers,
        seen: Seen,
        state: ReviewState,
        blobs: BlobStore,
        step: Callable[[str], None],
    ) -> None:
        self._workspace = workspace
        self._layers = layers
        self._seen = seen
        self._state = state
        self._step = step
        self._transfer = Transfer(workspace, step, blobs.directory)
        self._notes = Notes(layers)
        self._guard = Guard(workspace, self._transfer, blobs)
        self.again = Again(layers, self._notes, state)
        self.git = GitState(workspace, Contents(blobs), seen, state)
        self._beforehand = Beforehand(layers, self._notes, self.git, state)

    # giving

    def ready(self, root: str) -> Ready | None:
        """What takes long of accepting a state of git, beforehand: it may run in a thread. None: there is no such
        thing, or `resolve` will say why not. `ReviewConflict`: git's state may not be taken over."""
        tops, bases = self._kept(root)
        try:
            self._guard.refuse_conflicts(tops, bases, self._ops(tops))
            return self._beforehand.made(tops, new_id("verdict"))
        except ReviewConflict as conflict:
            if conflict.code == GIT_REFUSED:
                raise
        except (OSError, PathRefused):
            pass
        return None

    def resolve(
        self,
        root: str,
        verdict: Verdict,
        reason: str,
        emit: Callable[[AnyEvent], None],
        *,
        name: str = "",
        ready: Ready | None = None,
    ) -> VerdictRecord:
        """See `Shadow.resolve_bulk`. `name`: the id of a verdict that is given once more."""
        name = ready.name if ready else name
        bulk = next((each for each in self._state.bulks if each.root == root), None)
        tops, bases = self._kept(root)
        if bulk is None or not tops:
            self._beforehand.drop(name)
            raise CommandRejected(f"Nothing is kept for {root!r}.", code="bulk_unknown")
        record = VerdictRecord(
            id=name or new_id("verdict"),
            path=root,
            verdict=verdict,
            hunks=(),
            base_before=ABSENT,
            base_after=ABSENT,
            pending_before=ABSENT,
            pending_after=ABSENT,
            reason=reason,
            excerpt=described(bulk),
            bulk=bulk,
        )
        decided = Decided(verdict=record, tops=tops, bases=bases, phase="saving")
        if verdict == "accept":
            decided = self._accept(decided, ready, emit)
        else:
            self._notes.home(decided).mkdir(mode=0o700)
        self._settle(replace(decided, phase="applied"), emit)
        return decided.verdict

    def _kept(self, root: str) -> tuple[dict[str, Top], dict[str, FileState]]:
        kept = self._layers.kept
        tops = {path: top for path, top in kept.tops.items() if top.root == root}
        return tops, _bases_of(tops, kept.bases)

    def look(self, emit: Callable[[AnyEvent], None]) -> None:
        """Compare all bulks with the project, and tell the log which of them it has moved on below, if that is news."""
        found = tuple(replace(each, conflict=self._conflict(each.root)) for each in self._state.bulks)
        if found != self._state.bulks:
            emit(LayersChanged(layers=self._layers.kept.layers, bulks=found))

    def _conflict(self, root: str) -> str:
        tops, bases = self._kept(root)
        try:
            if moved_on(self._workspace, self._seen.stack, tops, bases):
                self._guard.refuse_conflicts(tops, bases, self._ops(tops))
        except ReviewConflict as error:
            return "" if error.code == GIT_BUSY else error.message
        except (OSError, PathRefused):  # said when it is to be accepted
            return ""
        return ""

    def _accept(self, decided: Decided, ready: Ready | None, emit: Callable[[AnyEvent], None]) -> Decided:
        try:
            self._guard.refuse_conflicts(decided.tops, decided.bases, self._ops(decided.tops))
        except ReviewConflict:
            self._beforehand.drop(decided.verdict.id)
            self.look(emit)
            raise
        try:
            decided = self._beforehand.into(decided, ready)
            ops = self._ops(decided.tops, decided)
            self._guard.refuse_conflicts(decided.tops, decided.bases, ops)
            return self._apply(decided, ops)
        except ReviewConflict:
            self._notes.forget(decided)
            raise
        except (OSError, PathRefused) as error:
            self._notes.forget(decided)
            why = error.message if isinstance(error, PathRefused) else f"{error.filename!r}: {error.strerror}"
            raise PromotionFailed(
                f"{decided.verdict.path} can't be written: {why}. What was written has been put back.",
                hint="Mend that, then accept again.",
            ) from error

    def _apply(self, decided: Decided, ops: list[Op]) -> Decided:
        home, saved = self._notes.home(decided), self._notes.saved(decided)
        made = [op.path for op in ops if op.what == "directory" and self._transfer.kind(op.path) is None]
        modes = self._modes(ops)
        decided = replace(decided, made=tuple(made), modes=modes)
        try:
            self._notes.note(decided)
            saved.mkdir(parents=True, mode=0o700)
            for op in ops:
                self._transfer.save(op, saved, renames=self._renames())
            self._step("saved")
            self._notes.note(replace(decided, phase="applying"))
        except (OSError, AgentTuiError):
            self._notes.forget(decided)
            raise
        try:
            self._transfer.do(ops, saved, renames=self._renames())
            self._remove_gone(ops)
        except (OSError, AgentTuiError):
            self._take_back(decided)
            self._notes.forget(decided)
            raise
        self._step(f"applied {home.name}")
        self._notes.note(replace(decided, phase="applied"))
        return decided

    def _remove_gone(self, ops: list[Op]) -> None:
        """Directories that the command removed go with the last of what was in them."""
        gone = self._layers.kept.gone
        self._transfer.remove_empty(directories_of(op.path for op in ops if op.what == "remove") & gone.keys())

    def _modes(self, ops: list[Op]) -> dict[str, int]:
        found = {}
        for op in ops:
            stats = self._workspace.stat(op.path) if op.what == "directory" else None
            if stats is not None and stats.kind == "directory" and stats.mode != op.mode:
                found[op.path] = stats.mode
        return found

    def _ops(self, tops: Mapping[str, Top], decided: Decided | None = None) -> list[Op]:
        """The steps that bring the kept layers to the disk, or what was prepared of them."""
        prepared = self._notes.prepared(decided) if decided is not None else None
        stack = Stack((prepared,)) if prepared is not None and prepared.is_dir() else self._seen.stack
        return self._transfer.ops(stack, sorted(tops), self._is_spared)

    def _is_spared(self, path: str) -> bool:
        return path in self._state.changes or is_lever(path)

    def _renames(self) -> bool:
        """Whether whole directories can be moved between the layers and the project."""
        return self._layers.place.stat().st_dev == self._workspace.root.stat().st_dev

    # taking back

    def undo(self, verdict_id: str, emit: Callable[[AnyEvent], None]) -> VerdictRecord:
        """See `Shadow.undo`."""
        decided = self._notes.read(verdict_id)
        if decided is None:
            raise CommandRejected(
                "What that verdict was on is not kept any more; it can't be undone.", code="undo_unknown"
            )
        if decided.verdict.verdict == "accept":
            changed = [op.path for op in self._back(decided) if not self._is_as_left(op, decided)]
            if changed:
                raise ReviewConflict(
                    f"{', '.join(changed[:NAMED])} changed since that verdict; it can't be undone.",
                    hint="Nothing was written.",
                )
            self._notes.note(replace(decided, phase="undoing"))
            try:
                self._take_back(decided)
            except (OSError, PathRefused) as error:
                raise PromotionFailed(f"The verdict can't be undone now: {error}.", hint="Try again.") from error
            # The disk is what it was; it only looks newer.
            now = time.time_ns()
            decided = replace(decided, tops={path: replace(top, since=now) for path, top in decided.tops.items()})
        self._return(replace(decided, phase="undone"), emit)
        return decided.verdict

    def _back(self, decided: Decided) -> list[Op]:
        """The inverse: what was put goes unless something was there, and that comes back."""
        accepted, saved = self._accepted(decided), Stack((self._notes.saved(decided),))
        removals = [
            Op(path=path, what="remove")
            for top in sorted(decided.tops)
            for path, entry in accepted.walk(top)
            if entry is not None and not entry.is_directory and saved.find(path) is None
        ]
        tops = list(saved.listing(".").entries) if self._notes.saved(decided).is_dir() else []
        restored = self._transfer.ops(saved, sorted(tops), lambda _: False)
        known = [op for op in restored if op.what != "directory" or self._transfer.kind(op.path) != "directory"]
        modes = [Op(path=path, what="directory", mode=mode) for path, mode in decided.modes.items()]
        return [*removals, *known, *modes]

    def _accepted(self, decided: Decided) -> Stack:
        """What was put: it lies beside the verdict, and as long as that is not settled, in the kept layers."""
        if self._notes.prepared(decided).is_dir():
            return Stack((self._notes.prepared(decided),))
        return Stack((self._notes.home(decided) / "upper", *self._layers.stack()))

    def _is_as_left(self, op: Op, decided: Decided) -> bool:
        if op.what == "directory" or self._transfer.is_done(op):
            return True
        entry = self._accepted(decided).find(op.path)
        if not isinstance(entry, Layered):
            return self._transfer.state(op.path) == ABSENT
        if op.path.endswith(".git/index") and self._guard.holds_index(
            op.path, Path(os.fsdecode(entry.place)).read_bytes()
        ):
            return True
        return self._transfer.state(op.path) == layered_fingerprint(entry)

    def _take_back(self, decided: Decided) -> None:
        """Do the inverse, but for what others have changed since."""
        ops = [op for op in self._back(decided) if self._is_as_left(op, decided)]
        self._transfer.do([op for op in ops if op.what == "remove"], self._notes.saved(decided), renames=False)
        self._transfer.remove_empty(decided.made)
        self._transfer.do([op for op in ops if op.what != "remove"], self._notes.saved(decided), renames=False)

    # the layers and the log

    def _settle(self, decided: Decided, emit: Callable[[AnyEvent], None]) -> None:
        """Move what was decided out of the kept layers, and tell the log."""
        upper = self._notes.home(decided) / "upper"
        try:
            upper.mkdir(mode=0o755, exist_ok=True)
            self._notes.note(decided)
            self._layers.own()
            for layer in reversed(self._layers.stack()):
                for path in sorted(decided.tops):
                    move(layer, upper, path)
        except OSError as error:
            raise StateError(f"The kept layers can't be changed: {error.strerror}.") from error
        kept = self._layers.kept
        tops = {path: top for path, top in kept.tops.items() if path not in decided.tops}
        settled = _bases_of(decided.tops, kept.bases)
        bases = {path: base for path, base in kept.bases.items() if path not in settled}
        empty = kept.layers if not tops and not self._layers.open else ()
        self._layers.record(replace(kept, layers=() if empty else kept.layers, tops=tops, bases=bases))
        for each in empty:
            self._layers.close(each, keep=False)
        self._step("settled")
        if decided.verdict.id not in {each.id for each in self._state.verdicts}:
            emit(VerdictGiven(verdict=decided.verdict))
        emit(layers_changed(self._layers, self._seen))
        self._notes.note(decided, unfinished=False)
        self._layers.resized(decided.verdict.id)
        with suppress(OSError):
            self._layers.prune()

    def _return(self, decided: Decided, emit: Callable[[AnyEvent], None]) -> None:
        """Lay what was decided below the kept layers again, and tell the log."""
        home = self._notes.home(decided)
        layer = self.again.layer_of(decided.verdict.id)
        kept = self._layers.kept
        if home.is_dir():
            self._notes.note(decided)
            self.again.keep(decided)
            with suppress(OSError):
                (self._layers.place / layer).mkdir(mode=0o700, exist_ok=True)
                (home / "upper").rename(self._layers.upper(layer))
        if layer not in kept.layers:
            self._layers.record(
                replace(
                    kept,
                    layers=(layer, *kept.layers),
                    tops=_uncovered(decided.tops | kept.tops),
                    bases=kept.bases | decided.bases,
                )
            )
        self._step("returned")
        if decided.verdict.id in {each.id for each in self._state.verdicts}:
            emit(VerdictUndone(id=decided.verdict.id, path=decided.verdict.path))
        self._layers.squash()
        emit(layers_changed(self._layers, self._seen))
        self._notes.forget(decided)

    def redo(self, record: VerdictRecord, emit: Callable[[AnyEvent], None]) -> bool:
        """Accept once more what was accepted, and taken back since. The kept layers hold nothing else afterwards.
        False: it is not there any more."""
        if not self.again.lay_out(record.id):
            return False
        emit(layers_changed(self._layers, self._seen))
        self.resolve(record.path, "accept", record.reason, emit, name=record.id)
        return True

    # after a crash

    def recover(self, emit: Callable[[AnyEvent], None]) -> list[str]:
        """Bring what a crash cut off to an end. Sentences for the user."""
        if not self._layers.exists:
            return []
        decided = self._notes.unfinished()
        if decided is None:
            return []
        return [self._recovered(decided, emit)]

    def _recovered(self, decided: Decided, emit: Callable[[AnyEvent], None]) -> str:
        root = decided.verdict.path
        self._transfer.clear([*self._ops(decided.tops), *self._back(decided)])
        match decided.phase:
            case "saving":
                self._notes.forget(decided)
                return f"An interrupted acceptance of {root} was taken back; nothing had been written."
            case "applying":
                ops = self._ops(decided.tops, decided)
                try:
                    self._guard.refuse_conflicts(decided.tops, decided.bases, ops)
                    self._transfer.do(ops, self._notes.saved(decided), renames=self._renames())
                    self._remove_gone(ops)
                except (OSError, AgentTuiError):
                    self._take_back(decided)
                    self._notes.forget(decided)
                    return f"An interrupted acceptance of {root} was taken back."
                self._settle(replace(decided, phase="applied"), emit)
            case "applied":
                self._settle(decided, emit)
            case "undoing" | "undone":
                if decided.phase == "undoing":
                    self._take_back(decided)
                self._return(replace(decided, phase="undone"), emit)
                return f"Finished taking {root} back."
        return f"Finished writing {root}."


def _bases_of(tops: Mapping[str, Top], bases: Mapping[str, FileState]) -> dict[str, FileState]:
    is_below = Within(tops.__contains__)
    return {path: base for path, base in bases.items() if path in tops or is_below(path)}


def _uncovered(tops: Mapping[str, Top]) -> dict[str, Top]:
    is_below = Within(tops.__contains__)
    return {path: top for path, top in tops.items() if not is_below(path)}
