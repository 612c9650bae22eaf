"""An open session: its lock, log, fold and shadow, its tasks, and how it is closed.

The bytes of a change reach the disk first (blobs), then its event (`recorder`). The effects of commands are in
`core/engine/commands`; `opening` makes a session, `turns` runs its turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.agent.base.call_lease import OpenCapability
from core.agent.base.permissions import CallPermissions
from core.agent.base.plan_sync import PlanSync
from core.agent.base.user_channel import UserChannel
from core.agent.context.memory import ModelMemory
from core.agent.context.offers import Offer
from core.agent.context.turn_context import TurnContext
from core.agent.debug.debug_policy import remove_all_probes
from core.config.narrowing import apply_bounds
from core.config.settings import Settings, TurnLimits
from core.engine.hooks.promotion import PromotionHooks
from core.engine.hooks.session import open_session_hooks, report_session_end
from core.engine.server_access import ServerAccess
from core.engine.services import EngineServices
from core.engine.session.bulk_acceptance import BulkAcceptance
from core.engine.session.model_routes import ModelRoutes
from core.engine.session.permissions import SessionPermissions
from core.engine.session.recorder import EventRecorder, Listener
from core.engine.session.syntax_check import SyntaxChecker
from core.engine.session.tasks import STOP_LIMIT, SessionTasks, TurnSlot
from core.errors import AgentTuiError
from core.filesystem.removal import remove_tree
from core.hooks.session_hooks import SessionHooks
from core.ids import new_id
from core.lsp.language_servers import LanguageServers
from core.modes import Access
from core.permissions.audit import AuditLog
from core.plans.plan_store import PlanStore
from core.protocol import events as ev
from core.protocol.attachment_labels import LABEL_PATTERN, strip_labels
from core.protocol.messages import Usage
from core.protocol.review import Origin
from core.sessions import snapshot
from core.sessions.log import SessionLog
from core.sessions.private_directory import find_private_directory
from core.sessions.store import SessionDirectory
from core.sessions.summary import SessionSummary, build_summary, save_summary
from core.shadow.content.blob_store import BlobStore
from core.shadow.layers.layer_location import remove_location
from core.shadow.shadow import Shadow
from core.shell.command_host import CommandHost
from core.shell.python_repl import PythonRepl
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.tools.toolset import Toolset
from core.user_dirs import get_config_dir, get_state_dir, list_socket_dirs
from core.workspace.plan_folder import PlanFolder

if TYPE_CHECKING:
    from core.web.fetcher import WebFetcher

TITLE_LENGTH = 60


class Session:
    """A session that is open in this process; `opening` makes it. `subagents`: the open sessions of its subagents, by
    id; `is_building`: they work on a plan. `context`: that of the last turn, None before the first. `subagent_limits`:
    grants and budget of a subagent, None = it is none. `outward`, `offers`: what its turns have of accesses that lead
    out of it, and what its model is told of them."""

    web: WebFetcher | None = None  # made with the first page
    is_verifying = False  # checks are run again

    def __init__(
        self, directory: SessionDirectory, log: SessionLog, state: SessionState, services: EngineServices
    ) -> None:
        self.id, self.directory = directory.id, directory
        self.log, self.state = log, state
        self.services = services
        self.workspace, self.review = services.workspace, state.review
        audit = AuditLog(directory.path)
        recorder = self.recorder = EventRecorder(self.id, log, state, audit=audit, ahead=self._list_edges())
        self.emit, self.emit_surely = recorder.emit, recorder.emit_surely
        self.emit_outside_turn = recorder.emit_outside_turn
        blobs = BlobStore(directory.blobs_path)
        self.shadow = Shadow(services.workspace, blobs, self.emit, self.review)
        self.syntax_checker = SyntaxChecker(self.review, blobs, self.emit_outside_turn)
        self.recorder.listeners += [
            ((ev.ChangeProposed, ev.ChangeRevised), self.syntax_checker.observe),
            ((ev.FileWritten,), services.trust.observe),
        ]
        self.bulk_acceptance = BulkAcceptance(self.shadow, self.review, log.sync, self.report_error)
        self.shadow.plans.folder = _open_plans(services)
        self.plans = PlanSync(PlanStore(self.shadow.plans), state, self.emit)
        self.permissions = self._build_permissions(audit)
        self.shadow.load_rules = self.permissions.load_rules
        self.terminal = Terminal(self._build_command_host())
        self.routes = ModelRoutes(services.models, lambda: self.settings, state, self.emit)
        self.user = UserChannel(self.emit, is_interactive=services.options.interactive)
        self.python = PythonRepl(self.terminal)
        self.tools = Toolset()
        self.call_permissions = self._build_call_permissions()
        self.languages, self.server_access = self._open_languages(), self._open_servers()
        self.memory: ModelMemory | None = None
        self.context: TurnContext | None = None
        self.tasks = SessionTasks(self.report_error)
        self.hooks, self.promotion_hooks = self._open_hooks()
        self.turn_slot = TurnSlot(self._interrupt_turn)
        self.warm_up: asyncio.Task[None] | None = None
        self.subagents: dict[str, Session] = {}
        self.is_building = False
        self.outward, self.offers = dict[Access, OpenCapability](), list[Offer]()

    def _open_languages(self) -> LanguageServers:
        languages = LanguageServers(self.terminal.host, lambda: self.settings.lsp, self._explain_unasked)
        event_types = (ev.ChangeProposed, ev.ChangeRevised, ev.ChangeResolved)
        self.recorder.listeners.append((event_types, languages.observe_change))
        self.terminal.on_close.append(languages.close)
        return languages

    def _open_hooks(self) -> tuple[SessionHooks, PromotionHooks]:
        hooks = open_session_hooks(self.terminal, self.call_permissions, self.services.trust, self.recorder)
        promotion = PromotionHooks(hooks, self.tasks, self.workspace.root, self.report_error)
        self.recorder.listeners.append(((ev.FileWritten,), promotion.observe))
        return hooks, promotion

    def _open_servers(self) -> ServerAccess:
        access = ServerAccess(self.terminal, self.user, self.tools, self.services.trust)
        access.servers.is_given = self.call_permissions.is_tool_granted
        return access

    def _explain_unasked(self, command: str, directory: str) -> str:
        self.call_permissions.is_trusted = self.services.trust.trusted
        return self.call_permissions.explain_unasked(command, directory)

    def _build_permissions(self, audit: AuditLog) -> SessionPermissions:
        return SessionPermissions(
            self.directory.path,
            self.services,
            self.shadow,
            audit=audit,
            settings=lambda: self.settings,
            report_error=self.report_error,
        )

    def _build_call_permissions(self) -> CallPermissions:
        return CallPermissions(
            self.terminal,
            self.settings,
            self.permissions.saved_rules,
            self.permissions.network_grants,
            added_directories=self.services.added_directories,
        )

    def _build_command_host(self) -> CommandHost:
        return CommandHost(
            workspace=self.workspace,
            shadow=self.shadow,
            state=self.state,
            emit=self.emit,
            emit_outside_turn=self.emit_outside_turn,
            directory=self.directory.path,
            session_id=self.directory.id,
            box=self.services.boxes,
            checks=lambda: self.settings.commands.checks,
            repository=self.permissions.find_repository,
            withheld=self.permissions.find_withheld,
            readable=self._list_readable,
            proxy=self.permissions.open_proxy,
            services=self.permissions.list_services,
            hidden=self._list_hidden(),
            cache=self.directory.cache_path,
        )

    def _list_hidden(self) -> tuple[Path, ...]:
        """List what commands do not see: what the program keeps, and by which it can be reached."""
        private = find_private_directory(self.directory.path)
        return (get_state_dir(), get_config_dir(), *list_socket_dirs(), *filter(None, [private]))

    def _list_readable(self) -> tuple[Path, ...]:
        """List the folders of the user's own skills that were opened: their scripts may be run."""
        return tuple(Path(skill.folder) for skill in self.state.skills.values() if skill.folder)

    @property
    def settings(self) -> Settings:
        """The configured settings, with what was chosen in this session as far as the project allows it."""
        limits, policy = self.state.limits, self.state.policy
        session_settings, bounds = self.services.settings, self.services.bounds
        if limits.by == "user":
            turn_limits = TurnLimits(max_steps=limits.max_steps, max_cost=limits.max_cost, max_tokens=limits.max_tokens)
            session_settings = apply_bounds(replace(session_settings, limits=turn_limits), bounds)
        if policy.by == "user":
            session_settings = apply_bounds(
                replace(session_settings, commands=replace(session_settings.commands, policy=policy.policy)), bounds
            )
        return session_settings

    def compute_cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost of one call in US dollars by the configured price, else the price list; None = not known."""
        model_settings = self.services.settings.models.get(model)
        if model_settings is not None and model_settings.price is not None:
            return model_settings.price.compute_cost(usage)
        return self.services.models.cost(model, usage)

    def _list_edges(self) -> Mapping[type, Listener]:
        """Return what has to happen at the edges of steps and turns, ahead of the event that marks the edge."""
        return {
            ev.TurnStarted: self._on_turn_started,
            ev.StepStarted: self._accept_automatically,
            ev.TurnFinished: self._on_turn_finished,
            ev.ModeChanged: self._on_mode_changed,
        }

    def _on_turn_started(self, event: ev.TurnStarted) -> None:
        if (loss := self.log.find_loss()) is not None:
            self.report_error(loss)
        if not self.state.title:
            self.emit(ev.SessionRenamed(title=derive_title(event.prompt)))
        self.create_checkpoint(event.prompt)

    def _on_turn_finished(self, _: ev.TurnFinished) -> None:
        remove_all_probes(self.state.debug, self.emit, "the turn ended")
        self._accept_automatically()

    def _on_mode_changed(self, event: ev.ModeChanged) -> None:
        if event.mode != "debug":
            remove_all_probes(self.state.debug, self.emit, "Debug mode was left")

    def _accept_automatically(self, _: object = None) -> None:
        if self.settings.edits.policy == "auto":
            self.promotion_hooks.accept(lambda: list(self.review.changes), self.accept_all)

    def create_checkpoint(self, prompt: str, *, before: str = "") -> str:
        """Create a checkpoint of this moment and return its id. Cheap, whatever the session holds."""
        name, seq = new_id("check"), self.state.seq
        has_layers = self.shadow.layers.freeze(name, seq)
        self.emit(ev.CheckpointCreated(id=name, seq=seq, prompt=prompt, before=before, generated=has_layers))
        return name

    def accept_all(self, origin: Origin | None = None, paths: tuple[str, ...] = ()) -> list[str]:
        """Accept every change (of an origin, or of these paths) that may be accepted in bulk; return the paths left."""
        left_paths = self.bulk_acceptance.accept(origin, paths)
        if self.settings.edits.policy == "auto" and self.state.unreported_verdicts:
            self.emit(ev.VerdictsReported(ids=tuple(self.state.unreported_verdicts)))
        return left_paths

    def on_disk_changed(self, paths: tuple[str, ...]) -> None:
        """Check pending changes against paths that changed on disk (none = too many to name) and notify the clients."""
        self.check_disk(paths)
        self.shadow.check_bulks()
        self.languages.observe_disk(paths)
        if not paths or self.state.todos_plan_path in paths:
            self.plans.refresh()
        self.emit(ev.FilesChanged(paths=paths))

    def check_disk(self, paths: tuple[str, ...] = ()) -> None:
        """Compare pending changes (none named: all) with what is on disk; what it clashes with is a conflict."""
        for path in list(self.review.changes):
            if not paths or path in paths:
                try:
                    self.shadow.check_disk(path)
                except AgentTuiError as problem:
                    self.report_error(problem)

    def open_fetcher(self) -> WebFetcher:
        """Return what fetches the pages of this session, and keeps them for a while."""
        from core.web.fetcher import WebFetcher

        self.web = self.web or WebFetcher()
        return self.web

    def report_error(self, problem: AgentTuiError, *, path: str = "") -> None:
        """Report a failure to the clients (`path`: of a verdict there), even when the disk is full."""
        self.emit_surely(ev.ErrorRaised(code=problem.code, message=problem.message, hint=problem.hint, path=path))

    def steer(self, text: str, identity: str = "") -> None:
        """Send a message of the user to the running turn and its subagents; one that is too late is given back."""
        identity = identity or new_id("steer")
        self.emit(ev.TurnSteered(text=text, id=identity))
        if not self.turn_slot.is_running:
            self.emit(ev.SteerReturned(id=identity, text=text))
        for subagent in self.subagents.values():
            if subagent.turn_slot.is_running:
                copy_attachments(self, subagent, text)
                subagent.steer(text, identity)

    def return_steers(self, ids: tuple[str, ...]) -> None:
        """Give messages (none named: all) back to the user that no model was sent yet."""
        for identity, text in list(self.state.pending_steers.items()):
            if identity in ids or not ids:
                self.emit(ev.SteerReturned(id=identity, text=text))
        for subagent in self.subagents.values():
            subagent.return_steers(ids)

    def run_beside(self, work: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Run work that holds a command, beside whatever else runs; it is stopped like a command."""

        async def run() -> None:
            await work()
            if not self.turn_slot.is_running:
                self.terminal.squash_layers()

        self.tasks.run_beside(run, name=name)

    def _interrupt_turn(self) -> bool:
        return self.context is not None and self.context.interrupt()

    def build_summary(self) -> SessionSummary:
        """Return the row of this session in a list of sessions."""
        return build_summary(self.state, name=self.id, size=self.log.extent.size)

    def save_summary(self) -> None:
        """Save summary and snapshot, so that the next list of sessions need not read this log."""
        if not self.log.deferred_count:
            save_summary(self.directory.path, self.build_summary())
            snapshot.save_snapshot(self.directory.path, self.log, self.state)

    async def close(self, reason: str = "") -> None:
        """Interrupt what runs, carry out what was accepted, write what is left; an empty session leaves nothing."""
        await self.tasks.finish_effects()
        await self.stop_turn()
        await report_session_end(self.hooks, self.state, reason)
        await self._stop()
        if self._is_empty:
            self.remove()
            return
        self.syntax_checker.close()
        self.emit_surely(ev.SessionClosed(reason=reason))
        self.save_summary()
        if self.log.extent.size > snapshot.MIN_GROWTH:
            snapshot.save_snapshot(self.directory.path, self.log, self.state, min_growth=1)
        self.recorder.bus.close()
        self.log.close()
        self.directory.close()

    @property
    def _is_empty(self) -> bool:
        state, review = self.state, self.review
        history = state.turns or state.unreported_commands or review.checkpoints  # what was rewound can be taken back
        return not (
            history
            or state.draft
            or state.review_policy
            or state.changes
            or review.layers
            or review.verdicts
            or review.comments
        )

    async def discard(self) -> None:
        """Stop what runs, and leave nothing of the session."""
        self.tasks.drop_effects()
        await self._stop()
        self.remove()

    async def stop_turn(self) -> None:
        """Interrupt the turn, wait until it has ended, and close the providers."""
        await self.turn_slot.stop()
        if self.warm_up is not None:  # it writes into the session's directory, which may be about to go
            await asyncio.wait({self.warm_up}, timeout=STOP_LIMIT)
        await self.routes.close()

    async def _stop(self) -> None:
        await self.stop_turn()
        while self.subagents:
            _, subagent = self.subagents.popitem()
            await subagent.close()
        await self.tasks.stop_commands()
        await self.terminal.close()
        await self.permissions.close()

    def remove(self) -> None:
        """Remove the session, which is at rest, as if it had never been."""
        self.syntax_checker.close()
        self.recorder.bus.close()
        self.log.close()
        layers = self.directory.path / "layers"
        remove_location(layers)
        if layers.is_dir():
            remove_tree(layers)
        self.directory.discard()
        self.directory.close()


def copy_attachments(source: Session, target: Session, text: str) -> None:
    """Copy the attachments that a text names into another session, under the same labels."""
    for label in dict.fromkeys(LABEL_PATTERN.findall(text)):
        attachment = source.state.attachments.get(label)
        if attachment is not None and target.state.attachments.get(label) != attachment:
            target.shadow.blobs.put(source.shadow.blobs.get(attachment.digest))
            target.emit_outside_turn(ev.AttachmentAdded(label=label, attachment=attachment))


def derive_title(prompt: str) -> str:
    """Return the title of a session: the first line of its first prompt with words, clipped at a word."""
    lines = map(strip_labels, prompt.splitlines())
    line = next(filter(None, lines), "Untitled")
    if len(line) <= TITLE_LENGTH:
        return line
    head = line[: TITLE_LENGTH - 1]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head[20:] else head}…"


def _open_plans(services: EngineServices) -> PlanFolder:
    folder = PlanFolder(services.workspace, services.settings.plans.directory)
    folder.remove_abandoned()
    return folder
