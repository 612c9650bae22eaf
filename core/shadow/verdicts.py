"""Verdicts: accept moves the base (and the file on disk) to the hunk, reject moves the pending state away from it.

Both can be undone. Whatever a verdict is based on is compared with the disk first; the user's own edits win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, ContentLost, PathRefused, ReviewConflict
from core.ids import new_id
from core.protocol.events import (
    AnyEvent,
    ChangeConflicted,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    FileWritten,
    VerdictUndone,
)
from core.protocol.review import Change, FileState, Hunk, Origin, Verdict, VerdictRecord
from core.shadow.clashing import marked
from core.shadow.contents import Contents, Sides, content_of, narrowed
from core.shadow.difflines import excerpt
from core.shadow.disk import Disk, both_paths, parted, together
from core.shadow.hunks import inserted, select, settled
from core.shadow.journal import Write
from core.shadow.planned import Planned, is_apart, paired, pending_events, verdict_events, with_rename
from core.shadow.promote import Promotion
from core.shadow.review import ReviewState
from core.shadow.rivals import clash_of, with_rivals
from core.workspace import Workspace


class Verdicts:
    """Gives and takes back verdicts on the changes of one session."""

    def __init__(
        self,
        workspace: Workspace,
        contents: Contents,
        promotion: Promotion,
        emit: Callable[[AnyEvent], None],
        state: ReviewState,
    ) -> None:
        self._workspace = workspace
        self._contents = contents
        self._promotion = promotion
        self._emit = emit
        self._state = state
        self._disk = Disk(workspace, contents, state)

    # the disk

    def check_disk(self, path: str) -> Change | None:
        """What is pending at a path after a look at the disk; see `Shadow.check_disk`."""
        change = self._state.changes.get(path)
        if change is None:
            return None
        try:
            disk = self._on_disk(path)
        except PathRefused as error:
            return self._conflicted(change, error.message)
        if disk == change.base:
            if change.conflict != (clash := clash_of(change)):
                self._emit(ChangeRevised(change=marked(replace(change, conflict=clash), self._contents)))
            return self._state.changes[path]
        with content_of(path):
            merged = self._contents.merge(change.base, disk, change.pending)
        if merged is None:
            return self._conflicted(change, why_moved_on(change, disk), disk)
        if merged == disk and not change.rivals:
            self._emit(ChangeResolved(path=path))
            return None
        found = self._contents.change(path, Sides(base=disk, pending=merged), change.hunks, change.moved)
        found = with_rivals(replace(found, origin=change.origin), change.rivals, self._contents)
        self._emit(ChangeRevised(change=found) if found.base != found.pending else ChangeResolved(path=path))
        return self._state.changes.get(path)

    def _conflicted(self, change: Change, reason: str, disk: FileState | None = None) -> Change:
        found = replace(change, conflict=reason)
        if disk is not None:
            found = marked(found, self._contents, disk)
        if found.hunks != change.hunks:
            self._emit(ChangeRevised(change=replace(found, conflict=change.conflict)))
        if reason != change.conflict:
            self._emit(ChangeConflicted(path=change.path, reason=reason))
        return self._state.changes[change.path]

    def _on_disk(self, path: str) -> FileState:
        return self._disk.state(path)

    # giving

    def resolve(self, path: str, ids: tuple[str, ...], verdict: Verdict, reason: str) -> list[VerdictRecord]:
        """See `Shadow.resolve`."""
        chosen, changes = self._chosen(path, ids), self._state.changes
        ids = with_rename(changes[path], ids, verdict) if ids else ids
        apart = path if ids and is_apart(changes[path], ids) else ""
        if verdict == "reject":
            found = both_paths(changes, chosen, apart=apart)
        else:
            found = self._unmoved(together(changes, chosen, apart=apart), path, frozenset(ids))
        planned = paired(
            changes,
            [
                self._planned(change, self._hunks(change, ids if change.path == path else ()), verdict, reason)
                for change in found
            ],
        )
        if verdict == "accept":
            self._accept(planned)
        else:
            self._tell(event for each in planned for event in verdict_events(each))
        return [each.record for each in planned]

    def accept_files(self, paths: Sequence[str]) -> list[VerdictRecord]:
        """See `Shadow.accept_files`."""
        chosen = together(self._state.changes, [self._state.changes[path] for path in paths])
        found = self._unmoved(chosen)
        planned = paired(self._state.changes, [self._planned(change, change.hunks, "accept", "") for change in found])
        self._accept(planned)
        return [each.record for each in planned]

    def _chosen(self, path: str, ids: tuple[str, ...]) -> list[Change]:
        changes = self._state.changes
        if path:
            if path not in changes:
                raise CommandRejected(f"Nothing is pending for {path}.", code="not_pending")
            self._hunks(changes[path], ids)
            return [changes[path]]
        if ids:
            raise CommandRejected("Hunks can only be named together with their path.", code="path_missing")
        return [changes[each] for each in sorted(changes) if not changes[each].protected]

    def _hunks(self, change: Change, ids: Iterable[str]) -> tuple[Hunk, ...]:
        wanted = set(ids)
        found = tuple(hunk for hunk in change.hunks if not wanted or hunk.id in wanted)
        if missing := wanted - {hunk.id for hunk in found}:
            raise CommandRejected(
                f"{change.path} has no pending hunk {', '.join(sorted(missing))}.",
                hint="The change has been revised meanwhile: look at it again.",
                code="unknown_hunk",
            )
        return found

    def _unmoved(self, changes: list[Change], path: str = "", ids: Set[str] = frozenset()) -> list[Change]:
        """The changes as they are after a look at the disk; raises when one of them can't be promoted. Of `path` only
        these hunks are meant: it may be in conflict where they are not."""
        found = [self.check_disk(change.path) for change in changes]
        conflicts = [each for each in found if each and each.conflict]
        if conflicts and path:
            conflicts = [each for each in conflicts if each.path != path or not _are_clean(each, ids)]
        if conflicts:
            rest = (
                " Hunks that are not in conflict can be accepted by themselves." if any(map(_clean, conflicts)) else ""
            )
            raise ReviewConflict(
                " ".join(f"{each.path}: {each.conflict}" for each in conflicts) + " Nothing was written.",
                hint=f"Settle it in the review (base, yours, the agent's), or reject the change.{rest}",
            )
        return [each for each in found if each]

    def _planned(self, change: Change, chosen: tuple[Hunk, ...], verdict: Verdict, reason: str) -> Planned:
        done = {hunk.id for hunk in chosen}
        left = settled(change.hunks, done, verdict)
        sides = self._after(change, chosen, left, verdict)
        before, after = change.base, sides.base
        if verdict == "accept" and change.conflict:
            before, after = self._on_top(change, sides.base)
        record = VerdictRecord(
            id=new_id("verdict"),
            path=change.path,
            verdict=verdict,
            hunks=chosen,
            base_before=before,
            base_after=after,
            pending_before=change.pending,
            pending_after=sides.pending,
            reason=reason,
            excerpt=self._excerpt(change, chosen),
            directories=self._made_for(change, sides, verdict),
            rivals=() if left else change.rivals,
            origin=change.origin,
            beside=before != change.base,
            source=change.source,
            renamed_from=change.renamed_from if change.source else "",
        )
        found = replace(narrowed(change, sides, left), origin=_of_the_rest(change.origin, left)) if left else None
        if found is not None and found.rivals:
            found = with_rivals(replace(found, conflict=""), found.rivals, self._contents)
            found = found if found.base != found.pending else None
        return Planned(change, record, found)

    def _on_top(self, change: Change, base: FileState) -> tuple[FileState, FileState]:
        """The file on disk, and that file with what moves the change's base to `base`."""
        disk = self._on_disk(change.path)
        merged = self._contents.merge(change.base, disk, base)
        if merged is None:
            raise ReviewConflict(
                f"{change.path}: {change.conflict} Nothing was written.", hint="Settle it in the review."
            )
        return disk, merged

    def _excerpt(self, change: Change, chosen: tuple[Hunk, ...]) -> str:
        try:
            old, new = self._contents.data(change.counted), self._contents.data(change.pending)
        except ContentLost:
            with suppress(AgentTuiError):
                self._on_disk(change.path)  # stores the base anew, if the project still has it
            return ""
        return excerpt(change, chosen, old, new)

    def _made_for(self, change: Change, sides: Sides, verdict: Verdict) -> tuple[str, ...]:
        """The directories that accepting a new file will make, and those above it that were made for others: whichever
        of these files goes last takes them with it."""
        if verdict != "accept" or change.base.kind != "absent" or sides.base.kind == "absent":
            return ()
        parts = change.path.split("/")[:-1]
        above = {"/".join(parts[: count + 1]) for count in range(len(parts))}
        made = {each for record in self._state.verdicts for each in record.directories if each in above}
        return tuple(sorted(made.union(self._workspace.missing_directories(change.path))))

    def _after(self, change: Change, chosen: tuple[Hunk, ...], left: tuple[Hunk, ...], verdict: Verdict) -> Sides:
        if not left:
            final = change.pending if verdict == "accept" else change.base
            return Sides(base=final, pending=final)
        base, pending = change.base, change.pending
        with content_of(change.path):
            old, new = self._contents.data(change.counted), self._contents.data(pending)
        if verdict == "accept":
            return Sides(base=self._contents.file(select(old, new, chosen), change.counted.mode), pending=pending)
        kept = [hunk for hunk in change.hunks if hunk not in chosen]  # where they stand in the pending bytes as yet
        return Sides(base=base, pending=self._contents.file(select(old, new, kept), pending.mode))

    def _accept(self, planned: list[Planned]) -> None:
        writes = [
            self._promotion.planned(
                each.change.path, each.record.base_before, each.record.base_after, each.change.pending
            )
            for each in planned
        ]
        events = [event for each in planned for event in verdict_events(each)]
        events += parted(
            self._workspace, [each.path for each in writes if each.before.kind == each.after.kind == "file"]
        )
        if writes:
            self._promote(writes, events)

    def _tell(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self._emit(event)

    def _promote(self, writes: list[Write], events: list[AnyEvent]) -> None:
        try:
            self._promotion.run(writes, events, self._emit)
        except (ReviewConflict, PathRefused):
            for write in writes:
                self.check_disk(write.path)
            raise

    # taking back

    def undo(self, verdict_id: str) -> VerdictRecord:
        """See `Shadow.undo`."""
        record = self._standing(verdict_id)
        if record.settled is not None:
            with content_of(record.path):
                self._reopen(record, record.settled)
            return record
        both = [each for each in self._state.verdicts if each.id in {record.id, record.moved_with}]
        both.sort(key=lambda each: not each.renamed_from)  # nothing is lost if only the new path has come back
        try:
            self._undo(both)
        except PathRefused as error:
            if len(both) == 1 or error.code != "not_a_file":
                raise
            self._undo([record])  # a directory stands where the other path was: its own verdicts go first
        return record

    def _undo(self, records: Iterable[VerdictRecord]) -> None:
        writes: list[Write] = []
        events: list[AnyEvent] = []
        for record in records:
            with content_of(record.path):
                more = self._undone(record)
            writes += more[0]
            events += more[1]
        if writes:
            self._promote(writes, events)
        else:
            self._tell(events)

    def _undone(self, record: VerdictRecord) -> tuple[list[Write], list[AnyEvent]]:
        change = self.check_disk(record.path)
        if change and change.conflict:
            raise ReviewConflict(f"{record.path}: {change.conflict}", hint="Settle the conflict, then undo.")
        disk = self._on_disk(record.path)
        now = Sides(base=disk, pending=change.pending if change else disk)
        sides = self._taken_back(record, now)
        moved = (change.moved if change else None) or (
            (record.renamed_from, record.source) if record.source is not None else None
        )
        if (
            not record.beside
            and sides == Sides(base=record.base_before, pending=record.pending_before)
            and now == Sides(base=record.base_after, pending=record.pending_after)
        ):
            rest = change.hunks if change else ()
            known = change or self._contents.change(record.path, sides)
            known = replace(known, renamed_from=moved[0], source=moved[1]) if moved else known
            found = narrowed(known, sides, inserted(rest, record.hunks, record.verdict))
            found = replace(found, origin=(record.origin if change else _come_back(record)) or known.origin)
        else:
            hunks = (*(change.hunks if change else ()), *record.hunks)
            found = self._contents.change(record.path, sides, hunks, moved)
            found = replace(found, origin=change.origin if change else _come_back(record))
        found = with_rivals(found, (*(change.rivals if change else ()), *record.rivals), self._contents)
        if record.renamed_from and found.operation == "create":  # what an earlier version of the program has recorded
            found = replace(found, operation="rename", renamed_from=record.renamed_from)
        events: list[AnyEvent] = [*pending_events(found, known=change is not None)]
        events.append(VerdictUndone(id=record.id, path=record.path))
        if sides.base == disk:
            return [], events
        write = self._promotion.planned(record.path, disk, sides.base, change.pending if change else None)
        if sides.base.kind == "absent":
            write = replace(write, directories=record.directories)
        return [write], [FileWritten(path=record.path, state=sides.base, before=disk), *events]

    def _reopen(self, record: VerdictRecord, before: Change) -> None:
        """A settled conflict is one again, if what came of it is as it was."""
        change = self._state.changes.get(record.path)
        if record.pending_after != (change.pending if change else record.base_after):
            raise ReviewConflict(
                f"{record.path} has been changed since its conflict was settled; that can't be undone.",
                hint="Nothing was written. Reject or edit its hunks instead.",
            )
        self._emit(ChangeRevised(change=before) if change else ChangeProposed(change=before))
        self._emit(VerdictUndone(id=record.id, path=record.path))
        self.check_disk(record.path)

    def _standing(self, verdict_id: str) -> VerdictRecord:
        for record in reversed(self._state.verdicts):
            if verdict_id in {"", record.id}:
                return record
        what = f"Verdict {verdict_id} does not stand." if verdict_id else "There is no verdict to undo."
        raise CommandRejected(what, code="no_verdict")

    def _taken_back(self, record: VerdictRecord, now: Sides) -> Sides:
        """Both sides without what the verdict did to one of them; later changes to it are kept."""
        merge = self._contents.merge
        base: FileState | None = now.base
        pending: FileState | None = now.pending
        if record.verdict == "accept":
            base = merge(record.base_after, now.base, record.base_before)
        else:
            pending = merge(record.pending_after, now.pending, record.pending_before)
        if base is None or pending is None:
            raise ReviewConflict(
                f"{record.path} has been changed in the same place since that verdict; it can't be undone.",
                hint="Nothing was written.",
            )
        return Sides(base=base, pending=pending)


def _clean(change: Change) -> bool:
    return bool(change.clean)


def _are_clean(change: Change, ids: Set[str]) -> bool:
    return bool(ids) and ids <= {each.id for each in change.clean}


def _come_back(record: VerdictRecord) -> Origin | None:
    """Where what comes back came from; it is no new edit of that call."""
    return replace(record.origin, call="") if record.origin else None


def _of_the_rest(origin: Origin | None, left: Iterable[Hunk]) -> Origin | None:
    """Where the hunks that are left came from: when none of those that the user edited is, from the tool alone."""
    return origin if origin is None or any(each.yours for each in left) else origin.unedited()


def why_moved_on(change: Change, disk: FileState) -> str:
    """Why a change can't be taken over what the disk has now, in a sentence for the user."""
    if disk.kind == "absent":
        return "the file was removed from the project since the change was made."
    if change.base.kind == "absent":
        return "a file of this name was created in the project since the change was made."
    if disk.kind != change.base.kind:
        return "the file is now a symbolic link." if disk.kind == "symlink" else "the link is now a file."
    return "the file in the project was edited in the same place since the change was made."
