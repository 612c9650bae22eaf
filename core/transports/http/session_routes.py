"""The session routes: everything that the screen can do, thinly over submit, events and query.

`DRIVING` lists the commands that need the `drive` token: those that work with the agent and its shadow. A command that
is not listed needs the `approve` token.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.requests import Request

from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.client import Client
from core.protocol.documents import Plan, Todo
from core.protocol.evidence import CheckEvidence
from core.protocol.messages import Effort, Usage
from core.protocol.renames import list_changes
from core.protocol.review import Change, Verdict
from core.providers.registry import names_file_or_command
from core.state.goals import GOAL_QUESTION
from core.state.session import SessionState
from core.text.well_formed import encode_record
from core.transports.http.access import Grant
from core.transports.http.chat.requests import ApiRecord, to_conversation_id
from core.transports.http.routing import HttpRoute
from core.transports.http.service import HttpService, require_grant, require_model_grant
from core.transports.http.sse import EventId, Events, LastEvent, encode_event, parse_position
from core.transports.response import (
    HunkReport,
    PendingBulk,
    PendingChange,
    list_pending_bulks,
    list_pending_changes,
    list_reports,
)
from core.transports.session_client import SessionView

# Commands that only work with the agent and its shadow. A command that writes to the project or the settings, runs a
# command of the user, grants rights or raises a limit is not among them.
DRIVING: Final[frozenset[type]] = frozenset(
    {
        cmd.AsideAsk,
        cmd.AsideStop,
        cmd.AttachmentAdd,
        cmd.BackgroundDelete,
        cmd.BackgroundMessage,
        cmd.BackgroundStart,
        cmd.BackgroundStop,
        cmd.BestRun,
        cmd.BestTake,
        cmd.ChangesProve,
        cmd.CommentsSend,
        cmd.CommitDraft,
        cmd.CommitSort,
        cmd.ContextCompact,
        cmd.ContextDrop,
        cmd.ContextWarm,
        cmd.DraftKeep,
        cmd.EffortSet,
        cmd.TierSet,
        cmd.FindingsDismiss,
        cmd.FindingsFix,
        cmd.GoalStop,
        cmd.HunkComment,
        cmd.HunkTestRequest,
        cmd.HunkEdit,
        cmd.HunkJoin,
        cmd.HunkSplit,
        cmd.JobAbsorb,
        cmd.JobRestart,
        cmd.JobStop,
        cmd.LoopStart,
        cmd.LoopStop,
        cmd.ModeSet,
        cmd.ModelSet,
        cmd.PlanBuild,
        cmd.PlanComment,
        cmd.PlanEdit,
        cmd.ProofStop,
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
ONE: Final = BASE + "/{session}"
Workspace = Annotated[str, Meta(description="Absolute path of the project; by default the directory served.")]
Limit = Annotated[int, Meta(ge=1, le=1_000, description="So many at most.")]
ChangedPath = Annotated[str, Meta(description="A file that waits for a verdict.")]
Context = Annotated[int, Meta(ge=-1, le=100_000, description="Unchanged lines around hunks; -1 = the whole file.")]


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
    if _list_unasked(command):
        return Grant.APPROVE
    if isinstance(command, cmd.QuestionReply) and any(answer.question == GOAL_QUESTION for answer in command.answers):
        return Grant.APPROVE
    return Grant.DRIVE if type(command) in DRIVING else Grant.APPROVE


def _list_unasked(command: cmd.AnyCommand) -> tuple[str, ...]:
    """List the shell commands in a command that are run unasked, as those of `command.run` are."""
    shell_commands = (getattr(command, "check", ""), command.command if isinstance(command, cmd.LoopStart) else "")
    return tuple(filter(None, shell_commands))


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
    """A session. Times in ms since the epoch; `is_running`: a turn is at work; `seq`: its last event."""

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
    ports: tuple[ev.OpenPort, ...]
    usage: Usage


class ChangesAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Pending changes with their hunks. `evidence`: what the check says of each, by the path of the change; `proof`:
    what is known of the check, null = it was not asked."""

    changes: tuple[Change, ...]
    bulks: tuple[PendingBulk, ...]
    evidence: dict[str, tuple[HunkReport, ...]]
    proof: CheckEvidence | None


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
        ports=state.ports,
        usage=state.usage,
    )


async def list_sessions(service: HttpService, limit: Limit = 50, workspace: Workspace = "") -> q.SessionsAnswer:
    """Return the sessions with title, time, model and number of pending changes."""
    client = service.engines.get(service.find_directory(workspace))
    return await service.ask(client, q.SessionsQuery(limit=limit), q.SessionsAnswer)


async def open_session(request: Request, data: NewSession, service: HttpService) -> OpenedSession:
    """Open a new, empty session."""
    require_model_grant(request.scope, data.model)
    command = cmd.SessionOpen(mode=data.mode, model=data.model, effort=data.effort)
    _, ack = await service.engines.open(service.find_directory(data.workspace_path), command)
    conversation = f"conv_{ack.session.partition('_')[2]}"
    return OpenedSession(session=ack.session, conversation_id=conversation, seq=ack.seq)


async def read_session(session: str, service: HttpService) -> SessionSummaryAnswer:
    """Return its mode, model, pending changes, and open approvals and questions."""
    return summarize_session(await load_state(service, session))


async def follow_session(
    session: str, service: HttpService, after: EventId = None, last_event_id: LastEvent = None
) -> Events:
    """Stream every event after `after`, then those that follow. docs/dev/architecture.md lists them."""
    client = await service.find(session)
    return service.streams.build_stream(_stream_events(service, client, session, parse_position(after, last_event_id)))


async def list_hunks(session: str, service: HttpService) -> ChangesAnswer:
    """Return the pending changes."""
    state = await load_state(service, session)
    return ChangesAnswer(
        changes=tuple(state.changes.values()),
        bulks=list_pending_bulks(state),
        evidence={change.path: list_reports(state, change) for change in list_changes(state.changes)},
        proof=state.review.proof.check,
    )


async def read_diff(session: str, service: HttpService, path: ChangedPath, context: Context = 3) -> q.DiffAnswer:
    """Return a pending change with its lines."""
    query = q.DiffQuery(session=session, path=path, context=context)
    answer = await service.ask(await service.find(session), query, q.DiffAnswer)
    if answer.diff is None:
        raise CommandRejected(f"nothing is pending for {path[:300]!r}.", code="change_unknown")
    return answer


async def list_plans(session: str, service: HttpService) -> PlansAnswer:
    """Return the plans that the session wrote or works on."""
    state = await load_state(service, session)
    return PlansAnswer(current=state.current_plan_path, plans=tuple(state.plans.values()))


async def list_checkpoints(session: str, service: HttpService) -> q.CheckpointsAnswer:
    """Return the checkpoints, oldest first."""
    query = q.CheckpointsQuery(session=session)
    return await service.ask(await service.find(session), query, q.CheckpointsAnswer)


async def restore_checkpoint(session: str, checkpoint: str, data: RestoreRequest, service: HttpService) -> cmd.Ack:
    """Rewind to a checkpoint, including files that were accepted since."""
    command = cmd.CheckpointRestore(session=session, id=checkpoint, what=data.what)
    return await service.submit(await service.find(session), command)


async def send_command(request: Request, session: str, data: cmd.AnyCommand, service: HttpService) -> cmd.Ack:
    """Send any command of the protocol. What accepts, approves or trusts needs the `approve` token."""
    command = check_command(data, session)
    require_grant(request.scope, command.needs)
    ack = await service.submit(await service.find(session), command.command)
    if isinstance(data, cmd.SessionClose):
        service.engines.forget(session)
    return ack


async def send_query(session: str, data: q.AnyQuery, service: HttpService) -> q.AnyAnswer:
    """Send any query of the protocol; it has no effect."""
    return await service.ask(await service.find(session), replace(data, session=session), q.Answer)


async def give_verdict(session: str, data: VerdictRequest, service: HttpService) -> cmd.Ack:
    """Accept or reject hunks. Accepted ones are written to the project."""
    command = cmd.HunkResolve(
        session=session,
        path=data.path,
        verdict=data.verdict,
        hunks=data.hunks,
        reason=data.reason,
        confirmed=data.confirmed,
    )
    return await service.submit(await service.find(session), command)


async def answer_approval(session: str, approval: str, data: ApprovalRequest, service: HttpService) -> cmd.Ack:
    """Allow or refuse a call. A second answer is refused and returns the first."""
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


async def list_models(service: HttpService, discover: bool = True) -> q.ModelsAnswer:
    """Return the models of the providers that have a key, and of running local servers."""
    client = service.engines.get(service.directory)
    return await service.ask(client, q.ModelsQuery(discover=discover), q.ModelsAnswer)


async def read_settings(service: HttpService) -> q.SettingsAnswer:
    """Return the settings of the screen, without keys."""
    return await service.ask(service.engines.get(service.directory), q.SettingsQuery(), q.SettingsAnswer)


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


ROUTES: Final[tuple[HttpRoute, ...]] = (
    HttpRoute("GET", BASE, list_sessions, Grant.READ, "Sessions of a project, latest first"),
    HttpRoute("POST", BASE, open_session, Grant.DRIVE, "Open a session", 201),
    HttpRoute("GET", ONE, read_session, Grant.READ, "A session"),
    HttpRoute("GET", ONE + "/events", follow_session, Grant.READ, "Events of a session"),
    HttpRoute("GET", ONE + "/hunks", list_hunks, Grant.READ, "Pending changes with their hunks"),
    HttpRoute("GET", ONE + "/diff", read_diff, Grant.READ, "The diff of a change"),
    HttpRoute("GET", ONE + "/plans", list_plans, Grant.READ, "Plans of a session"),
    HttpRoute("GET", ONE + "/checkpoints", list_checkpoints, Grant.READ, "Checkpoints of a session"),
    HttpRoute(
        "POST",
        ONE + "/checkpoints/{checkpoint}/restore",
        restore_checkpoint,
        Grant.APPROVE,
        "Rewind to a checkpoint",
        202,
    ),
    HttpRoute("POST", ONE + "/commands", send_command, Grant.DRIVE, "Send a command", 202),
    HttpRoute("POST", ONE + "/queries", send_query, Grant.READ, "Send a query"),
    HttpRoute("POST", ONE + "/verdicts", give_verdict, Grant.APPROVE, "Accept or reject", 202),
    HttpRoute("POST", ONE + "/approvals/{approval}", answer_approval, Grant.APPROVE, "Answer an approval", 202),
    HttpRoute("GET", "/api/v1/models", list_models, Grant.READ, "Available models"),
    HttpRoute("GET", "/api/v1/settings", read_settings, Grant.READ, "Settings of the user"),
)
