"""Background agents in this process: a model that plays a script, a store that is open, a worker on it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from core.background.records import ENDED, BackgroundAgent
from core.background.store import AgentStore
from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol.options import EngineOptions
from core.protocol.review import Change
from core.worker import run_agent

EDIT = {"name": "search_replace", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}}


def play(tmp_path: Path, *turns: tuple[Any, ...], name: str = "script") -> str:
    """A model that plays these steps, one list of them for each prompt."""
    path = tmp_path / f"{name}.json"
    played = [[step if isinstance(step, str) else {"tool_calls": [step]} for step in steps] for steps in turns]
    path.write_text(json.dumps({"turns": [{"steps": steps} for steps in played]}))
    return f"scripted/{path}"


def command(text: str) -> dict[str, Any]:
    return {"name": "run_terminal_cmd", "arguments": {"command": text}}


@contextlib.asynccontextmanager
async def opened(store: AgentStore) -> AsyncIterator[AgentStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def working(store: AgentStore, concurrency: int = 4) -> AsyncIterator[None]:
    """A worker in this process."""
    task = asyncio.ensure_future(store.work("here", concurrency, lambda agent: run_agent(store, agent)))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def wait_for(store: AgentStore, is_met: Callable[[list[BackgroundAgent]], bool]) -> list[BackgroundAgent]:
    async for _ in store.watch():
        agents = await store.list_agents()
        if is_met(agents):
            return agents
    raise AssertionError("the store ended")


def all_ended(agents: list[BackgroundAgent]) -> bool:
    return all(agent.state in ENDED for agent in agents)


async def read_changes(workspace: Path, session: str) -> dict[str, Change]:
    """The pending changes of a session, as the user's own engine sees them."""
    engine = Engine(workspace, options=EngineOptions(watch=False))
    try:
        reply = await engine.submit(cmd.SessionResume(session=session))
        assert isinstance(reply, cmd.Ack), reply
        await engine.wait_idle(session)
        return dict(engine.state(session).changes)
    finally:
        await engine.close()
