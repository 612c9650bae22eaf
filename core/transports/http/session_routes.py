"""The session routes: everything that the screen can do, thinly over submit, events and query.

`DRIVING` lists the commands that need the `drive` token: those that work with the agent and its shadow. A command that
is not listed needs the `approve` token.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from litestar import MediaType, Request, Response, get, post
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from litestar.response import Stream
from msgspec import Meta, Struct
from msgspec.structs import replace

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.protocol.documents import Plan, Todo
from core.protocol.messages import Effort, Usage
from core.protocol.review import Change, Verdict
from core.providers.registry import names_file_or_command
from core.state.session import SessionState
from core.text.well_formed import encode_record
from core.transports.http.access import Grant
from core.transports.http.chat.requests import ApiRecord, to_conversation_id
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
from core.transports.http.sse import EventId, LastEvent, encode_event, parse_position
from core.transports.response import PendingBulk, PendingChange, list_pending_bulks, list_pending_changes
from core.transports.session_client import SessionView

# Commands that only work with the agent and its shadow. A command that writes to the project or the settings, runs a
# command of the user, grants rights or raises a limit is not among them.
DRIVING: Final[frozenset[type]] = frozenset(
    {
        cmd.AttachmentAdd,
        cmd.BackgroundDelete,
        cmd.BackgroundMessage,
        cmd.BackgroundStart,
        cmd.BackgroundStop,
        cmd.BestRun,
        cmd.BestTake,
        cmd.CommentsSend,
        cmd.CommitDraft,
        cmd.CommitSort,
        cmd.ContextCompact,
        cmd.ContextDrop,
        cmd.DraftKeep,
        cmd.EffortSet,
        cmd.FindingsDismiss,
        cmd.FindingsFix,
        cmd.HunkComment,
        cmd.HunkEdit,
        cmd.HunkSplit,
        cmd.JobStop,
        cmd.ModeSet,
        cmd.ModelSet,
        cmd.PlanBuild,
        cmd.PlanComment,
        cmd.PlanEdit,
        cmd.PullRequestDraft,
        cmd.QuestionReply,
        cmd.SessionClose,
        cmd.SessionFork,
        cmd.SessionRename,
        cmd.SessionTag,
        cmd.ShellReset,
        cmd.SymbolRename,
        cmd.TodoSet,
        cmd.TurnInterrupt,
        cmd.TurnSteer,
        cmd.TurnSubmit,
        cmd.TurnUnsteer,
    }
)
_REFUSED_COMMANDS: Final = {
    cmd.SessionOpen: "POST /api/v1/sessions opens one.",
    cmd.SessionResume: "A session is resumed by being asked for.",
}
BASE: Final = "/api/v1/sessions"
ONE: Final = BASE + "/{session:str}"
Workspace = Annotated[str, QueryParameter(description="Absolute path of the project; by default the directory served.")]
Limit = Annotated[int, QueryParameter(ge=1, le=1_000, description="So many at most.")]
ChangedPath = Annotated[str, QueryParameter(description="A file that waits for a verdict.")]
Context = Annotated[
    int, QueryParameter(ge=-1, le=100_000, description="Unchanged lines around hunks; -1 = the whole file.")
]


class CheckedCommand(Struct, frozen=True):
    """A command about one session, and the grant that it needs."""

    command: cmd.AnyCommand
    needs: Grant


def check_command(command: cmd.AnyCommand, session: str) -> CheckedCommand:
    """Check a client's command about a session, and fill the session in. Raises `CommandRejected`."""
    if (hint := _REFUSED_COMMANDS.get(type(command))) is not None:
        raise CommandRejected("a session is not opened by a command here.", hint=hint, code="command_refused")
    if command.session not in {"", session}:
        raise CommandRejected(f"the command is about {command.session[:100]!r}.", code="session_mismatch")
    return CheckedCommand(replace(command, session=session), find_needed_grant(command))


def find_needed_grant(command: cmd.AnyCommand) -> Grant:
    """Return the grant that a command needs."""
    if isinstance(command, cmd.SessionClose) and command.discard:
        return Grant.APPROVE
    if isinstance(command, cmd.AttachmentAdd) and _leaves_project(command.path):
        return Grant.APPROVE
    if any(names_file_or_command(model) for model in _list_models(command)):
        return Grant.APPROVE
    return Grant.DRIVE if type(command) in DRIVING else Grant.APPROVE


def _list_models(command: cmd.AnyCommand) -> tuple[str, ...]:
    """Return the models that a command names."""
    return (*filter(None, (getattr(command, "model", ""),)), *getattr(command, "models", ()))


def _leaves_project(path: str) -> bool:
    pure = PurePosixPath(path)
    return pure.is_absolute() or ".." in pure.parts or path.startswith("~")


def find_answer(events: Iterable[ev.Envelope], approval: str) -> str | None:
    """Return a sentence about the answer to an approval; None: it is not answered."""
    for envelope in events:
        if isinstance(event := envelope.event, ev.ApprovalResolved) and event.id == approval:
            note = f" ({event.note})" if event.note else ""
            return f"the {event.by} has answered {approval}: {event.decision}{note}."
    return None


class NewSession(ApiRecord, frozen=True, kw_only=True):
    """A session to be opened."""

    mode: Annotated[ev.ModeName, Meta(description="Mode to begin in.")] = "agent"
    model: Annotated[str, Meta(description="`provider/name`; by default the configured one.")] = ""
    effort: Annotated[
        Effort | Literal[""], Meta(description="How much the model thinks; by default as configured.")
    ] = ""
    workspace_path: Annotated[
        str, Meta(description="Absolute path of the project, in the directory that is served; that itself by default.")
    ] = ""


class VerdictRequest(ApiRecord, frozen=True, kw_only=True):
    """A verdict on hunks of one file, on a whole file, or on all that is pending."""

    verdict: Annotated[Verdict, Meta(description="`accept` writes to the project.")]
    path: Annotated[str, Meta(description="The file; by default every change that is not protected.")] = ""
    hunks: Annotated[tuple[str, ...], Meta(description="Ids of hunks of the file; by default all of them.")] = ()
    reason: Annotated[str, Meta(description="What the model is told of it.")] = ""
    confirmed: Annotated[bool, Meta(description="The user was told of the risk of a protected file.")] = False


class ApprovalRequest(ApiRecord, frozen=True, kw_only=True):
    """The answer to an approval: one of its `options`."""

    decision: ev.ApprovalDecision
    note: Annotated[str, Meta(description="What the model is told of it.")] = ""
    pattern: Annotated[str, Meta(description="Saved in place of the exact command, with `allow_always`.")] = ""


class RestoreRequest(ApiRecord, frozen=True, kw_only=True):
    """The part of a checkpoint to return to."""

    what: Literal["files", "conversation", "both"] = "both"


class OpenedSession(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that was opened; `seq` is its last event then."""

    session: str
    conversation_id: str
    seq: int


class SessionSummaryAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session in short. Times in ms since the epoch; `is_running`: a turn is at work; `seq`: its last event."""

    session: str
    conversation_id: str
    workspace: str
    title: str
    mode: str
    model: str
    trust: str
    policy: str
    seq: int
    started: int
    updated: int
    is_running: bool
    pending_changes: tuple[PendingChange, ...]
    pending_bulks: tuple[PendingBulk, ...]
    approvals: tuple[ev.ApprovalRequested, ...]
    questions: tuple[ev.QuestionAsked, ...]
    todos: tuple[Todo, ...]
    plan: str
    usage: Usage


class ChangesAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Changes that wait for a verdict, with their hunks."""

    changes: tuple[Change, ...]
    bulks: tuple[PendingBulk, ...]


class PlansAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The plans of a session; `current`: the path of the one at hand."""

    current: str
    plans: tuple[Plan, ...]


def summarize_session(state: SessionState) -> SessionSummaryAnswer:
    """Summarize a session."""
    return SessionSummaryAnswer(
        session=state.session_id,
        conversation_id=to_conversation_id(state.session_id),
        workspace=state.workspace,
        title=state.title,
        mode=state.mode,
        model=state.model,
        trust=state.trust_state,
        policy=state.policy.policy,
        seq=state.seq,
        started=state.started,
        updated=state.updated,
        is_running=state.current_turn is not None,
        pending_changes=list_pending_changes(state),
        pending_bulks=list_pending_bulks(state),
        approvals=tuple(state.approvals.values()),
        questions=tuple(state.questions.values()),
        todos=state.todos,
        plan=state.current_plan_path,
        usage=state.usage,
    )


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
    session: FromPath[str], service: Served, after: EventId = None, last_event_id: LastEvent = None
) -> Stream:
    """Stream every event behind `after`, as docs/dev/architecture.md names them, and go on with those that come."""
    client = await service.find(session)
    return service.streams.build_stream(_stream_events(service, client, session, parse_position(after, last_event_id)))


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
    """Encode an answer of the engine."""
    return Response(encode_record(answer), media_type=MediaType.JSON)


async def load_state(service: HttpService, session: str) -> SessionState:
    """Load the current state of a session. Raises `CommandRejected`."""
    view = SessionView(await service.find(session), session)
    try:
        await view.settle()
        return view.state
    finally:
        await view.close()


async def read_events(client: Client, session: str) -> list[ev.Envelope]:
    """Read the events of a session so far."""
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
