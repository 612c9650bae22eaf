"""Events of tool calls, and of what they ask the user."""

from __future__ import annotations

from typing import Literal

from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events.base import ApprovalDecision, Event, LossyEvent, ToolStatus


class ToolRequested(Event, frozen=True, kw_only=True, tag="tool.requested"):
    """`arguments` is the JSON text of the model; `document` is the id of the document that shows the call."""

    call: str
    tool: str
    arguments: str
    document: str = ""
    summary: str = ""


class ToolOutput(LossyEvent, frozen=True, kw_only=True, tag="tool.output"):
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
    """`subject` is exactly what will run, never the model's prose; `explanation` is the model's, and labelled so.

    `reason`: why it is asked about. A yes binds the subject, directory, names of variables (`environment`), mode and
    hosts that can be reached (`network`) together: `digest` is over all of them. With kind "network", a command that
    has ended wanted the hosts in `subject`, one a line; a yes runs it again. `subagent`: who asks, "" = the agent.
    """

    id: str
    call: str
    kind: Literal["command", "mode", "tool", "network"]
    subject: str
    directory: str = "."
    explanation: str = ""
    containment: str = ""
    options: tuple[ApprovalDecision, ...] = ("allow_once", "reject_once")
    reason: str = ""
    environment: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    mode: str = ""
    digest: str = ""
    subagent: str = ""


class ApprovalResolved(Event, frozen=True, kw_only=True, tag="approval.resolved"):
    """`by` program: the turn ended or nobody could be asked. `pattern`: to be kept in place of the exact command."""

    id: str
    decision: ApprovalDecision
    by: Literal["user", "program"] = "user"
    note: str = ""
    pattern: str = ""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question.asked"):
    """`title`: what stands over the questions, "" = nothing. `lasting`: it stays open when its turn ends without an
    answer, and when the program does; an answer that comes then begins a turn. `subagent`: who asks, "" = the agent."""

    id: str
    call: str
    questions: tuple[Question, ...]
    title: str = ""
    lasting: bool = False
    subagent: str = ""


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question.answered"):
    """No answers: the user dismissed the question."""

    id: str
    answers: tuple[QuestionAnswer, ...] = ()
    by: Literal["user", "program"] = "user"


class AnswersReported(Event, frozen=True, kw_only=True, tag="answers.reported"):
    """The model was told of answers that came when the call which asked had ended; `ids` are those of the questions."""

    ids: tuple[str, ...]
