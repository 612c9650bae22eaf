"""Events (core -> clients): `noun.past_participle`, complete plain data; folded in order they give the session's state.

Lossy events (`LOSSY`) are never logged and may be dropped on the way; every other event has a dense `seq` in its
session. A lossy event carries the `seq` of the last durable event before it.
"""

from __future__ import annotations

from msgspec import Struct

from core.protocol.events.base import ApprovalDecision, Event, ModeName, ToolStatus, TurnEnd
from core.protocol.events.checkpoint import CheckpointCreated, CheckpointRestored, ConversationRewound, SkippedPath
from core.protocol.events.context import ContextCompacted, ContextMeasured, LoadedRule, ReasoningDropped, RulesLoaded
from core.protocol.events.debug import (
    FixJudged,
    HypothesesSet,
    HypothesisJudged,
    ProbeAdded,
    ProbeLogged,
    ProbeRemoved,
    ProbesChecked,
    ReproduceEnded,
    ReproduceRequested,
    RunRecorded,
)
from core.protocol.events.document import DocumentDelta, DocumentFinished, DocumentStarted
from core.protocol.events.notice import ErrorRaised, Notice, StreamLagged
from core.protocol.events.plan import PlanCommented, PlanCreated, PlanUpdated, TodoChanged, TodoVerified
from core.protocol.events.review import (
    ChangeConflicted,
    ChangeProposed,
    ChangeResolved,
    ChangeRevised,
    CheckRecorded,
    CommentsSent,
    EffectsRecorded,
    FilesChanged,
    FileWritten,
    HunkCommented,
    HunkEdited,
    LayersChanged,
    VerdictGiven,
    VerdictsReported,
    VerdictUndone,
)
from core.protocol.events.session import (
    EffortChanged,
    LimitsChanged,
    ModeChanged,
    ModelChanged,
    ModelUsed,
    PolicyChanged,
    RouteTaken,
    SessionClosed,
    SessionRenamed,
    SessionResumed,
    SessionStarted,
    TrustStated,
)
from core.protocol.events.subagent import (
    SubagentAction,
    SubagentFinished,
    SubagentMerged,
    SubagentMerging,
    SubagentProgressed,
    SubagentStarted,
)
from core.protocol.events.terminal import (
    BoxFound,
    CommandRan,
    JobEnded,
    JobStarted,
    ShellMoved,
    TerminalReported,
)
from core.protocol.events.tool import (
    AnswersReported,
    ApprovalRequested,
    ApprovalResolved,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolOutput,
    ToolRequested,
)
from core.protocol.events.turn import (
    AttachmentAdded,
    DraftKept,
    MessageAppended,
    PromptSuggested,
    SteerDelivered,
    SteerReturned,
    StepFinished,
    StepRetried,
    StepStarted,
    TurnFinished,
    TurnStarted,
    TurnSteered,
)

AnyEvent = (
    SessionStarted
    | SessionResumed
    | SessionRenamed
    | SessionClosed
    | ModeChanged
    | ModelChanged
    | EffortChanged
    | RouteTaken
    | ModelUsed
    | LimitsChanged
    | PolicyChanged
    | TrustStated
    | AttachmentAdded
    | TurnStarted
    | TurnSteered
    | DraftKept
    | SteerDelivered
    | SteerReturned
    | PromptSuggested
    | TurnFinished
    | StepStarted
    | StepFinished
    | StepRetried
    | MessageAppended
    | DocumentStarted
    | DocumentDelta
    | DocumentFinished
    | ToolRequested
    | ToolOutput
    | ToolFinished
    | ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | QuestionAnswered
    | AnswersReported
    | ChangeProposed
    | ChangeRevised
    | ChangeResolved
    | ChangeConflicted
    | VerdictGiven
    | VerdictUndone
    | VerdictsReported
    | HunkEdited
    | HunkCommented
    | CommentsSent
    | FileWritten
    | FilesChanged
    | LayersChanged
    | EffectsRecorded
    | CheckRecorded
    | CheckpointCreated
    | CheckpointRestored
    | ConversationRewound
    | BoxFound
    | ShellMoved
    | JobStarted
    | JobEnded
    | CommandRan
    | TerminalReported
    | PlanCreated
    | PlanUpdated
    | PlanCommented
    | TodoChanged
    | TodoVerified
    | FixJudged
    | HypothesesSet
    | HypothesisJudged
    | ProbeAdded
    | ProbeLogged
    | ProbeRemoved
    | ProbesChecked
    | ReproduceEnded
    | ReproduceRequested
    | RunRecorded
    | SubagentStarted
    | SubagentProgressed
    | SubagentFinished
    | SubagentMerging
    | SubagentMerged
    | ContextMeasured
    | ContextCompacted
    | ReasoningDropped
    | RulesLoaded
    | Notice
    | ErrorRaised
    | StreamLagged
)

LOSSY = (DocumentDelta, ToolOutput, FilesChanged, ProbeLogged, SubagentProgressed, StreamLagged)


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event on the wire and in the log. `at` in ms since the epoch; `turn` is "" outside a turn."""

    seq: int
    session: str
    at: int
    event: AnyEvent
    turn: str = ""
    v: int = 1


__all__ = [
    "LOSSY",
    "AnswersReported",
    "AnyEvent",
    "ApprovalDecision",
    "ApprovalRequested",
    "ApprovalResolved",
    "AttachmentAdded",
    "BoxFound",
    "ChangeConflicted",
    "ChangeProposed",
    "ChangeResolved",
    "ChangeRevised",
    "CheckRecorded",
    "CheckpointCreated",
    "CheckpointRestored",
    "CommandRan",
    "CommentsSent",
    "ContextCompacted",
    "ContextMeasured",
    "ConversationRewound",
    "DocumentDelta",
    "DocumentFinished",
    "DocumentStarted",
    "DraftKept",
    "EffectsRecorded",
    "EffortChanged",
    "Envelope",
    "ErrorRaised",
    "Event",
    "FileWritten",
    "FilesChanged",
    "FixJudged",
    "HunkCommented",
    "HunkEdited",
    "HypothesesSet",
    "HypothesisJudged",
    "JobEnded",
    "JobStarted",
    "LayersChanged",
    "LimitsChanged",
    "LoadedRule",
    "MessageAppended",
    "ModeChanged",
    "ModeName",
    "ModelChanged",
    "ModelUsed",
    "Notice",
    "PlanCommented",
    "PlanCreated",
    "PlanUpdated",
    "PolicyChanged",
    "ProbeAdded",
    "ProbeLogged",
    "ProbeRemoved",
    "ProbesChecked",
    "PromptSuggested",
    "QuestionAnswered",
    "QuestionAsked",
    "ReasoningDropped",
    "ReproduceEnded",
    "ReproduceRequested",
    "RouteTaken",
    "RulesLoaded",
    "RunRecorded",
    "SessionClosed",
    "SessionRenamed",
    "SessionResumed",
    "SessionStarted",
    "ShellMoved",
    "SkippedPath",
    "SteerDelivered",
    "SteerReturned",
    "StepFinished",
    "StepRetried",
    "StepStarted",
    "StreamLagged",
    "SubagentAction",
    "SubagentFinished",
    "SubagentMerged",
    "SubagentMerging",
    "SubagentProgressed",
    "SubagentStarted",
    "TerminalReported",
    "TodoChanged",
    "TodoVerified",
    "ToolFinished",
    "ToolOutput",
    "ToolRequested",
    "ToolStatus",
    "TrustStated",
    "TurnEnd",
    "TurnFinished",
    "TurnStarted",
    "TurnSteered",
    "VerdictGiven",
    "VerdictUndone",
    "VerdictsReported",
]
