"""Proposals: edits of file tools and effects of commands as pending changes over the disk. The user's own edits win."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from core.errors import PathRefused
from core.protocol.review import Change, CompetingVersion, FileState, Hunk, Origin
from core.shadow.content.contents import ChangeSides, assign_todo
from core.shadow.diff.hunks import compare_texts
from core.shadow.review.conflicts import BASE_CHANGED, describe_other_conflict, include_competing_versions, mark_clashes
from core.shadow.review.verdict_plan import ReviewPart, build_pending_events
from core.shadow.review.verdicts import describe_outdated
from core.workspace import ABSENT


class ShadowEdit(Struct, frozen=True, kw_only=True):
    """A recorded edit: the pending change (without hunks: nothing is pending), the bytes before and after it as the
    agent sees them (None: absent), and the hunks between these two (none if they are no texts)."""

    change: Change
    before: bytes | None
    after: bytes | None
    hunks: tuple[Hunk, ...] = ()


class PathEffect(Struct, frozen=True, kw_only=True):
    """The effect of a command, or of another session, on a path, from the state `base` to `result`.

    `conflict_reason`: why `base` may differ from the base of the change, "" = it does not; `renamed_from`: a removed
    file with the same content.
    """

    path: str
    base: FileState
    result: FileState
    origin: Origin
    conflict_reason: str = ""
    renamed_from: str = ""


class Proposals(ReviewPart):
    """Record pending states. Callers have checked that the path may be written at all."""

    def get_visible_state(self, change: Change) -> FileState:
        """Return the state that the agent sees: the pending one, or in a conflict the user's file with those of the
        agent's edits that still fit, so that the next edit is based on the user's version."""
        if not change.conflict:
            return change.pending
        try:
            disk = self.read_disk(change.path)
        except PathRefused:
            return change.pending
        return self.contents.merge(change.base, disk, change.pending, prefer_ours=True) or disk

    def find_original_path(self, path: str) -> str:
        """Return the project's path of a file that is pending under another name."""
        change = self.state.changes.get(path)
        return change.renamed_from if change and change.operation == "rename" else path

    def edit(
        self,
        path: str,
        data: bytes | None,
        *,
        origin: Origin | None,
        mode: int | None,
        layer_state: FileState | None = None,
    ) -> ShadowEdit:
        """Write `data` (None: delete) to a path. `layer_state`: the state in a retained layer; None: there is none."""
        change = self._find_or_start(path)
        visible_state = (
            self.get_visible_state(change) if layer_state is None or path in self.state.changes else layer_state
        )
        if data is None and visible_state.kind == "absent":
            raise PathRefused(f"{path!r} does not exist.", code="not_found")
        target_state = ABSENT
        if data is not None:
            current_mode = visible_state.mode if visible_state.kind == "file" else self.workspace.new_file_mode
            target_state = self.contents.store_file(data, (current_mode if mode is None else mode) & 0o777)
        before = None if visible_state.kind == "absent" else self.contents.read(visible_state)
        if target_state == visible_state and not change.conflict:
            return ShadowEdit(change=change, before=before, after=data)
        proposed_change = self._propose(change, target_state, origin)
        if (proposed_change.base, proposed_change.pending) == (
            visible_state,
            target_state,
        ) and proposed_change.source is None:
            hunks = proposed_change.hunks  # nothing else is pending, so the review's hunks are those of the edit
        else:
            hunks = compare_texts(before or b"", data or b"")
        return ShadowEdit(change=proposed_change, before=before, after=data, hunks=hunks)

    def record_effect(self, effect: PathEffect) -> Change | None:
        """Record the effect of a command; return the pending change, None if nothing of it is pending."""
        change = self._find_or_start(effect.path)
        now = change.pending
        if effect.result in (effect.base, now) and not change.conflict:
            return self.state.changes.get(effect.path)
        target_state, conflict_reason = effect.result, effect.conflict_reason
        if now != effect.base and not conflict_reason:
            merged_state = self.contents.merge(effect.base, now, target_state)
            conflict_reason = (
                "" if merged_state else "it was changed while the command ran; the command's version is shown."
            )
            target_state = merged_state or target_state
        if not conflict_reason:
            self._propose(change, target_state, effect.origin, effect.renamed_from)
        else:
            # The real base is unknown: an empty one differs from all that the user may have written.
            base = self.contents.store_file(b"", 0o644) if effect.conflict_reason else change.base
            self._emit_change(
                change, ChangeSides(base=base, pending=target_state), effect.origin, conflict=conflict_reason
            )
        return self.state.changes.get(effect.path)

    def merge_effect(self, effect: PathEffect) -> Change | None:
        """Merge the effect of another agent into the pending state; return the change, None if nothing of it is
        pending.

        Where both clash, ours stays pending with the parts of theirs that fit, and theirs becomes a competing version.
        """
        change = self._find_or_start(effect.path)
        now = change.pending
        if effect.result in (effect.base, now):
            return self.state.changes.get(effect.path)
        merged_state = self.contents.merge(effect.base, now, effect.result)
        if merged_state is not None and not describe_other_conflict(change):
            self._propose(change, merged_state, effect.origin, effect.renamed_from)
        elif effect.path not in self.state.changes:
            sides = ChangeSides(base=effect.base, pending=effect.result)
            self._emit_change(change, sides, effect.origin, conflict=BASE_CHANGED)
        else:
            version = CompetingVersion(
                base=effect.base,
                theirs=effect.result,
                by=effect.origin.call,
                todo=effect.origin.todo,
                title=effect.origin.subagent,
            )
            fitting = self.contents.merge(effect.base, now, effect.result, prefer_ours=True) or now
            conflict = describe_other_conflict(change)
            change = replace(change, competing_versions=(*change.competing_versions, version))
            sides = ChangeSides(base=change.base, pending=fitting)
            hunks = self.contents.build_change(change.path, sides, change.hunks, change.rename_source).hunks
            # New hunks belong to this todo.
            updated_change = replace(change, hunks=assign_todo(hunks, change.hunks, effect.origin.todo))
            self._emit_change(updated_change, sides, change.origin, conflict=conflict, renamed_from=change.renamed_from)
        return self.state.changes.get(effect.path)

    def _find_or_start(self, path: str) -> Change:
        change = self.state.changes.get(path)
        if change is not None:
            return change
        disk = self.read_disk(path)
        return Change(path=path, operation="edit", base=disk, pending=disk)

    def _propose(
        self, change: Change, target_state: FileState, origin: Origin | None, renamed_from: str = ""
    ) -> Change:
        """Record the agent's version of a path over the present disk state."""
        sides, conflict = ChangeSides(base=change.base, pending=target_state), ""
        try:
            disk = self.read_disk(change.path)
        except PathRefused as error:
            conflict = error.message
        else:
            if disk == change.base or change.conflict:
                # In a conflict the agent sees the user's file, so its new version is based on that.
                sides = replace(sides, base=disk)
            elif both := self._merge_with_disk(change, disk, target_state):
                sides = ChangeSides(base=disk, pending=both)
            else:
                conflict = describe_outdated(change, disk)
        return self._emit_change(change, sides, origin, conflict=conflict, renamed_from=renamed_from)

    def _merge_with_disk(self, change: Change, disk: FileState, target_state: FileState) -> FileState | None:
        merged_state = self.contents.merge(change.base, disk, change.pending)
        return self.contents.merge(change.pending, merged_state, target_state) if merged_state else None

    def _emit_change(
        self, change: Change, sides: ChangeSides, origin: Origin | None, *, conflict: str = "", renamed_from: str = ""
    ) -> Change:
        source = self._find_rename_source(renamed_from) if renamed_from else None
        new_change = self.contents.build_change(
            change.path, sides, change.hunks, source or change.rename_source, origin
        )
        hunks = assign_todo(new_change.hunks, change.hunks, origin.todo if origin else "")
        new_change = replace(new_change, hunks=hunks, conflict=conflict, apart=change.apart)
        if conflict and sides.base == change.base != ABSENT:
            with suppress(PathRefused):
                new_change = mark_clashes(new_change, self.contents, self.read_disk(new_change.path))
        new_change = include_competing_versions(new_change, change.competing_versions, self.contents)
        for event in build_pending_events(new_change, is_revision=change.path in self.state.changes):
            self.emit(event)
        return new_change

    def _find_rename_source(self, old: str) -> tuple[str, FileState] | None:
        """Return the old path and its state for a rename from there; None if it is not a deleted file."""
        deletion = self.state.changes.get(old)
        if deletion is None or deletion.conflict or deletion.pending.kind != "absent" or deletion.base.kind != "file":
            return None
        return old, deletion.base
