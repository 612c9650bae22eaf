"""Operations on background agents, the same for the command line, the screen and the API; and the local worker process.

An agent is started, sent messages, stopped, deleted, and pulled: its session is copied into the store of the user's
workspace, where its changes are reviewed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from msgspec.structs import replace

from core.background.locations import get_agent_dir, make_agents_dir
from core.background.records import ENDED, AgentRequest, BackgroundAgent, build_agent
from core.background.session_archive import download_session, import_session
from core.background.store import AgentStore
from core.config.loading import load_settings
from core.errors import CommandRejected, StateError
from core.filesystem.removal import remove_tree
from core.protocol.review import FileState
from core.providers.registry import complete_model_id, split_model_id
from core.sessions.store import SessionStore
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import Contents
from core.shadow.layers.layer_files import link_entry, link_tree
from core.shadow.layers.layer_store import LayerStore, RetainedLayers
from core.shadow.layers.overlayfs import get_layer_path
from core.shadow.layers.pending_layer import copy_layers
from core.workspace import Workspace

SUCCESSION_SECONDS: Final = 10.0  # the time in which an ending or killed worker exits
_LOCK: Final = "worker.lock"
_PAUSE_SECONDS: Final = 0.05


async def start_agent(store: AgentStore, request: AgentRequest, program: tuple[str, ...]) -> BackgroundAgent:
    """Queue an agent, and start a worker on this machine if needed. `program`: the argv prefix of this program, () =
    workers are managed elsewhere. Raises `CommandRejected`, `StoreUnavailable`, `StateError`, and `ConfigError` for a
    model that can't be one."""
    model = await asyncio.to_thread(_check_model, request.model, is_ours=not store.stores_sessions)
    agent = build_agent(replace(request, model=model))
    await store.add(agent)
    wake_worker(store, program)
    return agent


def _check_model(model: str, *, is_ours: bool) -> str:
    """Return the whole id of a model. `is_ours`: a worker of this machine runs it, so that its provider is known."""
    if not model:
        return ""
    settings = load_settings()
    model = complete_model_id(model, settings)
    if is_ours:
        split_model_id(model, settings)
    return model


def wake_worker(store: AgentStore, program: tuple[str, ...]) -> None:
    """Start the worker of this machine, if it is responsible; a team manages its own workers."""
    if program and not store.stores_sessions:
        start_worker(program)


async def send_message(store: AgentStore, agent: BackgroundAgent, text: str, program: tuple[str, ...]) -> None:
    """Send a message: it steers a running agent, and is the next prompt of an ended one."""
    if not text.strip():
        raise CommandRejected("the message is empty.", code="empty_text")
    await store.post(agent.id, {"type": "turn.submit", "session": "", "text": text})
    await store.queue(agent.id)
    wake_worker(store, program)


async def stop_agent(store: AgentStore, agent: BackgroundAgent) -> None:
    """Stop a running or queued agent; an ended one stays as it is."""
    if await store.change_state(agent.id, {"state": "stopped"}, only_in=frozenset({"queued"})):
        return
    await store.post(agent.id, {"type": "turn.interrupt", "session": ""})


async def delete_agent(store: AgentStore, agent: BackgroundAgent) -> None:
    """Delete an ended agent with its clone and files. Raises `CommandRejected` for a running one."""
    if agent.state not in ENDED and agent.state != "queued":
        raise CommandRejected(f"the agent is {agent.state}.", hint="Stop it first.", code="agent_runs")
    await store.delete(agent.id)
    agent_dir = get_agent_dir(agent.id)
    if await asyncio.to_thread(agent_dir.exists):
        await asyncio.to_thread(remove_tree, agent_dir)


async def pull_agent(store: AgentStore, agent: BackgroundAgent, workspace: Path) -> str:
    """Copy the session of an ended agent into the store of a workspace; return its id. Its changes then apply to the
    workspace; where a file differs, they are conflicts. Raises `CommandRejected`, `StateError`."""
    if agent.state not in ENDED:
        raise CommandRejected(
            f"the agent is {agent.state}.", hint=f"Stop it first: agent-tui agents stop {agent.id}", code="agent_runs"
        )
    if not agent.session:
        raise CommandRejected("the agent did not start: there is nothing to pull.", code="nothing_to_pull")
    agent_dir = get_agent_dir(agent.id)
    home = agent_dir / "sessions"
    worked_in = Path(agent.request.workspace_path) if agent.request.workspace_path else agent_dir / "project"
    source = SessionStore(worked_in, home)
    if store.stores_sessions:
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
    """Copy layers (changes of the agent's commands outside of the review), if they are on this machine; from a clone
    (`git_only`) only states of git, since all else was made over other files. Uncopied layers remain at the source.

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
    """Copy only the states of git, as of now. Raises OSError, `StateError`."""
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
    """Yield the workspace's state of every file in the layers; the agent's commands started from another state."""
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


class WorkerLock:
    """The lock of the only worker on this machine. Raises `StateError` if another process holds it for `patience`
    seconds."""

    def __init__(self, patience: float = 0.0) -> None:
        path = make_agents_dir() / _LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        deadline = monotonic() + patience
        while not self._acquire():
            if monotonic() >= deadline:
                os.close(self._descriptor)
                raise StateError("a worker is already running on this machine.", code="worker_running")
            sleep(_PAUSE_SECONDS)

    def _acquire(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def start_worker(program: tuple[str, ...]) -> None:
    """Start the worker of this machine as a separate process. `program`: the argv prefix of this program. Raises
    `StateError`.

    It also starts while another worker runs, because that one may just have found the queue empty: the new one waits
    for the lock, and exits if it does not get it.
    """
    log = make_agents_dir() / "worker.log"
    with _open_log(log) as output:
        try:
            subprocess.Popen(
                [*program, "agents", "worker", "--until-idle"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as problem:
            raise StateError(f"the worker can't be started: {problem.strerror}.") from problem


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
