"""Merge a subagent's session into its parent: recorded as begun, carried out path by path, recorded as done.

Whenever the program dies, the next start finishes the merge, and nothing is merged twice.
"""

from __future__ import annotations

from msgspec.structs import replace

from core.engine.session.session import Session
from core.engine.subagents.sessions import open_subagent_session
from core.errors import AgentTuiError
from core.protocol.events import CheckRecorded, SubagentMerged, SubagentMerging
from core.protocol.review import Origin
from core.shadow.review.conflicts import has_conflict_with
from core.shadow.subagent_merge import SubagentMerge, SubagentWork
from core.state.session import SubagentState

LOST = "Its session is not there any more: what it had done since could not be taken over."


def merge_subagent(parent: Session, child: Session) -> SubagentMerged:
    """Take the changes of a subagent that is at rest into what is pending in its parent. Raises `StateError` if nothing
    or only a part was merged; it can be called again."""
    subagent = parent.state.subagents[child.id]
    child.log.sync()
    if subagent.state != "merging":
        parent.emit(SubagentMerging(id=subagent.id))
        parent.log.sync()
    points = child.review.checkpoints
    name = next(iter(points), "")
    if not name:  # nothing was ever said to it, so it did nothing
        return _record_merge(parent, SubagentMerged(id=subagent.id))
    origin = build_origin(subagent, parent.recorder.turn_id)
    joining = SubagentMerge(parent.shadow, SubagentWork(child.shadow, points[name], name))
    began = child.state.started * 1_000_000
    result = joining.run(
        origin, started_ns=began, merged_paths=subagent.joined, without=(subagent.plan,)
    )  # the program keeps the plan
    fields = ("paths", "conflicts", "generated", "notes", "refused")
    return _record_merge(parent, SubagentMerged(id=subagent.id, **{name: getattr(result, name) for name in fields}))


def build_origin(subagent: SubagentState, turn: str = "") -> Origin:
    """Return the origin of what a subagent did."""
    title = "" if subagent.todo else subagent.title
    return Origin(turn=turn, call=subagent.id, tool="subagent", todo=subagent.todo, subagent=title)


def _record_merge(parent: Session, event: SubagentMerged) -> SubagentMerged:
    parent.emit(event)
    parent.log.sync()
    return event


def adopt_checks(parent: Session, child: Session) -> None:
    """Record the subagent's last check commands here if both have exactly the same pending changes."""
    parent_changes, child_changes = parent.review.changes, child.review.changes
    is_same = {path: (change.base, change.pending) for path, change in parent_changes.items()} == {
        path: (change.base, change.pending) for path, change in child_changes.items()
    }
    if not is_same:
        return
    for check in dict.fromkeys(change.check for change in child_changes.values() if change.check is not None):
        paths = tuple(path for path, change in child_changes.items() if change.check == check)
        parent.emit(CheckRecorded(check=replace(check, paths=paths, is_verified=False)))


async def finish_merges(parent: Session) -> None:
    """Finish the merges that a crash cut off."""
    for subagent in [subagent for subagent in parent.state.subagents.values() if subagent.state == "merging"]:
        try:
            child = open_subagent_session(parent, subagent.id)
            if child is None:
                _record_merge(parent, SubagentMerged(id=subagent.id, notes=(LOST,)))
                continue
            merge_subagent(parent, child)
        except AgentTuiError as problem:
            parent.report_error(problem)
        finally:
            if (child := parent.subagents.pop(subagent.id, None)) is not None:
                await child.close()


def find_unresolved_paths(session: Session, subagent: SubagentState) -> tuple[str, ...]:
    """Return the paths in which the work of a subagent waits for the user."""
    changes = session.review.changes
    return tuple(path for path in subagent.conflicts if has_conflict_with(changes.get(path), subagent.id))


def has_unfinished_todos(session: Session, plan: str) -> bool:
    """True if subagents began todos of a plan that are still in progress, or not ticked off."""
    todos = {todo.id for todo in session.plans.store.load(plan).todos if todo.status == "in_progress"}
    return any(
        subagent.plan == plan
        and subagent.todo in todos
        and subagent.state != "closed"
        and (subagent.state == "merged" or session.directory.has_subagent(subagent.id))
        for subagent in session.state.subagents.values()
    )
