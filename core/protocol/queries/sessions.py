"""Queries about sessions, their transcripts and forks, background agents, models, settings and permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta, Struct, field

from core.ids import Id, OptionalId
from core.protocol.base import Answer, Query
from core.protocol.choices import ColorChoice, GlyphChoice, HangupRule, PromptKeys
from core.protocol.debug import ComparedLocation, ProbeRecord
from core.protocol.events.session import BackgroundAgentInfo
from core.protocol.events.turn import HookRan, LoadedRule
from core.protocol.models import ModelChoice, ProviderStatus, RouteRow

PieceKind = Literal["title", "prompt", "answer", "edit", "command", "tool", "plan", "question", "review", "subagent"]
ExportFormat = Literal["md", "html", "json", "atif", "mini", "preds"]
# The endings of the files of formats that are not named after them.
EXPORT_ENDINGS: Final[Mapping[str, str]] = {"atif": "atif.json", "mini": "traj.json", "preds": "preds.json"}
NotificationForm = Literal["auto", "bell", "osc9", "osc777", "osc99", "off"]


class IdleQuery(Query, frozen=True, kw_only=True, tag="idle"):
    """Answered when every command that was accepted before has had its effect; a turn may still run."""


class SessionsQuery(Query, frozen=True, kw_only=True, tag="sessions"):
    limit: int = 50


class ModelsQuery(Query, frozen=True, kw_only=True, tag="models"):
    """Models that can be chosen: of the providers with a key, and of the local servers that answer."""

    discover: bool = True


class RoutesQuery(Query, frozen=True, kw_only=True, tag="routes"):
    """The model of each job, and its usage in the session."""


class PromptHistoryQuery(Query, frozen=True, kw_only=True, tag="prompts"):
    """The user's latest prompts in this workspace, oldest first; with a `pattern` those of all sessions that hold each
    of its words."""

    limit: int = 200
    pattern: str = ""


class ContextQuery(Query, frozen=True, kw_only=True, tag="context"):
    """Size of each part of the next request, for `/context`."""


class JobsQuery(Query, frozen=True, kw_only=True, tag="jobs"):
    """The commands in the background of a session, those that have ended included, with what they wrote last."""

    lines: int = 200


class SettingsQuery(Query, frozen=True, kw_only=True, tag="settings"):
    """The screen's part of the configuration."""


class PermissionsQuery(Query, frozen=True, kw_only=True, tag="permissions"):
    """The permissions of the workspace."""


class PatternQuery(Query, frozen=True, kw_only=True, tag="pattern"):
    """Commands that a pattern would match, beside the `command` that it is typed for."""

    pattern: str
    command: str
    choice: Literal["allow", "deny"] = "allow"


class MachinePlaceQuery(Query, frozen=True, kw_only=True, tag="machine.place"):
    """The place of a command of the user's own on their machine, and the repositories that it would get into."""

    command: str


class ProbeLogQuery(Query, frozen=True, kw_only=True, tag="probe.log"):
    """The log of a run, and its differences from another, filtered by `hypothesis` and all of `words` if given."""

    run: str
    compare_with: str = ""
    hypothesis: str = ""
    words: str = ""


class IdleAnswer(Answer, frozen=True, kw_only=True, tag="idle"):
    """`seq` of the last event then."""

    seq: int


class SessionInfo(Struct, frozen=True, kw_only=True):
    """Times in ms since the epoch; `pending` counts what waits for a verdict, `kept` the bulks of what git ignores,
    `asked` the questions and approvals that are open. `unattended`: a run of `-p`; `forked_from`: the session that it
    was copied from; `draft`: there is unsent text. `locked`: a program has it open; `running`: a turn runs in it, as
    far as is known here."""

    id: Id
    title: str
    started: int
    updated: int
    model: str
    mode: str
    turns: int = 0
    pending: int = 0
    kept: int = 0
    locked: bool = False
    problem: str = ""
    asked: int = 0
    running: bool = False
    branch: str = ""
    tags: tuple[str, ...] = ()
    unattended: bool = False
    forked_from: OptionalId = ""
    draft: bool = False


class SessionsAnswer(Answer, frozen=True, kw_only=True, tag="sessions"):
    sessions: tuple[SessionInfo, ...]


class JobInfo(Struct, frozen=True, kw_only=True):
    """A command in the background. `output`: its last lines; `changed`: paths that it has written or removed so far, at
    most a few hundred of `changed_count`, without those that were absorbed; `missed_count`: paths that have changed in
    the project and that it does not see; `sees_edits` False: it sees none while it runs, and `restarts_on_edit`: it is
    restarted for them. `restart_count`: how often it was restarted. `ended` "" = it runs, else how it ended and what it
    changed, in words."""

    id: str
    command: str
    directory: str
    duration_ms: int
    output: str = ""
    changed: tuple[str, ...] = ()
    changed_count: int = 0
    missed_count: int = 0
    sees_edits: bool = True
    restarts_on_edit: bool = False
    restart_count: int = 0
    ended: str = ""


class JobsAnswer(Answer, frozen=True, kw_only=True, tag="jobs"):
    """The latest first."""

    jobs: tuple[JobInfo, ...]


class ModelsAnswer(Answer, frozen=True, kw_only=True, tag="models"):
    """`default` "" = nothing is configured: the welcome screen's case; `reason`: what made it that one, or why not."""

    models: tuple[ModelChoice, ...]
    providers: tuple[ProviderStatus, ...]
    default: str = ""
    reason: str = ""


class RoutesAnswer(Answer, frozen=True, kw_only=True, tag="routes"):
    """The route of each job. `answering`: the conversation's model now, when it is not the first of its route."""

    rows: tuple[RouteRow, ...]
    answering: str = ""


class PromptHistoryAnswer(Answer, frozen=True, kw_only=True, tag="prompts"):
    prompts: tuple[str, ...]


class ContextPart(Struct, frozen=True, kw_only=True):
    """A part of a request. `reason`: why it is there; `id`: for `context.drop`; `problem`: why it can't be dropped."""

    name: str
    tokens: int
    detail: str = ""
    id: str = ""
    reason: str = ""
    problem: str = ""


class ContextAnswer(Answer, frozen=True, kw_only=True, tag="context"):
    """Tokens by part. `notes`: sentences about the last request."""

    parts: tuple[ContextPart, ...]
    used: int
    window: int
    notes: tuple[str, ...] = ()


class NotificationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The way the user is called. `when`: "unfocused" = while another window has the focus. `terminal`: the form that
    the terminal is told in; `command`: the start of an argv, to which title and text are added. `title`: the window's
    title says what is going on, `progress`: so does the tab (OSC 9;4). `recap`: minutes of absence after which a row
    says what happened, 0 = none does."""

    when: Literal["unfocused", "always", "never"] = "unfocused"
    terminal: NotificationForm = "auto"
    command: tuple[str, ...] = ()
    title: bool = True
    progress: bool = True
    recap: Annotated[int, Meta(ge=0)] = 5


class SettingsAnswer(Answer, frozen=True, kw_only=True, tag="settings"):
    """`theme`, `syntax` "" = the default; `themes`: the directory of the user's own. `plain`: the screen is read out.
    `keymap`: keys by the id of a binding. `detach_on_hangup`: which sessions go on when their terminal is gone;
    `idle_minutes`: after how many a detached one ends. `above`: the top of the repository that the project is a part
    of, "" = it is the top, or in none."""

    theme: str = ""
    themes: str = ""
    syntax: str = ""
    colors: ColorChoice = "auto"
    glyphs: GlyphChoice = "auto"
    plain: bool = False
    prompt_keys: PromptKeys = "default"
    notify: NotificationSettings = NotificationSettings()
    keymap: dict[str, str] = field(default_factory=dict)
    detach_on_hangup: HangupRule = "ssh"
    idle_minutes: int = 30
    above: str = ""


class SavedPermission(Struct, frozen=True, kw_only=True):
    """`id` "" = it stands in the configuration file `source`. `rule` is a rule or, with `exactly`, a command. The
    source of what holds for the session alone is "this session"."""

    choice: str
    rule: str
    id: OptionalId = ""
    source: str = ""
    exactly: bool = False
    directory: str = "."


class PermissionsAnswer(Answer, frozen=True, kw_only=True, tag="permissions"):
    """`hosts`, `services`: patterns of hosts, and services of the machine, that commands can reach now."""

    trusted: bool
    kept: tuple[SavedPermission, ...]
    hosts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()


class MachinePlaceAnswer(Answer, frozen=True, kw_only=True, tag="machine.place"):
    """`directory`: the full path. `repositories`: inside the project, relative to it, with hooks and settings of their
    own."""

    directory: str
    repositories: tuple[str, ...] = ()


class PatternAnswer(Answer, frozen=True, kw_only=True, tag="pattern"):
    """`problem` "" = it can be saved. `also`: commands of the session that it matches; `example`: one never run."""

    problem: str = ""
    also: tuple[str, ...] = ()
    example: str = ""


class ProbeLogAnswer(Answer, frozen=True, kw_only=True, tag="probe.log"):
    """The first records of `total`; with `compare_with`, the `places` where either run logged, that run's first."""

    run: str
    total: int = 0
    records: tuple[ProbeRecord, ...] = ()
    compare_with: str = ""
    places: tuple[ComparedLocation, ...] = ()

    @property
    def is_truncated(self) -> bool:
        """True if there are more records than these."""
        return self.total > len(self.records)


class RulesQuery(Query, frozen=True, kw_only=True, tag="rules"):
    """Every rule file of the user and the project, and why it binds now or does not."""


class RulesAnswer(Answer, frozen=True, kw_only=True, tag="rules"):
    """In the order in which they bind, with what could not be read last. `is_trusted` False: none of the project's."""

    rules: tuple[LoadedRule, ...]
    is_trusted: bool = True


HookTrust = Literal["yours", "trusted", "held"]


class HooksQuery(Query, frozen=True, kw_only=True, tag="hooks"):
    """Every hook of the user and the project, and how it ended last in the session."""


class HookRow(Struct, frozen=True, kw_only=True):
    """A hook. `trust`: `held` ones do not run, as the user did not say yes to them; `problem`: why it can't run;
    `timeout` in seconds; `last`: its last run in the session, None = there was none."""

    id: str
    event: str
    command: str
    source: str
    trust: HookTrust
    matcher: str = ""
    timeout: float = 0.0
    fails_closed: bool = False
    problem: str = ""
    last: HookRan | None = None


class HooksAnswer(Answer, frozen=True, kw_only=True, tag="hooks"):
    """Those that run first, in the order in which they do. `problems`: what is wrong in hook files, a line each."""

    hooks: tuple[HookRow, ...]
    problems: tuple[str, ...] = ()
    is_trusted: bool = True


class MemoryQuery(Query, frozen=True, kw_only=True, tag="memory"):
    """The notes about the project that outlive a session, and those that the agent proposes."""


class MemoryNote(Struct, frozen=True, kw_only=True):
    """A note about the project. `why` is the agent's reason for it, `at` in ms. It binds once it `is_kept`."""

    id: Id
    text: str
    why: str = ""
    at: int = 0
    is_kept: bool = False


class MemoryAnswer(Answer, frozen=True, kw_only=True, tag="memory"):
    """Oldest first."""

    notes: tuple[MemoryNote, ...]


class ForkRow(NamedTuple):
    """A session in the tree; `lead`: the lines that connect it to its source."""

    lead: str
    session: SessionInfo


def list_forks(sessions: Sequence[SessionInfo]) -> list[ForkRow]:
    """Return the sessions that are forks or were forked, from the top down. A fork whose source is gone is at
    the top."""
    sessions_by_id = {session.id: session for session in sessions}
    below = dict[str, list[SessionInfo]]()
    for session in sorted(sessions, key=lambda info: (info.started, info.id)):
        if session.forked_from in sessions_by_id and session.forked_from != session.id:
            below.setdefault(session.forked_from, []).append(session)
    tops = [
        sessions_by_id[session_id]
        for session_id in below
        if sessions_by_id[session_id].forked_from not in sessions_by_id
    ]
    return [row for top in tops for row in _walk(top, below, "", "")]


def _walk(session: SessionInfo, below: Mapping[str, list[SessionInfo]], lead: str, indent: str) -> Iterator[ForkRow]:
    yield ForkRow(lead, session)
    forks = below.get(session.id, [])
    for number, fork in enumerate(forks, 1):
        is_last = number == len(forks)
        yield from _walk(fork, below, indent + ("└─ " if is_last else "├─ "), indent + ("   " if is_last else "│  "))


class TranscriptSearchQuery(Query, frozen=True, kw_only=True, tag="transcripts"):
    """Search the transcripts of the workspace for all of `words`; "several words in quotes" stand together, and a word
    that ends in * stands for all that begin so. `typed`: the last word may not be whole yet."""

    words: str
    limit: int = 50
    typed: bool = False


class TranscriptHit(Struct, frozen=True, kw_only=True):
    """A piece of a transcript that has the words. `place`: the id of the turn or document that shows it, `seq` that of
    its record, `at` in ms. `text`: a line around the words; `marks`: their [start, end) in it, in characters."""

    session: Id
    title: str
    kind: PieceKind
    place: str
    seq: int
    at: int
    text: str
    marks: tuple[tuple[int, int], ...] = ()


class TranscriptSearchAnswer(Answer, frozen=True, kw_only=True, tag="transcripts"):
    """The best hits of each session together, the best session first. `unread`: sessions that were not read yet; asked
    again, more of them are."""

    hits: tuple[TranscriptHit, ...]
    unread: int = 0


def build_export_name(title: str, export_format: ExportFormat) -> str:
    """Return a file name for the export of a session."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:48].rstrip("-")
    return f"{words or 'session'}.{EXPORT_ENDINGS.get(export_format, export_format)}"


class ExportQuery(Query, frozen=True, kw_only=True, tag="export"):
    """The session as a document to give away: Markdown, one HTML file that needs nothing else, or JSON; or as a file
    for benchmarks: an ATIF trajectory, mini-swe-agent's, or SWE-bench's predictions. `instance`: the id of the task in
    the last two, "" = the name of the project."""

    format: ExportFormat = "md"
    instance: str = ""


class ExportAnswer(Answer, frozen=True, kw_only=True, tag="export"):
    """`name`: a file name for it. `notes`: what is missing in it, and why."""

    name: str
    text: str
    notes: tuple[str, ...] = ()


class BackgroundQuery(Query, frozen=True, kw_only=True, tag="background"):
    """The background agents of this machine, or of the team's database."""


class BackgroundAnswer(Answer, frozen=True, kw_only=True, tag="background"):
    """The newest first."""

    agents: tuple[BackgroundAgentInfo, ...] = ()
