"""Commands about a session: its turns and its settings."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from core.ids import Id
from core.protocol.commands.base import Command
from core.protocol.documents import QuestionAnswer
from core.protocol.events import ApprovalDecision, ModeName
from core.protocol.messages import Effort
from core.protocol.queries.transcripts import ExportFormat
from core.protocol.tools import ToolSettings

Tag = Annotated[str, Meta(pattern=r"^[^\s,#]{1,40}$")]


class SessionOpen(Command, frozen=True, kw_only=True, tag="session.open"):
    """Start a session. `model` "" = the configured default; it may also name a script. `effort` as in `effort.set`."""

    mode: ModeName = "agent"
    model: str = ""
    effort: Effort | Literal[""] = ""
    demo: bool = False


class SessionResume(Command, frozen=True, kw_only=True, tag="session.resume"):
    """Load a session from its log and go on. `session` "" = the latest one of the workspace."""


class SessionFork(Command, frozen=True, kw_only=True, tag="session.fork"):
    """Start a second session with the state of this one, now or at the checkpoint `at`. The `Ack` names it; it is open.
    Refused while a turn or a command runs."""

    at: str = ""


class SessionRename(Command, frozen=True, kw_only=True, tag="session.rename"):
    title: str


class SessionTag(Command, frozen=True, kw_only=True, tag="session.tag"):
    """Set the tags of a session, () = none."""

    tags: tuple[Tag, ...] = ()


class SessionExport(Command, frozen=True, kw_only=True, tag="session.export"):
    """Write the session as a document (see `ExportQuery`) to a new file: `path`, below the workspace unless it is
    absolute."""

    path: str
    format: ExportFormat = "md"


class SessionDelete(Command, frozen=True, kw_only=True, tag="session.delete"):
    """Delete a session that is open nowhere, with all that is kept of it. `confirmed`: also one in which something
    waits for the user; without it that is refused."""

    confirmed: bool = False


class SessionClose(Command, frozen=True, kw_only=True, tag="session.close"):
    """`discard`: leave nothing of the session."""

    discard: bool = False


class SessionDetach(Command, frozen=True, kw_only=True, tag="session.detach"):
    """Leave a session that goes on without a screen; whoever resumes it is back. `by_hangup`: the terminal is gone, so
    that settings decide. Refused where nobody could come back."""

    by_hangup: bool = False


class ModeSet(Command, frozen=True, kw_only=True, tag="mode.set"):
    mode: ModeName


class ModelSet(Command, frozen=True, kw_only=True, tag="model.set"):
    model: str


class PendingKeep(Command, frozen=True, kw_only=True, tag="pending.keep"):
    """Keep what waits for a verdict, without the conversation, before a private session ends. The `Ack` names the
    session that has it; a running turn is stopped."""


class LimitsSet(Command, frozen=True, kw_only=True, tag="limits.set"):
    """Set the limits of one turn, effective at once: 0 = no limit, None = unchanged."""

    max_steps: Annotated[int, Meta(ge=0)] | None = None
    max_cost: Annotated[float, Meta(ge=0)] | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None


class PolicySet(Command, frozen=True, kw_only=True, tag="policy.set"):
    """Set who decides on commands in this session, effective at once."""

    policy: Literal["confirm", "auto", "human"]


class EffortSet(Command, frozen=True, kw_only=True, tag="effort.set"):
    """Set how much the model thinks from the next turn on, as far as it can; "" = as configured."""

    effort: Effort | Literal[""] = ""


class TrustSet(Command, frozen=True, kw_only=True, tag="trust.set"):
    """Trust the project of this session or not. A yes is saved; a no holds until the question comes up again."""

    trusted: bool


class MemoryAdd(Command, frozen=True, kw_only=True, tag="memory.add"):
    """Keep a note of the user's about the project."""

    text: str


class MemoryJudge(Command, frozen=True, kw_only=True, tag="memory.judge"):
    """Keep a note about the project, by its id, with `text` in place of its own if given; or drop it."""

    id: Id
    verdict: Literal["accept", "reject"]
    text: str = ""


class PermissionRemove(Command, frozen=True, kw_only=True, tag="permission.remove"):
    """Delete a saved permission, by its id."""

    id: Id


class ServerControl(Command, frozen=True, kw_only=True, tag="server.control"):
    """Switch an MCP server, or one `tool` of it, off or on; end it, or start it anew; say yes to the entry that has the
    `digest`, or take that back. What is switched and allowed is kept for the workspace."""

    server: str
    action: Literal["on", "off", "stop", "restart", "allow", "withdraw"]
    tool: str = ""
    digest: str = ""


class ThemeKeep(Command, frozen=True, kw_only=True, tag="theme.keep"):
    """Save the theme of the screen in the user's own configuration, by its name."""

    theme: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,60}$")]


class SettingKeep(Command, frozen=True, kw_only=True, tag="setting.keep"):
    """Save a setting in the user's own configuration, by its dotted key. `text`: the value as it stands in the file, a
    text or a choice without its quotes; None = the key is taken out, so that the default holds. Refused, with nothing
    written, if the file would not be valid."""

    key: Annotated[str, Meta(min_length=1, max_length=300)]
    text: Annotated[str, Meta(max_length=20_000)] | None = None


class GuideKeep(Command, frozen=True, kw_only=True, tag="guide.keep"):
    """Note how far the user is with the tour (the id of a step, "done" also for one that was skipped), that a hint was
    shown, or that its key was used, or which entry of the palette was chosen; for all sessions of the user."""

    tour: Annotated[str, Meta(pattern=r"^[a-z_]{0,40}$")] = ""
    shown: Annotated[str, Meta(pattern=r"^[a-z_]{0,40}$")] = ""
    used: Annotated[str, Meta(pattern=r"^[a-z_]{0,40}$")] = ""
    chosen: Annotated[str, Meta(max_length=200)] = ""


class ProviderConfigure(Command, frozen=True, kw_only=True, tag="provider.configure"):
    """Save a key (in the keyring, else a 0600 file) and a base URL for a provider; `model` becomes the default."""

    provider: str
    key: str = ""
    base_url: str = ""
    model: str = ""


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
    """A message of a conversation that a client had elsewhere."""

    role: Literal["user", "assistant"]
    text: str


class TurnSubmit(Command, frozen=True, kw_only=True, tag="turn.submit"):
    """`open_files`: workspace-relative paths that the user has on screen or looked at, latest first; `viewing`: the
    place in the one on screen. What the labels in `text` name goes with it; `attachments` are labels that need not
    stand in it. So does what it mentions and names, see `PromptContextQuery`, for `pasted` and `excluded`, too.
    `anyway`: the model is meant, although the user types the commands (policy `human`). `available_tools`: by name,
    what tools may do in this turn ("*": those that it does not name); it only narrows what the settings allow. `rules`:
    texts of the client that bind from now on; `layout`: a tree of the files as the client shows them, which is told
    once; `earlier`: what was said before, for a session that begins with it."""

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
    earlier: tuple[EarlierMessage, ...] = ()


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
    """Answer a question; no answers = dismiss it. `by` program: nobody answered, so there are no answers."""

    id: Id
    answers: tuple[QuestionAnswer, ...] = ()
    by: Literal["user", "program"] = "user"


class ContextDrop(Command, frozen=True, kw_only=True, tag="context.drop"):
    """Leave a part of the history out of later requests, by its id in a `ContextAnswer`; a line stands in its place.
    Refused while a turn runs."""

    part: str


class ContextCompact(Command, frozen=True, kw_only=True, tag="context.compact"):
    pass


class BackgroundStart(Command, frozen=True, kw_only=True, tag="background.start"):
    """Give a task to a background agent in the shadow of this workspace, with the mode and model of the session."""

    text: str


class BackgroundMessage(Command, frozen=True, kw_only=True, tag="background.message"):
    """Tell an agent something: it steers one that runs, and is the next prompt of one that has ended."""

    id: Id
    text: str


class BackgroundStop(Command, frozen=True, kw_only=True, tag="background.stop"):
    """Stop an agent; what it did is kept. The agents are those that `BackgroundQuery` lists."""

    id: Id


class BackgroundDelete(Command, frozen=True, kw_only=True, tag="background.delete"):
    """Forget an agent that has ended, with all that it left."""

    id: Id


class BackgroundPull(Command, frozen=True, kw_only=True, tag="background.pull"):
    """Bring the work of an agent that has ended into the sessions of this workspace, to be reviewed there."""

    id: Id
