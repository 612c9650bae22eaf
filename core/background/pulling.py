"""Bring the work of a background agent under the user's own review: its session, in the store of their workspace."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from core.background.places import get_agent_dir
from core.background.records import ENDED, BackgroundAgent
from core.background.session_archive import download_session, import_session
from core.background.store import AgentStore
from core.errors import CommandRejected
from core.filesystem.removal import remove_tree
from core.protocol.review import FileState
from core.sessions.store import SessionStore
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import Contents
from core.shadow.layers.layer_files import link_entry, link_tree
from core.shadow.layers.layer_store import LayerStore, RetainedLayers
from core.shadow.layers.overlayfs import get_layer_path
from core.shadow.layers.pending_layer import copy_layers
from core.workspace import Workspace


async def pull_agent(store: AgentStore, agent: BackgroundAgent, workspace: Path) -> str:
    """Copy the session of an agent that has ended into the store of a workspace; return its id. Its hunks are those of
    the workspace then: where a file is another one by now, they show as conflicts. Raises `CommandRejected`,
    `StateError`."""
    if agent.state not in ENDED:
        raise CommandRejected(
            f"the agent is {agent.state}.", hint=f"Stop it first: agent-tui agents stop {agent.id}", code="agent_runs"
        )
    if not agent.session:
        raise CommandRejected("the agent did not begin: there is nothing to pull.", code="nothing_to_pull")
    agent_dir = get_agent_dir(agent.id)
    home = agent_dir / "sessions"
    worked_in = Path(agent.request.workspace_path) if agent.request.workspace_path else agent_dir / "project"
    source = SessionStore(worked_in, home)
    if store.keeps_sessions:
        await download_session(store, agent, source)
    target = SessionStore(workspace)
    name = await import_session(source.get_path(agent.session), target)
    is_same_workspace = agent.request.workspace_path == str(target.workspace)
    await asyncio.to_thread(
        _copy_layers, source.get_path(name), target.get_path(name), target.workspace, git_only=not is_same_workspace
    )
    await store.change_state(agent.id, {"pulled": True}, only_in=ENDED)
    return name


def _copy_layers(source: Path, target: Path, workspace: Path, *, git_only: bool) -> None:
    """Copy what the agent's commands left beside the review, if it is on this machine; from a clone (`git_only`) only
    the states of git, as all else was made over the files there. What can't be copied stays where it is.

    Raises `StateError`.
    """
    layers = LayerStore(source / "layers")
    if not layers.exists or layers.find_missing():
        return
    copy = LayerStore(target / "layers")
    try:
        if git_only:
            _copy_git_states(layers, copy, Workspace(workspace), Contents(BlobStore(target / "blobs")))
        else:
            copy_layers(layers, layers.retained, copy)
    except OSError:
        remove_tree(copy.location)


def _copy_git_states(layers: LayerStore, copy: LayerStore, workspace: Workspace, contents: Contents) -> None:
    """Copy the states of git alone, as if they had been made now. Raises OSError, `StateError`."""
    tops = {path: top for path, top in layers.retained.tops.items() if top.kind == "git"}
    if not tops:
        return
    for layer in layers.retained.layers:
        _link_tops(layers.get_upper(layer), copy.get_upper(layer), tops)
    bases = dict(_read_bases(copy, tops, workspace, contents))
    tops = {path: replace(top, since=time.time_ns()) for path, top in tops.items()}
    copy.write_record(RetainedLayers(layers=layers.retained.layers, tops=tops, bases=bases))


def _read_bases(
    layers: LayerStore, tops: Iterable[str], workspace: Workspace, contents: Contents
) -> Iterator[tuple[str, FileState]]:
    """Yield what a workspace has where layers have a file, since it is not what the agent's commands found there."""
    places = ((upper, get_layer_path(upper, top)) for upper in layers.location.glob("*/upper") for top in tops)
    for upper, directory in places:
        for above, _, names in os.walk(directory):
            for name in names:
                path = (Path(above) / name).relative_to(upper).as_posix()
                state, data = workspace.read_state(path)
                if state.kind != "absent":
                    yield path, contents.store(state, data)


def _link_tops(source: Path, target: Path, tops: Iterable[str]) -> None:
    target.mkdir(mode=0o755, parents=True)
    for path in tops:
        source_path = get_layer_path(source, path)
        if os.path.lexists(source_path):
            get_layer_path(target, path).parent.mkdir(parents=True, exist_ok=True)
            if source_path.is_dir() and not source_path.is_symlink():
                link_tree(source_path, get_layer_path(target, path))
            else:
                link_entry(source_path, get_layer_path(target, path))
