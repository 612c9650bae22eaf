"""The context of a turn: what it needs of its session, and the two places where it waits for the user.

`emit` stamps, logs, folds and publishes an event at once, so `state` always shows the effect of what was just emitted;
the loop keeps no second copy of the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.context.prefix import PromptSetup
from core.agent.context.prompt_variants import PromptVariants
from core.agent.planning.plan_sync import build_plan_events, report_plan_trouble
from core.agent.turn.limits import TokenMeter, TurnBudget
from core.agent.turn.subagent_limits import SubagentLimits
from core.config import DialectName, Settings, TurnLimits
from core.errors import AgentTuiError, ToolInputInvalid
from core.ids import new_id
from core.modes import Access, Mode, is_granted
from core.permissions.rules import PermissionRule
from core.permissions.saved_rules import SavedRules
from core.permissions.trusted_files import TrustCheck, trust_everything
from core.plans.plan_store import PlanStore
from core.protocol.documents import QuestionAnswer, Todo
from core.protocol.events import (
    AnyEvent,
    ApprovalDecision,
    ApprovalRequested,
    ApprovalResolved,
    CommandRan,
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
from core.protocol.messages import Attachment, Message, ModelJob, Usage
from core.protocol.plans import Plan
from core.protocol.review import Change, VerdictRecord
from core.providers.base import Provider
from core.providers.catalog.capabilities import Capabilities
from core.shadow import Shadow
from core.shell.network_grants import NetworkGrants
from core.shell.python_repl import PythonRepl
from core.shell.terminal import Terminal
from core.state.debugging import DebugState
from core.state.questions import UnreportedAnswer
from core.workspace import Workspace

Resolution = TypeVar("Resolution")
QUESTION_STILL_OPEN = (
    "The turn was interrupted before the user answered. The question stays open: the answer may come later."
)


class PendingRequests(Generic[Resolution]):
    """Requests that a turn waits for, by id. Nobody waits for an id that is not open."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Resolution]] = {}

    def is_open(self, identity: str) -> bool:
        return identity in self._waiting

    async def wait(self, identity: str) -> Resolution:
        """Wait for the resolution of `identity`; a cancelled wait leaves nothing that could be resolved later."""
        future: asyncio.Future[Resolution] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = future
        try:
            return await future
        finally:
            del self._waiting[identity]

    def resolve(self, identity: str, resolution: Resolution) -> bool:
        """Resolve a request. True if somebody waited for it and had no resolution yet."""
        future = self._waiting.get(identity)
        if future is None or future.done():
            return False
        future.set_result(resolution)
        return True


class StateView(Protocol):
    """The part of the session's state that a turn reads. All of it is live: an emitted event shows at once."""

    @property
    def messages(self) -> Sequence[Message]:
        """The history that the model is sent."""
        ...

    @property
    def mode(self) -> ModeName: ...

    @property
    def dropped_reasoning_count(self) -> int:
        """Number of answers whose reasoning was left out of the last request, as the user knows."""
        ...

    @property
    def todos(self) -> tuple[Todo, ...]: ...

    @property
    def current_plan_path(self) -> str:
        """The plan that was last written or looked at, "" = none."""
        ...

    @property
    def todos_plan_path(self) -> str:
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
        """The hypotheses, probes and runs."""
        ...

    @property
    def unreported_commands(self) -> Mapping[str, JobEnded | CommandRan]:
        """Ended jobs and commands of the user that the model does not know, oldest first."""
        ...

    @property
    def unreported_answers(self) -> Mapping[str, UnreportedAnswer]:
        """Answers that the model does not know, by the id of the question, oldest first."""
        ...

    @property
    def pending_steers(self) -> Mapping[str, str]:
        """Messages of the user to the running turn that the model was not sent yet, by id, in the order of typing."""
        ...

    @property
    def attachments(self) -> Mapping[str, Attachment]:
        """Attachments of the session, by the label that stands for each in a prompt."""
        ...

    @property
    def unreported_verdicts(self) -> Sequence[VerdictRecord]:
        """Standing verdicts that the model does not know, oldest first."""
        ...

    @property
    def undone_verdicts(self) -> Sequence[VerdictRecord]:
        """Verdicts that the model knows and that were undone since, oldest first."""
        ...

    @property
    def unreported_edits(self) -> Sequence[HunkEdited]:
        """Hunks that the user edited and the model does not know, oldest first."""
        ...


class Route(Struct, frozen=True, kw_only=True):
    """The target of a job's model calls. `model` is the provider's name for it, `id` is `provider/name`.

    `window` in tokens, 0 = not known. `effort`: one that the model has; "" = its default.
    """

    provider: Provider
    model: str
    id: str
    window: int = 0
    effort: str = ""
    capabilities: Capabilities = Capabilities()


def parse_mode(name: str) -> ModeName:
    """Return a mode's name as the wire has it. Raises `ToolInputInvalid` for anything else."""
    for mode in get_args(ModeName):
        if mode == name:
            known: ModeName = mode
            return known
    raise ToolInputInvalid(f"{name!r} is not a mode.", hint=f"The modes are {', '.join(get_args(ModeName))}.")


def price_nothing(_model_id: str, _usage: Usage) -> float | None:
    """Return no price: the price list that knows no model."""
    return None


class TurnContext(Struct, kw_only=True):
    """The session of a turn. Mutable fields are the engine's to set between turns.

    `directory`: the session's own (`outputs/` and `prefix.json` go below it). `is_interactive` False: nobody can be
    asked, so whatever needs the user is refused. `is_private`: the APIs are asked to keep nothing.
    `read_digests`: by path, the digest of the content the model last read or wrote. `announced`: what the model was
    last told of things that are only repeated when they change. `compacted_tokens`: of the history after compaction.
    `joined_rules`: rules that joined since the session began. `dialect_setups`: parts of `PromptSetup` by dialect.
    `is_trusted`: the user trusts the project, so that what it says to its agent is heard; `hears`: whether these bytes
    of a file are. `budget`: of the turn that runs, or of the one that ran last.
    `foreground_job`: the command that goes on in the terminal of a model that has only one, "" = none.
    `answered_routes`: ids of routes at which a model has answered.
    `build_plan`: the plan that the turn works, "" = none; `build_todo`: the one todo of it that was chosen, "" = all.
    `stand_ins`: text that a model is sent in place of an attachment, "" = the attachment, see `sent_attachments`.
    `route_chain`: who is asked in turn when a model can't answer, `route` among them; `small_routes`, `apply_routes`:
    who is asked for these jobs, () = the model of the conversation. `find_route`: the route to a model (id, effort).
    `subagent_limits`: what a subagent may at most, and its budget; None: it is the user's own session.
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
    route_chain: tuple[Route, ...] = ()
    small_routes: tuple[Route, ...] = ()
    apply_routes: tuple[Route, ...] = ()
    find_route: Callable[[str, str], Route] | None = None
    price: Callable[[str, Usage], float | None] = price_nothing
    is_interactive: bool = True
    is_private: bool = False
    turn_id: str = ""
    read_digests: dict[str, str] = field(default_factory=dict)
    announced: dict[str, str] = field(default_factory=dict)
    approvals: PendingRequests[ApprovalResolved] = field(default_factory=PendingRequests)
    questions: PendingRequests[QuestionAnswered] = field(default_factory=PendingRequests)
    meter: TokenMeter = field(default_factory=TokenMeter)
    compacted_tokens: int = 0
    joined_rules: list[LoadedRule] = field(default_factory=list)
    preparing: asyncio.Future[PromptSetup] | None = None
    dialect_setups: dict[str, dict[str, object]] = field(default_factory=dict)
    working: asyncio.Task[None] | None = None
    is_trusted: bool = True
    hears: TrustCheck = trust_everything
    budget: TurnBudget = field(default_factory=lambda: TurnBudget(TurnLimits))
    opened_saved_rules: SavedRules | None = None
    opened_network_grants: NetworkGrants | None = None
    opened_python_repl: PythonRepl | None = None
    foreground_job: str = ""
    answered_routes: set[str] = field(default_factory=set)
    build_plan: str = ""
    build_todo: str = ""
    stand_ins: dict[str, str] = field(default_factory=dict)
    opened_variants: PromptVariants | None = None
    subagent_limits: SubagentLimits | None = None

    @property
    def variants(self) -> PromptVariants:
        """The prompt variants of the session's models."""
        if self.opened_variants is None:
            self.opened_variants = PromptVariants(self.directory)
        return self.opened_variants

    @property
    def dialect(self) -> DialectName:
        """The dialect of the session's model."""
        chosen = self.settings.get_dialect(self.route.id)
        return "tags" if chosen == "native" and self.variants.is_toolless(self.route.id) else chosen

    def is_granted(self, access: Access) -> bool:
        """True if the mode, and the limits of a subagent, grant an access now."""
        in_mode = is_granted(Mode(self.state.mode), access, is_contained=self.is_contained)
        return in_mode and (self.subagent_limits is None or self.subagent_limits.is_allowed(access))

    def get_python_repl(self) -> PythonRepl:
        """Return the REPL that the model's blocks run in; made at the first of them."""
        if self.opened_python_repl is None:
            self.opened_python_repl = PythonRepl(self.terminal)
        return self.opened_python_repl

    @property
    def saved_rules(self) -> SavedRules:
        """The rules that the user saved in this workspace."""
        if self.opened_saved_rules is None:
            self.opened_saved_rules = SavedRules(self.workspace.root)
        return self.opened_saved_rules

    @property
    def network_grants(self) -> NetworkGrants:
        """The hosts that commands can reach; none, without a grant."""
        if self.opened_network_grants is None:
            self.opened_network_grants = NetworkGrants(self.directory / "network", self.rules)
            self.terminal.on_close.append(self.opened_network_grants.close)
        return self.opened_network_grants

    def rules(self) -> tuple[PermissionRule, ...]:
        """Return the rules that hold now: configured ones, and the patterns that the user saved."""
        return (*self.settings.permissions.parse_rules(), *self.saved_rules.parse_rules())

    @property
    def is_contained(self) -> bool:
        """True if a command's effects can't reach the workspace. Not before `terminal.find_box`."""
        return self.terminal.is_contained

    async def approve(self, request: ApprovalRequested) -> ApprovalResolved:
        """Ask the user and wait. Refused by the program when nobody can be asked or the turn is interrupted."""
        self.emit(request)
        if not self.is_interactive:
            return self._refuse_approval(request.id, "Nobody can be asked in this session.")
        try:
            return await self.approvals.wait(request.id)
        except asyncio.CancelledError:
            self._refuse_approval(request.id, "The turn was interrupted.")
            raise

    def record_usage(self, job: ModelJob, route: Route, usage: Usage) -> None:
        """Emit what a model used beside the steps of the conversation."""
        if usage != Usage():
            self.emit(ModelUsed(job=job, model=route.id, usage=usage))
            if usage.cost is None:
                self.budget.mark_unpriced(route.id)

    def price_usage(self, route: Route, usage: Usage) -> Usage:
        """Return the usage with its cost, as far as the model's price is known."""
        return usage if usage.cost is not None else replace(usage, cost=self.price(route.id, usage))

    def _refuse_approval(self, identity: str, note: str) -> ApprovalResolved:
        resolved = ApprovalResolved(id=identity, decision="reject_once", by="program", note=note)
        self.emit(resolved)
        return resolved

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        """Ask the user and wait. No answers: dismissed, or nobody can be asked (`by` program).

        A question that lasts stays open when the turn is interrupted.
        """
        self.emit(question)
        nobody = QuestionAnswered(id=question.id, by="program")
        if not self.is_interactive:
            self.emit(nobody)
            return nobody
        try:
            return await self.questions.wait(question.id)
        except asyncio.CancelledError:
            if not question.lasting:
                self.emit(nobody)
            raise

    def resolve_approval(self, identity: str, decision: ApprovalDecision, note: str = "", pattern: str = "") -> bool:
        """Resolve an approval with the user's answer.

        False: nobody waits for it (any more), and nothing was changed.
        """
        if not self.approvals.is_open(identity):
            return False
        resolved = ApprovalResolved(id=identity, decision=decision, by="user", note=note, pattern=pattern)
        if self.approvals.resolve(identity, resolved):
            self.emit(resolved)
            return True
        return False

    def resolve_question(self, identity: str, answers: tuple[QuestionAnswer, ...]) -> bool:
        """Resolve a question with the user's answers (none = dismissed). False: nobody waits for them (any more)."""
        answered = QuestionAnswered(id=identity, answers=answers, by="user")
        if self.questions.resolve(identity, answered):
            self.emit(answered)
            return True
        return False

    def save_plan_todos(self, plan: str, todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
        """Merge the task list into the plan file that it belongs to and return the list as it is then.

        A plan that can't be written is a notice.
        """
        try:
            merged = self.plans.edit(plan, todos=todos, base=self.state.plans.get(plan))
        except AgentTuiError as error:
            report_plan_trouble(self, error)
            return todos
        for event in build_plan_events(merged):
            self.emit(event)
        return merged.plan.todos

    def steer(self, text: str) -> None:
        """Send a message of the user to the running turn."""
        self.emit(TurnSteered(text=text, id=new_id("steer")))

    def return_steers(self) -> None:
        """Return what the model was not sent to the user: later it might contradict what they say next."""
        for identity, text in list(self.state.pending_steers.items()):
            self.emit(SteerReturned(id=identity, text=text))

    def interrupt(self) -> bool:
        """Stop the running turn soon. False: none is running."""
        if self.working is None or self.working.done():
            return False
        self.working.cancel()
        return True
