"""An open session: its lock, log, fold, bus and shadow, and the one way by which an event is recorded.

The order is fixed: blobs first, then the record in the log, then the fold, then the clients. A record that the disk
refuses never happened: `emit` raises and nobody sees it. What ends a turn must happen even then: `emit_surely`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.agent.planning.plan_sync import refresh_plan
from core.clock import now_ms
from core.config import Settings, TurnLimits
from core.config.narrowing import apply_bounds
from core.engine.models import ModelAccess
from core.engine.project_trust import ProjectTrust
from core.engine.session.event_bus import EventBus
from core.engine.session.permissions import SessionPermissions
from core.engine.session.probe_cleanup import drop_probes_before, prune_killed_runs, remove_probes
from core.engine.session.recovery import close_open_turn
from core.engine.session.restore import finish_pending_restore
from core.engine.session.syntax_check import SyntaxChecker
from core.engine.shared_box import SharedBox
from core.errors import AgentTuiError, StateError
from core.filesystem.removal import remove_tree
from core.git.temporary_directories import remove_abandoned
from core.ids import new_id
from core.plans.plan_store import PlanStore
from core.protocol import events as ev
from core.protocol.attachment_labels import strip_labels
from core.protocol.messages import Usage
from core.protocol.renames import map_conflicting_renames
from core.protocol.review import Change, Origin
from core.sessions import snapshot
from core.sessions.log import SessionLog
from core.sessions.private_directory import find_private_directory
from core.sessions.redaction import EventRedactor
from core.sessions.snapshot import open_session
from core.sessions.store import SessionDirectory
from core.sessions.summary import SessionSummary, build_summary, save_summary
from core.shadow import BlobStore, ReviewState, Shadow
from core.shadow.layers.layer_location import remove_location
from core.shell.execution import CommandHost
from core.shell.terminal import Terminal
from core.state.fold import SessionState
from core.user_dirs import get_config_dir, get_state_dir
from core.workspace import Workspace
from core.workspace.plan_folder import PlanFolder

TITLE_LENGTH = 60
MAX_BATCH = 250  # files that are promoted in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineServices:
    """What all sessions of an engine share.

    `interactive`: a user can be asked. `trusted`: the project's own configuration and rules are read. `bounds`:
    settings of the project that can't be widened.
    """

    workspace: Workspace
    settings: Settings
    models: ModelAccess
    boxes: SharedBox
    interactive: bool = True
    trusted: bool = True
    trusting: ProjectTrust | None = None
    bounds: Mapping[tuple[str, str], Any] = field(default_factory=dict)


class Session:
    """A session that is open in this process.

    `configured` may be replaced between turns. `listener` gets every recorded event, after it counts.
    """

    def __init__(
        self, directory: SessionDirectory, log: SessionLog, state: SessionState, around: EngineServices
    ) -> None:
        self.directory = directory
        self.log = log
        self.state = state
        self.configured, self.bounds = around.settings, around.bounds
        self.models = around.models
        self.interactive = around.interactive
        self.trusted = around.trusted
        self.trusting = around.trusting
        self.workspace = around.workspace
        self.turn_id = ""
        self.listener: Callable[[ev.AnyEvent], None] | None = None
        self.announced: dict[str, str] = {}
        self.door = EventRedactor()
        self.review = state.review if isinstance(state.review, ReviewState) else ReviewState()
        self.bus = EventBus(directory.id, lambda after, limit, brief: log.read(after=after, limit=limit, brief=brief))
        blobs = BlobStore(directory.blobs_path)
        self.shadow = Shadow(around.workspace, blobs, self.emit, self.review)
        self.syntax_checker = SyntaxChecker(self.review, blobs, self.emit_apart)
        folder = PlanFolder(around.workspace)
        folder.remove_abandoned()
        self.plans = PlanStore(folder)
        self.boxes = around.boxes
        self.permissions = SessionPermissions(self)
        self.terminal = Terminal(self._build_command_host())

    def _build_command_host(self) -> CommandHost:
        return CommandHost(
            workspace=self.workspace,
            shadow=self.shadow,
            state=self.state,
            emit=self.emit,
            emit_outside_turn=self.emit_apart,
            directory=self.directory.path,
            box=self.boxes,
            checks=lambda: self.settings.commands.checks,
            withheld=self.permissions.find_withheld,
            proxy=self.permissions.open_proxy,
            hidden=(get_state_dir(), get_config_dir(), *filter(None, [find_private_directory(self.directory.path)])),
            cache=self.directory.cache_path,
        )

    @classmethod
    def create(cls, directory: SessionDirectory, around: EngineServices, first: ev.SessionStarted) -> Session:
        """Create a session that begins with `first`."""
        prune_killed_runs(directory)
        remove_abandoned()
        log = SessionLog(directory.log_path)
        state = SessionState(review=ReviewState(), session_id=directory.id, recall=log.read_records)
        runtime = cls(directory, log, state, around)
        runtime.emit(first)
        return runtime

    @classmethod
    def resume(cls, directory: SessionDirectory, around: EngineServices) -> Session:
        """Open a session from its log: finish or undo promotions, then close what a dead turn left open."""
        prune_killed_runs(directory)
        remove_abandoned()
        log, state, mended = open_session(directory.path, lambda: SessionState(review=ReviewState()))
        state.session_id = directory.id
        runtime = cls(directory, log, state, around)
        repaired = [mended, *runtime.shadow.recover(), finish_pending_restore(runtime)]
        runtime.turn_id = state.current_turn.id if state.current_turn is not None else ""
        repaired.append(close_open_turn(state, runtime.emit, reopened=True))
        runtime.turn_id = ""
        remove_probes(runtime, resumed=True)
        runtime.emit(ev.SessionResumed(repaired=" ".join(filter(None, repaired))))
        return runtime

    @property
    def settings(self) -> Settings:
        """The configured settings, with what was chosen in this session as far as the project allows it."""
        limits, policy = self.state.limits, self.state.policy
        found = self.configured
        if limits.by == "user":
            chosen = TurnLimits(max_steps=limits.max_steps, max_cost=limits.max_cost, max_tokens=limits.max_tokens)
            found = apply_bounds(replace(found, limits=chosen), self.bounds)
        if policy.by == "user":
            found = apply_bounds(replace(found, commands=replace(found.commands, policy=policy.policy)), self.bounds)
        return found

    def compute_cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost of one call in US dollars by the configured price, else the price list; None = not known."""
        configured = self.configured.models.get(model)
        if configured is not None and configured.price is not None:
            return configured.price.compute_cost(usage)
        return self.models.cost(model, usage)

    @property
    def id(self) -> str:
        return self.directory.id

    def emit(self, event: ev.AnyEvent) -> None:
        """Record, fold and publish an event. Raises `StateError`, with no effect, if it can't be recorded."""
        passed = self.door.redact_event(event)
        if passed is None or isinstance(passed, ev.LOSSY):
            self._publish_live(passed)
            return
        self._prepare_edge(passed)
        self.permissions.record(passed)
        self._record(self._wrap(passed, self.log.last_seq + 1))

    def emit_apart(self, event: ev.AnyEvent) -> None:
        """Emit an event that belongs to no turn, though one may run."""
        passed = self.door.redact_event(event)
        if passed is None or isinstance(passed, ev.LOSSY):
            self._publish_live(passed)
            return
        self.permissions.record(passed)
        self._record(ev.Envelope(seq=self.log.last_seq + 1, session=self.id, at=now_ms(), event=passed))

    def emit_surely(self, event: ev.AnyEvent) -> None:
        """Emit an event; if the disk refuses it, keep it in memory and write it as soon as the disk accepts it."""
        passed = self.door.redact_event(event)
        if passed is None:
            return
        envelope = self._wrap(passed, self.log.last_seq + 1)
        try:
            self.permissions.record(passed)
            self.log.append(envelope)
        except StateError:
            self.log.defer(envelope)
        self._apply(envelope)

    def _publish_live(self, event: ev.AnyEvent | None) -> None:
        if event is not None:
            self.bus.publish(self._wrap(event, self.log.last_seq))

    def _record(self, envelope: ev.Envelope) -> None:
        self.log.append(envelope)
        self._apply(envelope)

    def _wrap(self, event: ev.AnyEvent, seq: int) -> ev.Envelope:
        return ev.Envelope(seq=seq, session=self.id, at=now_ms(), event=event, turn=self.turn_id)

    def _apply(self, envelope: ev.Envelope) -> None:
        self.state.apply(envelope)
        self.bus.publish(envelope)
        self.syntax_checker.observe(envelope.event)
        if self.trusting is not None:
            self.trusting.observe(envelope.event)
        if self.listener is not None:
            self.listener(envelope.event)

    def _prepare_edge(self, event: ev.AnyEvent) -> None:
        """Do what has to happen at the edges of steps and turns, ahead of the event that marks the edge."""
        drop_probes_before(self, event)
        match event:
            case ev.TurnStarted(prompt=prompt):
                if not self.state.title:
                    self.emit(ev.SessionRenamed(title=derive_title(prompt)))
                self.create_checkpoint(prompt)
            case ev.StepStarted() | ev.TurnFinished() if self.settings.edits.policy == "auto":
                self.accept_all()
            case _:
                return

    def create_checkpoint(self, prompt: str, *, before: str = "") -> str:
        """Create a checkpoint of this moment and return its id. Cheap, whatever the session holds."""
        name, seq = new_id("check"), self.log.last_seq
        generated = self.shadow.checkpoints.freeze(name, seq)
        self.emit(ev.CheckpointCreated(id=name, seq=seq, prompt=prompt, before=before, generated=generated))
        return name

    def accept_all(self, origin: Origin | None = None, paths: tuple[str, ...] = ()) -> list[str]:
        """Promote every change (of an origin, or of these paths) that may be accepted in bulk, many per transaction.

        Returns the paths left: protected, in conflict, or not writable.
        """
        left, ready = [], []
        self.shadow.refresh_annotations()
        pairs = map_conflicting_renames(self.review.changes)
        for change in self.find_changes(origin, paths):
            now = None if change.protected else self._check_disk(change.path)
            if now is not None and not now.conflict and (part := select_hunks(now, origin)):
                left += [] if self._accept_file(now.path, part) else [now.path]
                continue
            if change.protected or (now is not None and now.conflict):
                left.append(change.path)
                if now is not None and now.clean_hunks:
                    self._accept_file(now.path, tuple(each.id for each in now.clean_hunks))
            elif now is not None:
                ready.append(change.path)
            elif change.path in self.review.changes:
                left.append(change.path)
        held = {path for pair in pairs.items() if set(pair) & set(left) for path in pair}
        left += [path for path in ready if path in held]
        ready = [path for path in ready if path not in held]
        for start in range(0, len(ready), MAX_BATCH):
            left += self._accept_files(ready[start : start + MAX_BATCH])
        if self.settings.edits.policy == "auto" and self.state.unreported_by_id:
            self.emit(ev.VerdictsReported(ids=tuple(self.state.unreported_by_id)))
        return left

    def _check_disk(self, path: str) -> Change | None:
        try:
            return self.shadow.check_disk(path)
        except StateError:
            raise
        except AgentTuiError as problem:
            self.report_error(problem, path=path)
            return None

    def _accept_files(self, paths: list[str]) -> list[str]:
        """Promote these files together or, if one of them can't be written, one by one. Returns the paths left."""
        self.log.sync()
        try:
            self.shadow.accept_files([path for path in paths if path in self.review.changes])
        except StateError:
            raise
        except AgentTuiError:
            return [path for path in paths if path in self.review.changes and not self._accept_file(path)]
        return []

    def _accept_file(self, path: str, hunks: tuple[str, ...] = ()) -> bool:
        try:
            self.accept(path, hunks)
        except StateError:
            raise
        except AgentTuiError as problem:
            self.report_error(problem, path=path)
            return False
        return True

    def find_changes(self, origin: Origin | None, paths: tuple[str, ...] = ()) -> list[Change]:
        """Return the pending changes of an origin (None: any) and of these paths (none: all)."""
        named = frozenset(paths)
        found = (each for each in self.shadow.list_changes() if not named or each.path in named)
        return [each for each in found if select_hunks(each, origin) is not None]

    def accept(self, path: str, hunks: tuple[str, ...] = ()) -> None:
        """Promote hunks of one file (none named: all). The record reaches the disk before the file does."""
        self.log.sync()
        self.shadow.resolve(path, hunks, "accept", "")

    def on_disk_changed(self, paths: tuple[str, ...]) -> None:
        """Check pending changes against paths that changed on disk (none = too many to name) and notify the
        clients."""
        for path in list(self.review.changes):
            if not paths or path in paths:
                try:
                    self.shadow.check_disk(path)
                except AgentTuiError as problem:
                    self.report_error(problem)
        self.shadow.check_bulks()
        if not paths or self.state.todos_plan_path in paths:
            refresh_plan(self)
        self.emit(ev.FilesChanged(paths=paths))

    def save_draft(self, text: str) -> None:
        """Save the text of the prompt if it is news."""
        if text != self.state.draft:
            self.emit_apart(ev.DraftKept(text=text))

    def report_error(self, problem: AgentTuiError, *, retryable: bool = False, path: str = "") -> None:
        """Report a failure to the clients (`path`: of a verdict there), even when the disk is full."""
        code, message, hint = problem.code, problem.message, problem.hint
        self.emit_surely(ev.ErrorRaised(code=code, message=message, hint=hint, retryable=retryable, path=path))

    def build_summary(self) -> SessionSummary:
        """Return the row of this session in a list of sessions."""
        return build_summary(self.state, name=self.id, size=self.log.size)

    def save_summary(self) -> None:
        """Save summary and snapshot, so that the next list of sessions need not read this log."""
        if not self.log.deferred_count:
            save_summary(self.directory.path, self.build_summary())
            snapshot.save_snapshot(self.directory.path, self.log, self.state)

    @property
    def outputs(self) -> Path:
        return self.directory.outputs_path

    def close(self, reason: str = "") -> None:
        """Write what is left and release the lock. A session in which nothing happened leaves nothing behind."""
        self.syntax_checker.close()
        review = self.review
        said = (
            self.state.turns or self.state.unreported_commands or review.checkpoints
        )  # what was rewound can be taken back
        if not (
            said
            or self.state.draft
            or self.state.pending_changes
            or review.layers
            or review.verdicts
            or review.comments
        ):
            self.discard()
            return
        self.emit_surely(ev.SessionClosed(reason=reason))
        self.save_summary()
        if self.log.size > snapshot.MIN_GROWTH:
            snapshot.save_snapshot(self.directory.path, self.log, self.state, least=1)
        self.bus.close()
        self.log.close()
        self.directory.close()

    def discard(self) -> None:
        """Close the session as if it had never been."""
        self.syntax_checker.close()
        self.bus.close()
        self.log.close()
        layers = self.directory.path / "layers"
        remove_location(layers)
        if layers.is_dir():
            remove_tree(layers)
        self.directory.discard()
        self.directory.close()


def select_hunks(change: Change, origin: Origin | None) -> tuple[str, ...] | None:
    """Return the hunks of a change that are of an origin; () = the whole change, None = nothing.

    Hunks that were made for several todos can stand in one file.
    """
    whose = change.origin.todo if change.origin else ""
    if origin is None or origin != Origin(todo=origin.todo) or not any(hunk.todo for hunk in change.hunks):
        return () if origin is None or origin.covers(change.origin) else None
    hunks = [each for each in change.hunks if not each.moves] or change.hunks
    own = tuple(hunk.id for hunk in hunks if (hunk.todo or whose) == origin.todo)
    return () if len(own) == len(hunks) else own or None


def derive_title(prompt: str) -> str:
    """Return the title of a session: the first line of its first prompt with words, clipped at a word."""
    said = map(strip_labels, prompt.splitlines())
    line = next(filter(None, said), "Untitled")
    if len(line) <= TITLE_LENGTH:
        return line
    head = line[: TITLE_LENGTH - 1]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head[20:] else head}…"
