"""Background agents by HTTP: start and control them, and bring their work under review."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request

from core.background.control import delete_agent, pull_agent, send_message, start_agent, stop_agent
from core.background.records import ENDED, AgentLimits, AgentRequest, BackgroundAgent
from core.background.store import StoreUnavailable
from core.errors import AgentTuiError
from core.text.well_formed import encode_record
from core.transports.http.access import Grant
from core.transports.http.chat.requests import ApiRecord
from core.transports.http.routing import HttpRoute
from core.transports.http.service import (
    AGENT_UNKNOWN,
    HttpService,
    find_local_path,
    require_grant,
    require_model_grant,
)
from core.transports.http.sse import DONE, Events, encode_event

BASE: Final = "/api/v1/background-composers"
ONE: Final = BASE + "/{agent}"


class BackgroundAgents(Struct, frozen=True, kw_only=True):
    """Background agents, the newest first."""

    agents: tuple[BackgroundAgent, ...]


class AgentMessageRequest(ApiRecord, frozen=True, kw_only=True):
    """A message to an agent."""

    text: Annotated[str, Meta(description="Steers one that runs, and is the next prompt of one that has ended.")]


class PullRequest(ApiRecord, frozen=True, kw_only=True):
    """The project whose review the work is to wait in."""

    workspace_path: Annotated[
        str, Meta(description="Absolute path of the project, in the directory that is served; that itself by default.")
    ] = ""


class PulledAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """`session`: the one that holds the work now; `pending`: files that wait for a verdict."""

    session: str
    pending: int


async def start_background_agent(request: Request, data: AgentRequest, service: HttpService) -> BackgroundAgent:
    """Queue an agent for a task, in the shadow of a project (by default the directory served) or in a clone of a
    repository. Limits of its own need the `approve` token, as they may be wider than the configured ones."""
    if data.limits != AgentLimits():
        require_grant(request.scope, Grant.APPROVE)
    require_model_grant(request.scope, data.model)
    local_path = find_local_path(data.repository_url)
    if local_path:
        service.find_directory(local_path)
    elif not data.repository_url:
        data = replace(data, workspace_path=str(service.find_directory(data.workspace_path)))
    return await start_agent(await service.agents.open(), data, service.agents.program)


async def list_background_agents(service: HttpService) -> BackgroundAgents:
    """Return the agents of the served directory, and those that work in clones."""
    return BackgroundAgents(agents=await service.agents.list_agents())


async def read_background_agent(agent: str, service: HttpService) -> BackgroundAgent:
    """Return its state, its open question, its last message, and how many files are pending."""
    return await service.agents.find(agent)


async def follow_background_agent(agent: str, service: HttpService) -> Events:
    """Stream the state of the agent, now and after each change, as `agent.changed` until it ends."""
    first = await service.agents.find(agent)
    return service.streams.build_stream(_stream_changes(service, first))


async def message_background_agent(agent: str, data: AgentMessageRequest, service: HttpService) -> BackgroundAgent:
    """Steer a running agent; give one that has ended its next prompt."""
    background_agent = await service.agents.find(agent)
    await send_message(await service.agents.open(), background_agent, data.text, service.agents.program)
    return await service.agents.find(agent)


async def stop_background_agent(agent: str, service: HttpService) -> BackgroundAgent:
    """Stop an agent; its changes are kept."""
    await stop_agent(await service.agents.open(), await service.agents.find(agent))
    return await service.agents.find(agent)


async def pull_background_agent(agent: str, data: PullRequest, service: HttpService) -> PulledAgent:
    """Copy the session of an agent that has ended into a project, where its changes are pending."""
    background_agent = await service.agents.find(agent)
    directory = service.find_directory(data.workspace_path)
    session = await pull_agent(await service.agents.open(), background_agent, directory)
    return PulledAgent(session=session, pending=background_agent.pending)


async def delete_background_agent(agent: str, service: HttpService) -> None:
    """Delete an agent that has ended, with its clone and the changes that were not pulled."""
    await delete_agent(await service.agents.open(), await service.agents.find(agent))


async def _stream_changes(service: HttpService, last: BackgroundAgent) -> AsyncGenerator[bytes]:
    yield _encode(last)
    store = await service.agents.open()
    async with aclosing(store.watch()) as news:  # type: ignore[type-var]
        async for _ in news:
            try:
                background_agent = await service.agents.find(last.id)
            except StoreUnavailable:
                continue  # the agent is read again once the store is back
            except AgentTuiError as problem:
                if problem.code != AGENT_UNKNOWN:
                    raise
                yield encode_event("agent.deleted", encode_record({"id": last.id}))
                break
            if background_agent != last:
                yield _encode(background_agent)
            last = background_agent
            if background_agent.state in ENDED:
                break
    yield DONE


def _encode(agent: BackgroundAgent) -> bytes:
    return encode_event("agent.changed", encode_record(agent))


ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute("POST", BASE, start_background_agent, Grant.DRIVE, "Start a background agent", 201),
    HttpRoute("GET", BASE, list_background_agents, Grant.READ, "Background agents, the newest first"),
    HttpRoute("GET", ONE, read_background_agent, Grant.READ, "A background agent"),
    HttpRoute("GET", ONE + "/events", follow_background_agent, Grant.READ, "Follow a background agent"),
    HttpRoute(
        "POST", ONE + "/messages", message_background_agent, Grant.DRIVE, "Send a message to a background agent", 202
    ),
    HttpRoute("POST", ONE + "/stop", stop_background_agent, Grant.DRIVE, "Stop a background agent", 202),
    HttpRoute("POST", ONE + "/pull", pull_background_agent, Grant.APPROVE, "Pull the work of a background agent"),
    HttpRoute("DELETE", ONE, delete_background_agent, Grant.DRIVE, "Delete a background agent", 204),
)
