"""The state of a session as records. Only `fold` changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, Literal

from core.errors import StateError
from core.protocol import events as ev
from core.protocol.documents import AnyDocument, Plan, TerminalCommandDocument, Todo
from core.protocol.messages import Attachment, Effort, Message, TierChoice, Usage
from core.protocol.review import Change, VerdictRecord
from core.state.debugging import DebugState
from core.state.goals import GoalState
from core.state.loops import LoopState
from core.state.review import ReviewState

_COUNTS: Final = tuple(name for name in Usage.__struct_fields__ if name.endswith("_tokens"))
# Returns the records with these sequence numbers, in this order.
Recall = Callable[[Sequence[int]], Iterable[ev.Envelope]]


def subtract_usage(total: Usage, part: Usage) -> Usage:
    """Return `total` minus `part`."""
    cost = None if total.cost is None else total.cost - (part.cost or 0.0)
    counts = {name: getattr(total, name) - getattr(part, name) for name in _COUNTS}
    return Usage(**counts, cost=cost, estimated=total.estimated)


def add_usage(first: Usage, second: Usage) -> Usage:
    """Return the sum of tokens and cost; the cost is None if neither is known."""
    costs = [usage.cost for usage in (first, second) if usage.cost is not None]
    counts = {name: getattr(first, name) + getattr(second, name) for name in _COUNTS}
    return Usage(**counts, cost=sum(costs) if costs else None, estimated=first.estimated or second.estimated)


def refuse_recall(records: Sequence[int]) -> Iterable[ev.Envelope]:
    """Refuse to read records, since the state is not made from a log. Raises `StateError`."""
    if records:
        raise StateError("there is no log to rewind.")
    return ()


@dataclass(frozen=True, slots=True)
class CheckRun:
    """The end of a command that checks (tests, a build, a linter); `told`: the tests that it counted, "" = none;
    `call`: the call that ran it."""

    exit_code: int
    told: str = ""
    call: str = ""


@dataclass(slots=True, kw_only=True)
class TurnState:
    """One turn: `documents` in order, until the next turn begins; `reason` is "" while it runs. `seq` is that of its
    first record; `step` the current step, `steps` the finished ones; `checks` by command. `request`: the user's words
    that the turn works for, which may be those of an earlier turn. Times in ms."""

    id: str
    seq: int
    prompt: str
    mode: ev.ModeName
    model: str
    started: int
    cause: ev.TurnCause = "prompt"
    loop: str = ""
    request: str = ""
    documents: dict[str, AnyDocument | None] = field(default_factory=dict)
    calls: dict[str, ev.ToolRequested] = field(default_factory=dict)
    tool_count: int = 0
    checks: dict[str, CheckRun] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    step: int = 0
    steps: int = 0
    duration_ms: int = 0
    reason: ev.TurnEnd | Literal[""] = ""
    message: str = ""

    def list_finished_documents(self) -> list[AnyDocument]:
        """Return the finished documents in the order of their start."""
        return [document for document in self.documents.values() if document is not None]


@dataclass(frozen=True, slots=True)
class UnreportedAnswer:
    """A question and its answer, which the model has not been sent yet."""

    asked: ev.QuestionAsked
    answered: ev.QuestionAnswered


@dataclass(slots=True)
class Branch:
    """The path from the root (0) to `tip` in the tree of all records of a kind, which `parents` describes."""

    tip: int = 0
    parents: dict[int, int] = field(default_factory=dict)

    def add(self, record: int) -> None:
        """Append a record after the tip."""
        self.parents[record] = self.tip
        self.tip = record

    def list_records(self) -> list[int]:
        """Return all records but the root, in order."""
        records, record = list[int](), self.tip
        while record:
            records.append(record)
            record = self.parents[record]
        return records[::-1]

    def has_record(self, record: int) -> bool:
        """Return True if this record is on the branch, or is the root."""
        ancestor = self.tip
        while ancestor > record:  # A record is younger than its parent.
            ancestor = self.parents[ancestor]
        return ancestor == record


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCheckpoint:
    """A checkpoint in the conversation: the number of `messages` in the history, the records of the last message
    and the last turn, and the verdicts that the model knew. `questions` were open, or their answers unreported.
    `at` in ms."""

    id: str
    seq: int
    at: int
    prompt: str
    before: str
    generated: bool
    messages: int
    last_message: int
    last_turn: int
    todos: tuple[Todo, ...]
    plan_path: str
    reported_verdicts: tuple[str, ...]
    questions: tuple[ev.QuestionAsked, ...]


@dataclass(slots=True, kw_only=True)
class ModelChoices:
    """The user's choices apart from the model of the session, and the usage of all models. `effort`, `tier` "" = not
    chosen; `models` and `efforts` by mode. `route`: the model that answers, None = the session's at its default effort.
    `usage` by job and model: `chat openai/gpt-5`."""

    effort: Effort | Literal[""] = ""
    models: dict[str, str] = field(default_factory=dict)
    efforts: dict[str, Effort | Literal[""]] = field(default_factory=dict)
    tier: TierChoice = ""
    route: ev.RouteTaken | None = None
    usage: dict[str, Usage] = field(default_factory=dict)

    def add_usage(self, job: str, model: str, usage: Usage) -> None:
        """Add the usage of a model for a job."""
        if usage != Usage():
            key = f"{job} {model}"
            self.usage[key] = add_usage(self.usage.get(key, Usage()), usage)

    def sum_usage(self) -> Usage:
        """Return the usage of all models for all jobs."""
        return reduce(add_usage, self.usage.values(), Usage())


@dataclass(slots=True, kw_only=True)
class SubagentState:
    """A subagent that works on a todo of a plan, as an `agent` on a task, or as a candidate of the turn `candidate_of`.

    `call` is the call of its latest task. It is "closed" when its todo is no longer in progress, or is begun again.
    `joined`: paths that its unfinished merge has recorded; `conflicts`: those of its merge; `usage`: as counted here;
    `said`: its last words.
    """

    id: str
    todo: str
    plan: str
    agent: str = ""
    title: str = ""
    call: str = ""
    model: str = ""
    state: Literal["working", "ended", "merging", "merged", "closed"] = "working"
    reason: ev.TurnEnd = "interrupted"
    message: str = ""
    joined: set[str] = field(default_factory=set)
    conflicts: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    candidate_of: str = ""
    rating: ev.SubagentRated | None = None
    said: str = ""
    duration_ms: int = 0


@dataclass(slots=True, kw_only=True)
class SessionState:
    """The state of a session at one moment. `seq` is that of the last durable event.

    `jobs` run now, `job_count` is the number ever started; `unreported_commands` and `pending_steers` are still unknown
    to the model. Of the conversation only `messages` are in memory: `message_branch` names their records, and `recall`
    reads others. `claims` are the agent's words with its latest tool calls, by call. `turns` are those of the current
    conversation, `left_turns` those of abandoned branches, by `seq`; `hook_results` holds the last run of every hook,
    by its id, `command_history` every command, in order, `last_run` the last one with its output, `verifications` the
    latest run of every todo's command.
    """

    review: ReviewState = field(default_factory=ReviewState)
    session_id: str = ""
    seq: int = 0
    workspace: str = ""
    title: str = ""
    mode: ev.ModeName = "agent"
    mode_after_turn: ev.ModeName | Literal[""] = ""
    model: str = ""
    limits: ev.LimitsChanged = field(default_factory=ev.LimitsChanged)
    policy: ev.PolicyChanged = field(default_factory=ev.PolicyChanged)
    is_demo: bool = False
    is_private: bool = False
    is_unattended: bool = False
    accepts_at_once: bool = False
    branch: str = ""
    tags: tuple[str, ...] = ()
    forked_from: str = ""
    is_closed: bool = False
    started: int = 0
    updated: int = 0
    context_window: int = 0
    context_used: int = 0
    dropped_reasoning_count: int = 0
    cache_miss: str = ""
    turns: list[TurnState] = field(default_factory=list)
    goal: GoalState | None = None
    loops: dict[str, LoopState] = field(default_factory=dict)
    loop_count: int = 0
    messages: list[Message] = field(default_factory=list)
    claims: dict[str, str] = field(default_factory=dict)
    unreported_verdicts: dict[str, VerdictRecord] = field(default_factory=dict)
    reported_verdicts: dict[str, VerdictRecord] = field(default_factory=dict)
    undone_verdicts: dict[str, VerdictRecord] = field(default_factory=dict)
    merged_user_edits: dict[str, ev.UserEditMerged] = field(default_factory=dict)
    edited_hunks: dict[str, ev.HunkEdited] = field(default_factory=dict)
    current_plan_path: str = ""
    plans: dict[str, Plan] = field(default_factory=dict)
    todos: tuple[Todo, ...] = ()
    todos_plan_path: str = ""
    verifications: dict[str, ev.TodoVerified] = field(default_factory=dict)
    approvals: dict[str, ev.ApprovalRequested] = field(default_factory=dict)
    questions: dict[str, ev.QuestionAsked] = field(default_factory=dict)
    unreported_answers: dict[str, UnreportedAnswer] = field(default_factory=dict)
    pending_steers: dict[str, str] = field(default_factory=dict)
    draft: str = ""
    review_policy: str = ""
    attachments: dict[str, Attachment] = field(default_factory=dict)
    rules: tuple[ev.LoadedRule, ...] = ()
    skills: dict[str, ev.SkillActivated] = field(default_factory=dict)
    foreign_sources: dict[str, None] = field(default_factory=dict)
    box: ev.BoxFound | None = None
    trust: ev.TrustStated | None = None
    shell: ev.ShellMoved = field(default_factory=ev.ShellMoved)
    hook_results: dict[str, ev.HookRan] = field(default_factory=dict)
    jobs: dict[str, ev.JobStarted] = field(default_factory=dict)
    job_count: int = 0
    ports: tuple[ev.OpenPort, ...] = ()
    unreported_commands: dict[str, ev.JobEnded | ev.CommandRan] = field(default_factory=dict)
    checkpoints: dict[str, ConversationCheckpoint] = field(default_factory=dict)
    recall: Recall = field(default=refuse_recall, compare=False)
    message_branch: Branch = field(default_factory=Branch)
    turn_branch: Branch = field(default_factory=Branch)
    left_turns: dict[int, TurnState] = field(default_factory=dict)
    command_history: dict[str, None] = field(default_factory=dict)
    last_run: TerminalCommandDocument | ev.CommandRan | None = None
    usage: Usage = field(default_factory=Usage)
    model_choices: ModelChoices = field(default_factory=ModelChoices)
    debug: DebugState = field(default_factory=DebugState)
    subagents: dict[str, SubagentState] = field(default_factory=dict)
    agent_sessions: dict[str, str] = field(default_factory=dict)

    @property
    def current_turn(self) -> TurnState | None:
        """The turn that runs (or that a dead engine left open)."""
        return self.turns[-1] if self.turns and not self.turns[-1].reason else None

    @property
    def changes(self) -> Mapping[str, Change]:
        """Pending changes by path."""
        return self.review.changes

    @property
    def trust_state(self) -> str:
        """The state of trust in the project; "trusted" if unknown."""
        return self.trust.state if self.trust is not None else "trusted"

    @property
    def tier(self) -> str:
        """The tier of the box, "" = not determined yet."""
        return self.box.tier if self.box is not None else ""

    def find_claim(self, path: str, hunk: str) -> str:
        """Return what the agent wrote with the call that made a pending hunk, "" = nothing."""
        return self.claims.get(self.review.hunk_calls.get(path, {}).get(hunk, ""), "")

    def is_checkpoint_left(self, checkpoint: ConversationCheckpoint) -> bool:
        """Return True if the conversation was rewound to before a checkpoint."""
        return not self.turn_branch.has_record(checkpoint.last_turn)
