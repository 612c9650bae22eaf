"""Events of tool calls and of what they ask the user; of the box, its shell, background jobs, the user's commands."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from core.ids import OptionalId
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events.base import ApprovalDecision, Event, IdEvent, IdsEvent, LossyEvent, ToolStatus

HookResult = Literal["passed", "allowed", "asked", "denied", "changed", "told", "failed"]


class ToolRequested(Event, frozen=True, kw_only=True, tag="tool.requested"):
    """`arguments` is the JSON text of the model; `document` is the id of the document that shows the call."""

    call: str
    tool: str
    arguments: str
    document: OptionalId = ""
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


class HookRan(IdEvent, frozen=True, kw_only=True, tag="hook.ran"):
    """A hook that was run at an event, and what was made of its answer. `id`: the hook's, the same as long as it is the
    same; `source`: the file that it stands in; `call`: the tool call that the event is about; `message`: what it said,
    or why it is no answer; `effects`: what it changed, in a line."""

    id: str
    event: str
    command: str
    source: str
    outcome: HookResult
    call: str = ""
    exit_code: int | None = None
    duration_ms: int = 0
    message: str = ""
    effects: str = ""


class ApprovalRequested(IdEvent, frozen=True, kw_only=True, tag="approval.requested"):
    """`subject` is exactly what will run, never the model's prose; `explanation` is the model's, and labelled so.

    `reason`: why it is asked about. A yes binds the subject, directory, names of variables (`environment`), mode and
    hosts that can be reached (`network`) together: `digest` is over all of them. With kind "network", a command that
    has ended wanted the hosts in `subject`, one a line; a yes runs it again. With kind "host" the program is to reach
    `subject` for the agent, and nothing was sent there yet. `subagent`: who asks, "" = the agent.
    `permissions`: what a command asks for beside running, and gets with a yes. With kind "machine" the command asks to
    run outside of the box: "run_on_machine" lets it, "allow_once" runs it in the box instead.
    """

    call: str
    kind: Literal["command", "mode", "tool", "network", "host", "machine"]
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
    permissions: tuple[str, ...] = ()


class ApprovalResolved(IdEvent, frozen=True, kw_only=True, tag="approval.resolved"):
    """`by` program: the turn ended or nobody could be asked. `pattern`: to be kept in place of the exact command."""

    decision: ApprovalDecision
    by: Literal["user", "program"] = "user"
    note: str = ""
    pattern: str = ""


class QuestionAsked(IdEvent, frozen=True, kw_only=True, tag="question.asked"):
    """`title`: what stands over the questions, "" = nothing. `lasting`: it stays open when its turn ends without an
    answer, and when the program does; an answer that comes then begins a turn. `subagent`: who asks, "" = the agent."""

    call: str
    questions: tuple[Question, ...]
    title: str = ""
    lasting: bool = False
    subagent: str = ""


class QuestionAnswered(IdEvent, frozen=True, kw_only=True, tag="question.answered"):
    """No answers: the user dismissed the question."""

    answers: tuple[QuestionAnswer, ...] = ()
    by: Literal["user", "program"] = "user"


class AnswersReported(IdsEvent, frozen=True, kw_only=True, tag="answers.reported"):
    """The model was told of answers that came when the call which asked had ended; `ids` are those of the questions."""


class BoxFound(Event, frozen=True, kw_only=True, tag="box.found"):
    """The containment of commands on this machine: `tier` is "T1" to "T4" (SAFETY D 15-19), "T4" contains nothing.
    `reason`: why it is not a stronger one, `cure`: what would make it so ("" = it is the strongest)."""

    tier: str
    reason: str = ""
    cure: str = ""


class ShellMoved(Event, frozen=True, kw_only=True, tag="shell.moved"):
    """The working directory of the next command in the workspace, the variables that commands have set and those that
    they have removed, whole. Values that look like secrets are left out: they last as long as the program."""

    directory: str = "."
    environment: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


class JobStarted(IdEvent, frozen=True, kw_only=True, tag="job.started"):
    """A command that goes on in the background, in a box of its own."""

    call: str
    command: str
    directory: str = "."


class JobEnded(IdEvent, frozen=True, kw_only=True, tag="job.ended"):
    """`ended` as a box tells it: exited, stopped, timed_out, flooded, out_of_memory or lost; `exit_code` with "exited"
    only. `effects`: what it changed, in one line."""

    command: str
    ended: str
    exit_code: int | None = None
    duration_ms: int = 0
    effects: str = ""


class CommandRan(IdEvent, frozen=True, kw_only=True, tag="command.ran"):
    """A command that the user typed. `output` is its head and tail, as the model will be told."""

    command: str
    directory: str = "."
    ended: str = "exited"
    exit_code: int | None = None
    output: str = ""
    effects: str = ""


class NetworkRefused(Event, frozen=True, kw_only=True, tag="network.refused"):
    """Hosts (`host:port`) that commands wanted and did not reach, which nobody was asked about: several ran at once, or
    one in the background."""

    targets: tuple[str, ...]


class TerminalReported(IdsEvent, frozen=True, kw_only=True, tag="terminal.reported"):
    """The model has been told of these jobs' ends and user's commands (ids)."""
