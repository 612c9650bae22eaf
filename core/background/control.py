"""The verbs on background agents, the same for the command line, the screen and the API."""

from __future__ import annotations

import asyncio

from core.background.places import get_agent_dir
from core.background.records import ENDED, AgentRequest, BackgroundAgent, build_agent
from core.background.store import AgentStore
from core.background.worker_process import start_worker
from core.errors import CommandRejected
from core.filesystem.removal import remove_tree


async def start_agent(store: AgentStore, request: AgentRequest, program: tuple[str, ...]) -> BackgroundAgent:
    """Queue an agent, and see to it that a worker of this machine runs if it is to. `program`: the argv prefix of this
    program, () = a worker is somebody else's affair. Raises `CommandRejected`, `StoreUnavailable`, `StateError`."""
    agent = build_agent(request)
    await store.add(agent)
    wake_worker(store, program)
    return agent


def wake_worker(store: AgentStore, program: tuple[str, ...]) -> None:
    """See to it that the worker of this machine runs; a team has workers of its own."""
    if program and not store.keeps_sessions:
        start_worker(program)


async def send_message(store: AgentStore, agent: BackgroundAgent, text: str, program: tuple[str, ...]) -> None:
    """Send a message: it steers an agent that runs, and is the next prompt of one that has ended."""
    if not text.strip():
        raise CommandRejected("the message is empty.", code="empty_text")
    await store.post(agent.id, {"type": "turn.submit", "session": "", "text": text})
    await store.queue(agent.id)
    wake_worker(store, program)


async def stop_agent(store: AgentStore, agent: BackgroundAgent) -> None:
    """Stop an agent that runs or waits for its turn; one that has ended stays as it is."""
    if await store.change_state(agent.id, {"state": "stopped"}, only_in=frozenset({"queued"})):
        return
    await store.post(agent.id, {"type": "turn.interrupt", "session": ""})


async def delete_agent(store: AgentStore, agent: BackgroundAgent) -> None:
    """Forget an agent that has ended, with its clone and what it left. Raises `CommandRejected` for one that runs."""
    if agent.state not in ENDED and agent.state != "queued":
        raise CommandRejected(f"the agent is {agent.state}.", hint="Stop it first.", code="agent_runs")
    await store.delete(agent.id)
    agent_dir = get_agent_dir(agent.id)
    if await asyncio.to_thread(agent_dir.exists):
        await asyncio.to_thread(remove_tree, agent_dir)
