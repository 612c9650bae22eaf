"""What a turn needs of its session, as one record, and the two places where a turn waits for the user.

The engine makes one `SessionContext` per open session and keeps it. `emit` stamps, logs, folds and publishes an event
at once, so `state` always shows the effect of what was just emitted; the loop keeps no second copy of the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.leash import Leash
from core.agent.limits import Meter, Spent
from core.agent.plan_news import plan_events, tell_trouble
from core.agent.prefix import Prepared
from core.agent.python_room import PythonRoom
from core.agent.terminal import Terminal
from core.agent.variant import Variants
from core.agent.way_out import WayOut
from core.config import DialectName, Limits, Settings
from core.errors import AgentTuiError, ToolInputInvalid
from core.ids import new_id
from core.modes import Access, Mode, granted
from core.permissions.remembered import Remembered
from core.permissions.rules import Rule
from core.permissions.voices import Hears, everything
from core.plans.store import PlanStore
from core.protocol.documents import QuestionAnswer, Todo
from core.protocol.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    CommandRan,
    Decision,
    HunkEdited,
    JobEnded,
    LoadedRule,
    ModelUsed,
    ModeName,
    QuestionAnswered,
    QuestionAsked,
    SteerReturned,
    TurnSteered,
)
from core.protocol.messages import Attachment, Job, Message, Usage
from core.protocol.plans import Plan
from core.protocol.review import Change, VerdictRecord
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities
from core.sessions.asking import Untold
from core.sessions.debugging import DebugState
from core.shadow import Shadow
from core.workspace import Workspace

Resolution = TypeVar("Resolution")
STILL_OPEN = "The turn was interrupted before the user answered. The question stays open: the answer may come later."


class Pending(Generic[Resolution]):
    """Questions that a turn waits for, by id. Nobody waits for an id that is not `open`."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Resolution]] = {}

    def is_open(self, identity: str) -> bool:
        return identity in self._waiting

    async def wait(self, identity: str) -> Resolution:
        """The resolution of `identity`; a cancelled wait leaves nothing behind that could be resolved later."""
        future: asyncio.Future[Resolution] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = future
        try:
            return await future
        finally:
            del self._waiting[identity]

    def resolve(self, identity: str, resolution: Resolution) -> bool:
        """Whether somebody waited for it and had no resolution yet."""
        future = self._waiting.get(identity)
        if future is None or future.done():
            return False
        future.set_result(resolution)
        return True


class StateView(Protocol):
    """What the loop reads of the session's fold. All of it is live: an emitted event shows at once."""

    @property
    def messages(self) -> Sequence[Message]:
        """The history that the model is sent."""
        ...

    @property
    def mode(self) -> ModeName: ...

    @property
    def dropped_reasoning(self) -> int:
        """Answers whose reasoning was not sent with the last request, and that the user knows of."""
        ...

    @property
    def todos(self) -> tuple[Todo, ...]: ...

    @property
    def plan(self) -> str:
        """The plan that was last written or looked at, "" = none."""
        ...

    @property
    def plan_path(self) -> str:
        """The plan that the todos belong to, "" = none."""
        ...

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The plans of the session as they were last seen, by path."""
        ...

    @property
    def changes(self) -> Mapping[str, Change]:
        """Pending changes by path."""
        ...

    @property
    def debug(self) -> DebugState:
        """What is supposed, probed and logged."""
        ...

    @property
    def terminal_news(self) -> Mapping[str, JobEnded | CommandRan]:
        """Jobs that ended and commands that the user ran, which the model has not been told of, oldest first."""
        ...

    @property
    def untold_answers(self) -> Mapping[str, Untold]:
        """Answers that the model has not been told of, by the id of the question, oldest first."""
        ...

    @property
    def steers(self) -> Mapping[str, str]:
        """What the user said to the running turn and the model was not sent yet, by id, in the order of typing."""
        ...

    @property
    def attached(self) -> Mapping[str, Attachment]:
        """What was taken into the session, by the label that stands for it in a prompt."""
        ...

    @property
    def unreported_verdicts(self) -> Sequence[VerdictRecord]:
        """Standing verdicts that the model has not been told of, oldest first."""
        ...

    @property
    def verdicts_taken_back(self) -> Sequence[VerdictRecord]:
        """Verdicts that the model was told of and that were undone since, oldest first."""
        ...

    @property
    def unreported_edits(self) -> Sequence[HunkEdited]:
        """Hunks that the user edited and the model has not been told of, oldest first."""
        ...


class Route(Struct, frozen=True, kw_only=True):
    """Where a job's model calls go. `model` is the provider's name for it, `id` is `provider/name`.

    `window` in tokens, 0 = not known. `effort`: how much it is to think, one that it has; "" = its default.
    """

    provider: Provider
    model: str
    id: str
    window: int = 0
    effort: str = ""
    capabilities: Capabilities = Capabilities()


def as_mode(name: str) -> ModeName:
    """A mode's name as the wire has it. Raises `ToolInputInvalid` for anything else."""
    for mode in get_args(ModeName):
        if mode == name:
            known: ModeName = mode
            return known
    raise ToolInputInvalid(f"{name!r} is not a mode.", hint=f"The modes are {', '.join(get_args(ModeName))}.")


def unpriced(_model_id: str, _usage: Usage) -> float | None:
    """The price list that knows no model."""
    return None


class SessionContext(Struct, kw_only=True):
    """One open session. Mutable fields are the engine's to set between turns: `route`, `small`, `apply`, `settings`.

    `directory` is the session's own (`outputs/` and `prefix.json` go below it). `interactive` False: nobody can be
    asked, so whatever needs the user is refused. `private`: the APIs are asked to keep nothing.
    `seen` maps a path to the digest of the content the model last read or wrote; `told` holds what the model was last
    told of things that are only repeated when they change. `floor`: tokens of the history after it was last shortened.
    `joined`: the rules that joined since the session began. `spoken`: what was prepared for a dialect, see `speaking`.
    `trusted`: whether the user trusts the project, so that what it says to its agent is heard; `hears`: whether
    these bytes of a file are; `kept`, `exit` and `settled` are made at first use.
    `spent` is what the turn that runs has used, or the one that ran last.
    `job_in_front`: the command that goes on in the terminal of a model that has only one, "" = none.
    `reached`: the routes at which a model has answered.
    `building`: the plan that the turn works, "" = none; `building_todo`: the one todo of it that was chosen, "" = all.
    `stand_ins`: what a model is sent in the place of an attachment, "" = the attachment, see `attached`.
    `chain`: who is asked in turn when a model can't answer, `route` among them; `small` and `apply`: who is asked for
    these jobs, () = the model of the conversation. `find_route`: the route to a model, by its id, at an effort.
    `leash`: what a subagent may at most, and what its turns count for; None: it is the user's own session.
    """

    id: str
    workspace: Workspace
    shadow: Shadow
    plans: PlanStore
    state: StateView
    emit: Callable[[AnyEvent], None]
    settings: Settings
    route: Route
    directory: Path
    terminal: Terminal
    chain: tuple[Route, ...] = ()
    small: tuple[Route, ...] = ()
    apply: tuple[Route, ...] = ()
    find_route: Callable[[str, str], Route] | None = None
    price: Callable[[str, Usage], float | None] = unpriced
    interactive: bool = True
    private: bool = False
    turn: str = ""
    seen: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    approvals: Pending[ApprovalResolved] = field(default_factory=Pending)
    questions: Pending[QuestionAnswered] = field(default_factory=Pending)
    meter: Meter = field(default_factory=Meter)
    floor: int = 0
    joined: list[LoadedRule] = field(default_factory=list)
    preparing: asyncio.Future[Prepared] | None = None
    spoken: dict[str, dict[str, object]] = field(default_factory=dict)
    working: asyncio.Task[None] | None = None
    trusted: bool = True
    hears: Hears = everything
    spent: Spent = field(default_factory=lambda: Spent(Limits))
    kept: Remembered | None = None
    exit: WayOut | None = None
    python_room: PythonRoom | None = None
    job_in_front: str = ""
    reached: set[str] = field(default_factory=set)
    building: str = ""
    building_todo: str = ""
    stand_ins: dict[str, str] = field(default_factory=dict)
    settled: Variants | None = None
    leash: Leash | None = None

    @property
    def variants(self) -> Variants:
        """How its models are addressed."""
        if self.settled is None:
            self.settled = Variants(self.directory)
        return self.settled

    @property
    def dialect(self) -> DialectName:
        """How the session's model is spoken with."""
        chosen = self.settings.dialect_of(self.route.id)
        return "tags" if chosen == "native" and self.variants.is_toolless(self.route.id) else chosen

    def grants(self, access: Access) -> bool:
        """Whether its mode, and the leash of a subagent, grant an access now."""
        in_mode = granted(Mode(self.state.mode), access, contained=self.contained)
        return in_mode and (self.leash is None or self.leash.allows(access))

    def python(self) -> PythonRoom:
        """The Python that the model's blocks run in; made at the first of them."""
        if self.python_room is None:
            self.python_room = PythonRoom(self.terminal)
        return self.python_room

    @property
    def remembered(self) -> Remembered:
        """What the user said for good in this workspace."""
        if self.kept is None:
            self.kept = Remembered(self.workspace.root)
        return self.kept

    @property
    def way_out(self) -> WayOut:
        """The hosts that commands can reach; none, without a grant."""
        if self.exit is None:
            self.exit = WayOut(self.directory / "network", self.rules)
            self.terminal.at_end.append(self.exit.close)
        return self.exit

    def rules(self) -> tuple[Rule, ...]:
        """The rules that hold now: configured ones, and the patterns that the user typed for good."""
        return (*self.settings.permissions.rules(), *self.remembered.rules())

    @property
    def contained(self) -> bool:
        """Whether a command's effects can't reach the workspace. Not before `terminal.find`."""
        return self.terminal.contained

    async def approve(self, request: ApprovalRequested) -> ApprovalResolved:
        """Ask the user and wait. Refused by the program when nobody can be asked or the turn is interrupted."""
        self.emit(request)
        if not self.interactive:
            return self._refuse(request.id, "Nobody can be asked in this session.")
        try:
            return await self.approvals.wait(request.id)
        except asyncio.CancelledError:
            self._refuse(request.id, "The turn was interrupted.")
            raise

    def used(self, job: Job, route: Route, usage: Usage) -> None:
        """Say what a model took beside the steps of the conversation."""
        if usage != Usage():
            self.emit(ModelUsed(job=job, model=route.id, usage=usage))
            if usage.cost is None:
                self.spent.miss_price(route.id)

    def priced(self, route: Route, usage: Usage) -> Usage:
        """The usage with its cost, as far as the model's price is known."""
        return usage if usage.cost is not None else replace(usage, cost=self.price(route.id, usage))

    def _refuse(self, identity: str, note: str) -> ApprovalResolved:
        resolved = ApprovalResolved(id=identity, decision="reject_once", by="program", note=note)
        self.emit(resolved)
        return resolved

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        """Ask the user and wait. No answers: dismissed, or nobody can be asked (`by` program). A question that lasts
        stays open when the turn is interrupted."""
        self.emit(question)
        nobody = QuestionAnswered(id=question.id, by="program")
        if not self.interactive:
            self.emit(nobody)
            return nobody
        try:
            return await self.questions.wait(question.id)
        except asyncio.CancelledError:
            if not question.lasting:
                self.emit(nobody)
            raise

    def resolve_approval(self, identity: str, decision: Decision, note: str = "", pattern: str = "") -> bool:
        """The user's answer to an approval. False: nobody waits for it (any more), and nothing was changed."""
        if not self.approvals.is_open(identity):
            return False
        resolved = ApprovalResolved(id=identity, decision=decision, by="user", note=note, pattern=pattern)
        if self.approvals.resolve(identity, resolved):
            self.emit(resolved)
            return True
        return False

    def resolve_question(self, identity: str, answers: tuple[QuestionAnswer, ...]) -> bool:
        """The user's answers (none = dismissed). False: nobody waits for them (any more)."""
        answered = QuestionAnswered(id=identity, answers=answers, by="user")
        if self.questions.resolve(identity, answered):
            self.emit(answered)
            return True
        return False

    def keep_plan_todos(self, plan: str, todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
        """Write the task list into the plan file that it belongs to, merged with what was changed there; the list as it
        is then. A plan that can't be written is a notice."""
        try:
            merged = self.plans.edit(plan, todos=todos, base=self.state.plans.get(plan))
        except AgentTuiError as error:
            tell_trouble(self, error)
            return todos
        for event in plan_events(merged):
            self.emit(event)
        return merged.plan.todos

    def steer(self, text: str) -> None:
        """A message of the user for the running turn."""
        self.emit(TurnSteered(text=text, id=new_id("steer")))

    def give_back(self) -> None:
        """What the model was not sent is the user's again: later it might contradict what they say next."""
        for identity, text in list(self.state.steers.items()):
            self.emit(SteerReturned(id=identity, text=text))

    def interrupt(self) -> bool:
        """Stop the running turn soon. False: none is running."""
        if self.working is None or self.working.done():
            return False
        self.working.cancel()
        return True
