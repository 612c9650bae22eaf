"""The fold: a session's state is made by its durable events, applied in order to an empty one.

Every prefix of a log folds to the state the session had at that moment; lossy events change nothing. The
pending review keeps its own fold (`review`), which gets every event too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from msgspec.structs import replace

from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import Attachment, Message, Usage
from core.protocol.plans import Plan
from core.protocol.review import Change, VerdictRecord
from core.state import models, subagents, turns
from core.state.conversation import (
    Branch,
    ConversationCheckpoint,
    Recall,
    add_checkpoint,
    refuse_recall,
    rewind_conversation,
)
from core.state.debugging import DebugState
from core.state.questions import UnreportedAnswer, add_question, mark_answers_reported, record_answer
from core.state.steering import add_steer, deliver_steers, return_steer, set_draft
from core.state.turns import TurnState


class ReviewFold(Protocol):
    """The interface of the pending review: its changes by path, and `apply` for every event."""

    @property
    def changes(self) -> Mapping[str, Change]: ...

    def apply(self, event: ev.AnyEvent) -> None: ...


class EmptyReview:
    """A review that ignores every event, for readers who need all but the review."""

    changes: Mapping[str, Change] = MappingProxyType({})

    def apply(self, event: ev.AnyEvent) -> None:
        """Ignore the event."""


@dataclass(slots=True, kw_only=True)
class SessionState:
    """The state of a session at one moment. `seq` is that of the last durable event.

    `jobs` run now, `job_count` were ever started; `unreported_commands` and `pending_steers` are not known to
    the model yet. Of the conversation, `messages` alone are held: `message_branch` names their records, and
    `recall` reads others. `turns` are those of the conversation as it stands, `left_turns` those that were
    left, by `seq`; `command_history` holds every command, in order.
    """

    review: ReviewFold = field(default_factory=EmptyReview)
    session_id: str = ""
    seq: int = 0
    workspace: str = ""
    title: str = ""
    mode: ev.ModeName = "agent"
    model: str = ""
    limits: ev.LimitsChanged = field(default_factory=ev.LimitsChanged)
    policy: ev.PolicyChanged = field(default_factory=ev.PolicyChanged)
    is_demo: bool = False
    is_private: bool = False
    is_closed: bool = False
    started: int = 0
    updated: int = 0
    context_window: int = 0
    context_used: int = 0
    dropped_reasoning_count: int = 0
    cache_miss: str = ""
    turns: list[TurnState] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    pending_changes: dict[str, Change] = field(default_factory=dict)
    unreported_by_id: dict[str, VerdictRecord] = field(default_factory=dict)
    reported_verdicts: dict[str, VerdictRecord] = field(default_factory=dict)
    undone_by_id: dict[str, VerdictRecord] = field(default_factory=dict)
    edited_hunks: dict[str, ev.HunkEdited] = field(default_factory=dict)
    current_plan_path: str = ""
    plans: dict[str, Plan] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    todos_plan_path: str = ""
    approvals: dict[str, ev.ApprovalRequested] = field(default_factory=dict)
    questions: dict[str, ev.QuestionAsked] = field(default_factory=dict)
    unreported_answers: dict[str, UnreportedAnswer] = field(default_factory=dict)
    pending_steers: dict[str, str] = field(default_factory=dict)
    draft: str = ""
    attachments: dict[str, Attachment] = field(default_factory=dict)
    rules: tuple[ev.LoadedRule, ...] = ()
    tier: str = ""
    trust_state: str = "trusted"
    shell: ev.ShellMoved = field(default_factory=ev.ShellMoved)
    jobs: dict[str, ev.JobStarted] = field(default_factory=dict)
    job_count: int = 0
    unreported_commands: dict[str, ev.JobEnded | ev.CommandRan] = field(default_factory=dict)
    checkpoints: dict[str, ConversationCheckpoint] = field(default_factory=dict)
    recall: Recall = field(default=refuse_recall, compare=False)
    message_branch: Branch = field(default_factory=Branch)
    turn_branch: Branch = field(default_factory=Branch)
    left_turns: dict[int, TurnState] = field(default_factory=dict)
    command_history: dict[str, None] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    model_choices: models.ModelChoices = field(default_factory=models.ModelChoices)
    debug: DebugState = field(default_factory=DebugState)
    subagents: dict[str, subagents.SubagentState] = field(default_factory=dict)

    @property
    def current_turn(self) -> TurnState | None:
        """The turn that runs (or that a dead engine left open)."""
        return self.turns[-1] if self.turns and not self.turns[-1].reason else None

    @property
    def changes(self) -> Mapping[str, Change]:
        """Pending changes by path."""
        return self.review.changes

    @property
    def unreported_verdicts(self) -> Sequence[VerdictRecord]:
        """Standing verdicts that the model does not know, oldest first."""
        return tuple(self.unreported_by_id.values())

    @property
    def undone_verdicts(self) -> Sequence[VerdictRecord]:
        """Verdicts that the model knows and that were undone since, oldest first."""
        return tuple(self.undone_by_id.values())

    @property
    def unreported_edits(self) -> Sequence[ev.HunkEdited]:
        """Hunks that the user edited and the model does not know, oldest first."""
        return tuple(self.edited_hunks.values())

    def apply(self, envelope: ev.Envelope) -> None:
        """Apply one event. Lossy events and repeated ones change nothing."""
        event = envelope.event
        if isinstance(event, ev.LossyEvent) or envelope.seq <= self.seq:
            return
        self.seq, self.updated, self.session_id = envelope.seq, envelope.at, envelope.session
        self.started = self.started or envelope.at
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, envelope, event)
        self.debug.apply(event, self.mode, self.changes)
        self.review.apply(event)


def fold_events(envelopes: list[ev.Envelope], review: ReviewFold | None = None) -> SessionState:
    """Return the state after `envelopes`."""
    records = {each.seq: each for each in envelopes}
    state = SessionState(review=review or EmptyReview(), recall=lambda wanted: [records[seq] for seq in wanted])
    for envelope in envelopes:
        state.apply(envelope)
    return state


# One small function per event that changes more than the pending review; the table at the end says which is whose.
def _start_session(state: SessionState, _: ev.Envelope, event: ev.SessionStarted) -> None:
    state.workspace, state.mode, state.model = event.workspace, event.mode, event.model
    state.is_demo, state.title, state.is_private = event.demo, event.title, event.private


def _resume_session(state: SessionState, _: ev.Envelope, __: ev.SessionResumed) -> None:
    state.is_closed = False


def _rename_session(state: SessionState, _: ev.Envelope, event: ev.SessionRenamed) -> None:
    state.title = event.title


def _close_session(state: SessionState, _: ev.Envelope, __: ev.SessionClosed) -> None:
    state.is_closed = True


def _set_mode(state: SessionState, _: ev.Envelope, event: ev.ModeChanged) -> None:
    state.mode = event.mode


def _set_limits(state: SessionState, _: ev.Envelope, event: ev.LimitsChanged) -> None:
    state.limits = event


def _set_policy(state: SessionState, _: ev.Envelope, event: ev.PolicyChanged) -> None:
    state.policy = event


def _set_trust(state: SessionState, _: ev.Envelope, event: ev.TrustStated) -> None:
    state.trust_state = event.state


def _add_approval(state: SessionState, _: ev.Envelope, event: ev.ApprovalRequested) -> None:
    state.approvals[event.id] = event


def _drop_approval(state: SessionState, _: ev.Envelope, event: ev.ApprovalResolved) -> None:
    state.approvals.pop(event.id, None)


def _set_change(state: SessionState, _: ev.Envelope, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    state.pending_changes[event.change.path] = event.change
    subagents.record_merged_change(state, event)


def _drop_change(state: SessionState, _: ev.Envelope, event: ev.ChangeResolved) -> None:
    state.pending_changes.pop(event.path, None)


def _mark_conflict(state: SessionState, _: ev.Envelope, event: ev.ChangeConflicted) -> None:
    if (change := state.pending_changes.get(event.path)) is not None:
        state.pending_changes[event.path] = replace(change, conflict=event.reason)


def _add_verdict(state: SessionState, _: ev.Envelope, event: ev.VerdictGiven) -> None:
    if event.verdict.settled is None:
        state.unreported_by_id[event.verdict.id] = event.verdict


def _undo_verdict(state: SessionState, _: ev.Envelope, event: ev.VerdictUndone) -> None:
    state.unreported_by_id.pop(event.id, None)
    if known := state.reported_verdicts.pop(event.id, None):
        state.undone_by_id[event.id] = known


def _mark_verdicts_reported(state: SessionState, _: ev.Envelope, event: ev.VerdictsReported) -> None:
    """Record that the model knows these verdicts, undone verdicts and edits."""
    for verdict in event.ids:
        if fresh := state.unreported_by_id.pop(verdict, None):
            state.reported_verdicts[verdict] = fresh
        state.undone_by_id.pop(verdict, None)
        state.edited_hunks.pop(verdict, None)


def _add_edited_hunk(state: SessionState, _: ev.Envelope, event: ev.HunkEdited) -> None:
    state.edited_hunks[event.id] = event


def _set_plan(state: SessionState, _: ev.Envelope, event: ev.PlanCreated | ev.PlanUpdated) -> None:
    state.current_plan_path = event.plan.path
    state.plans[event.plan.path] = event.plan


def _set_todos(state: SessionState, _: ev.Envelope, event: ev.TodoChanged) -> None:
    state.todos, state.todos_plan_path = event.todos, event.plan
    subagents.close_subagents(state, event)


def _set_context(state: SessionState, _: ev.Envelope, event: ev.ContextMeasured) -> None:
    state.context_used = event.used
    state.context_window = event.window or state.context_window
    state.dropped_reasoning_count, state.cache_miss = event.dropped_reasoning, event.cache_miss


def _set_rules(state: SessionState, _: ev.Envelope, event: ev.RulesLoaded) -> None:
    state.rules = event.rules


def _set_tier(state: SessionState, _: ev.Envelope, event: ev.BoxFound) -> None:
    state.tier = event.tier


def _set_shell(state: SessionState, _: ev.Envelope, event: ev.ShellMoved) -> None:
    state.shell = event


def _start_job(state: SessionState, _: ev.Envelope, event: ev.JobStarted) -> None:
    state.jobs[event.id] = event
    state.job_count += 1


def _end_job(state: SessionState, _: ev.Envelope, event: ev.JobEnded) -> None:
    state.jobs.pop(event.id, None)
    state.unreported_commands[event.id] = event


def _add_command(state: SessionState, _: ev.Envelope, event: ev.CommandRan) -> None:
    state.unreported_commands[event.id] = event


def _mark_terminal_reported(state: SessionState, _: ev.Envelope, event: ev.TerminalReported) -> None:
    for each in event.ids:
        state.unreported_commands.pop(each, None)


_STEPS: dict[type[ev.Event], Callable[[SessionState, ev.Envelope, Any], None]] = {
    ev.SessionStarted: _start_session,
    ev.SessionResumed: _resume_session,
    ev.SessionRenamed: _rename_session,
    ev.SessionClosed: _close_session,
    ev.ModeChanged: _set_mode,
    ev.ModelChanged: models.set_model,
    ev.EffortChanged: models.set_effort,
    ev.RouteTaken: models.set_route,
    ev.ModelUsed: models.add_model_usage,
    ev.LimitsChanged: _set_limits,
    ev.PolicyChanged: _set_policy,
    ev.TrustStated: _set_trust,
    ev.AttachmentAdded: turns.add_attachment,
    ev.TurnStarted: turns.start_turn,
    ev.TurnSteered: add_steer,
    ev.SteerDelivered: deliver_steers,
    ev.SteerReturned: return_steer,
    ev.DraftKept: set_draft,
    ev.TurnFinished: turns.finish_turn,
    ev.StepFinished: turns.finish_step,
    ev.StepRetried: turns.void_documents,
    ev.MessageAppended: turns.append_message,
    ev.ContextCompacted: turns.compact_history,
    ev.ReasoningDropped: turns.drop_reasoning,
    ev.DocumentStarted: turns.start_document,
    ev.DocumentFinished: turns.finish_document,
    ev.ToolRequested: turns.start_call,
    ev.ToolFinished: turns.finish_call,
    ev.ApprovalRequested: _add_approval,
    ev.ApprovalResolved: _drop_approval,
    ev.QuestionAsked: add_question,
    ev.QuestionAnswered: record_answer,
    ev.AnswersReported: mark_answers_reported,
    ev.ChangeProposed: _set_change,
    ev.ChangeRevised: _set_change,
    ev.ChangeResolved: _drop_change,
    ev.ChangeConflicted: _mark_conflict,
    ev.VerdictGiven: _add_verdict,
    ev.VerdictUndone: _undo_verdict,
    ev.VerdictsReported: _mark_verdicts_reported,
    ev.HunkEdited: _add_edited_hunk,
    ev.PlanCreated: _set_plan,
    ev.PlanUpdated: _set_plan,
    ev.TodoChanged: _set_todos,
    ev.ContextMeasured: _set_context,
    ev.RulesLoaded: _set_rules,
    ev.BoxFound: _set_tier,
    ev.ShellMoved: _set_shell,
    ev.JobStarted: _start_job,
    ev.JobEnded: _end_job,
    ev.CommandRan: _add_command,
    ev.TerminalReported: _mark_terminal_reported,
    ev.CheckpointCreated: add_checkpoint,
    ev.ConversationRewound: rewind_conversation,
    ev.SubagentStarted: subagents.start_subagent,
    ev.SubagentFinished: subagents.finish_subagent,
    ev.SubagentMerging: subagents.begin_merge,
    ev.SubagentMerged: subagents.finish_merge,
    ev.CheckpointRestored: subagents.drop_merged_subagents,
}
