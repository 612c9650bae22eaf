"""Events of a turn: its steps and messages, and its tool calls with their approvals, questions and jobs."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from core.ids import Id, OptionalId
from core.protocol.base import (
    ApprovalDecision,
    Event,
    IdEvent,
    IdsEvent,
    LossyEvent,
    ModeName,
    ToolStatus,
    TurnEnd,
)
from core.protocol.documents import AnyDocument, Question, QuestionAnswer
from core.protocol.messages import Attachment, Message, Usage

HookResult = Literal["passed", "allowed", "asked", "denied", "changed", "told", "failed"]


class ToolRequested(Event, frozen=True, kw_only=True, tag="tool.requested"):
    """`arguments` is the JSON text of the model; `document` is the id of the document that shows the call.
    `parent`: the call whose program made this one, "" = the model made it."""

    call: str
    tool: str
    arguments: str
    document: OptionalId = ""
    summary: str = ""
    parent: str = ""


class ToolOutput(LossyEvent, frozen=True, kw_only=True, tag="tool.output"):
    """A piece of a running call's output: text for the end of what came before, in which `\\r` takes the current line
    back, and `\\v` takes it back with the line break before it (`core.state.live_text`)."""

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
    run outside of the box: "run_on_machine" lets it, "allow_always" lets it from now on, "allow_once" runs it in the
    box instead.
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
    """`by` program: the turn ended or nobody could be asked. `pattern`: to be saved in place of the exact command."""

    decision: ApprovalDecision
    by: Literal["user", "program"] = "user"
    note: str = ""
    pattern: str = ""


class GoalProposal(Struct, frozen=True, kw_only=True):
    """A goal that the agent proposes; see `GoalSet`."""

    condition: str
    check: str = ""


class QuestionAsked(IdEvent, frozen=True, kw_only=True, tag="question.asked"):
    """`title`: what stands over the questions, "" = nothing. `lasting`: it stays open when its turn ends without an
    answer, and when the program does; an answer that comes then begins a turn. `subagent`: who asks, "" = the agent.
    `proposal`: a yes sets this goal (`core.state.goals`)."""

    call: str
    questions: tuple[Question, ...]
    title: str = ""
    lasting: bool = False
    subagent: str = ""
    proposal: GoalProposal | None = None


class QuestionAnswered(IdEvent, frozen=True, kw_only=True, tag="question.answered"):
    """No answers: the user dismissed the question."""

    answers: tuple[QuestionAnswer, ...] = ()
    by: Literal["user", "program"] = "user"


class AnswersReported(IdsEvent, frozen=True, kw_only=True, tag="answers.reported"):
    """The model was sent answers that came after the end of the call that asked; `ids` are those of the questions."""


class BoxFound(Event, frozen=True, kw_only=True, tag="box.found"):
    """The containment of commands on this machine: `tier` is "T1" (the strongest) to "T4" (no containment), or
    "container" or "in-place" by the user's choice. `reason`: why it is not a stronger one; `cure`: how to get one ("" =
    it is the strongest). `is_contained`, `is_walled`, `can_run_unasked`: as in `core.sandbox.box.Tier`."""

    tier: str
    reason: str = ""
    cure: str = ""
    is_contained: bool = True
    is_walled: bool = True
    can_run_unasked: bool = True


class ShellMoved(Event, frozen=True, kw_only=True, tag="shell.moved"):
    """The working directory of the next command in the workspace, and all variables that commands have set or removed.
    Values that look like secrets are left out: they last as long as the program."""

    directory: str = "."
    environment: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


class JobStarted(IdEvent, frozen=True, kw_only=True, tag="job.started"):
    """A command that continues in the background, in a separate box."""

    call: str
    command: str
    directory: str = "."


class JobRestarted(IdEvent, frozen=True, kw_only=True, tag="job.restarted"):
    """A job was ended and started again. `changed`: the number of paths that it did not see, 0 = somebody asked."""

    changed: int = 0


class OpenPort(Struct, frozen=True, kw_only=True):
    """A TCP port in the network of the session's commands. `command`: the command line of the process that listens
    there. `address`: where the user reaches it on this machine, "" = the user has not opened it; an opened port stays
    while nothing listens (`is_listening` False)."""

    port: int
    command: str = ""
    is_listening: bool = True
    address: str = ""


class PortsChanged(Event, frozen=True, kw_only=True, tag="ports.changed"):
    """The ports at which processes of the session listen, all of them."""

    ports: tuple[OpenPort, ...] = ()


class JobEnded(IdEvent, frozen=True, kw_only=True, tag="job.ended"):
    """`ended` as reported by the box: exited, stopped, timed_out, flooded, out_of_memory or lost; `exit_code` with
    "exited" only. `effects`: its effects, in one line. `output`: the last lines that it printed; `is_cut`: there were
    more, which `spilled`, a path for the model's tools, holds ("" = none does)."""

    command: str
    ended: str
    exit_code: int | None = None
    duration_ms: int = 0
    effects: str = ""
    output: str = ""
    is_cut: bool = False
    spilled: str = ""

    @property
    def is_failure(self) -> bool:
        """True if it did not end as it should, and nobody stopped it."""
        return self.ended != "stopped" and self.exit_code != 0


class CommandRan(IdEvent, frozen=True, kw_only=True, tag="command.ran"):
    """A command that the user typed. `output`: its head and tail, as the model will be sent it."""

    command: str
    directory: str = "."
    ended: str = "exited"
    exit_code: int | None = None
    output: str = ""
    effects: str = ""


class NetworkRefused(Event, frozen=True, kw_only=True, tag="network.refused"):
    """Hosts (`host:port`) that commands tried and failed to reach without a question to the user, because several ran
    at once, or one in the background."""

    targets: tuple[str, ...]


class TerminalReported(IdsEvent, frozen=True, kw_only=True, tag="terminal.reported"):
    """The model was sent these jobs' ends and user's commands (ids)."""


class AttachmentAdded(Event, frozen=True, kw_only=True, tag="attachment.added"):
    """A picture or a PDF can be sent: with any prompt whose text contains `label`. `request` is that of
    `attachment.add`; `note`: how it was converted, "" = not at all."""

    label: str
    attachment: Attachment
    request: str = ""
    note: str = ""


GoalOutcome = Literal["met", "unmet", "unclear"]
GoalEnd = Literal["met", "stalled", "limit", "stopped"]


TurnCause = Literal["prompt", "job", "loop"]
LoopEnd = Literal["done", "stopped", "failed", "closed"]


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn.started"):
    """`prompt` is the user's text; the message to the model follows as `message.appended`. `cause`: what began the
    turn; with "job" the end of a background command, which `prompt` names, and with "loop" the user's `loop`, whose
    prompt it is."""

    prompt: str
    mode: ModeName
    model: str
    cause: TurnCause = "prompt"
    loop: OptionalId = ""


class TurnSteered(Event, frozen=True, kw_only=True, tag="turn.steered"):
    """A message to the running turn; it reaches the model at its next step. It waits until a `message.appended` or
    `steer.delivered` names its `id`, or `steer.returned` returns it."""

    text: str
    id: OptionalId = ""


class SteerDelivered(IdsEvent, frozen=True, kw_only=True, tag="steer.delivered"):
    """These messages are now in the histories of those that work for the turn."""


class SteerReturned(IdEvent, frozen=True, kw_only=True, tag="steer.returned"):
    """A message that no model was sent is returned to the user and not sent by itself: the turn ended first, or the
    user took it back. Clients put the text into the prompt."""

    text: str


class DraftKept(Event, frozen=True, kw_only=True, tag="draft.kept"):
    """The unsent text of the prompt when the user left; the last one counts, until the next turn. "" = none."""

    text: str


class PromptSuggested(Event, frozen=True, kw_only=True, tag="prompt.suggested"):
    """A prompt that the user may want to send next, and its mode; a client only offers it."""

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
    """`context_tokens`: prompt and answer of the step. `model` answered, "" = the one that the turn began with."""

    step: int
    usage: Usage
    context_tokens: int = 0
    model: str = ""


class StepRetried(Event, frozen=True, kw_only=True, tag="step.retried"):
    """A model call failed and is tried again after `delay_ms`; documents begun in it are void. `code`: the error's."""

    step: int
    attempt: int
    delay_ms: int
    message: str
    code: str = ""
    void_documents: tuple[Id, ...] = ()


class PromptRead(LossyEvent, frozen=True, kw_only=True, tag="prompt.read"):
    """Lossy: the server has read so many of the request's tokens, before its answer begins."""

    processed: int
    total: int


class MessageAppended(Event, frozen=True, kw_only=True, tag="message.appended"):
    """`steers`: the ids of the user's messages in the meantime that this message contains."""

    message: Message
    steers: tuple[Id, ...] = ()


class DocumentStarted(IdEvent, frozen=True, kw_only=True, tag="document.started"):
    """`kind` is the document's `type`; `title` is a one-line text until it is finished."""

    kind: str
    sequence: int
    title: str = ""
    language: str = ""


class DocumentDelta(LossyEvent, frozen=True, kw_only=True, tag="document.delta"):
    id: Id
    text: str


class DocumentFinished(Event, frozen=True, kw_only=True, tag="document.finished"):
    document: AnyDocument


class ContextMeasured(Event, frozen=True, kw_only=True, tag="context.measured"):
    """Tokens: `used` of `window` (0 = unknown). `estimated`: counted by us, not by the provider. `dropped_reasoning`:
    answers that were sent without their reasoning; `cache_miss`: why the cache was not hit, "" = unknown."""

    used: int
    window: int
    estimated: bool = False
    dropped_reasoning: int = 0
    cache_miss: str = ""


class AsideDelta(LossyEvent, frozen=True, kw_only=True, tag="aside.delta"):
    """Lossy: a piece of the answer to a side question."""

    id: Id
    text: str


class AsideAnswered(IdEvent, frozen=True, kw_only=True, tag="aside.answered"):
    """A side question (`/btw`) and its whole answer, which no request to a model carries. `problem`: why there is none,
    or why it is not complete."""

    question: str
    text: str = ""
    model: str = ""
    usage: Usage = Usage()
    problem: str = ""


class GoalSet(Event, frozen=True, kw_only=True, tag="goal.set"):
    """The turns of the session go on until the `condition` holds: by `check`, a command that the program runs over the
    shadow, or without one by the judgement of a model that has not done the work. `max_rounds`: checks at most."""

    condition: str
    check: str = ""
    max_rounds: int = 10


class GoalChecked(Event, frozen=True, kw_only=True, tag="goal.checked"):
    """One check of the goal at the end of the agent's work. `summary`: its result in one line; `output`: the end of
    what the command printed, or the judgement; `digest`: of the failure and the pending changes, so that a round in
    which nothing moved is recognised."""

    round: int
    outcome: GoalOutcome
    summary: str
    output: str = ""
    digest: str = ""


class GoalEnded(Event, frozen=True, kw_only=True, tag="goal.ended"):
    """The goal no longer holds a turn. `message`: why, with what was tried."""

    reason: GoalEnd
    message: str = ""


class LoopStarted(IdEvent, frozen=True, kw_only=True, tag="loop.started"):
    """A prompt that is sent again every so many `seconds`, at most `max_runs` times. With a `command`, which runs in
    the box until it ends and then again, the prompt is sent only when that has printed a line with `pattern`."""

    prompt: str
    seconds: int
    command: str = ""
    pattern: str = ""
    max_runs: int = 100


class LoopEnded(IdEvent, frozen=True, kw_only=True, tag="loop.ended"):
    """The prompt of a loop is not sent any more. `message`: why."""

    reason: LoopEnd
    message: str = ""


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context.compacted"):
    """The history is replaced by `messages`; later messages are appended to them."""

    messages: tuple[Message, ...]
    before_tokens: int
    after_tokens: int


class DroppedSpan(Struct, frozen=True, kw_only=True, array_like=True):
    """A span of a message of the history, in characters of its content."""

    message: int
    start: int
    end: int


class ContextDropped(Event, frozen=True, kw_only=True, tag="context.dropped"):
    """The user left a part of the history out, or the program large results of earlier steps: `note` replaces every
    span from now on, and the attachments of a tool result are gone. `tokens`: about how many fewer."""

    name: str
    spans: tuple[DroppedSpan, ...]
    note: str
    tokens: int = 0


class ReasoningDropped(Event, frozen=True, kw_only=True, tag="reasoning.dropped"):
    """The model's API no longer takes the reasoning of the answers so far: they are sent without it from now on.
    `answers` is how many had any. Their texts and calls stay."""

    answers: int


RuleKind = Literal["always", "globs", "described", "manual", "agents_md", "claude_md", "memory"]


class LoadedRule(Struct, frozen=True, kw_only=True):
    """A rule file. `reason`: why the model was told of it, or why not; `position`: its place among those it was told,
    0 = it was not. `size` in bytes. `note`: what the user should know of it: what was cut, stripped or refused."""

    path: str
    kind: RuleKind
    note: str = ""
    size: int = 0
    reason: str = ""
    position: int = 0


class SkillActivated(Event, frozen=True, kw_only=True, tag="skill.activated"):
    """A skill was opened. `text`: as sent to the model; `folder`: its folder if that is the user's own, which commands
    may read from then on, "" = it is in the project."""

    name: str
    path: str
    text: str
    folder: str = ""
    by_user: bool = False


class ForeignReceived(Event, frozen=True, kw_only=True, tag="foreign.received"):
    """The model was sent text that strangers wrote. `source`: its host, or a server of tools, with a colon in
    its name."""

    source: str


class RulesLoaded(Event, frozen=True, kw_only=True, tag="rules.loaded"):
    """All rules that the model was sent so far, in order, and those that could not be read."""

    rules: tuple[LoadedRule, ...]
