"""The sessions of subagents: each begins with a copy of what is pending here, in a directory below its parent's.

A child is a session like any other: its own log, blobs, layers and box. It never writes to the project, and it goes
with its parent. What it did comes to its parent by a merge (`merging`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from core.agent.variant import hand_on
from core.engine.live import LiveSession
from core.engine.routes import of_subagents
from core.engine.runtime import SessionRuntime, Surroundings
from core.errors import StateError
from core.ids import new_id
from core.protocol.commands import MOST_AT_ONCE
from core.protocol.events import ChangeProposed, SessionStarted, TrustStated
from core.sessions.store import SessionDirectory
from core.shadow.frozen import link, link_tree
from core.shadow.joining import begun_with
from core.shadow.layers import QUOTA, Kept, Layers
from core.shadow.places import forget_place
from core.shadow.tally import layers_changed
from core.workspace.removing import remove_tree


async def new_child(parent: LiveSession) -> LiveSession:
    """A session that sees what this one sees now, and nothing of what was said in it. `StateError`: no room."""
    runtime = parent.runtime
    directory = runtime.directory.child(new_id("sub"))
    moment = directory.id
    runtime.shadow.layers.freeze(moment, runtime.log.last)
    try:
        await asyncio.to_thread(_copy_layers, runtime.shadow.layers, runtime.shadow.layers.kept, directory)
        _copy_bytes(runtime, directory)
        return _admitted(parent, _begun(runtime, directory))
    except OSError as error:
        _discard(directory)
        raise StateError(f"A subagent can't be begun in {directory.path}: {error.strerror}.") from error
    except BaseException:
        _discard(directory)
        raise
    finally:
        with suppress(OSError):
            runtime.shadow.layers.unfreeze(moment)


def open_child(parent: LiveSession, name: str) -> LiveSession | None:
    """A child that was begun before; None: it is not there (any more)."""
    if name in parent.children:
        return parent.children[name]
    if not parent.runtime.directory.has_child(name):
        return None
    directory = parent.runtime.directory.child(name)
    try:
        return _admitted(parent, SessionRuntime.resume(directory, _surroundings(parent.runtime)))
    except BaseException:
        directory.close()
        raise


def sweep(parent: SessionRuntime) -> None:
    """Remove what was begun to be made and is named nowhere; of what was merged, all but its logs."""
    place, known = parent.directory.children, parent.state.subagents
    for home in sorted(place.iterdir()) if place.is_dir() else ():
        if home.name not in known:
            _remove(home)
        elif known[home.name].state in {"merged", "closed"}:
            for each in ("layers", "checkpoints", "blobs"):
                _remove(home / each)


def _remove(directory: Path) -> None:
    with suppress(OSError):  # the next start tries again
        forget_place(directory if directory.name == "layers" else directory / "layers")
        if directory.is_dir():
            remove_tree(directory)


def _surroundings(parent: SessionRuntime) -> Surroundings:
    """A child's edits always wait for its merge, whatever is configured."""
    settings = of_subagents(parent.state, parent.settings)
    settings = replace(settings, edits=replace(settings.edits, policy="review"))
    return Surroundings(
        workspace=parent.workspace,
        settings=settings,
        models=parent.models,
        boxes=parent.boxes,
        interactive=parent.interactive,
        trusted=parent.trusted,
        trusting=parent.trusting,
    )


def _copy_layers(layers: Layers, kept: Kept, target: SessionDirectory) -> None:
    """The kept layers, which are not changed meanwhile, by hard links; there can be many files in them."""
    if not layers.exists or kept == Kept():
        return
    copy = Layers(target.path / "layers")
    for name in kept.layers:
        link_tree(layers.place / name, copy.place / name)
    copy.record(kept)


def _copy_bytes(source: SessionRuntime, target: SessionDirectory) -> None:
    """The prefix, so that providers have it cached, and the bytes of what is pending."""
    for each in source.directory.path.glob("prefix*.json"):
        link(each, target.path / each.name)
    states = [state for change in source.review.changes.values() for state in (change.base, change.pending)]
    kept = source.shadow.layers.kept
    names = {state.blob for state in (*states, *kept.bases.values()) if state.blob}
    for name in names:
        here = source.directory.blobs / name[:2] / name[2:]
        there = target.blobs / name[:2] / name[2:]
        if here.exists():
            there.parent.mkdir(mode=0o700, exist_ok=True)
            link(here, there)


def _begun(source: SessionRuntime, directory: SessionDirectory) -> SessionRuntime:
    state = source.state
    around = _surroundings(source)
    model = around.settings.route("chat").model
    hand_on(source.directory.path, directory.path)
    first = SessionStarted(workspace=state.workspace, mode="agent", model=model, demo=state.demo, private=state.private)
    child = SessionRuntime.create(directory, around, first)
    if state.trust != "trusted":
        child.emit(TrustStated(state="restricted", directory=state.workspace))
    if state.shell.directory != "." or state.shell.environment or state.shell.removed:
        child.emit(state.shell)
        child.terminal.stand_as_told()
    if child.shadow.layers.kept.layers:
        child.emit(layers_changed(child.shadow.layers, child.shadow.seen))
    for change in begun_with(source.review.changes.values()):
        child.emit(ChangeProposed(change=change))
    child.log.sync()
    return child


def _admitted(parent: LiveSession, runtime: SessionRuntime) -> LiveSession:
    """All layers of a session and its children have one quota together: what is free of it is shared out evenly."""
    live = LiveSession(runtime)
    parent.children[runtime.id] = live
    if (layers := parent.runtime.shadow.layers).exists:
        inherited = runtime.shadow.layers.size() if runtime.shadow.layers.exists else 0
        runtime.shadow.layers.quota = inherited + max(0, QUOTA - layers.size()) // (MOST_AT_ONCE + 1)
    else:
        runtime.shadow.layers.quota = QUOTA // (MOST_AT_ONCE + 1)
    return live


def _discard(directory: SessionDirectory) -> None:
    _remove(directory.path / "layers")
    directory.discard()
    directory.close()
