"""Events of a session as a whole: its beginning and end, mode and model, checkpoints, notices and errors."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.ids import Id, OptionalId
from core.protocol.base import Event, IdEvent, LossyEvent, ModeName
from core.protocol.messages import Effort, ModelJob, ServiceTier, TierChoice, Usage

BackgroundState = Literal["queued", "running", "waiting", "done", "failed", "stopped"]


class BackgroundAgentInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One background agent. Times in ms since 1970, 0 = not yet. `place`: the workspace or repository that it works in;
    `session`: that of its work; `message`: its last words, or why it failed; `waits_for`: what it asks; `pending`:
    files that wait for a review; `pulled`: they are under the user's own; `cost` in US dollars, `estimated` by the
    price of a similar model."""

    id: Id
    title: str
    state: BackgroundState
    place: str
    created: int = 0
    started: int = 0
    ended: int = 0
    session: OptionalId = ""
    model: str = ""
    message: str = ""
    waits_for: str = ""
    pending: int = 0
    cost: float | None = None
    estimated: bool = False
    pulled: bool = False


class IndexStatus(Struct, frozen=True, kw_only=True):
    """Progress of the index of the project.

    Of `files` that belong into it `indexed` can be found; `chunks` pieces were cut from them, and `embedded` of these
    have a vector. `problem` says why it is off or failed, or what it does without. `model`: that of the `embed` route,
    which has `known_to_model` vectors of the chunks; "" = none was asked, the program's own serves.
    """

    state: Literal["off", "building", "ready", "failed"] = "off"
    files: int = 0
    indexed: int = 0
    chunks: int = 0
    embedded: int = 0
    problem: str = ""
    model: str = ""
    known_to_model: int = 0


class SessionStarted(Event, frozen=True, kw_only=True, tag="session.started"):
    """`demo`: played by a script, and always labelled so. `private`: gone when the program ends. `branch`: the one that
    is checked out, "" = none. `unattended`: nobody can be asked, as with `-p`. `accepts_at_once`: edits are written to
    the project without a review."""

    workspace: str
    mode: ModeName
    model: str
    demo: bool = False
    private: bool = False
    title: str = ""
    branch: str = ""
    unattended: bool = False
    accepts_at_once: bool = False


class SessionResumed(Event, frozen=True, kw_only=True, tag="session.resumed"):
    """`repaired`: the repairs of the recovery ("" = none). The others are as in `SessionStarted`."""

    repaired: str = ""
    branch: str = ""
    unattended: bool = False
    accepts_at_once: bool = False


class SessionForked(Event, frozen=True, kw_only=True, tag="session.forked"):
    """Everything before this was copied from the session `source`, as it was at its checkpoint `at` ("" = at
    its end)."""

    source: str
    at: str = ""


class SessionTagged(Event, frozen=True, kw_only=True, tag="session.tagged"):
    """The tags of the session from now on."""

    tags: tuple[str, ...] = ()


class SessionRenamed(Event, frozen=True, kw_only=True, tag="session.renamed"):
    title: str


class SessionClosed(Event, frozen=True, kw_only=True, tag="session.closed"):
    reason: str = ""


class TrustStated(Event, frozen=True, kw_only=True, tag="trust.stated"):
    """The state of trust in the project's own instructions: its rules, its configuration, its git settings. `asked`: no
    answer yet, treated as a no. `holds`: the paths that are not read; `changed`: files that differ from when the
    project was trusted, the only ones that are asked about; `hooks`: the commands in them, a line per hook."""

    state: Literal["asked", "trusted", "restricted"]
    directory: str
    holds: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class ModeChanged(Event, frozen=True, kw_only=True, tag="mode.changed"):
    """The mode from now on. `back_to`: the mode after the turn that begins now."""

    mode: ModeName
    back_to: ModeName | Literal[""] = ""
    by: Literal["user", "agent"] = "user"


class BranchChanged(Event, frozen=True, kw_only=True, tag="branch.changed"):
    """Another branch of the user's repository is checked out; "" = none."""

    branch: str


class LimitsChanged(Event, frozen=True, kw_only=True, tag="limits.changed"):
    """The limits of one turn from now on: model calls, US dollars, tokens; 0 = none. `by` the user: for the session."""

    max_steps: int = 100
    max_cost: float = 0.0
    max_tokens: int = 0
    by: Literal["user", "configuration"] = "configuration"


class PolicyChanged(Event, frozen=True, kw_only=True, tag="policy.changed"):
    """The policy on commands from now on: see `commands.policy` in the configuration."""

    policy: Literal["confirm", "auto", "human"] = "auto"
    by: Literal["user", "configuration"] = "configuration"


class ModelChanged(Event, frozen=True, kw_only=True, tag="model.changed"):
    """`context_window` in tokens, 0 = not known. `mode`: for this one alone, "" = for all that have no own model."""

    model: str
    context_window: int = 0
    mode: ModeName | Literal[""] = ""


class EffortChanged(Event, frozen=True, kw_only=True, tag="effort.changed"):
    """The reasoning effort from now on, "" = as configured, else each model's default. `mode` as in `ModelChanged`."""

    effort: Effort | Literal[""] = ""
    mode: ModeName | Literal[""] = ""


class TierChanged(Event, frozen=True, kw_only=True, tag="tier.changed"):
    """The service tier of the conversation from now on, "" = as configured."""

    tier: TierChoice = ""


class RouteTaken(Event, frozen=True, kw_only=True, tag="route.taken"):
    """The model that answers from now on, and its effort (`effort` "" = its default). `wanted`: the requested effort,
    if the model does not have it. `price_step`: the tokens of a prompt above which they cost more, 0 = none; `tier`:
    the service tier, "" = standard. `instead_of`: the model that can't answer now, and `reason` why."""

    model: str
    effort: str = ""
    wanted: str = ""
    context_window: int = 0
    price_step: int = 0
    tier: ServiceTier | Literal[""] = ""
    instead_of: str = ""
    reason: str = ""


class ModelUsed(Event, frozen=True, kw_only=True, tag="model.used"):
    """The usage of a model for a job outside the steps of the conversation, or for a failed attempt."""

    job: ModelJob
    model: str
    usage: Usage


class CheckpointCreated(IdEvent, frozen=True, kw_only=True, tag="checkpoint.created"):
    """The session as it was after event `seq`: the pending review, and the other effects of commands (`generated`:
    there were any). `prompt`: the prompt that followed; "" with `before`, the checkpoint that was to be restored."""

    seq: int
    prompt: str = ""
    before: str = ""
    generated: bool = False


class SkippedPath(Struct, frozen=True, kw_only=True):
    """A path that a restore skipped, and why."""

    path: str
    reason: str


class CheckpointRestored(IdEvent, frozen=True, kw_only=True, tag="checkpoint.restored"):
    """The files are as they were at `checkpoint`, except for skipped ones. `id`: the checkpoint made before, which
    undoes this. `files`: paths whose pending state or content on disk has changed."""

    checkpoint: Id
    files: tuple[str, ...] = ()
    left: tuple[SkippedPath, ...] = ()


class ConversationRewound(Event, frozen=True, kw_only=True, tag="conversation.rewound"):
    """The history and the transcript are what they were after event `to_seq`, at `checkpoint`. Nothing of the
    log goes; a checkpoint made before this brings back what was left."""

    to_seq: int
    checkpoint: Id


class AgentSessionOpened(IdEvent, frozen=True, kw_only=True, tag="agent.session_opened"):
    """A hosted agent works for this session in its own session `id`, by which it can resume it."""

    agent: str


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    level: Literal["info", "warning"]
    message: str
    hint: str = ""


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error"):
    """`path`: the change, or the root of the bulk, whose verdict could not be carried out."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False
    path: str = ""


class ClientsChanged(LossyEvent, frozen=True, kw_only=True, tag="clients.changed"):
    """Transport only: so many clients have the session open."""

    count: int


class StreamLagged(LossyEvent, frozen=True, kw_only=True, tag="stream.lagged"):
    """Transport only: lossy events were dropped for this client."""

    dropped: int


class IndexProgressed(LossyEvent, frozen=True, kw_only=True, tag="index.progressed"):
    """The index of the project has progressed; `IndexQuery` returns the same at any time."""

    status: IndexStatus


class BackgroundReported(LossyEvent, frozen=True, kw_only=True, tag="background.reported"):
    """The background agents, newest first, after a change of any. `BackgroundQuery` returns the same."""

    agents: tuple[BackgroundAgentInfo, ...]
