"""One open session: its lock, log, fold, bus and shadow, and the one way by which an event comes to be.

The order is fixed: bytes first (blobs), then the record in the log, then the fold, then the clients. A record that the
disk refuses never happened: `emit` raises and nobody is told. What ends a turn must happen even then: `emit_surely`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.agent.execution import Ground
from core.agent.plan_news import refresh
from core.agent.terminal import Terminal
from core.bus import Bus
from core.clock import now_ms
from core.config import Limits, Settings
from core.config.narrowing import within
from core.engine.boxes import Boxes
from core.engine.debug_end import before_edge, end_debugging, sweep_killed
from core.engine.flagging import Flagging
from core.engine.models import ModelAccess
from core.engine.permits import Permits
from core.engine.recovery import close_open_turn
from core.engine.restoring import go_on
from core.engine.trusting import Trusting
from core.errors import AgentTuiError, StateError
from core.git.short_lived import sweep_abandoned
from core.ids import new_id
from core.plans.store import PlanStore
from core.protocol import events as ev
from core.protocol.attachments import without_labels
from core.protocol.messages import Usage
from core.protocol.moves import tied
from core.protocol.review import Change, Origin
from core.sessions import snapshot
from core.sessions.door import Door
from core.sessions.fold import SessionState
from core.sessions.log import SessionLog
from core.sessions.private import place_of
from core.sessions.snapshot import open_session
from core.sessions.store import SessionDirectory
from core.sessions.summary import Summary, keep, summary_of
from core.shadow import BlobStore, ReviewState, Shadow
from core.shadow.places import forget_place
from core.user_dirs import config_dir, state_dir
from core.workspace import Workspace
from core.workspace.plan_folder import PlanFolder
from core.workspace.removing import remove_tree

TITLE_LENGTH = 60
TOGETHER = 250  # files that are promoted in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every session of an engine shares. `interactive` False: no user can be asked. `trusted`: what the project
    says is heard, and `bounds` what of it can't be widened."""

    workspace: Workspace
    settings: Settings
    models: ModelAccess
    boxes: Boxes
    interactive: bool = True
    trusted: bool = True
    trusting: Trusting | None = None
    bounds: Mapping[tuple[str, str], Any] = field(default_factory=dict)


class SessionRuntime:
    """A session that is open in this process. `configured` may be replaced between turns. `listener` is told of every
    event that is recorded, after it counts."""

    def __init__(self, directory: SessionDirectory, log: SessionLog, state: SessionState, around: Surroundings) -> None:
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
        self.told: dict[str, str] = {}
        self.door = Door()
        self.review = state.review if isinstance(state.review, ReviewState) else ReviewState()
        self.bus = Bus(directory.id, lambda after, limit, brief: log.read(after=after, limit=limit, brief=brief))
        blobs = BlobStore(directory.blobs)
        self.shadow = Shadow(around.workspace, blobs, self.emit, self.review)
        self.flagging = Flagging(self.review, blobs, self.emit_apart)
        folder = PlanFolder(around.workspace)
        folder.sweep()
        self.plans = PlanStore(folder)
        self.boxes = around.boxes
        self.permits = Permits(self)
        self.terminal = Terminal(self._ground())

    def _ground(self) -> Ground:
        return Ground(
            workspace=self.workspace,
            shadow=self.shadow,
            state=self.state,
            emit=self.emit,
            emit_apart=self.emit_apart,
            directory=self.directory.path,
            box=self.boxes,
            checks=lambda: self.settings.commands.checks,
            withheld=self.permits.withheld,
            proxy=self.permits.proxy,
            hidden=(state_dir(), config_dir(), *filter(None, [place_of(self.directory.path)])),
            cache=self.directory.cache,
        )

    @classmethod
    def create(cls, directory: SessionDirectory, around: Surroundings, first: ev.SessionStarted) -> SessionRuntime:
        """A new session, begun with `first`."""
        sweep_killed(directory)
        sweep_abandoned()
        log = SessionLog(directory.log)
        state = SessionState(review=ReviewState(), id=directory.id, recall=log.records)
        runtime = cls(directory, log, state, around)
        runtime.emit(first)
        return runtime

    @classmethod
    def resume(cls, directory: SessionDirectory, around: Surroundings) -> SessionRuntime:
        """A session from its log: promotions rolled to one side, then whatever a dead turn left open closed."""
        sweep_killed(directory)
        sweep_abandoned()
        log, state, mended = open_session(directory.path, lambda: SessionState(review=ReviewState()))
        state.id = directory.id
        runtime = cls(directory, log, state, around)
        repaired = [mended, *runtime.shadow.recover(), go_on(runtime)]
        runtime.turn_id = state.turn.id if state.turn is not None else ""
        repaired.append(close_open_turn(state, runtime.emit, reopened=True))
        runtime.turn_id = ""
        end_debugging(runtime, resumed=True)
        runtime.emit(ev.SessionResumed(repaired=" ".join(filter(None, repaired))))
        return runtime

    @property
    def settings(self) -> Settings:
        """What is configured, with what was chosen in this session as far as the project allows it."""
        limits, policy = self.state.limits, self.state.policy
        found = self.configured
        if limits.by == "user":
            chosen = Limits(max_steps=limits.max_steps, max_cost=limits.max_cost, max_tokens=limits.max_tokens)
            found = within(replace(found, limits=chosen), self.bounds)
        if policy.by == "user":
            found = within(replace(found, commands=replace(found.commands, policy=policy.policy)), self.bounds)
        return found

    def price(self, model: str, usage: Usage) -> float | None:
        """US dollars for one call, None = not known: as configured, else as the price list has it."""
        configured = self.configured.models.get(model)
        if configured is not None and configured.price is not None:
            return configured.price.of(usage)
        return self.models.cost(model, usage)

    @property
    def id(self) -> str:
        return self.directory.id

    def emit(self, event: ev.AnyEvent) -> None:
        """Record, fold and publish an event. Raises `StateError`, with no effect, if it can't be recorded."""
        passed = self.door.passed(event)
        if passed is None or isinstance(passed, ev.LOSSY):
            self._publish_live(passed)
            return
        self._before(passed)
        self.permits.note(passed)
        self._record(self._envelope(passed, self.log.last + 1))

    def emit_apart(self, event: ev.AnyEvent) -> None:
        """As `emit`, for what belongs to no turn though one may run."""
        passed = self.door.passed(event)
        if passed is None or isinstance(passed, ev.LOSSY):
            self._publish_live(passed)
            return
        self.permits.note(passed)
        self._record(ev.Envelope(seq=self.log.last + 1, session=self.id, at=now_ms(), event=passed))

    def emit_surely(self, event: ev.AnyEvent) -> None:
        """As `emit`; what the disk refuses is kept in memory and written as soon as the disk takes it."""
        passed = self.door.passed(event)
        if passed is None:
            return
        envelope = self._envelope(passed, self.log.last + 1)
        try:
            self.permits.note(passed)
            self.log.append(envelope)
        except StateError:
            self.log.defer(envelope)
        self._take_in(envelope)

    def _publish_live(self, event: ev.AnyEvent | None) -> None:
        if event is not None:
            self.bus.publish(self._envelope(event, self.log.last))

    def _record(self, envelope: ev.Envelope) -> None:
        self.log.append(envelope)
        self._take_in(envelope)

    def _envelope(self, event: ev.AnyEvent, seq: int) -> ev.Envelope:
        return ev.Envelope(seq=seq, session=self.id, at=now_ms(), event=event, turn=self.turn_id)

    def _take_in(self, envelope: ev.Envelope) -> None:
        self.state.apply(envelope)
        self.bus.publish(envelope)
        self.flagging.note(envelope.event)
        if self.trusting is not None:
            self.trusting.note(envelope.event)
        if self.listener is not None:
            self.listener(envelope.event)

    def _before(self, event: ev.AnyEvent) -> None:
        """What has to be done at the edges of steps and turns, ahead of the event that marks the edge."""
        before_edge(self, event)
        match event:
            case ev.TurnStarted(prompt=prompt):
                if not self.state.title:
                    self.emit(ev.SessionRenamed(title=title_of(prompt)))
                self.checkpoint(prompt)
            case ev.StepStarted() | ev.TurnFinished() if self.settings.edits.policy == "auto":
                self.accept_everything()
            case _:
                return

    def checkpoint(self, prompt: str, *, before: str = "") -> str:
        """Make a checkpoint of this moment; its id. It costs next to nothing, whatever the session holds."""
        name, seq = new_id("check"), self.log.last
        generated = self.shadow.checkpoints.freeze(name, seq)
        self.emit(ev.CheckpointCreated(id=name, seq=seq, prompt=prompt, before=before, generated=generated))
        return name

    def accept_everything(self, origin: Origin | None = None, paths: tuple[str, ...] = ()) -> list[str]:
        """Promote every change (of an origin, or of these paths) that may be accepted in bulk, many in a transaction.
        Returns the paths left: protected, in conflict, or not to be written."""
        left, ready = [], []
        self.shadow.look_around()
        pairs = tied(self.review.changes)
        for change in self.changes_of(origin, paths):
            now = None if change.protected else self._looked_at(change.path)
            if now is not None and not now.conflict and (part := part_of(now, origin)):
                left += [] if self._accept_alone(now.path, part) else [now.path]
                continue
            if change.protected or (now is not None and now.conflict):
                left.append(change.path)
                if now is not None and now.clean:
                    self._accept_alone(now.path, tuple(each.id for each in now.clean))
            elif now is not None:
                ready.append(change.path)
            elif change.path in self.review.changes:
                left.append(change.path)
        held = {path for pair in pairs.items() if set(pair) & set(left) for path in pair}
        left += [path for path in ready if path in held]
        ready = [path for path in ready if path not in held]
        for start in range(0, len(ready), TOGETHER):
            left += self._accept_files(ready[start : start + TOGETHER])
        if self.settings.edits.policy == "auto" and self.state.unreported:
            self.emit(ev.VerdictsReported(ids=tuple(self.state.unreported)))
        return left

    def _looked_at(self, path: str) -> Change | None:
        try:
            return self.shadow.check_disk(path)
        except StateError:
            raise
        except AgentTuiError as problem:
            self.complain(problem, path=path)
            return None

    def _accept_files(self, paths: list[str]) -> list[str]:
        """Promote these files together, else, if one of them can't be written, one by one."""
        self.log.sync()
        try:
            self.shadow.accept_files([path for path in paths if path in self.review.changes])
        except StateError:
            raise
        except AgentTuiError:
            return [path for path in paths if path in self.review.changes and not self._accept_alone(path)]
        return []

    def _accept_alone(self, path: str, hunks: tuple[str, ...] = ()) -> bool:
        try:
            self.accept(path, hunks)
        except StateError:
            raise
        except AgentTuiError as problem:
            self.complain(problem, path=path)
            return False
        return True

    def changes_of(self, origin: Origin | None, paths: tuple[str, ...] = ()) -> list[Change]:
        """The pending changes of an origin (None: of any) and of these paths (none: all)."""
        named = frozenset(paths)
        found = (each for each in self.shadow.changes() if not named or each.path in named)
        return [each for each in found if part_of(each, origin) is not None]

    def accept(self, path: str, hunks: tuple[str, ...] = ()) -> None:
        """Promote hunks of one file (none named: all). The record of what is accepted reaches the disk before the file
        does."""
        self.log.sync()
        self.shadow.resolve(path, hunks, "accept", "")

    def disk_changed(self, paths: tuple[str, ...]) -> None:
        """Paths changed on disk (none = too many to name): look at those that are pending, tell the clients."""
        for path in list(self.review.changes):
            if not paths or path in paths:
                try:
                    self.shadow.check_disk(path)
                except AgentTuiError as problem:
                    self.complain(problem)
        self.shadow.check_bulks()
        if not paths or self.state.plan_path in paths:
            refresh(self)
        self.emit(ev.FilesChanged(paths=paths))

    def keep_draft(self, text: str) -> None:
        """What stands in the prompt, if that is not known."""
        if text != self.state.draft:
            self.emit_apart(ev.DraftKept(text=text))

    def complain(self, problem: AgentTuiError, *, retryable: bool = False, path: str = "") -> None:
        """Tell the clients of a failure (`path`: of a verdict there); that must be possible with a full disk, too."""
        code, message, hint = problem.code, problem.message, problem.hint
        self.emit_surely(ev.ErrorRaised(code=code, message=message, hint=hint, retryable=retryable, path=path))

    def summary(self) -> Summary:
        """What a list of sessions shows of this one."""
        return summary_of(self.state, name=self.id, size=self.log.size)

    def keep_summary(self) -> None:
        """Spare the next list of sessions the reading of this log."""
        if not self.log.deferred:
            keep(self.directory.path, self.summary())
            snapshot.keep(self.directory.path, self.log, self.state)

    @property
    def outputs(self) -> Path:
        return self.directory.outputs

    def close(self, reason: str = "") -> None:
        """Write what is left, let the lock go. A session in which nothing happened leaves nothing behind."""
        self.flagging.end()
        review = self.review
        said = self.state.turns or self.state.terminal_news or review.points  # what was rewound can be taken back
        if not (said or self.state.draft or self.state.pending or review.layers or review.verdicts or review.comments):
            self.discard()
            return
        self.emit_surely(ev.SessionClosed(reason=reason))
        self.keep_summary()
        if self.log.size > snapshot.WORTH:
            snapshot.keep(self.directory.path, self.log, self.state, least=1)
        self.bus.close()
        self.log.close()
        self.directory.close()

    def discard(self) -> None:
        """Let go of the session as if it had never been."""
        self.flagging.end()
        self.bus.close()
        self.log.close()
        layers = self.directory.path / "layers"
        forget_place(layers)
        if layers.is_dir():
            remove_tree(layers)
        self.directory.discard()
        self.directory.close()


def part_of(change: Change, origin: Origin | None) -> tuple[str, ...] | None:
    """The hunks of a change that are of an origin; (): all of it, None: nothing. Hunks that were made for several todos
    stand in one file."""
    whose = change.origin.todo if change.origin else ""
    if origin is None or origin != Origin(todo=origin.todo) or not any(hunk.todo for hunk in change.hunks):
        return () if origin is None or origin.covers(change.origin) else None
    hunks = [each for each in change.hunks if not each.moves] or change.hunks
    own = tuple(hunk.id for hunk in hunks if (hunk.todo or whose) == origin.todo)
    return () if len(own) == len(hunks) else own or None


def title_of(prompt: str) -> str:
    """A session's title: the first line of its first prompt that says something, clipped at a word."""
    said = map(without_labels, prompt.splitlines())
    line = next(filter(None, said), "Untitled")
    if len(line) <= TITLE_LENGTH:
        return line
    head = line[: TITLE_LENGTH - 1]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head[20:] else head}…"
