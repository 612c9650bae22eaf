"""Background agents by HTTP: start and control them, and bring their work under review."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

from litestar import Request, delete, get, post
from litestar.params import FromPath, JSONBody
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from core.background.control import delete_agent, pull_agent, send_message, start_agent, stop_agent
from core.background.records import ENDED, AgentLimits, AgentRequest, BackgroundAgent
from core.background.store import StoreUnavailable
from core.errors import AgentTuiError
from core.text.well_formed import encode_record
from core.transports.http.access import Grant
from core.transports.http.chat.requests import ApiRecord
from core.transports.http.service import (
    AGENT_UNKNOWN,
    APPROVES,
    DRIVES,
    READS,
    HttpService,
    Served,
    find_local_path,
    require_grant,
    require_model_grant,
)
from core.transports.http.sse import DONE, encode_event

BASE: Final = "/api/v1/background-composers"
ONE: Final = BASE + "/{agent:str}"


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


@post(BASE, opt=DRIVES, summary="Start a background agent")
async def start_background_agent(
    request: Request[Any, Any, Any], data: JSONBody[AgentRequest], service: Served
) -> BackgroundAgent:
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


@get(BASE, opt=READS, summary="Background agents, the newest first")
async def list_background_agents(service: Served) -> BackgroundAgents:
    """Return the agents in the directory that is served, and those in clones of repositories."""
    return BackgroundAgents(agents=await service.agents.list_agents())


@get(ONE, opt=READS, summary="A background agent")
async def read_background_agent(agent: FromPath[str], service: Served) -> BackgroundAgent:
    """Return its state, what it waits for, its last words, and how many files wait for a review."""
    return await service.agents.find(agent)


@get(ONE + "/events", opt=READS, summary="What becomes of a background agent")
async def follow_background_agent(agent: FromPath[str], service: Served) -> Stream:
    """Stream the agent as it is now and whenever it has changed, as `agent.changed`, until it has ended."""
    first = await service.agents.find(agent)
    return service.streams.build_stream(_stream_changes(service, first))


@post(ONE + "/messages", opt=DRIVES, status_code=202, summary="Send a message to a background agent")
async def message_background_agent(
    agent: FromPath[str], data: JSONBody[AgentMessageRequest], service: Served
) -> BackgroundAgent:
    """Steer an agent that runs; have one that has ended go on."""
    background_agent = await service.agents.find(agent)
    await send_message(await service.agents.open(), background_agent, data.text, service.agents.program)
    return await service.agents.find(agent)


@post(ONE + "/stop", opt=DRIVES, status_code=202, summary="Stop a background agent")
async def stop_background_agent(agent: FromPath[str], service: Served) -> BackgroundAgent:
    """Have an agent stop; what it changed is kept."""
    await stop_agent(await service.agents.open(), await service.agents.find(agent))
    return await service.agents.find(agent)


@post(ONE + "/pull", opt=APPROVES, status_code=200, summary="Bring the work of a background agent under review")
async def pull_background_agent(agent: FromPath[str], data: JSONBody[PullRequest], service: Served) -> PulledAgent:
    """Copy the session of an agent that has ended into a project. Its changes wait there for verdicts."""
    background_agent = await service.agents.find(agent)
    directory = service.find_directory(data.workspace_path)
    session = await pull_agent(await service.agents.open(), background_agent, directory)
    return PulledAgent(session=session, pending=background_agent.pending)


@delete(ONE, opt=DRIVES, summary="Forget a background agent")
async def delete_background_agent(agent: FromPath[str], service: Served) -> None:
    """Forget an agent that has ended, with its clone and what was not pulled."""
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


HANDLERS: Final[tuple[Any, ...]] = (
    start_background_agent,
    list_background_agents,
    read_background_agent,
    follow_background_agent,
    message_background_agent,
    stop_background_agent,
    pull_background_agent,
    delete_background_agent,
)
