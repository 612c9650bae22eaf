"""Records of background agents, and the validation of requests to start one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from core.background.repositories import check_repository_url
from core.clock import now_ms
from core.errors import CommandRejected, StateError
from core.ids import Id, OptionalId, is_id, new_id
from core.modes import Mode
from core.records import decode_json

AgentState = Literal["queued", "running", "waiting", "done", "failed", "stopped"]
ENDED: Final[frozenset[AgentState]] = frozenset({"done", "failed", "stopped"})
MAX_TASK: Final = 200_000  # characters


class AgentLimits(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Limits of one turn; None = those of the configuration. `max_cost` in US dollars; `answer_seconds`: how long the
    agent waits for an answer."""

    max_steps: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    answer_seconds: int | None = None


class AgentRequest(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A request to start a background agent: a task, and its workspace (an absolute path) or repository. `branch` "" =
    the repository's default."""

    task_description: str
    workspace_path: str = ""
    repository_url: str = ""
    branch: str = ""
    model: str = ""
    mode: str = "agent"
    limits: AgentLimits = AgentLimits()


class BackgroundAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """A background agent. Times in ms since 1970, 0 = not yet. `session`: of its work, "" = not started; `worker`: its
    current worker; `attempt`: how often a worker has taken it; `message`: its last words, or the reason of its failure;
    `waits_for`: its open question; `pending`: number of files to review; `pulled`: it is under the user's own review;
    `heard`: the number of the last message that it received; `cost` in US dollars, `estimated` by the price of a
    similar model."""

    id: Id
    request: AgentRequest
    state: AgentState = "queued"
    created: int = 0
    started: int = 0
    ended: int = 0
    session: OptionalId = ""
    worker: str = ""
    attempt: int = 0
    message: str = ""
    waits_for: str = ""
    pending: int = 0
    cost: float | None = None
    estimated: bool = False
    pulled: bool = False
    heard: int = 0

    @property
    def title(self) -> str:
        """The first line of its task."""
        return self.request.task_description.strip().partition("\n")[0][:100]


class AgentMessage(Struct, frozen=True, kw_only=True):
    """A message to an agent: `command` is a command of the protocol as plain data, for the agent's session."""

    number: int
    command: dict[str, Any]


def decode_agent(record: bytes) -> BackgroundAgent:
    """Decode the stored record of an agent. Raises `StateError`: it is damaged, edited, or of another version."""
    try:
        return decode_json(record, BackgroundAgent)
    except msgspec.DecodeError as problem:
        raise StateError(
            f"the record of a background agent can't be read: {problem}.",
            hint="Another program, or another version of this one, changed it. `agent-tui agents delete` removes it.",
            code="record_unreadable",
        ) from None


def decode_listed_agent(name: str, record: bytes) -> BackgroundAgent | None:
    """Decode an agent for a list; an unreadable record becomes a failed agent with the reason. None: its name is no
    id."""
    try:
        return decode_agent(record)
    except StateError as problem:
        request = AgentRequest(task_description="(its record can't be read)")
        return BackgroundAgent(id=name, request=request, state="failed", message=str(problem)) if is_id(name) else None


def decode_messages(rows: Iterable[tuple[int, bytes]]) -> list[AgentMessage]:
    """Decode rows of number and command; unreadable ones are skipped."""
    messages = []
    for number, command in rows:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            messages.append(AgentMessage(number=number, command=decode_json(bytes(command), dict[str, Any])))
    return messages


def build_agent(request: AgentRequest) -> BackgroundAgent:
    """Build a queued agent. Raises `CommandRejected` for an invalid request."""
    if not request.task_description.strip():
        raise CommandRejected("the task is empty.", code="task_empty")
    if len(request.task_description) > MAX_TASK:
        raise CommandRejected(f"the task is longer than {MAX_TASK:,} characters.", code="task_too_long")
    if request.mode not in {mode.value for mode in Mode}:
        raise CommandRejected(f"there is no mode {request.mode!r}.", hint=", ".join(Mode), code="mode_unknown")
    if bool(request.workspace_path) == bool(request.repository_url):
        raise CommandRejected("name either a workspace or a repository.", code="workspace_unclear")
    if request.repository_url:
        check_repository_url(request.repository_url, request.branch)
    elif request.branch:
        raise CommandRejected("a branch needs a repository; a workspace is used as it is.", code="branch_unfit")
    elif not (path := Path(request.workspace_path)).is_absolute() or not path.is_dir():
        raise CommandRejected(
            f"{request.workspace_path!r} is not an absolute directory path.", code="workspace_unknown"
        )
    return BackgroundAgent(id=new_id("bga"), request=request, created=now_ms())
