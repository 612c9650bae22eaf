"""Bring the work of a background agent under the user's own review: its session, in the store of their workspace."""

from __future__ import annotations

from pathlib import Path

from core.background.places import get_agent_dir
from core.background.records import ENDED, BackgroundAgent
from core.background.session_archive import download_session, import_session
from core.background.store import AgentStore
from core.errors import CommandRejected
from core.sessions.store import SessionStore


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
    place = get_agent_dir(agent.id)
    home = place / "sessions"
    worked_in = Path(agent.request.workspace_path) if agent.request.workspace_path else place / "project"
    source = SessionStore(worked_in, home)
    if store.keeps_sessions:
        await download_session(store, agent, source)
    name = await import_session(source.get_path(agent.session), SessionStore(workspace))
    await store.change_state(agent.id, {"pulled": True}, only_in=ENDED)
    return name
