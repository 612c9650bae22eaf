"""Commands about background agents. What they do takes as long as their store does, so it runs beside the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from core.background.control import delete_agent, pull_agent, send_message, start_agent, stop_agent
from core.background.records import AgentRequest, build_agent
from core.background.store import require_agent
from core.engine.session.model_routes import choose_model
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import Notice


def prepare_start(session: Session, command: cmd.BackgroundStart) -> Effect:
    """Check the task; the agent is queued beside the session."""
    if session.state.is_private:
        raise CommandRejected("a private session gives no work away: it would be kept.", code="private")
    request = AgentRequest(
        task_description=command.text,
        workspace_path=str(session.workspace.root),
        model=choose_model(session.state, session.settings)[0],
        mode=session.state.mode,
    )
    build_agent(request)
    return _run_beside(session, partial(_start, session, request))


async def _start(session: Session, request: AgentRequest) -> None:
    link = session.services.background
    agent = await start_agent(await link.open(), request, link.program)
    message, hint = f"In the background: {agent.title}", "/background shows it, and brings what it does here."
    session.emit_outside_turn(Notice(level="info", message=message, hint=hint))


def prepare_message(session: Session, command: cmd.BackgroundMessage) -> Effect:
    return _run_beside(session, partial(_send, session, command))


async def _send(session: Session, command: cmd.BackgroundMessage) -> None:
    link = session.services.background
    store = await link.open()
    await send_message(store, await require_agent(store, command.id), command.text, link.program)


def prepare_stop(session: Session, command: cmd.BackgroundStop) -> Effect:
    return _run_beside(session, partial(_stop, session, command.id))


async def _stop(session: Session, name: str) -> None:
    store = await session.services.background.open()
    await stop_agent(store, await require_agent(store, name))


def prepare_delete(session: Session, command: cmd.BackgroundDelete) -> Effect:
    return _run_beside(session, partial(_delete, session, command.id))


async def _delete(session: Session, name: str) -> None:
    store = await session.services.background.open()
    await delete_agent(store, await require_agent(store, name))


def prepare_pull(session: Session, command: cmd.BackgroundPull) -> Effect:
    return _run_beside(session, partial(_pull, session, command.id))


async def _pull(session: Session, name: str) -> None:
    store = await session.services.background.open()
    agent = await require_agent(store, name)
    session_id = await pull_agent(store, agent, session.workspace.root)
    message, hint = f"It waits for your review: {agent.title}", f"/resume {session_id} opens it."
    session.emit_outside_turn(Notice(level="info", message=message, hint=hint))


def _run_beside(session: Session, work: Callable[[], Awaitable[None]]) -> Effect:
    return partial(session.run_beside, work, name="background agents")
