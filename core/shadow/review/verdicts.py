"""Verdicts: accepting a hunk moves the base (and the file on disk) to it, rejecting one moves the pending state away.

Both can be undone. Before a verdict the disk is compared with the state that it is based on; the user's own edits win.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress

from msgspec.structs import replace

from core.errors import AgentTuiError, CommandRejected, ContentLost, PathRefused, ReviewConflict
from core.ids import new_id
from core.protocol import events as ev
from core.protocol.paths import list_parents
from core.protocol.review import Change, FileState, Hunk, Verdict, VerdictRecord
from core.shadow.content.contents import ChangeSides, explain_lost_content, narrow_change
from core.shadow.diff.diff_lines import build_excerpt
from core.shadow.diff.hunks import reinsert_hunks, remove_hunks, select_hunks
from core.shadow.gitstate.lost_repositories import refuse_lost_repositories
from core.shadow.promotion.journal import PathWrite
from core.shadow.promotion.promotion import Promotion
from core.shadow.review.conflicts import describe_clash, include_competing_versions, mark_clashes
from core.shadow.review.verdict_plan import (
    PlannedVerdict,
    ReviewPart,
    build_hard_link_notices,
    build_pending_events,
    find_hunks,
    group_changes,
    include_rename,
    is_apart_from_rename,
    link_rename_verdicts,
)
from core.shadow.review.write_rules import WriteRules


class Verdicts(ReviewPart, eq=False):
    """Record and undo verdicts on the changes of one session."""

    promotion: Promotion
    write_rules: WriteRules

    # disk

    def check_disk(self, path: str) -> Change | None:
        """Compare a pending change with the disk; see `Shadow.check_disk`."""
        change = self.state.changes.get(path)
        if change is None:
            return None
        try:
            disk = self.read_disk(path)
        except PathRefused as error:
            return self._mark_conflict(change, error.message)
        if disk == change.base:
            if (change.conflict or change.competing_versions) and change.conflict != (clash := describe_clash(change)):
                self.emit(ev.ChangeRevised(change=mark_clashes(replace(change, conflict=clash), self.contents)))
            return self.state.changes[path]
        with explain_lost_content(path):
            merged_state = self.contents.merge(change.base, disk, change.pending)
        if merged_state is None:
            return self._mark_conflict(change, describe_outdated(change, disk), disk)
        if merged_state == disk and not change.competing_versions:
            self.emit(ev.ChangeResolved(path=path))
            return None
        sides = ChangeSides(base=disk, pending=merged_state)
        rebased_change = self.contents.build_change(path, sides, change.hunks, change.rename_source, change.origin)
        rebased_change = include_competing_versions(rebased_change, change.competing_versions, self.contents)
        self.promotion.run((), build_pending_events(rebased_change, is_revision=True))
        self._report_user_edit(change, disk)
        return self.state.changes.get(path)

    def _report_user_edit(self, change: Change, disk: FileState) -> None:
        """Record what the user has changed in a file whose pending change now includes it."""
        edit = self.contents.build_change(change.path, ChangeSides(base=change.base, pending=disk))
        excerpt = build_excerpt(edit, edit.hunks, *self.contents.read_change(edit))
        self.emit(ev.UserEditMerged(id=new_id("merge"), path=change.path, excerpt=excerpt))

    def _mark_conflict(self, change: Change, reason: str, disk: FileState | None = None) -> Change:
        conflicted_change = replace(change, conflict=reason)
        if disk is not None:
            conflicted_change = mark_clashes(conflicted_change, self.contents, disk)
        if conflicted_change.hunks != change.hunks:
            self.emit(ev.ChangeRevised(change=replace(conflicted_change, conflict=change.conflict)))
        if reason != change.conflict:
            self.emit(ev.ChangeConflicted(path=change.path, reason=reason))
        return self.state.changes[change.path]

    # verdicts

    def resolve(self, path: str, ids: tuple[str, ...], verdict: Verdict, reason: str) -> list[VerdictRecord]:
        """Accept or reject hunks; see `Shadow.resolve`."""
        if (change := self.state.changes.get(path)) is None:
            raise CommandRejected(f"Nothing is pending for {path}.", code="not_pending")
        find_hunks(change, ids)
        ids = include_rename(change, ids, verdict) if ids else ids
        partial_path = path if ids and is_apart_from_rename(change, ids) else ""
        grouped_changes = group_changes(
            self.state.changes, [change], partial_path=partial_path, accepts=verdict == "accept"
        )
        if verdict == "accept":
            grouped_changes = self._require_unmoved(grouped_changes, path, frozenset(ids))
        return self._carry_out(
            self._plan_verdict(
                grouped_change, find_hunks(grouped_change, ids if grouped_change.path == path else ()), verdict, reason
            )
            for grouped_change in grouped_changes
        )

    def accept_files(self, paths: Sequence[str]) -> list[VerdictRecord]:
        """Accept whole pending files; see `Shadow.accept_files`."""
        grouped_changes = group_changes(self.state.changes, [self.state.changes[path] for path in paths], accepts=True)
        return self._carry_out(
            self._plan_verdict(change, change.hunks, "accept", "") for change in self._require_unmoved(grouped_changes)
        )

    def _carry_out(self, verdicts: Iterable[PlannedVerdict]) -> list[VerdictRecord]:
        planned_verdicts = link_rename_verdicts(self.state.changes, verdicts)
        accepted_paths = [
            planned_verdict.record.path
            for planned_verdict in planned_verdicts
            if planned_verdict.record.verdict == "accept"
        ]
        self.write_rules.refuse(accepted_paths)
        refuse_lost_repositories(self.write_rules.tree, accepted_paths, are_files=True)
        writes, events = list[PathWrite](), list[ev.AnyEvent]()
        for planned_verdict in planned_verdicts:  # the verdict is the last event: an interruption preserves that order
            path, record = planned_verdict.record.path, planned_verdict.record
            before, after = record.base_before, record.base_after
            if record.verdict == "accept":
                writes.append(self.promotion.plan_write(path, before, after, planned_verdict.change.pending))
                events.append(ev.FileWritten(path=path, state=after, before=before))
            events.append(
                ev.ChangeRevised(change=planned_verdict.left) if planned_verdict.left else ev.ChangeResolved(path=path)
            )
            events.append(ev.VerdictGiven(verdict=record))
        self._promote(writes, [*events, *build_hard_link_notices(self.workspace, writes)])
        return [planned_verdict.record for planned_verdict in planned_verdicts]

    def _require_unmoved(self, changes: list[Change], path: str = "", ids: Set[str] = frozenset()) -> list[Change]:
        """Return the changes after a check of the disk. Raises `ReviewConflict` if one of them cannot be promoted.

        Of `path` only the hunks `ids` matter: it may be in conflict elsewhere.
        """
        checked_changes = [self.check_disk(change.path) for change in changes]
        conflicts = [checked_change for checked_change in checked_changes if checked_change and checked_change.conflict]
        if ids:
            conflicts = [
                checked_change
                for checked_change in conflicts
                if checked_change.path != path or not ids <= {hunk.id for hunk in checked_change.clean_hunks}
            ]
        if conflicts:
            has_clean = any(checked_change.clean_hunks for checked_change in conflicts)
            rest = " Hunks without conflicts can be accepted one by one." if has_clean else ""
            raise ReviewConflict(
                " ".join(f"{checked_change.path}: {checked_change.conflict}" for checked_change in conflicts)
                + " Nothing was written.",
                hint=f"Settle it in the review (base, yours, the agent's), or reject the change.{rest}",
            )
        return [checked_change for checked_change in checked_changes if checked_change]

    def _plan_verdict(
        self, change: Change, selection: tuple[Hunk, ...], verdict: Verdict, reason: str
    ) -> PlannedVerdict:
        final = change.pending if verdict == "accept" else change.base
        sides, rest = ChangeSides(base=final, pending=final), tuple[Hunk, ...]()
        if len(selection) < len(change.hunks):
            rest = remove_hunks(change.hunks, {hunk.id for hunk in selection}, verdict)
            sides = self._divide_sides(change, selection, verdict)
        before, after = change.base, sides.base
        if verdict == "accept" and change.conflict:
            before, after = self._rebase_on_disk(change, sides.base)
        creates = verdict == "accept" and change.base.kind == "absent" != sides.base.kind
        record = VerdictRecord(
            id=new_id("verdict"),
            path=change.path,
            verdict=verdict,
            hunks=selection,
            base_before=before,
            base_after=after,
            pending_before=change.pending,
            pending_after=sides.pending,
            reason=reason,
            excerpt=self._build_excerpt(change, selection),
            directories=self._list_directories(change.path) if creates else (),
            competing_versions=() if rest else change.competing_versions,
            origin=change.origin,
            beside=before != change.base,
            source=change.source,
            renamed_from=change.renamed_from if change.source else "",
            check=change.check,
        )
        remainder = narrow_change(change, sides, rest) if rest else None
        if remainder and change.origin and not any(hunk.yours for hunk in rest):  # all are the tool's
            remainder = replace(remainder, origin=change.origin.strip_user_edit())
        if remainder and remainder.competing_versions:
            remainder = include_competing_versions(
                replace(remainder, conflict=""), remainder.competing_versions, self.contents
            )
            remainder = remainder if remainder.base != remainder.pending else None
        return PlannedVerdict(change, record, remainder)

    def _rebase_on_disk(self, change: Change, base: FileState) -> tuple[FileState, FileState]:
        """Return the file on disk, and that file with the changes from the change's base to `base`."""
        disk = self.read_disk(change.path)
        merged_state = self.contents.merge(change.base, disk, base)
        if merged_state is None:
            raise ReviewConflict(
                f"{change.path}: {change.conflict} Nothing was written.", hint="Settle it in the review."
            )
        return disk, merged_state

    def _build_excerpt(self, change: Change, selected_hunks: tuple[Hunk, ...]) -> str:
        try:
            return build_excerpt(change, selected_hunks, *self.contents.read_change(change))
        except ContentLost:
            with suppress(AgentTuiError):
                self.read_disk(change.path)  # stores the base again, if the project still has it
            return ""

    def _list_directories(self, path: str) -> tuple[str, ...]:
        """Return the directories that accepting a new file will create, and those above it that were created for other
        files: whichever of these files is removed last removes them, too."""
        above = set(list_parents(path))
        created_directories = {
            directory for record in self.state.verdicts for directory in record.directories if directory in above
        }
        return tuple(sorted(created_directories.union(self.workspace.list_missing_directories(path))))

    def _divide_sides(self, change: Change, selected_hunks: tuple[Hunk, ...], verdict: Verdict) -> ChangeSides:
        """Return both sides after a verdict on some of the hunks."""
        with explain_lost_content(change.path):
            old, new = self.contents.read_change(change)
        # An absent file has no mode, so that of the other state applies.
        counted_state, other_state = change.counted_state, change.pending
        if verdict == "accept":
            mode = counted_state.mode if counted_state.kind == "file" else other_state.mode
            base = self.contents.store_file(select_hunks(old, new, selected_hunks), mode)
            return ChangeSides(base=base, pending=change.pending)
        remaining_hunks = [hunk for hunk in change.hunks if hunk not in selected_hunks]
        mode = other_state.mode if other_state.kind == "file" else counted_state.mode
        pending = self.contents.store_file(select_hunks(old, new, remaining_hunks), mode)
        return ChangeSides(base=change.base, pending=pending)

    def _promote(self, writes: list[PathWrite], events: list[ev.AnyEvent]) -> None:
        try:
            self.promotion.run(writes, events)
        except (ReviewConflict, PathRefused):
            for write in writes:
                self.check_disk(write.path)
            raise

    # undo

    def undo(self, verdict_id: str) -> VerdictRecord:
        """Undo a verdict; see `Shadow.undo`."""
        record = self._find_verdict(verdict_id)
        if record.settled is not None:
            with explain_lost_content(record.path):
                self._reopen(record, record.settled)
            return record
        both = [verdict for verdict in self.state.verdicts if verdict.id in {record.id, record.moved_with}]
        both.sort(key=lambda verdict: not verdict.renamed_from)  # if only the new path returns, nothing is lost
        try:
            self._undo_all(both)
        except PathRefused as error:
            if len(both) == 1 or error.code != "not_a_file":
                raise
            self._undo_all([record])  # a directory is at the other path: its own verdicts are undone first
        return record

    def _undo_all(self, records: Iterable[VerdictRecord]) -> None:
        writes: list[PathWrite] = []
        events: list[ev.AnyEvent] = []
        for record in records:
            with explain_lost_content(record.path):
                write, undo_events = self._plan_undo(record)
            writes += [write] if write else []
            events += undo_events
        self._promote(writes, events)

    def _plan_undo(self, record: VerdictRecord) -> tuple[PathWrite | None, list[ev.AnyEvent]]:
        change = self.check_disk(record.path)
        if change and change.conflict:
            raise ReviewConflict(f"{record.path}: {change.conflict}", hint="Settle the conflict, then undo.")
        disk = self.read_disk(record.path)
        now = ChangeSides(base=disk, pending=change.pending if change else disk)
        sides = self._revert_sides(record, now)
        rename_source = (record.renamed_from, record.source) if record.source is not None else None
        rename_source = (change.rename_source if change else None) or rename_source
        as_before = replace(record.origin, call="") if record.origin else None  # not a new edit of that call
        origin = change.origin if change else as_before
        if (
            not record.beside
            and sides == ChangeSides(base=record.base_before, pending=record.pending_before)
            and now == ChangeSides(base=record.base_after, pending=record.pending_after)
        ):
            rest = change.hunks if change else ()
            current = change or self.contents.build_change(record.path, sides)
            if rename_source:
                current = replace(current, renamed_from=rename_source[0], source=rename_source[1])
            reopened = narrow_change(current, sides, reinsert_hunks(rest, record.hunks, record.verdict))
            check = change.check if change and record.verdict == "accept" else None  # it concerns the same text
            origin = (record.origin if change else origin) or current.origin
            reopened = replace(reopened, origin=origin, check=check or record.check)
        else:
            hunks = (*(change.hunks if change else ()), *record.hunks)
            reopened = self.contents.build_change(record.path, sides, hunks, rename_source, origin)
        reopened = include_competing_versions(
            reopened, (*(change.competing_versions if change else ()), *record.competing_versions), self.contents
        )
        if record.renamed_from and reopened.operation == "create":  # the format of an earlier version of the program
            reopened = replace(reopened, operation="rename", renamed_from=record.renamed_from)
        events: list[ev.AnyEvent] = [*build_pending_events(reopened, is_revision=change is not None)]
        events.append(ev.VerdictUndone(id=record.id, path=record.path))
        if sides.base == disk:
            return None, events
        write = self.promotion.plan_write(record.path, disk, sides.base, change.pending if change else None)
        if sides.base.kind == "absent":
            write = replace(write, directories=record.directories)
        return write, [ev.FileWritten(path=record.path, state=sides.base, before=disk), *events]

    def _reopen(self, record: VerdictRecord, before: Change) -> None:
        """Reopen a resolved conflict, if its result is unchanged. Raises `ReviewConflict`."""
        change = self.state.changes.get(record.path)
        if record.pending_after != (change.pending if change else record.base_after):
            raise ReviewConflict(
                f"{record.path} was changed after its conflict was settled; that can't be undone.",
                hint="Nothing was written. Reject or edit its hunks instead.",
            )
        self.emit(ev.ChangeRevised(change=before) if change else ev.ChangeProposed(change=before))
        self.emit(ev.VerdictUndone(id=record.id, path=record.path))
        self.check_disk(record.path)

    def _find_verdict(self, verdict_id: str) -> VerdictRecord:
        for record in reversed(self.state.verdicts):
            if verdict_id in {"", record.id}:
                return record
        message = f"There is no verdict {verdict_id} to undo." if verdict_id else "There is no verdict to undo."
        raise CommandRejected(message, code="verdict_unknown")

    def _revert_sides(self, record: VerdictRecord, now: ChangeSides) -> ChangeSides:
        """Return both sides without the verdict's effect on one of them, preserving later changes."""
        if record.verdict == "accept":
            reverted_state = self.contents.merge(record.base_after, now.base, record.base_before)
        else:
            reverted_state = self.contents.merge(record.pending_after, now.pending, record.pending_before)
        if reverted_state is None:
            raise ReviewConflict(
                f"{record.path} was changed at the same place after that verdict; it can't be undone.",
                hint="Nothing was written.",
            )
        return replace(now, base=reverted_state) if record.verdict == "accept" else replace(now, pending=reverted_state)


def describe_outdated(change: Change, disk: FileState) -> str:
    """Describe why a change cannot be rebased on the disk's present state, in a sentence for the user."""
    if disk.kind == "absent":
        return "the file was removed from the project after the change was made."
    if change.base.kind == "absent":
        return "a file with this name was created in the project after the change was made."
    if disk.kind != change.base.kind:
        return "the file is now a symbolic link." if disk.kind == "symlink" else "the link is now a file."
    return "the file was edited in the project at the same place after the change was made."
