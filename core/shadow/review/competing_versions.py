"""Competing versions: of two agents' clashing versions of a path, ours is pending, theirs is kept beside it. The parts
of theirs that fit are in the pending state already, so what the user has to resolve is where both differ."""

from __future__ import annotations

from msgspec.structs import replace

from core.protocol.review import Change, CompetingVersion, FileState
from core.shadow.content.contents import ChangeSides, Contents, assign_todo
from core.shadow.review.clash_marking import mark_clashes

BASE_CHANGED = "the file was changed in the same place since that work began."


def describe_clash(change: Change) -> str:
    """Describe the conflict of a change with its competing versions, "" = it has none."""
    if not change.competing_versions:
        return ""
    names = list(dict.fromkeys(competing_version.name for competing_version in change.competing_versions))
    return f"{' and '.join(names)} changed the same place in another way."


def describe_other_conflict(change: Change) -> str:
    """Describe a conflict apart from the competing versions; "" = only they are in the way."""
    return "" if change.conflict == describe_clash(change) else change.conflict


def has_conflict_with(change: Change | None, subagent_id: str) -> bool:
    """True if what `subagent_id` made of a path is unresolved: beside what is pending, or over a file that has
    changed."""
    return change is not None and (
        bool(describe_other_conflict(change))
        or any(competing_version.by == subagent_id for competing_version in change.competing_versions)
    )


def include_competing_versions(
    change: Change, competing_versions: tuple[CompetingVersion, ...], contents: Contents
) -> Change:
    """Return a newly compared change with these competing versions. When nothing of ours is left, theirs takes its
    place, over what they began with, in conflict with the file."""
    if not competing_versions:
        return change
    if change.base != change.pending:
        return _keep_beside(change, competing_versions, contents)
    first, rest = competing_versions[0], competing_versions[1:]
    if (merged_state := contents.merge(first.base, change.base, first.theirs)) is not None:
        sides = ChangeSides(base=change.base, pending=merged_state)
        return include_competing_versions(
            contents.build_change(change.path, sides, origin=change.origin), rest, contents
        )
    sides = ChangeSides(base=first.base, pending=first.theirs)
    rebuilt_change = contents.build_change(change.path, sides, origin=change.origin)
    return replace(rebuilt_change, conflict=BASE_CHANGED, competing_versions=rest)


def _keep_beside(change: Change, competing_versions: tuple[CompetingVersion, ...], contents: Contents) -> Change:
    """Keep the competing versions beside ours; those that fit by now are merged into it."""
    pending, remaining_versions = reconcile(change.pending, competing_versions, contents)
    if pending != change.pending:
        sides = ChangeSides(base=change.base, pending=pending)
        updated_change = contents.build_change(change.path, sides, change.hunks, change.rename_source, change.origin)
        todos = "" if len(competing_versions) > 1 else competing_versions[0].todo
        hunks = assign_todo(updated_change.hunks, change.hunks, todos)
        change = replace(updated_change, hunks=hunks, conflict=change.conflict, apart=change.apart)
    updated_change = replace(change, competing_versions=remaining_versions)
    updated_change = replace(updated_change, conflict=change.conflict or describe_clash(updated_change))
    return (
        mark_clashes(updated_change, contents)
        if remaining_versions and updated_change.conflict == describe_clash(updated_change)
        else updated_change
    )


def reconcile(
    pending: FileState, competing_versions: tuple[CompetingVersion, ...], contents: Contents
) -> tuple[FileState, tuple[CompetingVersion, ...]]:
    """Merge all competing versions that fit into what is pending; return that and those that do not fit.

    Of the latter, the parts that fit are merged as well.
    """
    remaining_versions = []
    for competing_version in competing_versions:
        merged_state = contents.merge(competing_version.base, pending, competing_version.theirs)
        if merged_state is None:
            remaining_versions.append(competing_version)
            merged_state = contents.merge(competing_version.base, pending, competing_version.theirs, prefer_ours=True)
        pending = merged_state or pending
    return pending, tuple(remaining_versions)
