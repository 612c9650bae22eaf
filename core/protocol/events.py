"""Events (core -> clients): `noun.past_participle`, complete plain data; folded in order they give the session's state.

Lossy events (`LOSSY`) are never logged and may be dropped on the way; every other event has a dense `seq` in its
session. A lossy event carries the `seq` of the last durable event before it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.documents import AnyDocument, Question, QuestionAnswer, Todo
from core.protocol.messages import Message, Usage
from core.protocol.plans import Plan
from core.protocol.review import Change, FileState, VerdictRecord

ModeName = Literal["agent", "plan", "ask", "debug"]
TurnEnd = Literal["done", "interrupted", "limit", "failed"]
ToolStatus = Literal["completed", "failed", "denied", "cancelled"]
Decision = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events."""


class SessionStarted(Event, frozen=True, kw_only=True, tag="session.started"):
    """`demo`: played by a script, to be labelled as such wherever it is shown."""

    workspace: str
    mode: ModeName
    model: str
    demo: bool = False
    title: str = ""


class SessionResumed(Event, frozen=True, kw_only=True, tag="session.resumed"):
    """`repaired` says what recovery had to mend ("" = nothing)."""

    repaired: str = ""


class SessionRenamed(Event, frozen=True, kw_only=True, tag="session.renamed"):
    title: str


class SessionClosed(Event, frozen=True, kw_only=True, tag="session.closed"):
    reason: str = ""


class ModeChanged(Event, frozen=True, kw_only=True, tag="mode.changed"):
    mode: ModeName
    by: Literal["user", "agent"] = "user"


class ModelChanged(Event, frozen=True, kw_only=True, tag="model.changed"):
    """`context_window` in tokens, 0 = not known."""

    model: str
    context_window: int = 0


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn.started"):
    """`prompt` is what the user typed; what the model is sent follows as `message.appended`."""

    prompt: str
    mode: ModeName
    model: str


class TurnSteered(Event, frozen=True, kw_only=True, tag="turn.steered"):
    """A message given while the turn runs; it reaches the model at its next step."""

    text: str


class PromptSuggested(Event, frozen=True, kw_only=True, tag="prompt.suggested"):
    """What the user may want to say next, and in which mode; a client offers it, and nothing more."""

    text: str
    mode: ModeName


class TurnFinished(Event, frozen=True, kw_only=True, tag="turn.finished"):
    reason: TurnEnd
    usage: Usage = Usage()
    steps: int = 0
    duration_ms: int = 0
    message: str = ""


class StepStarted(Event, frozen=True, kw_only=True, tag="step.started"):
    step: int


class StepFinished(Event, frozen=True, kw_only=True, tag="step.finished"):
    """`context_tokens`: how much of the model's window the step took, prompt and answer."""

    step: int
    usage: Usage
    context_tokens: int = 0


class StepRetried(Event, frozen=True, kw_only=True, tag="step.retried"):
    """A model call failed and is tried again after `delay_ms`; documents begun in it are void."""

    step: int
    attempt: int
    delay_ms: int
    message: str
    void_documents: tuple[str, ...] = ()


class MessageAppended(Event, frozen=True, kw_only=True, tag="message.appended"):
    message: Message


class DocumentStarted(Event, frozen=True, kw_only=True, tag="document.started"):
    """`kind` is the document's `type`; `title` is a one-line text to show until it is finished."""

    id: str
    kind: str
    sequence: int
    title: str = ""
    language: str = ""


class DocumentDelta(Event, frozen=True, kw_only=True, tag="document.delta"):
    id: str
    text: str


class DocumentFinished(Event, frozen=True, kw_only=True, tag="document.finished"):
    document: AnyDocument


class ToolRequested(Event, frozen=True, kw_only=True, tag="tool.requested"):
    """`arguments` is the JSON text of the model; `document` is the id of the document that shows the call."""

    call: str
    tool: str
    arguments: str
    document: str = ""
    summary: str = ""


class ToolOutput(Event, frozen=True, kw_only=True, tag="tool.output"):
    call: str
    text: str


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool.finished"):
    call: str
    tool: str
    status: ToolStatus
    duration_ms: int = 0
    summary: str = ""
    spilled: str = ""


class ApprovalRequested(Event, frozen=True, kw_only=True, tag="approval.requested"):
    """`subject` is exactly what will run, never the model's prose; `explanation` is the model's, and labelled so."""

    id: str
    call: str
    kind: Literal["command", "mode", "tool"]
    subject: str
    directory: str = "."
    explanation: str = ""
    containment: str = ""
    options: tuple[Decision, ...] = ("allow_once", "reject_once")


class ApprovalResolved(Event, frozen=True, kw_only=True, tag="approval.resolved"):
    """`by`: who resolved it; `program` when the turn ended or nobody could be asked."""

    id: str
    decision: Decision
    by: Literal["user", "program"] = "user"
    note: str = ""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question.asked"):
    id: str
    call: str
    questions: tuple[Question, ...]


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question.answered"):
    """No answers: the user dismissed the question."""

    id: str
    answers: tuple[QuestionAnswer, ...] = ()
    by: Literal["user", "program"] = "user"


class ChangeProposed(Event, frozen=True, kw_only=True, tag="change.proposed"):
    change: Change


class ChangeRevised(Event, frozen=True, kw_only=True, tag="change.revised"):
    """The same path as an earlier change: it replaces what was known of it."""

    change: Change


class ChangeResolved(Event, frozen=True, kw_only=True, tag="change.resolved"):
    """Nothing of this path is pending any more."""

    path: str


class ChangeConflicted(Event, frozen=True, kw_only=True, tag="change.conflicted"):
    path: str
    reason: str


class VerdictGiven(Event, frozen=True, kw_only=True, tag="verdict.given"):
    verdict: VerdictRecord


class VerdictUndone(Event, frozen=True, kw_only=True, tag="verdict.undone"):
    id: str
    path: str


class VerdictsReported(Event, frozen=True, kw_only=True, tag="verdicts.reported"):
    """The model has been told of these verdicts (ids)."""

    ids: tuple[str, ...]


class FileWritten(Event, frozen=True, kw_only=True, tag="file.written"):
    """A path of the workspace now holds `state` (kind absent: it was removed)."""

    path: str
    state: FileState


class FilesChanged(Event, frozen=True, kw_only=True, tag="files.changed"):
    """Lossy: paths of the workspace that changed on disk, by whomever; empty = too many to name, look again."""

    paths: tuple[str, ...] = ()


class PlanCreated(Event, frozen=True, kw_only=True, tag="plan.created"):
    plan: Plan


class PlanUpdated(Event, frozen=True, kw_only=True, tag="plan.updated"):
    plan: Plan


class TodoChanged(Event, frozen=True, kw_only=True, tag="todo.changed"):
    """The session's task list, whole. `plan` is the path of the plan that it belongs to, "" = none."""

    todos: tuple[Todo, ...]
    plan: str = ""


class ContextMeasured(Event, frozen=True, kw_only=True, tag="context.measured"):
    """Tokens: `used` of `window` (0 = not known). `estimated`: counted by us, not by the provider."""

    used: int
    window: int
    estimated: bool = False


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context.compacted"):
    """The history is replaced by `messages`; what follows is appended to them."""

    messages: tuple[Message, ...]
    before_tokens: int
    after_tokens: int


class LoadedRule(Struct, frozen=True, kw_only=True):
    path: str
    kind: Literal["always", "globs", "agents_md", "user"]
    note: str = ""


class RulesLoaded(Event, frozen=True, kw_only=True, tag="rules.loaded"):
    rules: tuple[LoadedRule, ...]


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    level: Literal["info", "warning"]
    message: str
    hint: str = ""


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error"):
    code: str
    message: str
    hint: str = ""
    retryable: bool = False


class StreamLagged(Event, frozen=True, kw_only=True, tag="stream.lagged"):
    """Transport only: lossy events were dropped for this client."""

    dropped: int


AnyEvent = (
    SessionStarted
    | SessionResumed
    | SessionRenamed
    | SessionClosed
    | ModeChanged
    | ModelChanged
    | TurnStarted
    | TurnSteered
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
    | ChangeProposed
    | ChangeRevised
    | ChangeResolved
    | ChangeConflicted
    | VerdictGiven
    | VerdictUndone
    | VerdictsReported
    | FileWritten
    | FilesChanged
    | PlanCreated
    | PlanUpdated
    | TodoChanged
    | ContextMeasured
    | ContextCompacted
    | RulesLoaded
    | Notice
    | ErrorRaised
    | StreamLagged
)

LOSSY = (DocumentDelta, ToolOutput, FilesChanged, StreamLagged)


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event on the wire and in the log. `at` in ms since the epoch; `turn` is "" outside a turn."""

    seq: int
    session: str
    at: int
    event: AnyEvent
    turn: str = ""
    v: int = 1
