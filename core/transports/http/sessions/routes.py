"""Sessions by HTTP: whatever the screen can do, thinly over the three verbs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

from litestar import MediaType, Request, Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec.structs import replace

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.state.session import SessionState
from core.text.well_formed import encode_record
from core.transports.http.chat.routes import LastEvent, Place, read_place
from core.transports.http.service import (
    APPROVES,
    DRIVES,
    READS,
    HttpService,
    Served,
    answer_with,
    require_grant,
    require_model_grant,
)
from core.transports.http.sessions.commands import check_command, find_answer
from core.transports.http.sessions.records import (
    ApprovalRequest,
    ChangesAnswer,
    NewSession,
    OpenedSession,
    PlansAnswer,
    RestoreRequest,
    SessionSummaryAnswer,
    VerdictRequest,
    summarize_session,
)
from core.transports.http.sse import encode_event
from core.transports.response import list_pending_bulks
from core.transports.session_view import SessionView

BASE: Final = "/api/v1/sessions"
ONE: Final = BASE + "/{session:str}"
Workspace = Annotated[str, QueryParameter(description="Absolute path of the project; by default the directory served.")]
Limit = Annotated[int, QueryParameter(ge=1, le=1_000, description="So many at most.")]
ChangedPath = Annotated[str, QueryParameter(description="A file that waits for a verdict.")]
Context = Annotated[
    int, QueryParameter(ge=-1, le=100_000, description="Unchanged lines around hunks; -1 = the whole file.")
]


@get(
    BASE,
    opt=READS,
    summary="Sessions of a workspace, the one written last first",
    operation_id="list_sessions",
    responses=answer_with(q.SessionsAnswer),
)
async def list_sessions(service: Served, limit: Limit = 50, workspace: Workspace = "") -> Response[bytes]:
    """Return what a list of sessions shows."""
    client = service.engines.get(service.find_directory(workspace))
    return encode_answer(await service.ask(client, q.SessionsQuery(limit=limit)))


@post(BASE, opt=DRIVES, summary="Open a session")
async def open_session(request: Request[Any, Any, Any], data: JSONBody[NewSession], service: Served) -> OpenedSession:
    """Open a new session, in which nothing was said yet."""
    require_model_grant(request.scope, data.model)
    command = cmd.SessionOpen(mode=data.mode, model=data.model, effort=data.effort)
    _, ack = await service.engines.open(service.find_directory(data.workspace_path), command)
    conversation = f"conv_{ack.session.partition('_')[2]}"
    return OpenedSession(session=ack.session, conversation_id=conversation, seq=ack.seq)


@get(ONE, opt=READS, summary="A session in short")
async def read_session(session: FromPath[str], service: Served) -> SessionSummaryAnswer:
    """Return mode, model, what is pending, and what waits for an answer."""
    return summarize_session(await load_state(service, session))


@get(ONE + "/events", opt=READS, summary="Events of a session")
async def follow_session(
    session: FromPath[str], service: Served, after: Place = None, last_event_id: LastEvent = None
) -> Stream:
    """Stream every event behind `after`, as docs/architecture.md names them, and go on with those that come."""
    client = await service.find(session)
    return service.streams.build_stream(_stream_events(service, client, session, read_place(after, last_event_id)))


@get(ONE + "/hunks", opt=READS, summary="Changes that wait for a verdict, with their hunks")
async def list_hunks(session: FromPath[str], service: Served) -> ChangesAnswer:
    """Return the pending changes."""
    state = await load_state(service, session)
    return ChangesAnswer(changes=tuple(state.changes.values()), bulks=list_pending_bulks(state))


@get(
    ONE + "/diff",
    opt=READS,
    summary="The lines of a change",
    operation_id="read_diff",
    responses=answer_with(q.DiffAnswer),
)
async def read_diff(
    session: FromPath[str], service: Served, path: ChangedPath, context: Context = 3
) -> Response[bytes]:
    """Return a pending change with its lines."""
    client = await service.find(session)
    answer = await service.ask(client, q.DiffQuery(session=session, path=path, context=context))
    if isinstance(answer, q.DiffAnswer) and answer.diff is None:
        raise CommandRejected(f"nothing is pending for {path[:300]!r}.", code="change_unknown")
    return encode_answer(answer)


@get(ONE + "/plans", opt=READS, summary="Plans of a session")
async def list_plans(session: FromPath[str], service: Served) -> PlansAnswer:
    """Return the plans that the session made or works on."""
    state = await load_state(service, session)
    return PlansAnswer(current=state.current_plan_path, plans=tuple(state.plans.values()))


@get(
    ONE + "/checkpoints",
    opt=READS,
    summary="Checkpoints of a session",
    operation_id="list_checkpoints",
    responses=answer_with(q.CheckpointsAnswer),
)
async def list_checkpoints(session: FromPath[str], service: Served) -> Response[bytes]:
    """Return the moments that can be gone back to, oldest first."""
    return encode_answer(await service.ask(await service.find(session), q.CheckpointsQuery(session=session)))


@post(
    ONE + "/checkpoints/{checkpoint:str}/restore",
    opt=APPROVES,
    status_code=202,
    summary="Go back to a checkpoint",
    operation_id="restore_checkpoint",
)
async def restore_checkpoint(
    session: FromPath[str], checkpoint: FromPath[str], data: JSONBody[RestoreRequest], service: Served
) -> cmd.Ack:
    """Return to a checkpoint, with files that were accepted since."""
    command = cmd.CheckpointRestore(session=session, id=checkpoint, what=data.what)
    return await service.submit(await service.find(session), command)


@post(ONE + "/commands", opt=DRIVES, status_code=202, summary="Send a command")
async def send_command(
    request: Request[Any, Any, Any], session: FromPath[str], data: JSONBody[cmd.AnyCommand], service: Served
) -> cmd.Ack:
    """Send any command of the protocol. What accepts, approves or trusts needs the `approve` token."""
    command = check_command(data, session)
    require_grant(request.scope, command.needs)
    ack = await service.submit(await service.find(session), command.command)
    if isinstance(data, cmd.SessionClose):
        service.engines.forget(session)
    return ack


@post(
    ONE + "/queries",
    opt=READS,
    status_code=200,
    summary="Ask a question",
    operation_id="send_query",
    responses=answer_with(q.AnyAnswer),
)
async def send_query(session: FromPath[str], data: JSONBody[q.AnyQuery], service: Served) -> Response[bytes]:
    """Ask any question of the protocol; it has no effect."""
    return encode_answer(await service.ask(await service.find(session), replace(data, session=session)))


@post(ONE + "/verdicts", opt=APPROVES, status_code=202, summary="Accept or reject")
async def give_verdict(session: FromPath[str], data: JSONBody[VerdictRequest], service: Served) -> cmd.Ack:
    """Give a verdict on hunks. What is accepted is written to the project."""
    command = cmd.HunkResolve(
        session=session,
        path=data.path,
        verdict=data.verdict,
        hunks=data.hunks,
        reason=data.reason,
        confirmed=data.confirmed,
    )
    return await service.submit(await service.find(session), command)


@post(
    ONE + "/approvals/{approval:str}",
    opt=APPROVES,
    status_code=202,
    summary="Answer an approval",
    operation_id="answer_approval",
)
async def answer_approval(
    session: FromPath[str], approval: FromPath[str], data: JSONBody[ApprovalRequest], service: Served
) -> cmd.Ack:
    """Let a call run or not. The second of two answers is refused with the first."""
    client = await service.find(session)
    command = cmd.ApprovalAnswer(
        session=session, id=approval, decision=data.decision, note=data.note, pattern=data.pattern
    )
    async with service.answering:
        if (answer := find_answer(await read_events(client, session), approval)) is not None:
            raise CommandRejected(answer, code="already_answered")
        ack = await service.submit(client, command)
        await client.query(q.IdleQuery(session=session))
        return ack


@get(
    "/api/v1/models",
    opt=READS,
    summary="Models that can be chosen",
    operation_id="list_models",
    responses=answer_with(q.ModelsAnswer),
)
async def list_models(service: Served, discover: FromQuery[bool] = True) -> Response[bytes]:
    """Return the models of the providers with a key, and of the local servers that answer."""
    return encode_answer(await service.ask(service.engines.get(service.directory), q.ModelsQuery(discover=discover)))


@get(
    "/api/v1/settings",
    opt=READS,
    summary="Settings of the user",
    operation_id="read_settings",
    responses=answer_with(q.SettingsAnswer),
)
async def read_settings(service: Served) -> Response[bytes]:
    """Return the settings of the screen. Keys of models are none of them."""
    return encode_answer(await service.ask(service.engines.get(service.directory), q.SettingsQuery()))


def encode_answer(answer: q.AnyAnswer) -> Response[bytes]:
    """Return the answer of the engine as it is."""
    return Response(encode_record(answer), media_type=MediaType.JSON)


async def load_state(service: HttpService, session: str) -> SessionState:
    """Return the state of a session as it is now. Raises `CommandRejected`."""
    view = SessionView(await service.find(session), session)
    try:
        await view.settle()
        return view.state
    finally:
        await view.close()


async def read_events(client: Client, session: str) -> list[ev.Envelope]:
    """Return the events of a session so far."""
    envelopes = list[ev.Envelope]()
    view = SessionView(client, session, envelopes.append)
    try:
        await view.settle()
        return envelopes
    finally:
        await view.close()


async def _stream_events(service: HttpService, client: Client, session: str, after: int) -> AsyncGenerator[bytes]:
    with service.engines.hold(session):
        async for envelope in client.events(session, after=after):
            kind = str(envelope.event.__struct_config__.tag)
            seq = None if isinstance(envelope.event, ev.LossyEvent) else envelope.seq
            yield encode_event(kind, encode_record(envelope), seq=seq)


HANDLERS: Final[tuple[Any, ...]] = (
    list_sessions,
    open_session,
    read_session,
    follow_session,
    list_hunks,
    read_diff,
    list_plans,
    list_checkpoints,
    restore_checkpoint,
    send_command,
    send_query,
    give_verdict,
    answer_approval,
    list_models,
    read_settings,
)
