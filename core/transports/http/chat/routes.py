"""The chat API: a prompt in, documents out, whole or as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Any, Final

from litestar import MediaType, Request, Response, get, post
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import structs

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.client import Client
from core.protocol.queries import ToolsAnswer, ToolsQuery
from core.text.well_formed import encode_record
from core.transports.http.chat.content import CODE as PICTURE_REFUSED
from core.transports.http.chat.conversation import Conversation
from core.transports.http.chat.requests import (
    ChatRequest,
    build_tool_limits,
    check_open_files,
    parse_answers,
    to_conversation_id,
    to_session_id,
)
from core.transports.http.chat.stream_events import build_answer
from core.transports.http.service import DRIVES, READS, HttpService, Served, answer_with, require_model_grant
from core.transports.http.sse import EVENT_STREAM
from core.transports.response import Response as Answer

AnyRequest = Request[Any, Any, Any]
Pictures = Mapping[int, Sequence[cmd.AttachmentAdd]]
Place = Annotated[int | None, QueryParameter(ge=0, description="The `id:` of the last event that was received.")]
LastEvent = Annotated[str | None, HeaderParameter(name="Last-Event-ID", description="As `after`, by a browser.")]


@post(
    "/api/v1/chat/completions",
    opt=DRIVES,
    status_code=200,
    summary="Send a prompt",
    operation_id="complete_chat",
    responses=answer_with(Answer),
)
async def complete_chat(request: AnyRequest, data: JSONBody[ChatRequest], service: Served) -> Any:
    """Let the agent answer the last message. With `stream`, or where the client accepts `text/event-stream` alone, the
    answer is a stream of the seven events and `[DONE]`; else it is one response object."""
    return await _answer(request, data, service)


@post(
    "/api/v1/chat/plan",
    opt=DRIVES,
    status_code=200,
    summary="Have a plan made",
    operation_id="plan_chat",
    responses=answer_with(Answer),
)
async def plan_chat(request: AnyRequest, data: JSONBody[ChatRequest], service: Served) -> Any:
    """Let the agent look, ask and plan; nothing is changed. The answer holds `plan` and `clarification` documents; the
    next message of the conversation answers what was asked."""
    if data.mode not in {None, "plan"}:
        raise CommandRejected(f"the mode is plan here, not {data.mode}.", code="mode_refused")
    return await _answer(request, structs.replace(data, mode="plan"), service)


@get(
    "/api/v1/chat/{conversation_id:str}",
    opt=READS,
    summary="The latest answer of a conversation",
    operation_id="read_answer",
    responses=answer_with(Answer),
)
async def read_answer(conversation_id: FromPath[str], service: Served) -> Response[bytes]:
    """Return the response object of the latest prompt, with the status `streaming` while it is at work."""
    session = to_session_id(conversation_id)
    talk = Conversation(await service.find(session), session)
    try:
        await talk.settle()
        if not talk.state.turns:
            raise CommandRejected("the conversation has no answer yet.", code="session_unknown")
        return _encode(build_answer(talk.state.turns[-1], talk.state))
    finally:
        await talk.close()


@get(
    "/api/v1/chat/{conversation_id:str}/events",
    opt=READS,
    summary="Come back to the stream of a conversation",
    operation_id="replay_chat",
)
async def replay_chat(
    conversation_id: FromPath[str], service: Served, after: Place = None, last_event_id: LastEvent = None
) -> Stream:
    """Stream the events behind `after`, and those of the turn at work until it ends."""
    session = to_session_id(conversation_id)
    talk = Conversation(await service.find(session), session, brief=False)
    pieces = talk.replay(read_place(after, last_event_id))
    return service.streams.build_stream(_hold(service, session, pieces), _name(session))


@post(
    "/api/v1/chat/{conversation_id:str}/interrupt",
    opt=DRIVES,
    status_code=202,
    summary="Stop an answer",
    operation_id="interrupt_chat",
)
async def interrupt_chat(conversation_id: FromPath[str], service: Served) -> cmd.Ack:
    """Stop the turn at work. A client that only goes away does not stop it."""
    session = to_session_id(conversation_id)
    return await service.submit(await service.find(session), cmd.TurnInterrupt(session=session))


def read_place(after: int | None, last_event_id: str | None) -> int:
    """Return where a client wants to go on. Raises `CommandRejected`."""
    if after is not None:
        return after
    if last_event_id and not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 16):
        raise CommandRejected("Last-Event-ID is not the id of an event.", code="request_invalid")
    return int(last_event_id or 0)


async def _answer(request: AnyRequest, data: ChatRequest, service: HttpService) -> Any:
    data.find_prompt()  # what can be refused is, before a session is opened
    require_model_grant(request.scope, data.model)
    check_open_files(data.context.open_files)
    pictures = await asyncio.to_thread(data.decode_pictures)
    client, session = await _open(data, service)
    talk = Conversation(client, session)
    try:
        with service.engines.hold(session):
            await talk.settle()
            stream = None
            if data.stream or request.headers.get("accept", "").strip().lower().startswith(EVENT_STREAM):
                pieces = _hold(service, session, talk.stream_answer())
                stream = service.streams.build_stream(pieces, _name(session))  # where it is refused, nothing has begun
            await _submit(data, pictures, service, client, talk)
            if stream is not None:
                return stream
            answer = await talk.finish_answer()
    except BaseException:
        await talk.close()
        raise
    await talk.close()
    return _encode(answer, _name(session))


async def _hold(service: HttpService, session: str, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Keep a session open while its events are told."""
    with service.engines.hold(session):
        try:
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()


async def _open(data: ChatRequest, service: HttpService) -> tuple[Client, str]:
    """Return the session of a conversation, with the mode and the model that are wanted."""
    if data.conversation_id is None:
        command = cmd.SessionOpen(mode=data.mode or "agent", model=data.model)
        client, ack = await service.engines.open(service.find_directory(data.context.workspace_path), command)
        return client, ack.session
    session = to_session_id(data.conversation_id)
    return await service.find(session), session


async def _submit(
    data: ChatRequest, pictures: Pictures, service: HttpService, client: Client, talk: Conversation
) -> None:
    """Send the prompt, or the answers that it is, and tell of what follows."""
    state, session, open_question = talk.state, talk.state.session_id, talk.find_open_question()
    answers = () if open_question is None else parse_answers(open_question, data.find_prompt())
    if open_question is not None and answers:
        if pictures.get(len(data.messages) - 1):
            hint = "Answer it first, and send the pictures with the message after that."
            raise CommandRejected("a question is answered in words, without pictures.", hint=hint, code=PICTURE_REFUSED)
        command: cmd.AnyCommand = cmd.QuestionReply(session=session, id=open_question.id, answers=answers)
    else:
        command = await _build_submit(data, pictures, service, client, talk)
    if data.mode is not None and data.mode != state.mode:
        await service.submit(client, cmd.ModeSet(session=session, mode=data.mode))
    if data.model and data.model != state.model:
        await service.submit(client, cmd.ModelSet(session=session, model=data.model))
    ack = await service.submit(client, command)
    talk.tell_after(ack.seq)


async def _build_submit(
    data: ChatRequest, pictures: Pictures, service: HttpService, client: Client, talk: Conversation
) -> cmd.TurnSubmit:
    """Return the command for a prompt, of which the pictures are attached."""
    session, is_first = talk.state.session_id, not talk.state.turns
    if talk.state.current_turn is not None:  # so that one that is refused changes neither mode nor model of it
        raise CommandRejected("a turn is running.", hint="Wait for its end, or interrupt it.", code="turn_running")
    tools = await service.ask(client, ToolsQuery(session=session)) if data.tools is not None else ToolsAnswer()
    rows = tools.tools if isinstance(tools, ToolsAnswer) else ()
    limits = build_tool_limits(data, rows)
    sent_pictures = (
        pictures if is_first else {index: adds for index, adds in pictures.items() if index == len(data.messages) - 1}
    )
    labels = {index: await talk.attach(adds) for index, adds in sent_pictures.items()}
    return cmd.TurnSubmit(
        session=session,
        text=data.find_prompt(),
        open_files=data.context.open_files,
        attachments=tuple(label for message_labels in labels.values() for label in message_labels),
        available_tools=limits,
        rules=data.list_rules(),
        layout=data.context.project_layout,
        earlier=data.list_earlier(labels) if is_first else (),
    )


def _name(session: str) -> dict[str, str]:
    return {"X-Conversation-Id": to_conversation_id(session)}


def _encode(answer: Answer, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(encode_record(answer), media_type=MediaType.JSON, headers=headers or {})


HANDLERS: Final[tuple[Any, ...]] = (complete_chat, plan_chat, read_answer, replay_chat, interrupt_chat)
