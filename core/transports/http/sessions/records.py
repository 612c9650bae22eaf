"""The records of the session routes: what a client sends, and a session in short."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from core.protocol import events as ev
from core.protocol.documents import Plan, Todo
from core.protocol.messages import Effort, Usage
from core.protocol.review import Change, Verdict
from core.state.session import SessionState
from core.transports.http.chat.content import ApiRecord
from core.transports.http.chat.requests import to_conversation_id
from core.transports.response import PendingBulk, PendingChange, list_pending_bulks, list_pending_changes


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
    """Return a session in short."""
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
