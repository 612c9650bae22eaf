"""Planning of verdicts: the base class of the review's parts, hunks and renames, and changes promoted together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from core.errors import CommandRejected, PathRefused
from core.protocol.events import AnyEvent, ChangeProposed, ChangeResolved, ChangeRevised, Notice
from core.protocol.paths import list_parents
from core.protocol.renames import find_renames
from core.protocol.review import Change, FileState, Hunk, Verdict, VerdictRecord
from core.shadow.content.contents import Contents
from core.shadow.content.paths import format_paths, walk_directory
from core.shadow.promotion.journal import PathWrite
from core.state.review import ReviewState
from core.workspace import ABSENT, Workspace


class PlannedVerdict(Struct, frozen=True):
    """A planned verdict. `left`: the change that stays pending after it; None: nothing."""

    change: Change
    record: VerdictRecord
    left: Change | None


def find_hunks(change: Change, ids: Iterable[str]) -> tuple[Hunk, ...]:
    """Return the hunks of a verdict (no ids: all). Raises `CommandRejected` if one is not pending."""
    hunk_ids = set(ids)
    hunks = tuple(hunk for hunk in change.hunks if not hunk_ids or hunk.id in hunk_ids)
    if missing := hunk_ids - {hunk.id for hunk in hunks}:
        raise CommandRejected(
            f"{change.path} has no pending hunk {', '.join(sorted(missing))}.",
            hint="The change is newer than what you see; look at it again.",
            code="hunk_unknown",
        )
    return hunks


def include_rename(change: Change, ids: tuple[str, ...], verdict: Verdict) -> tuple[str, ...]:
    """Return the hunk ids with the rename: hunks of a renamed file are only accepted together with the rename, and the
    rename is only rejected together with all hunks."""
    moves = next((hunk.id for hunk in change.hunks if hunk.moves), "")
    if not moves or (verdict == "reject" and moves not in ids):
        return ids
    return (*ids, moves) if verdict == "accept" else ()


def is_apart_from_rename(change: Change, ids: tuple[str, ...]) -> bool:
    """True if a verdict on these hunks does not affect the other path of a rename."""
    rest = [hunk for hunk in change.hunks if hunk.id not in ids]
    return bool(rest) and (change.source is None or any(hunk.moves for hunk in rest))


def link_rename_verdicts(
    changes: Mapping[str, Change], planned_verdicts: Iterable[PlannedVerdict]
) -> list[PlannedVerdict]:
    """Return the verdicts in the same order; those on both paths of a rename refer to one another."""
    verdicts_by_path = {planned_verdict.change.path: planned_verdict for planned_verdict in planned_verdicts}
    for new, old in find_renames(changes).items():
        one, other = verdicts_by_path.get(new), verdicts_by_path.get(old)
        if one and other and not other.left and (not one.left or one.left.base.kind != "absent"):
            record = replace(one.record, moved_with=other.record.id, renamed_from=old)
            verdicts_by_path[new] = replace(one, record=record)
            verdicts_by_path[old] = replace(other, record=replace(other.record, moved_with=record.id))
    return list(verdicts_by_path.values())


def build_pending_events(change: Change, *, is_revision: bool) -> list[AnyEvent]:
    """Return the events that make a change pending; `is_revision`: something was pending there already."""
    if change.base == change.pending:
        return [ChangeResolved(path=change.path)] if is_revision else []
    return [ChangeRevised(change=change) if is_revision else ChangeProposed(change=change)]


def group_changes(
    changes: Mapping[str, Change], selection: Iterable[Change], *, partial_path: str = "", accepts: bool = False
) -> list[Change]:
    """Return the selected changes with the other paths of renames, deletions first.

    `partial_path`: a path of which only some hunks are selected, so that it is no rename. `accepts`: also include the
    deletions that free the paths; a protected change includes only its own rename.
    """
    grouped_changes = {change.path: change for change in selection}
    pairs = [pair for pair in find_renames(changes).items() if partial_path not in pair]
    others, selected_paths = dict(pairs) | {old: new for new, old in pairs}, frozenset(grouped_changes)
    waiting = list(grouped_changes.values())
    while waiting:
        change = waiting.pop()
        is_new = accepts and change.base.kind == "absent" != change.pending.kind
        companion_paths = _find_blocking_deletions(changes, change.path) if is_new else set[str]()
        other = others.get(change.path, "")
        if other and (not accepts or change.path in selected_paths or not changes[other].protected):
            companion_paths.add(other)
        for path in companion_paths - grouped_changes.keys():
            grouped_changes[path] = changes[path]
            waiting.append(changes[path])
    return sorted(grouped_changes.values(), key=lambda change: (change.pending.kind != "absent", change.path))


def _find_blocking_deletions(changes: Mapping[str, Change], path: str) -> set[str]:
    """Return the deletions above and below a new path."""
    candidates = {
        *list_parents(path),
        *(changed_path for changed_path in changes if changed_path.startswith(f"{path}/")),
    }
    return {
        changed_path for changed_path in candidates & changes.keys() if changes[changed_path].pending.kind == "absent"
    }


def build_hard_link_notices(workspace: Workspace, writes: Sequence[PathWrite]) -> list[Notice]:
    """Build the notice that other names (hard links) of replaced files have the old content."""
    linked_paths = []
    for write in writes:
        if write.before.kind == write.after.kind == "file":
            with suppress(OSError), workspace.open_parent(write.path) as (directory, name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_nlink > 1:
                    linked_paths.append(write.path)
    if not linked_paths:
        return []
    hint = "Only the accepted path has the new content; its other names keep the old one."
    return [Notice(level="info", message=f"{format_paths(linked_paths)} had other names (hard links).", hint=hint)]


class ReviewPart(Struct, eq=False):
    """A part of one session's review. `emit` logs an event, and the log applies it to `state`."""

    workspace: Workspace
    contents: Contents
    emit: Callable[[AnyEvent], None]
    state: ReviewState

    def read_disk(self, path: str) -> FileState:
        """Return the disk's state as the base of a change, its bytes stored.

        A directory that a file replaces counts as absent once all of its files are pending deletions; so does
        everything behind a link, once the link is deleted. Raises `PathRefused` for anything but a file or link.
        """
        try:
            return self.contents.store(*self.workspace.read_state(path))
        except PathRefused as error:
            if error.code == "not_a_file":
                below = walk_directory(self.workspace, path)
                if below is not None and all(
                    kind == "directory" or self._is_deletion(descendant) for descendant, kind in below
                ):
                    return ABSENT
            if error.code == "path_escapes" and any(map(self._is_deletion, list_parents(path))):
                return ABSENT
            raise

    def _is_deletion(self, path: str) -> bool:
        change = self.state.changes.get(path)
        return change is not None and change.pending.kind == "absent"
