"""The routes of the chat API: a prompt in, documents out, whole or as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Final

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.client import Client
from core.text.well_formed import encode_record
from core.transports.http.access import Grant
from core.transports.http.chat.conversation import Conversation
from core.transports.http.chat.requests import ChatRequest, to_conversation_id, to_session_id
from core.transports.http.chat.stream_events import build_answer
from core.transports.http.routing import JSON, HttpRoute
from core.transports.http.service import HttpService, require_model_grant
from core.transports.http.sse import EVENT_STREAM, EventId, Events, LastEvent, parse_position
from core.transports.response import Response as Answer

ONE: Final = "/api/v1/chat/{conversation_id}"
Answered = Annotated[Response, Answer, EVENT_STREAM]


async def complete_chat(request: Request, data: ChatRequest, service: HttpService) -> Answered:
    """Let the agent answer the last message. With `stream`, or if the client accepts only `text/event-stream`, the
    answer is a stream of events that ends with `[DONE]`; otherwise it is one response object."""
    return await _answer(request, data, service)


async def plan_chat(request: Request, data: ChatRequest, service: HttpService) -> Answered:
    """Let the agent read, ask and plan; nothing is changed. The answer has a `plan` or a `clarification` document; the
    next message of the conversation answers its questions. A model that hands in neither is asked for one, and then
    its words are the clarification."""
    if data.mode not in {None, "plan"}:
        raise CommandRejected(f"the mode is plan here, not {data.mode}.", code="mode_refused")
    return await _answer(request, structs.replace(data, mode="plan"), service, wants_plan=True)


async def read_answer(conversation_id: str, service: HttpService) -> Answer:
    """Return the response object of the latest prompt, with the status `streaming` while it is at work."""
    session = to_session_id(conversation_id)
    conversation = Conversation(await service.find(session), session)
    try:
        await conversation.settle()
        if not conversation.state.turns:
            raise CommandRejected("the conversation has no answer yet.", code="session_unknown")
        return build_answer(conversation.state.turns[-1], conversation.state)
    finally:
        await conversation.close()


async def replay_chat(
    conversation_id: str, service: HttpService, after: EventId = None, last_event_id: LastEvent = None
) -> Events:
    """Stream the events after `after`, and those of the running turn until it ends."""
    session = to_session_id(conversation_id)
    conversation = Conversation(await service.find(session), session, brief=False)
    pieces = conversation.replay(parse_position(after, last_event_id))
    return service.streams.build_stream(_hold_open(service, session, pieces), _name_conversation(session))


async def interrupt_chat(conversation_id: str, service: HttpService) -> cmd.Ack:
    """Stop the running turn. A client that only disconnects does not stop it."""
    session = to_session_id(conversation_id)
    return await service.submit(await service.find(session), cmd.TurnInterrupt(session=session))


async def _answer(request: Request, data: ChatRequest, service: HttpService, *, wants_plan: bool = False) -> Answered:
    require_model_grant(request.scope, data.model)
    prompt = await asyncio.to_thread(data.build_prompt)  # refuses an invalid request before a session is opened
    client, session = await _open(data, service)
    conversation = Conversation(client, session)
    try:
        with service.engines.hold(session):
            await conversation.settle()
            stream: Response | None = None
            if data.stream or request.headers.get("accept", "").strip().lower().startswith(EVENT_STREAM):
                pieces = _hold_open(service, session, conversation.stream_answer())
                # It raises before the turn begins.
                stream = service.streams.build_stream(pieces, _name_conversation(session))
            await conversation.send_prompt(structs.replace(prompt, wants_plan=wants_plan))
            if stream is not None:
                return stream
            answer = await conversation.finish_answer()
    except BaseException:
        await conversation.close()
        raise
    await conversation.close()
    return Response(encode_record(answer), media_type=JSON, headers=_name_conversation(session))


async def _hold_open(service: HttpService, session: str, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Keep a session open while its events are streamed."""
    with service.engines.hold(session):
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()


async def _open(data: ChatRequest, service: HttpService) -> tuple[Client, str]:
    """Return the session of a conversation, or a new one with the requested mode and model."""
    if data.conversation_id is None:
        command = cmd.SessionOpen(mode=data.mode or "agent", model=data.model)
        client, ack = await service.engines.open(service.find_directory(data.context.workspace_path), command)
        return client, ack.session
    session = to_session_id(data.conversation_id)
    return await service.find(session), session


def _name_conversation(session: str) -> dict[str, str]:
    """Return the header with the id of a session's conversation."""
    return {"X-Conversation-Id": to_conversation_id(session)}


ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute("POST", "/api/v1/chat/completions", complete_chat, Grant.DRIVE, "Send a prompt"),
    HttpRoute("POST", "/api/v1/chat/plan", plan_chat, Grant.DRIVE, "Ask for a plan"),
    HttpRoute("GET", ONE, read_answer, Grant.READ, "The latest answer of a conversation"),
    HttpRoute("GET", ONE + "/events", replay_chat, Grant.READ, "Reconnect to the stream of a conversation"),
    HttpRoute("POST", ONE + "/interrupt", interrupt_chat, Grant.DRIVE, "Stop an answer", 202),
)
