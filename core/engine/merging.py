"""The merge of a child into its parent: recorded as begun, carried out path by path, recorded as done.

Whatever moment the program dies at, the next start carries it on, and what was merged by then is not merged again.
"""

from __future__ import annotations

from msgspec.structs import replace

from core.engine.children import open_child
from core.engine.live import LiveSession
from core.errors import AgentTuiError
from core.protocol.events import CheckRecorded, SubagentMerged, SubagentMerging
from core.protocol.review import Origin
from core.sessions.subagents import Subagent
from core.shadow.joining import Joining, Work
from core.shadow.rivals import clashes_with

LOST = "Its session is not there any more: what it had done since could not be taken over."


def merge(parent: LiveSession, child: LiveSession) -> SubagentMerged:
    """Take the work of a child, which is at rest, into what is pending here. Raises `StateError`: nothing, or a part of
    it, was merged, and it can be carried on."""
    runtime = parent.runtime
    known = runtime.state.subagents[child.runtime.id]
    child.runtime.log.sync()
    if known.state != "merging":
        runtime.emit(SubagentMerging(id=known.id))
        runtime.log.sync()
    points = child.runtime.review.points
    name = next(iter(points), "")
    if not name:  # nothing was ever said to it, so it did nothing
        return _merged(parent, SubagentMerged(id=known.id))
    origin = Origin(turn=runtime.turn_id, call=known.id, tool="subagent", todo=known.todo)
    joining = Joining(runtime.shadow, Work(child.runtime.shadow, points[name], name))
    began = child.runtime.state.started * 1_000_000
    found = joining.join(origin, since=began, done=known.joined, without=(known.plan,))  # the program keeps the plan
    return _merged(
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


def _merged(parent: LiveSession, event: SubagentMerged) -> SubagentMerged:
    parent.runtime.emit(event)
    parent.runtime.log.sync()
    return event


def carry_check(parent: LiveSession, child: LiveSession) -> None:
    """The commands that checked the child's work last hold for what is pending here, if that is the very same."""
    ours, theirs = parent.runtime.review.changes, child.runtime.review.changes
    is_same = {path: (each.base, each.pending) for path, each in ours.items()} == {
        path: (each.base, each.pending) for path, each in theirs.items()
    }
    if not is_same:
        return
    for check in dict.fromkeys(change.check for change in theirs.values() if change.check is not None):
        paths = tuple(path for path, change in theirs.items() if change.check == check)
        parent.runtime.emit(CheckRecorded(check=replace(check, paths=paths)))


async def carry_on(parent: LiveSession) -> None:
    """Finish the merges that a crash cut off."""
    for each in [each for each in parent.runtime.state.subagents.values() if each.state == "merging"]:
        try:
            child = open_child(parent, each.id)
            if child is None:
                _merged(parent, SubagentMerged(id=each.id, notes=(LOST,)))
                continue
            merge(parent, child)
        except AgentTuiError as problem:
            parent.runtime.complain(problem)
        finally:
            if (child := parent.children.pop(each.id, None)) is not None:
                await child.close()


def unsettled(live: LiveSession, known: Subagent) -> tuple[str, ...]:
    """The paths in which the work of a subagent waits for the user."""
    changes = live.runtime.review.changes
    return tuple(path for path in known.conflicts if clashes_with(changes.get(path), known.id))


def unfinished(live: LiveSession, plan: str) -> bool:
    """Whether subagents have begun with todos of a plan that are still in progress, or not ticked off."""
    todos = {todo.id for todo in live.runtime.plans.load(plan).todos if todo.status == "in_progress"}
    return any(
        each.plan == plan
        and each.todo in todos
        and each.state != "closed"
        and (each.state == "merged" or live.runtime.directory.has_child(each.id))
        for each in live.runtime.state.subagents.values()
    )
