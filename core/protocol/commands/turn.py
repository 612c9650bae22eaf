"""Commands about turns: their mode, model and limits, prompts and what goes with them, answers, commands and jobs."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from core.ids import Id, OptionalId
from core.protocol.base import ApprovalDecision, Command, ModeName
from core.protocol.documents import QuestionAnswer
from core.protocol.messages import Effort, TierChoice
from core.protocol.tools import ToolSettings

MAX_ATTACHMENT_BYTES: Final = 32_000_000  # The size limit of an attached file, in bytes.


class ModeSet(Command, frozen=True, kw_only=True, tag="mode.set"):
    mode: ModeName


class ModelSet(Command, frozen=True, kw_only=True, tag="model.set"):
    model: str


class EffortSet(Command, frozen=True, kw_only=True, tag="effort.set"):
    """Set how much the model thinks from the next turn on, as far as it can; "" = as configured."""

    effort: Effort | Literal[""] = ""


class TierSet(Command, frozen=True, kw_only=True, tag="tier.set"):
    """Set the service tier of the conversation from the next turn on, as far as the model has it; "" = as
    configured."""

    tier: TierChoice = ""


class LimitsSet(Command, frozen=True, kw_only=True, tag="limits.set"):
    """Set the limits of one turn, effective at once: 0 = no limit, None = unchanged."""

    max_steps: Annotated[int, Meta(ge=0)] | None = None
    max_cost: Annotated[float, Meta(ge=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None


class PolicySet(Command, frozen=True, kw_only=True, tag="policy.set"):
    """Set who decides on commands in this session, effective at once."""

    policy: Literal["confirm", "auto", "human"]


class AttachmentAdd(Command, frozen=True, kw_only=True, tag="attachment.add"):
    """Take a picture or a PDF into the session: a file (`path`: in the workspace, or absolute where the user said so),
    or bytes of at most MAX_ATTACHMENT_BYTES (`data`). `attachment.added` names the `request`, and the label to use."""

    request: str = ""
    path: str = ""
    data: bytes = b""
    name: str = ""


class Viewing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place in a file that the user looks at: the line of the cursor (1-indexed, 0 = none), and the lines of the
    selection with its text ("" = nothing is selected)."""

    path: str
    line: int = 0
    start: int = 0
    end: int = 0
    selected: str = ""


class EarlierMessage(Struct, frozen=True, kw_only=True):
    """A message of a conversation that a client had elsewhere. `tool`: the result of a call."""

    role: Literal["user", "assistant", "tool"]
    text: str


class TurnSubmit(Command, frozen=True, kw_only=True, tag="turn.submit"):
    """`open_files`: workspace-relative paths that the user has on screen or looked at, latest first; `viewing`: the
    place in the one on screen. What the labels in `text` name goes with it; `attachments` are labels that need not
    stand in it. So does what it mentions and names, see `PromptContextQuery`, for `pasted` and `excluded`, too.
    `anyway`: the model is meant, although the user types the commands (policy `human`). `available_tools`: by name,
    what tools may do in this turn ("*": those that it does not name); it only narrows what the settings allow.
    `rules`: texts of the client that bind from now on; `shows_open`: the text of the open files goes along, bounded;
    `edit_history`: what the user edited lately, as diffs or in words, latest first; `layout`: a tree of the files as
    the client shows them, which is told once; `earlier`: what was said before, for a session that begins with it.
    `goal`: the turn goes on until this condition holds, by the command `check` or the judgement of a model, in at most
    `rounds` checks (0: as usual). `wants_plan`: the turn, in Plan mode, ends with a plan or a question, whatever the
    model says. `answer_schema`: a JSON Schema that the model's API holds the answer to where it can, {} = none;
    `answer_only`: no tool is called for it."""

    text: str
    open_files: tuple[str, ...] = ()
    viewing: Viewing | None = None
    attachments: tuple[Id, ...] = ()
    pasted: tuple[tuple[int, int], ...] = ()
    excluded: tuple[str, ...] = ()
    anyway: bool = False
    available_tools: dict[str, ToolSettings] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    layout: str = ""
    shows_open: bool = False
    edit_history: tuple[str, ...] = ()
    earlier: tuple[EarlierMessage, ...] = ()
    wants_plan: bool = False
    goal: str = ""
    check: str = ""
    rounds: Annotated[int, Meta(ge=0)] = 0
    answer_schema: dict[str, Any] = field(default_factory=dict)
    answer_only: bool = False


class GoalStop(Command, frozen=True, kw_only=True, tag="goal.stop"):
    """End the goal of the session; a turn that works on it goes on to its own end."""


class LoopStart(Command, frozen=True, kw_only=True, tag="loop.start"):
    """Send a prompt now and again every so many `seconds`, until it was sent `runs` times (0: as often as usual). With
    a `command` it is sent only when that prints a line with `pattern` ("" = any line)."""

    text: str
    seconds: Annotated[int, Meta(ge=0)]
    command: str = ""
    pattern: str = ""
    runs: Annotated[int, Meta(ge=0)] = 0


class LoopStop(Command, frozen=True, kw_only=True, tag="loop.stop"):
    """End a loop of the session; "" = all of them. A turn that runs for it goes on to its own end."""

    id: OptionalId = ""


class AsideAsk(Command, frozen=True, kw_only=True, tag="aside.ask"):
    """Ask the model about the session, also while a turn runs, without a message in its conversation. `id`: that of
    `aside.answered`, "" = the engine chooses one."""

    text: str
    id: OptionalId = ""


class AsideStop(Command, frozen=True, kw_only=True, tag="aside.stop"):
    """Stop the answer to a side question."""

    id: Id


class TurnSteer(Command, frozen=True, kw_only=True, tag="turn.steer"):
    """`attachments`, `pasted` and `excluded`: as in `TurnSubmit`."""

    text: str
    attachments: tuple[Id, ...] = ()
    pasted: tuple[tuple[int, int], ...] = ()
    excluded: tuple[str, ...] = ()


class TurnUnsteer(Command, frozen=True, kw_only=True, tag="turn.unsteer"):
    """Take back messages to the running turn that no model was sent yet; `ids` empty = all of them."""

    ids: tuple[Id, ...] = ()


class DraftKeep(Command, frozen=True, kw_only=True, tag="draft.keep"):
    """Save the unsent text of the prompt until the session is resumed; "" = there is none."""

    text: str


class ContextWarm(Command, frozen=True, kw_only=True, tag="context.warm"):
    """The user is back after an absence: the API reads the conversation into its cache again, if the setting
    `context.prewarm` says so and it is not there any more."""


class TurnInterrupt(Command, frozen=True, kw_only=True, tag="turn.interrupt"):
    pass


class CommandRun(Command, frozen=True, kw_only=True, tag="command.run"):
    """Run a command of the user's own where the agent's commands run, without asking; the model is told of it.
    `on_machine`: in the project itself, as the user, outside of every box; the client has asked them."""

    command: str
    on_machine: bool = False


class JobStop(Command, frozen=True, kw_only=True, tag="job.stop"):
    """Stop a background job; `job` "" = every job."""

    job: str = ""


class JobAbsorb(Command, frozen=True, kw_only=True, tag="job.absorb"):
    """Take in what a running background command has written so far: it waits for the review then."""

    job: str


class JobRestart(Command, frozen=True, kw_only=True, tag="job.restart"):
    """End a background command and start it again over the project as it is then, as the same job: `now`; or from now
    on whenever the project is `edited` in a way that it can't see, or `never` by itself."""

    job: str
    when: Literal["now", "edited", "never"] = "now"


class PortOpen(Command, frozen=True, kw_only=True, tag="port.open"):
    """Forward a port of the session's commands to this machine's loopback, where every program of the user reaches it;
    the client has asked the user. `PortsChanged` says the address."""

    port: int


class PortClose(Command, frozen=True, kw_only=True, tag="port.close"):
    """Stop forwarding a port, and end its connections."""

    port: int


class ShellReset(Command, frozen=True, kw_only=True, tag="shell.reset"):
    """Return to the workspace root and the environment that the session began with."""


class ApprovalAnswer(Command, frozen=True, kw_only=True, tag="approval.answer"):
    """Answer an approval request. `pattern`, with "allow_always" or "reject_always": saved in place of the exact
    command; `*` matches anything, and the pattern has to match this very command. `by` program: a client could ask
    nobody, or nobody answered; only a refusal can be given so."""

    id: Id
    decision: ApprovalDecision
    note: str = ""
    pattern: str = ""
    by: Literal["user", "program"] = "user"


class QuestionReply(Command, frozen=True, kw_only=True, tag="question.answer"):
    """Answer a question; no answers = dismiss it. `by` program: nobody answered, so there are no answers. `wants_plan`:
    as in `TurnSubmit`, of a turn that begins with the answers."""

    id: Id
    answers: tuple[QuestionAnswer, ...] = ()
    by: Literal["user", "program"] = "user"
    wants_plan: bool = False


class ContextDrop(Command, frozen=True, kw_only=True, tag="context.drop"):
    """Leave a part of the history out of later requests, by its id in a `ContextAnswer`; a line stands in its place.
    Refused while a turn runs."""

    part: str


class ContextCompact(Command, frozen=True, kw_only=True, tag="context.compact"):
    pass
