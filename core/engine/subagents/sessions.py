"""The sessions of subagents: each begins with a copy of what is pending in its parent, in a directory below it.

A subagent session is a session like any other: its own log, blobs, layers and box. It never writes to the project,
and it goes with its parent. Its changes reach the parent by a merge (`merging`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.agent.context.prompt_variants import copy_variants
from core.engine.session.live_session import LiveSession
from core.engine.session.model_routes import derive_subagent_settings
from core.engine.session.session import EngineServices, Session
from core.errors import StateError
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.protocol.commands import MAX_SUBAGENTS
from core.protocol.events import ChangeProposed, SessionStarted, TrustStated
from core.sessions.store import SessionDirectory
from core.shadow.bulk.bulk_summary import build_layers_changed
from core.shadow.layers.layer_files import link_entry, link_tree
from core.shadow.layers.layer_location import remove_location
from core.shadow.layers.layer_store import QUOTA, KeptLayers, LayerStore
from core.shadow.subagent_merge import copy_for_subagent


async def create_subagent_session(parent: LiveSession) -> LiveSession:
    """Create a session that sees the parent's pending files and nothing of its conversation. Raises `StateError`."""
    runtime = parent.runtime
    directory = runtime.directory.open_subagent(new_id("sub"))
    moment = directory.id
    runtime.shadow.layers.freeze(moment, runtime.log.last_seq)
    try:
        await asyncio.to_thread(_copy_layers, runtime.shadow.layers, runtime.shadow.layers.kept, directory)
        _copy_blobs(runtime, directory)
        return _register(parent, _start_session(runtime, directory))
    except OSError as error:
        _discard_directory(directory)
        raise StateError(f"A subagent can't be begun in {directory.path}: {error.strerror}.") from error
    except BaseException:
        _discard_directory(directory)
        raise
    finally:
        with suppress(OSError):
            runtime.shadow.layers.unfreeze(moment)


def open_subagent_session(parent: LiveSession, name: str) -> LiveSession | None:
    """Resume a subagent's session, or return the open one; None = it does not exist (any more)."""
    if name in parent.children:
        return parent.children[name]
    if not parent.runtime.directory.has_subagent(name):
        return None
    directory = parent.runtime.directory.open_subagent(name)
    try:
        return _register(parent, Session.resume(directory, _derive_services(parent.runtime)))
    except BaseException:
        directory.close()
        raise


def prune_subagent_sessions(parent: Session) -> None:
    """Remove sessions that the log does not name, and of merged ones everything but their logs."""
    place, known = parent.directory.subagents_path, parent.state.subagents
    for home in sorted(place.iterdir()) if place.is_dir() else ():
        if home.name not in known:
            _remove_directory(home)
        elif known[home.name].state in {"merged", "closed"}:
            for each in ("layers", "checkpoints", "blobs"):
                _remove_directory(home / each)


def _remove_directory(directory: Path) -> None:
    with suppress(OSError):  # the next start tries again
        remove_location(directory if directory.name == "layers" else directory / "layers")
        if directory.is_dir():
            remove_tree(directory)


def _derive_services(parent: Session) -> EngineServices:
    """Return the services for a subagent; its edits always wait for its merge, whatever is configured."""
    settings = derive_subagent_settings(parent.state, parent.settings)
    settings = replace(settings, edits=replace(settings.edits, policy="review"))
    return EngineServices(
        workspace=parent.workspace,
        settings=settings,
        models=parent.models,
        boxes=parent.boxes,
        interactive=parent.interactive,
        trusted=parent.trusted,
        trusting=parent.trusting,
    )


def _copy_layers(layers: LayerStore, kept: KeptLayers, target: SessionDirectory) -> None:
    """Copy the kept layers by hard links (there can be many files in them)."""
    if not layers.exists or kept == KeptLayers():
        return
    copy = LayerStore(target.path / "layers")
    for name in kept.layers:
        link_tree(layers.place / name, copy.place / name)
    copy.write_record(kept)


def _copy_blobs(source: Session, target: SessionDirectory) -> None:
    """Copy the prefix, so that providers have it cached, and the blobs of what is pending."""
    for each in source.directory.path.glob("prefix*.json"):
        link_entry(each, target.path / each.name)
    states = [state for change in source.review.changes.values() for state in (change.base, change.pending)]
    kept = source.shadow.layers.kept
    names = {state.blob for state in (*states, *kept.bases.values()) if state.blob}
    for name in names:
        here = source.directory.blobs_path / name[:2] / name[2:]
        there = target.blobs_path / name[:2] / name[2:]
        if here.exists():
            there.parent.mkdir(mode=0o700, exist_ok=True)
            link_entry(here, there)


def _start_session(source: Session, directory: SessionDirectory) -> Session:
    state = source.state
    around = _derive_services(source)
    model = around.settings.resolve_route("chat").model
    copy_variants(source.directory.path, directory.path)
    first = SessionStarted(
        workspace=state.workspace, mode="agent", model=model, demo=state.is_demo, private=state.is_private
    )
    child = Session.create(directory, around, first)
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


def _register(parent: LiveSession, runtime: Session) -> LiveSession:
    """Register the session with its parent and give it its share of the layers' quota, which they have together."""
    live = LiveSession(runtime)
    parent.children[runtime.id] = live
    if (layers := parent.runtime.shadow.layers).exists:
        inherited = runtime.shadow.layers.measure() if runtime.shadow.layers.exists else 0
        runtime.shadow.layers.quota = inherited + max(0, QUOTA - layers.measure()) // (MAX_SUBAGENTS + 1)
    else:
        runtime.shadow.layers.quota = QUOTA // (MAX_SUBAGENTS + 1)
    return live


def _discard_directory(directory: SessionDirectory) -> None:
    _remove_directory(directory.path / "layers")
    directory.discard()
    directory.close()
