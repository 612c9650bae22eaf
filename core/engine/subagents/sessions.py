"""The sessions of subagents: one begins with a copy of what is pending in its parent, and is merged back into it.

A subagent session is a session like any other, with its own log, blobs, layers and box, in a directory below its
parent's. It never writes to the project, and it is removed with its parent. A merge is recorded as begun, carried out
path by path, and recorded as done: after a crash the next start finishes it, and nothing is merged twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.agent.context.prefix import copy_variants
from core.engine.session.model_routes import derive_subagent_settings
from core.engine.session.opening import create_session, resume_session
from core.engine.session.session import Session
from core.engine.shared.services import EngineServices
from core.errors import AgentTuiError, StateError
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.events import (
    ChangeProposed,
    CheckRecorded,
    ModeName,
    SessionStarted,
    SubagentMerged,
    SubagentMerging,
    TrustStated,
)
from core.protocol.review import Origin
from core.sessions.store import SessionDirectory
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.layers.layer_files import link_entry
from core.shadow.layers.layer_store import QUOTA, LayerStore, remove_location
from core.shadow.layers.pending_layer import copy_layers
from core.shadow.review.conflicts import has_conflict_with
from core.shadow.subagent_merge import SubagentMerge, SubagentWork, copy_for_subagent
from core.state.session import SubagentState

LOST = "Its session is missing: its later changes could not be merged."


async def create_subagent_session(parent: Session, mode: ModeName = "agent", *, max_steps: int = 0) -> Session:
    """Create a session with the parent's pending files and without its conversation. `max_steps`: its limit if that is
    lower than the configured one, 0 = none. Raises `StateError`."""
    directory, shadow = parent.directory.open_subagent(new_id("sub")), parent.shadow
    moment = directory.id
    shadow.layers.freeze(moment, parent.state.seq)
    try:
        await asyncio.to_thread(
            copy_layers, shadow.layers, shadow.layers.retained, LayerStore(directory.path / "layers")
        )
        _copy_blobs(parent, directory)
        return _register(parent, _start_session(parent, directory, mode, max_steps))
    except OSError as error:
        _discard_directory(directory)
        raise StateError(f"A subagent can't be started in {directory.path}: {error.strerror}.") from error
    except BaseException:
        _discard_directory(directory)
        raise
    finally:
        with suppress(OSError):
            shadow.layers.unfreeze(moment)


def open_subagent_session(parent: Session, name: str) -> Session | None:
    """Resume a subagent's session, or return the open one; None = it does not exist."""
    if name in parent.subagents:
        return parent.subagents[name]
    if not parent.directory.has_subagent(name):
        return None
    directory = parent.directory.open_subagent(name)
    try:
        return _register(parent, resume_session(directory, _derive_services(parent)))
    except BaseException:
        directory.close()
        raise


def find_ended_log(parents: Iterable[Session], name: str) -> Path | None:
    """Find the log of a subagent that is not open; None = it is open, or there is none of this name."""
    for parent in parents:
        if name in parent.state.subagents and name not in parent.subagents:
            return parent.directory.get_subagent_log(name)
    return None


def prune_subagent_sessions(parent: Session) -> None:
    """Remove sessions that are not in the parent's log, and of merged ones everything but their logs."""
    directory, subagents = parent.directory.subagents_path, parent.state.subagents
    for home in sorted(directory.iterdir()) if directory.is_dir() else ():
        if home.name not in subagents:
            _remove_directory(home)
        elif subagents[home.name].state in {"merged", "closed"}:
            for name in ("layers", "checkpoints", "blobs"):
                _remove_directory(home / name)


def _remove_directory(directory: Path) -> None:
    with suppress(OSError):  # the next start tries again
        remove_location(directory if directory.name == "layers" else directory / "layers")
        if directory.is_dir():
            remove_tree(directory)


def _derive_services(parent: Session) -> EngineServices:
    """Return the services for a subagent; its edits always wait for its merge, regardless of the configuration."""
    settings = derive_subagent_settings(parent.state, parent.settings)
    settings = replace(settings, edits=replace(settings.edits, policy="review"))
    return replace(parent.services, settings=settings, bounds={})


def _copy_blobs(source: Session, target: SessionDirectory) -> None:
    """Copy the prefix, so that providers' caches hit, and the blobs of pending changes."""
    for path in source.directory.path.glob("prefix*.json"):
        link_entry(path, target.path / path.name)
    states = [state for change in source.review.changes.values() for state in (change.base, change.pending)]
    layer_record = source.shadow.layers.retained
    names = {state.blob for state in (*states, *layer_record.bases.values()) if state.blob}
    for name in names:
        source_path = source.directory.blobs_path / name[:2] / name[2:]
        target_path = target.blobs_path / name[:2] / name[2:]
        if source_path.exists():
            target_path.parent.mkdir(mode=0o700, exist_ok=True)
            link_entry(source_path, target_path)


def _start_session(source: Session, directory: SessionDirectory, mode: ModeName, max_steps: int) -> Session:
    state = source.state
    services = _derive_services(source)
    if max_steps:
        limits = services.settings.limits
        step_limit = min(max_steps, limits.max_steps or max_steps)
        services.settings = replace(services.settings, limits=replace(limits, max_steps=step_limit))
    model = services.settings.resolve_route("chat").model
    copy_variants(source.directory.path, directory.path)
    first = SessionStarted(
        workspace=state.workspace, mode=mode, model=model, demo=state.is_demo, private=state.is_private
    )
    child = create_session(directory, services, first)
    if state.trust_state != "trusted":
        child.emit(TrustStated(state="restricted", directory=state.workspace))
    if state.shell.directory != "." or state.shell.environment or state.shell.removed:
        child.emit(state.shell)
        child.terminal.restore_shell()
    if child.shadow.layers.retained.layers:
        child.emit(build_layers_changed(child.shadow.merged_tree))
    for change in copy_for_subagent(source.review.changes.values()):
        child.emit(ChangeProposed(change=change))
    child.log.sync()
    return child


def _register(parent: Session, session: Session) -> Session:
    """Register the session with its parent and set its share of their common quota for layers."""
    parent.subagents[session.id] = session
    if (layers := parent.shadow.layers).exists:
        initial_size = session.shadow.layers.measure() if session.shadow.layers.exists else 0
        session.shadow.layers.quota = initial_size + max(0, QUOTA - layers.measure()) // (MAX_SUBAGENTS + 1)
    else:
        session.shadow.layers.quota = QUOTA // (MAX_SUBAGENTS + 1)
    return session


def _discard_directory(directory: SessionDirectory) -> None:
    _remove_directory(directory.path / "layers")
    directory.discard()
    directory.close()


def merge_subagent(parent: Session, child: Session) -> SubagentMerged:
    """Merge the changes of a stopped subagent into what is pending in its parent. Raises `StateError` if nothing or
    only a part was merged; it can be called again."""
    subagent = parent.state.subagents[child.id]
    child.log.sync()
    if subagent.state != "merging":
        parent.emit(SubagentMerging(id=subagent.id))
        parent.log.sync()
    points = child.review.checkpoints
    name = next(iter(points), "")
    if not name:  # it had no turn, so it changed nothing
        return _record_merge(parent, SubagentMerged(id=subagent.id))
    origin = build_origin(subagent, parent.recorder.turn_id)
    merge = SubagentMerge(parent.shadow, SubagentWork(child.shadow, points[name], name))
    began = child.state.started * 1_000_000
    result = merge.run(
        origin, started_ns=began, merged_paths=subagent.joined, without=(subagent.plan,)
    )  # the program keeps the plan
    fields = ("paths", "conflicts", "generated", "notes", "refused")
    return _record_merge(parent, SubagentMerged(id=subagent.id, **{name: getattr(result, name) for name in fields}))


def build_origin(subagent: SubagentState, turn: str = "") -> Origin:
    """Return the origin of a subagent's changes."""
    title = "" if subagent.todo else subagent.title
    return Origin(turn=turn, call=subagent.id, tool="subagent", todo=subagent.todo, subagent=title)


def _record_merge(parent: Session, event: SubagentMerged) -> SubagentMerged:
    parent.emit(event)
    parent.log.sync()
    return event


def adopt_checks(parent: Session, child: Session) -> None:
    """Record the subagent's last check commands in the parent if both have exactly the same pending changes."""
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
    """Return the paths in which changes of a subagent have a conflict."""
    changes = session.review.changes
    return tuple(path for path in subagent.conflicts if has_conflict_with(changes.get(path), subagent.id))


def has_unfinished_todos(session: Session, plan: str) -> bool:
    """True if subagents have begun todos of a plan that are still in progress."""
    todos = {todo.id for todo in session.plans.store.load(plan).todos if todo.status == "in_progress"}
    return any(
        subagent.plan == plan
        and subagent.todo in todos
        and subagent.state != "closed"
        and (subagent.state == "merged" or session.directory.has_subagent(subagent.id))
        for subagent in session.state.subagents.values()
    )
