"""The sessions of subagents: each begins with a copy of what is pending in its parent, in a directory below it.

A subagent session is a session like any other: its own log, blobs, layers and box. It never writes to the project,
and it goes with its parent. Its changes reach the parent by a merge (`merging`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.agent.context.prefix import copy_variants
from core.engine.services import EngineServices
from core.engine.session.model_routes import derive_subagent_settings
from core.engine.session.opening import create_session, resume_session
from core.engine.session.session import Session
from core.errors import StateError
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.events import ChangeProposed, ModeName, SessionStarted, TrustStated
from core.sessions.store import SessionDirectory
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.layers.layer_files import link_entry
from core.shadow.layers.layer_location import remove_location
from core.shadow.layers.layer_store import QUOTA, LayerStore
from core.shadow.layers.pending_layer import copy_layers
from core.shadow.subagent_merge import copy_for_subagent


async def create_subagent_session(parent: Session, mode: ModeName = "agent", *, max_steps: int = 0) -> Session:
    """Create a session that sees the parent's pending files and nothing of its conversation. `max_steps`: its limit if
    that is less, 0 = it has none of its own. Raises `StateError`."""
    directory, shadow = parent.directory.open_subagent(new_id("sub")), parent.shadow
    moment = directory.id
    shadow.layers.freeze(moment, parent.state.seq)
    try:
        await asyncio.to_thread(copy_layers, shadow.layers, shadow.layers.kept, LayerStore(directory.path / "layers"))
        _copy_blobs(parent, directory)
        return _register(parent, _start_session(parent, directory, mode, max_steps))
    except OSError as error:
        _discard_directory(directory)
        raise StateError(f"A subagent can't be begun in {directory.path}: {error.strerror}.") from error
    except BaseException:
        _discard_directory(directory)
        raise
    finally:
        with suppress(OSError):
            shadow.layers.unfreeze(moment)


def open_subagent_session(parent: Session, name: str) -> Session | None:
    """Resume a subagent's session, or return the open one; None = it does not exist (any more)."""
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
    """Find the log of a subagent that is not at work; None = it is, or there is none of this name."""
    for parent in parents:
        if name in parent.state.subagents and name not in parent.subagents:
            return parent.directory.get_subagent_log(name)
    return None


def prune_subagent_sessions(parent: Session) -> None:
    """Remove sessions that the log does not name, and of merged ones everything but their logs."""
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
    """Return the services for a subagent; its edits always wait for its merge, whatever is configured."""
    settings = derive_subagent_settings(parent.state, parent.settings)
    settings = replace(settings, edits=replace(settings.edits, policy="review"))
    return replace(parent.services, settings=settings, bounds={})


def _copy_blobs(source: Session, target: SessionDirectory) -> None:
    """Copy the prefix, so that providers have it cached, and the blobs of what is pending."""
    for path in source.directory.path.glob("prefix*.json"):
        link_entry(path, target.path / path.name)
    states = [state for change in source.review.changes.values() for state in (change.base, change.pending)]
    layer_record = source.shadow.layers.kept
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
    if child.shadow.layers.kept.layers:
        child.emit(build_layers_changed(child.shadow.merged_tree))
    for change in copy_for_subagent(source.review.changes.values()):
        child.emit(ChangeProposed(change=change))
    child.log.sync()
    return child


def _register(parent: Session, session: Session) -> Session:
    """Register the session with its parent and give it its share of the layers' quota, which they have together."""
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
