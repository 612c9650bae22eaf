"""Commands (clients -> core): each is answered with `Ack` or `Reject` before it has any effect; effects are events."""

from __future__ import annotations

from msgspec import Struct

from core.protocol.documents import QuestionAnswer, Todo, TodoStatus
from core.protocol.events import Decision, ModeName
from core.protocol.review import Verdict


class Command(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all commands. `session` is required by all but `session.open` and `provider.configure`."""

    session: str = ""


class SessionOpen(Command, frozen=True, kw_only=True, tag="session.open"):
    """Start a session. `model` "" = the configured default; `model` may also name a script."""

    mode: ModeName = "agent"
    model: str = ""
    demo: bool = False


class SessionResume(Command, frozen=True, kw_only=True, tag="session.resume"):
    """Load a session from its log and go on. `session` "" = the latest one of the workspace."""


class SessionRename(Command, frozen=True, kw_only=True, tag="session.rename"):
    title: str


class SessionClose(Command, frozen=True, kw_only=True, tag="session.close"):
    pass


class ModeSet(Command, frozen=True, kw_only=True, tag="mode.set"):
    mode: ModeName


class ModelSet(Command, frozen=True, kw_only=True, tag="model.set"):
    model: str


class ProviderConfigure(Command, frozen=True, kw_only=True, tag="provider.configure"):
    """Keep a key (and a base URL) for a provider: in the keyring, else in a 0600 file. `model` becomes the default."""

    provider: str
    key: str = ""
    base_url: str = ""
    model: str = ""


class TurnSubmit(Command, frozen=True, kw_only=True, tag="turn.submit"):
    """`open_files`: workspace-relative paths that the user has on screen or looked at, latest first."""

    text: str
    open_files: tuple[str, ...] = ()


class TurnSteer(Command, frozen=True, kw_only=True, tag="turn.steer"):
    text: str


class TurnInterrupt(Command, frozen=True, kw_only=True, tag="turn.interrupt"):
    pass


class ApprovalAnswer(Command, frozen=True, kw_only=True, tag="approval.answer"):
    id: str
    decision: Decision
    note: str = ""


class QuestionReply(Command, frozen=True, kw_only=True, tag="question.answer"):
    """No answers = dismiss."""

    id: str
    answers: tuple[QuestionAnswer, ...] = ()


class HunkResolve(Command, frozen=True, kw_only=True, tag="hunk.resolve"):
    """`hunks` empty = all of the file; `path` "" = every change that is not protected."""

    path: str
    verdict: Verdict
    hunks: tuple[str, ...] = ()
    reason: str = ""


class VerdictUndo(Command, frozen=True, kw_only=True, tag="verdict.undo"):
    """`id` "" = the latest verdict that stands."""

    id: str = ""


class PlanEdit(Command, frozen=True, kw_only=True, tag="plan.edit"):
    """None = leave as it is."""

    path: str
    body: str | None = None
    todos: tuple[Todo, ...] | None = None


class PlanBuild(Command, frozen=True, kw_only=True, tag="plan.build"):
    """Switch to Agent and work the plan."""

    path: str


class TodoSet(Command, frozen=True, kw_only=True, tag="todo.set"):
    id: str
    status: TodoStatus
    plan: str = ""


class ContextCompact(Command, frozen=True, kw_only=True, tag="context.compact"):
    pass


AnyCommand = (
    SessionOpen
    | SessionResume
    | SessionRename
    | SessionClose
    | ModeSet
    | ModelSet
    | ProviderConfigure
    | TurnSubmit
    | TurnSteer
    | TurnInterrupt
    | ApprovalAnswer
    | QuestionReply
    | HunkResolve
    | VerdictUndo
    | PlanEdit
    | PlanBuild
    | TodoSet
    | ContextCompact
)


class Ack(Struct, frozen=True, kw_only=True, tag="ack"):
    """Accepted. `session` is the session it is about; `seq` its last durable event at that moment."""

    session: str = ""
    seq: int = 0


class Reject(Struct, frozen=True, kw_only=True, tag="reject"):
    code: str
    message: str
    hint: str = ""


Reply = Ack | Reject
