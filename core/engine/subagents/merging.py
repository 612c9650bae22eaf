"""Merge a subagent's session into its parent: recorded as begun, carried out path by path, recorded as done.

Whenever the program dies, the next start finishes the merge, and nothing is merged twice.
"""

from __future__ import annotations

from msgspec.structs import replace

from core.engine.session.live_session import LiveSession
from core.engine.subagents.sessions import open_subagent_session
from core.errors import AgentTuiError
from core.protocol.events import CheckRecorded, SubagentMerged, SubagentMerging
from core.protocol.review import Origin
from core.shadow.review.competing_versions import has_conflict_with
from core.shadow.subagent_merge import SubagentMerge, SubagentWork
from core.state.subagents import SubagentState

LOST = "Its session is not there any more: what it had done since could not be taken over."


def merge_subagent(parent: LiveSession, child: LiveSession) -> SubagentMerged:
    """Take the changes of a subagent that is at rest into what is pending in its parent.

    Raises `StateError` if nothing or only a part was merged; it can be called again.
    """
    runtime = parent.runtime
    known = runtime.state.subagents[child.runtime.id]
    child.runtime.log.sync()
    if known.state != "merging":
        runtime.emit(SubagentMerging(id=known.id))
        runtime.log.sync()
    points = child.runtime.review.checkpoints
    name = next(iter(points), "")
    if not name:  # nothing was ever said to it, so it did nothing
        return _record_merge(parent, SubagentMerged(id=known.id))
    origin = Origin(turn=runtime.turn_id, call=known.id, tool="subagent", todo=known.todo)
    joining = SubagentMerge(runtime.shadow, SubagentWork(child.runtime.shadow, points[name], name))
    began = child.runtime.state.started * 1_000_000
    found = joining.run(origin, since=began, done=known.joined, without=(known.plan,))  # the program keeps the plan
    return _record_merge(
        parent,
        SubagentMerged(
            id=known.id,
            paths=found.paths,
            conflicts=found.conflicts,
            generated=found.generated,
            notes=found.notes,
            refused=found.refused,
        ),
    )


def _record_merge(parent: LiveSession, event: SubagentMerged) -> SubagentMerged:
    parent.runtime.emit(event)
    parent.runtime.log.sync()
    return event


def adopt_checks(parent: LiveSession, child: LiveSession) -> None:
    """Record the subagent's last check commands here if both have exactly the same pending changes."""
    ours, theirs = parent.runtime.review.changes, child.runtime.review.changes
    is_same = {path: (each.base, each.pending) for path, each in ours.items()} == {
        path: (each.base, each.pending) for path, each in theirs.items()
    }
    if not is_same:
        return
    for check in dict.fromkeys(change.check for change in theirs.values() if change.check is not None):
        paths = tuple(path for path, change in theirs.items() if change.check == check)
        parent.runtime.emit(CheckRecorded(check=replace(check, paths=paths)))


async def finish_merges(parent: LiveSession) -> None:
    """Finish the merges that a crash cut off."""
    for each in [each for each in parent.runtime.state.subagents.values() if each.state == "merging"]:
        try:
            child = open_subagent_session(parent, each.id)
            if child is None:
                _record_merge(parent, SubagentMerged(id=each.id, notes=(LOST,)))
                continue
            merge_subagent(parent, child)
        except AgentTuiError as problem:
            parent.runtime.report_error(problem)
        finally:
            if (child := parent.children.pop(each.id, None)) is not None:
                await child.close()


def find_unresolved_paths(live: LiveSession, known: SubagentState) -> tuple[str, ...]:
    """Return the paths in which the work of a subagent waits for the user."""
    changes = live.runtime.review.changes
    return tuple(path for path in known.conflicts if has_conflict_with(changes.get(path), known.id))


def has_unfinished_todos(live: LiveSession, plan: str) -> bool:
    """True if subagents began todos of a plan that are still in progress, or not ticked off."""
    todos = {todo.id for todo in live.runtime.plans.load(plan).todos if todo.status == "in_progress"}
    return any(
        each.plan == plan
        and each.todo in todos
        and each.state != "closed"
        and (each.state == "merged" or live.runtime.directory.has_subagent(each.id))
        for each in live.runtime.state.subagents.values()
    )
