"""The fold: a session's state is what its durable events, applied in order, make of nothing.

Every prefix of a log folds to the state the session had at that moment; lossy events change nothing. The pending
review keeps its own fold (`review`), which is handed every event too.
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
from core.sessions import models, subagents, turns
from core.sessions.asking import Untold, answered, asked, reported
from core.sessions.debugging import DebugState
from core.sessions.rewind import Branch, Mark, Recall, marked, nothing_to_recall, rewound
from core.sessions.steering import delivered, kept, returned, steered
from core.sessions.turns import TurnState


class ReviewFold(Protocol):
    """What the state asks of the pending review: its changes by path, and to take every event in."""

    @property
    def changes(self) -> Mapping[str, Change]: ...

    def apply(self, event: ev.AnyEvent) -> None: ...


class NoReview:
    """For readers who ask about everything but the review."""

    changes: Mapping[str, Change] = MappingProxyType({})

    def apply(self, event: ev.AnyEvent) -> None:
        """Takes the event in and keeps nothing of it."""


@dataclass(slots=True, kw_only=True)
class SessionState:
    """Everything a session is, at one moment. `seq` is that of the last durable event. `jobs` run now, `job_count` were
    ever begun; `terminal_news` and `steers` are what the model was not told yet. `marks` are the checkpoints.

    Of what was said, `messages` alone are held: `message_branch` names their records, and `recall` brings back others.
    `turns` are those of the conversation as it stands, `left_turns` those that were left, by `seq`; `commands` are all
    that ever ran, in order."""

    review: ReviewFold = field(default_factory=NoReview)
    id: str = ""
    seq: int = 0
    workspace: str = ""
    title: str = ""
    mode: ev.ModeName = "agent"
    model: str = ""
    limits: ev.LimitsChanged = field(default_factory=ev.LimitsChanged)
    policy: ev.PolicyChanged = field(default_factory=ev.PolicyChanged)
    demo: bool = False
    private: bool = False
    closed: bool = False
    started: int = 0
    updated: int = 0
    context_window: int = 0
    context_used: int = 0
    dropped_reasoning: int = 0
    cache_miss: str = ""
    turns: list[TurnState] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    pending: dict[str, Change] = field(default_factory=dict)
    unreported: dict[str, VerdictRecord] = field(default_factory=dict)
    reported: dict[str, VerdictRecord] = field(default_factory=dict)
    taken_back: dict[str, VerdictRecord] = field(default_factory=dict)
    edited: dict[str, ev.HunkEdited] = field(default_factory=dict)
    plan: str = ""
    plans: dict[str, Plan] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    plan_path: str = ""
    approvals: dict[str, ev.ApprovalRequested] = field(default_factory=dict)
    questions: dict[str, ev.QuestionAsked] = field(default_factory=dict)
    untold_answers: dict[str, Untold] = field(default_factory=dict)
    steers: dict[str, str] = field(default_factory=dict)
    draft: str = ""
    attached: dict[str, Attachment] = field(default_factory=dict)
    rules: tuple[ev.LoadedRule, ...] = ()
    tier: str = ""
    trust: str = "trusted"
    shell: ev.ShellMoved = field(default_factory=ev.ShellMoved)
    jobs: dict[str, ev.JobStarted] = field(default_factory=dict)
    job_count: int = 0
    terminal_news: dict[str, ev.JobEnded | ev.CommandRan] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    recall: Recall = field(default=nothing_to_recall, compare=False)
    message_branch: Branch = field(default_factory=Branch)
    turn_branch: Branch = field(default_factory=Branch)
    left_turns: dict[int, TurnState] = field(default_factory=dict)
    commands: dict[str, None] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    chosen: models.Chosen = field(default_factory=models.Chosen)
    debug: DebugState = field(default_factory=DebugState)
    subagents: dict[str, subagents.Subagent] = field(default_factory=dict)

    @property
    def turn(self) -> TurnState | None:
        """The turn that runs (or that a dead engine left open)."""
        return self.turns[-1] if self.turns and not self.turns[-1].reason else None

    @property
    def changes(self) -> Mapping[str, Change]:
        """Pending changes by path."""
        return self.review.changes

    @property
    def unreported_verdicts(self) -> Sequence[VerdictRecord]:
        """Standing verdicts that the model has not been told of, oldest first."""
        return tuple(self.unreported.values())

    @property
    def verdicts_taken_back(self) -> Sequence[VerdictRecord]:
        """Verdicts that the model was told of and that were undone since, oldest first."""
        return tuple(self.taken_back.values())

    @property
    def unreported_edits(self) -> Sequence[ev.HunkEdited]:
        """Hunks that the user edited and the model has not been told of, oldest first."""
        return tuple(self.edited.values())

    def apply(self, envelope: ev.Envelope) -> None:
        """Take one event in. Lossy events and repeated ones change nothing."""
        event = envelope.event
        if isinstance(event, ev.LOSSY) or envelope.seq <= self.seq:
            return
        self.seq, self.updated, self.id = envelope.seq, envelope.at, envelope.session
        self.started = self.started or envelope.at
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, envelope, event)
        self.debug.apply(event, self.mode, self.changes)
        self.review.apply(event)


def fold(envelopes: list[ev.Envelope], review: ReviewFold | None = None) -> SessionState:
    """The state after `envelopes`."""
    records = {each.seq: each for each in envelopes}
    state = SessionState(review=review or NoReview(), recall=lambda wanted: [records[seq] for seq in wanted])
    for envelope in envelopes:
        state.apply(envelope)
    return state


# One small function per event that changes more than the pending review; the table at the end says which is whose.
def _started(state: SessionState, _: ev.Envelope, event: ev.SessionStarted) -> None:
    state.workspace, state.mode, state.model = event.workspace, event.mode, event.model
    state.demo, state.title, state.private = event.demo, event.title, event.private


def _resumed(state: SessionState, _: ev.Envelope, __: ev.SessionResumed) -> None:
    state.closed = False


def _renamed(state: SessionState, _: ev.Envelope, event: ev.SessionRenamed) -> None:
    state.title = event.title


def _closed(state: SessionState, _: ev.Envelope, __: ev.SessionClosed) -> None:
    state.closed = True


def _mode(state: SessionState, _: ev.Envelope, event: ev.ModeChanged) -> None:
    state.mode = event.mode


def _limits(state: SessionState, _: ev.Envelope, event: ev.LimitsChanged) -> None:
    state.limits = event


def _policy(state: SessionState, _: ev.Envelope, event: ev.PolicyChanged) -> None:
    state.policy = event


def _trust(state: SessionState, _: ev.Envelope, event: ev.TrustStated) -> None:
    state.trust = event.state


def _approval(state: SessionState, _: ev.Envelope, event: ev.ApprovalRequested) -> None:
    state.approvals[event.id] = event


def _approved(state: SessionState, _: ev.Envelope, event: ev.ApprovalResolved) -> None:
    state.approvals.pop(event.id, None)


def _change(state: SessionState, _: ev.Envelope, event: ev.ChangeProposed | ev.ChangeRevised) -> None:
    state.pending[event.change.path] = event.change
    subagents.joined(state, event)


def _change_resolved(state: SessionState, _: ev.Envelope, event: ev.ChangeResolved) -> None:
    state.pending.pop(event.path, None)


def _conflicted(state: SessionState, _: ev.Envelope, event: ev.ChangeConflicted) -> None:
    if (change := state.pending.get(event.path)) is not None:
        state.pending[event.path] = replace(change, conflict=event.reason)


def _verdict(state: SessionState, _: ev.Envelope, event: ev.VerdictGiven) -> None:
    if event.verdict.settled is None:
        state.unreported[event.verdict.id] = event.verdict


def _verdict_undone(state: SessionState, _: ev.Envelope, event: ev.VerdictUndone) -> None:
    state.unreported.pop(event.id, None)
    if known := state.reported.pop(event.id, None):
        state.taken_back[event.id] = known


def _verdicts_reported(state: SessionState, _: ev.Envelope, event: ev.VerdictsReported) -> None:
    """The model knows now: of a verdict, or that one which it knew of no longer stands."""
    for verdict in event.ids:
        if fresh := state.unreported.pop(verdict, None):
            state.reported[verdict] = fresh
        state.taken_back.pop(verdict, None)
        state.edited.pop(verdict, None)


def _edited(state: SessionState, _: ev.Envelope, event: ev.HunkEdited) -> None:
    state.edited[event.id] = event


def _plan(state: SessionState, _: ev.Envelope, event: ev.PlanCreated | ev.PlanUpdated) -> None:
    state.plan = event.plan.path
    state.plans[event.plan.path] = event.plan


def _todos(state: SessionState, _: ev.Envelope, event: ev.TodoChanged) -> None:
    state.todos, state.plan_path = event.todos, event.plan
    subagents.listed(state, event)


def _context(state: SessionState, _: ev.Envelope, event: ev.ContextMeasured) -> None:
    state.context_used = event.used
    state.context_window = event.window or state.context_window
    state.dropped_reasoning, state.cache_miss = event.dropped_reasoning, event.cache_miss


def _rules(state: SessionState, _: ev.Envelope, event: ev.RulesLoaded) -> None:
    state.rules = event.rules


def _box(state: SessionState, _: ev.Envelope, event: ev.BoxFound) -> None:
    state.tier = event.tier


def _shell(state: SessionState, _: ev.Envelope, event: ev.ShellMoved) -> None:
    state.shell = event


def _job_started(state: SessionState, _: ev.Envelope, event: ev.JobStarted) -> None:
    state.jobs[event.id] = event
    state.job_count += 1


def _job_ended(state: SessionState, _: ev.Envelope, event: ev.JobEnded) -> None:
    state.jobs.pop(event.id, None)
    state.terminal_news[event.id] = event


def _command_ran(state: SessionState, _: ev.Envelope, event: ev.CommandRan) -> None:
    state.terminal_news[event.id] = event


def _terminal_reported(state: SessionState, _: ev.Envelope, event: ev.TerminalReported) -> None:
    for each in event.ids:
        state.terminal_news.pop(each, None)


_STEPS: dict[type[ev.Event], Callable[[SessionState, ev.Envelope, Any], None]] = {
    ev.SessionStarted: _started,
    ev.SessionResumed: _resumed,
    ev.SessionRenamed: _renamed,
    ev.SessionClosed: _closed,
    ev.ModeChanged: _mode,
    ev.ModelChanged: models.model_changed,
    ev.EffortChanged: models.effort_changed,
    ev.RouteTaken: models.route_taken,
    ev.ModelUsed: models.model_used,
    ev.LimitsChanged: _limits,
    ev.PolicyChanged: _policy,
    ev.TrustStated: _trust,
    ev.AttachmentAdded: turns.attachment_added,
    ev.TurnStarted: turns.turn_started,
    ev.TurnSteered: steered,
    ev.SteerDelivered: delivered,
    ev.SteerReturned: returned,
    ev.DraftKept: kept,
    ev.TurnFinished: turns.turn_finished,
    ev.StepFinished: turns.step_finished,
    ev.StepRetried: turns.step_retried,
    ev.MessageAppended: turns.message_appended,
    ev.ContextCompacted: turns.compacted,
    ev.ReasoningDropped: turns.reasoning_dropped,
    ev.DocumentStarted: turns.document_started,
    ev.DocumentFinished: turns.document_finished,
    ev.ToolRequested: turns.tool_requested,
    ev.ToolFinished: turns.tool_finished,
    ev.ApprovalRequested: _approval,
    ev.ApprovalResolved: _approved,
    ev.QuestionAsked: asked,
    ev.QuestionAnswered: answered,
    ev.AnswersReported: reported,
    ev.ChangeProposed: _change,
    ev.ChangeRevised: _change,
    ev.ChangeResolved: _change_resolved,
    ev.ChangeConflicted: _conflicted,
    ev.VerdictGiven: _verdict,
    ev.VerdictUndone: _verdict_undone,
    ev.VerdictsReported: _verdicts_reported,
    ev.HunkEdited: _edited,
    ev.PlanCreated: _plan,
    ev.PlanUpdated: _plan,
    ev.TodoChanged: _todos,
    ev.ContextMeasured: _context,
    ev.RulesLoaded: _rules,
    ev.BoxFound: _box,
    ev.ShellMoved: _shell,
    ev.JobStarted: _job_started,
    ev.JobEnded: _job_ended,
    ev.CommandRan: _command_ran,
    ev.TerminalReported: _terminal_reported,
    ev.CheckpointCreated: marked,
    ev.ConversationRewound: rewound,
    ev.SubagentStarted: subagents.started,
    ev.SubagentFinished: subagents.finished,
    ev.SubagentMerging: subagents.merging,
    ev.SubagentMerged: subagents.merged,
    ev.CheckpointRestored: subagents.restored,
}
