"""An open session: its lock, log, fold and shadow, its permissions and tasks, and how it is closed.

The bytes of a change reach the disk first (blobs), then its event (`recorder`). The effects of commands are in
`core/engine/commands`; `opening` opens a session, `core/engine/turns` runs its turns.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.call_lease import OpenCapability
from core.agent.base.permissions import CallPermissions
from core.agent.base.plan_sync import PlanSync
from core.agent.base.user_channel import UserChannel
from core.agent.context.memory import ModelMemory
from core.agent.context.offers import Offer
from core.agent.context.turn_context import TurnContext
from core.agent.debug.debug_policy import remove_all_probes
from core.config.loading import apply_bounds
from core.config.settings import Settings, TurnLimits
from core.engine.session.hooks import PromotionHooks, open_session_hooks, report_session_end
from core.engine.session.model_routes import ModelRoutes
from core.engine.session.pending_changes import BulkAcceptance, SyntaxChecker
from core.engine.session.recorder import EventRecorder, Listener
from core.engine.session.server_access import ServerAccess
from core.engine.session.tasks import STOP_LIMIT, ProofSlot, SessionTasks, TurnSlot
from core.engine.shared.services import EngineServices
from core.errors import AgentTuiError, StateError, ToolFailed
from core.filesystem.removal import remove_tree
from core.git.command_view import RepositoryView, find_repository_view
from core.git.layout import find_repository
from core.hooks.session_hooks import SessionHooks
from core.ids import new_id
from core.lsp.language_servers import LanguageServers
from core.mcp.package_servers import ANY_HOST
from core.modes import Access
from core.permissions.audit import AuditLog
from core.permissions.rules import PermissionRule, find_strictest, select_rules
from core.permissions.saved_rules import SavedRules, SessionRules
from core.plans.plan_store import PlanStore
from core.protocol import events as ev
from core.protocol.attachment_labels import LABEL_PATTERN, strip_labels
from core.protocol.messages import Usage
from core.protocol.review import Origin
from core.sandbox.box import BoxService, Tier
from core.sessions import snapshot
from core.sessions.listing import SessionSummary, build_summary, save_summary
from core.sessions.log import SessionLog
from core.sessions.private_directory import find_private_directory
from core.sessions.store import SessionDirectory
from core.shadow.content.blob_store import BlobStore
from core.shadow.layers.layer_store import remove_location
from core.shadow.shadow import Shadow
from core.shell.command_host import CommandHost
from core.shell.disk_survey import DiskRecorder
from core.shell.network_grants import NetworkGrants, build_service, explain_unreachable
from core.shell.own_programs import offer_programs
from core.shell.python_repl import PythonRepl
from core.shell.session_network import SessionNetwork
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.tools.builtin.reading.ripgrep import find_program
from core.tools.toolset import Toolset
from core.user_dirs import get_cache_dir, get_config_dir, get_state_dir, list_socket_dirs
from core.workspace import IgnoreRules, Workspace
from core.workspace.plan_folder import PlanFolder
from core.workspace.withheld_paths import WithheldFinder, WithheldPaths

if TYPE_CHECKING:
    from core.web.fetcher import WebFetcher

TITLE_LENGTH = 60


class Session:
    """A session that is open in this process; see `opening`.

    `subagents`: the open sessions of its subagents, by id; `is_building`: they work on a plan. `asides`: side questions
    that are being answered, by id. `context`: that of the last turn, None before the first. `outward`: openers of
    capabilities that reach other sessions or servers; `offers`: their descriptions for the model."""

    web: WebFetcher | None = None  # created with the first page
    is_verifying = False  # a verification runs

    def __init__(
        self, directory: SessionDirectory, log: SessionLog, state: SessionState, services: EngineServices
    ) -> None:
        self.id, self.directory = directory.id, directory
        self.log, self.state = log, state
        self.services = services
        self.workspace, self.review = services.workspace, state.review
        audit = AuditLog(directory.path)
        recorder = self.recorder = EventRecorder(self.id, log, state, audit=audit, preparations=self._map_handlers())
        self.emit, self.emit_or_defer = recorder.emit, recorder.emit_or_defer
        self.emit_outside_turn = recorder.emit_outside_turn
        blobs = BlobStore(directory.blobs_path)
        self.shadow = Shadow(services.workspace, blobs, self.emit, self.review)
        self.syntax_checker = SyntaxChecker(self.review, blobs, self.emit_outside_turn)
        self._add_listeners()
        self.bulk_acceptance = BulkAcceptance(self.shadow, self.review, log.sync, self.report_error)
        self.shadow.plans.folder = _open_plans(services)
        self.plans = PlanSync(PlanStore(self.shadow.plans), state, self.emit)
        self.permissions = self._build_permissions(audit)
        self.shadow.load_rules = self.permissions.rules.load
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
        self.turn_slot, self.proof_slot = TurnSlot(self._interrupt_turn), ProofSlot()
        self.warm_up: asyncio.Task[None] | None = None
        self.subagents: dict[str, Session] = {}
        self.asides: dict[str, asyncio.Task[object]] = {}
        self.is_building = False
        self.outward, self.offers = dict[Access, OpenCapability](), list[Offer]()

    def _add_listeners(self) -> None:
        self.recorder.listeners += [
            ((ev.ChangeProposed, ev.ChangeRevised), self.syntax_checker.observe),
            ((ev.FileWritten,), self.services.trust.observe),
            (
                (ev.ChangeProposed, ev.ChangeRevised, ev.ChangeResolved, ev.LayersChanged),
                lambda _: self.terminal.jobs.update_views_soon(),
            ),
        ]

    def _open_languages(self) -> LanguageServers:
        languages = LanguageServers(self.terminal.host, lambda: self.settings.lsp, self.explain_unasked)
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
        access.servers.is_available = self.call_permissions.is_tool_granted
        access.servers.open_grants = self.permissions.open_fetch_grants
        return access

    def explain_unasked(self, command: str, directory: str) -> str | None:
        """Explain why a command of the program itself may not run without a question; None: it may."""
        self.call_permissions.is_trusted = self.services.trust.trusted
        return self.call_permissions.explain_unasked(command, directory)

    def _build_permissions(self, audit: AuditLog) -> SessionPermissions:
        sources = PermissionSources(
            directory=self.directory.path,
            workspace=self.workspace,
            ignore=self.shadow.ignore,
            audit=audit,
            list_configured=self._list_configured_rules,
            is_private_host=self._is_private_host,
            report_error=self.report_error,
        )
        return SessionPermissions(sources)

    def _list_configured_rules(self) -> tuple[PermissionRule, ...]:
        foreign_rules = self.services.foreign.load(is_trusted=self.services.trust.trusted)
        return (*self.settings.permissions.parse_rules(), *foreign_rules)

    def _is_private_host(self, host: str) -> bool:
        return self.settings.network.is_private_host(host)

    def _build_call_permissions(self) -> CallPermissions:
        return CallPermissions(
            self.terminal,
            self.settings,
            self.permissions.rules,
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
            network=SessionNetwork(self.services.boxes, self.emit_outside_turn),
            checks=lambda: self.settings.commands.checks,
            repository=self.permissions.find_repository,
            withheld=self.permissions.find_withheld,
            readable=self._list_readable,
            proxy=self.permissions.open_proxy,
            services=self.permissions.list_services,
            is_offline=lambda: not self.permissions.network_grants.list_hosts(),
            programs=_offer_programs(),
            hidden=self._list_hidden(),
            cache=self.directory.cache_path,
            accept_pending=self._accept_in_place,
            disk_recorder=DiskRecorder(self.workspace, self.shadow),
        )

    def _list_hidden(self) -> tuple[Path, ...]:
        """List the directories that commands can't see: the program's state, configuration and sockets."""
        private = find_private_directory(self.directory.path)
        return (get_state_dir(), get_config_dir(), *list_socket_dirs(), *filter(None, [private]))

    def _list_readable(self) -> tuple[Path, ...]:
        """List the folders of the user's skills that were opened, since their scripts may be run."""
        return tuple(Path(skill.folder) for skill in self.state.skills.values() if skill.folder)

    @property
    def settings(self) -> Settings:
        """The configured settings with the choices of this session, as far as the project allows them."""
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

    def is_estimated(self, model: str) -> bool:
        """Return True if the costs of a model are those of a similar one."""
        model_settings = self.services.settings.models.get(model)
        has_own_price = model_settings is not None and model_settings.price is not None
        return not has_own_price and self.services.models.estimated(model)

    def _map_handlers(self) -> Mapping[type, Listener]:
        """Return the handlers that run before the event of a start or end of a turn, of a step, or of a mode change."""
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
        if event.cause != "job":  # that turn goes on with the work of an earlier prompt
            self.create_checkpoint(event.prompt)

    def _on_turn_finished(self, _: ev.TurnFinished) -> None:
        remove_all_probes(self.state.debug, self.emit, "the turn ended")
        self._accept_automatically()

    def _on_mode_changed(self, event: ev.ModeChanged) -> None:
        if event.mode != "debug":
            remove_all_probes(self.state.debug, self.emit, "Debug mode was left")

    def _accept_automatically(self, _: object = None) -> None:
        if self.services.boxes.is_in_place:  # the agent works in the project itself, without a review
            self.promotion_hooks.accept(lambda: list(self.review.changes), self._accept_everything)
        elif self.settings.edits.policy == "auto":
            self.promotion_hooks.accept(lambda: list(self.review.changes), self.accept_all)

    async def _accept_in_place(self) -> None:
        """Write every pending change to the project, so that a command sees it."""
        effect = self.promotion_hooks.guard(lambda: list(self.review.changes), self._accept_everything)
        if inspect.isawaitable(result := effect()):
            await result

    def _accept_everything(self) -> None:
        """Accept every change, protected ones too: the user has chosen to work without a review."""
        for path in self.accept_all():
            self.bulk_acceptance.accept_file(path)
        if self.state.unreported_verdicts:
            self.emit(ev.VerdictsReported(ids=tuple(self.state.unreported_verdicts)))

    def create_checkpoint(self, prompt: str, *, before: str = "") -> str:
        """Create a checkpoint of the present state and return its id. The cost does not depend on the session's
        size."""
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
        self.terminal.jobs.note_disk_changes(paths)
        if not paths or self.state.todos_plan_path in paths:
            self.plans.refresh()
        self.emit(ev.FilesChanged(paths=paths))

    def check_disk(self, paths: tuple[str, ...] = ()) -> None:
        """Compare pending changes (no paths: all) with the disk; a clash becomes a conflict."""
        for path in list(self.review.changes):
            if not paths or path in paths:
                try:
                    self.shadow.check_disk(path)
                except AgentTuiError as problem:
                    self.report_error(problem)

    def open_fetcher(self) -> WebFetcher:
        """Return the fetcher of this session, which also caches pages."""
        from core.web.fetcher import WebFetcher
        from core.web.network import GuardedNetwork

        if self.web is None:
            is_private_host = self.permissions.network_grants.is_private_host
            self.web = WebFetcher(GuardedNetwork(is_private_host=is_private_host))
        return self.web

    def report_error(self, problem: AgentTuiError, *, path: str = "") -> None:
        """Report a failure to the clients, even when the disk is full. `path`: the file of a failed verdict."""
        self.emit_or_defer(ev.ErrorRaised(code=problem.code, message=problem.message, hint=problem.hint, path=path))

    def steer(self, text: str, identity: str = "") -> None:
        """Send a message of the user to the running turn and its subagents; return it if no turn runs."""
        identity = identity or new_id("steer")
        self.emit(ev.TurnSteered(text=text, id=identity))
        if not self.turn_slot.is_running:
            self.emit(ev.SteerReturned(id=identity, text=text))
        for subagent in self.subagents.values():
            if subagent.turn_slot.is_running:
                copy_attachments(self, subagent, text)
                subagent.steer(text, identity)

    def return_steers(self, ids: tuple[str, ...]) -> None:
        """Return messages (no ids: all) that no model was sent yet to the user."""
        for identity, text in list(self.state.pending_steers.items()):
            if identity in ids or not ids:
                self.emit(ev.SteerReturned(id=identity, text=text))
        for subagent in self.subagents.values():
            subagent.return_steers(ids)

    def run_in_parallel(self, work: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Run work in parallel to turns and effects. It is stopped like a command of the user."""

        async def run() -> None:
            await work()
            if not self.turn_slot.is_running:
                self.terminal.squash_layers()

        self.tasks.run_in_parallel(run, name=name)

    def _interrupt_turn(self) -> bool:
        return self.context is not None and self.context.interrupt()

    def build_summary(self) -> SessionSummary:
        """Return the row of this session in a list of sessions."""
        return build_summary(self.state, name=self.id, size=self.log.extent.size)

    def save_summary(self) -> None:
        """Save summary and snapshot, so that the next list of sessions does not read this log."""
        if not self.log.deferred_count:
            save_summary(self.directory.path, self.build_summary())
            snapshot.save_snapshot(self.directory.path, self.log, self.state)

    async def close(self, reason: str = "") -> None:
        """Run accepted effects, interrupt everything, and write the rest to disk; an empty session is removed."""
        await self.tasks.stop_loops()
        await self.tasks.finish_effects()
        await self.stop_turn()
        await report_session_end(self.hooks, self.state, reason)
        await self._stop()
        if self._is_empty:
            self.remove()
            return
        self.syntax_checker.close()
        self.emit_or_defer(ev.SessionClosed(reason=reason))
        self.save_summary()
        if self.log.extent.size > snapshot.MIN_GROWTH:
            snapshot.save_snapshot(self.directory.path, self.log, self.state, min_growth=1)
        self.recorder.bus.close()
        self.log.close()
        self.directory.close()

    @property
    def _is_empty(self) -> bool:
        state, review = self.state, self.review
        history = (
            state.turns or state.unreported_commands or review.checkpoints
        )  # a rewound conversation can be restored
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
        """Stop everything, and remove the session."""
        self.tasks.drop_effects()
        await self._stop()
        self.remove()

    async def stop_turn(self) -> None:
        """Interrupt the turn, wait until it has ended, and close the providers."""
        await self.turn_slot.stop()
        if self.warm_up is not None:  # it writes into the session's directory, which may be removed next
            await asyncio.wait({self.warm_up}, timeout=STOP_LIMIT)
        await self.routes.close()

    async def _stop(self) -> None:
        await self.tasks.stop_loops()
        await self.stop_turn()
        while self.subagents:
            _, subagent = self.subagents.popitem()
            await subagent.close()
        await self.proof_slot.close()
        await self.tasks.stop_commands()
        await self.terminal.close()
        await self.permissions.close()

    def remove(self) -> None:
        """Remove a session in which nothing runs, with all its data."""
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
    """Derive the title of a session: the first line with words of its first prompt, clipped at a word."""
    lines = map(strip_labels, prompt.splitlines())
    line = next(filter(None, lines), "Untitled")
    if len(line) <= TITLE_LENGTH:
        return line
    head = line[: TITLE_LENGTH - 1]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head[20:] else head}…"


def _offer_programs() -> tuple[Path, ...]:
    """Offer `apply_patch` to commands, and our search program, on a machine without one."""
    with suppress(ToolFailed):
        return offer_programs(get_cache_dir() / "programs", [Path(find_program())])
    return offer_programs(get_cache_dir() / "programs", [])


def _open_plans(services: EngineServices) -> PlanFolder:
    folder = PlanFolder(services.workspace, services.settings.plans.directory)
    folder.remove_abandoned()
    return folder


class PermissionSources(Struct, frozen=True, kw_only=True):
    """The origins of the permissions of a session. `directory`: that of the session; `list_configured`: returns the
    rules of its configuration as it is now; `is_private_host`: it names the host as one of a private network."""

    directory: Path
    workspace: Workspace
    ignore: IgnoreRules
    audit: AuditLog
    list_configured: Callable[[], tuple[PermissionRule, ...]]
    is_private_host: Callable[[str], bool]
    report_error: Callable[[AgentTuiError], None]


class SessionPermissions:
    """The rules, network grants and audit log of one open session."""

    def __init__(self, sources: PermissionSources) -> None:
        directory, workspace = sources.directory, sources.workspace
        self._audit, self._report_error, self._root = sources.audit, sources.report_error, workspace.root
        saved_rules = SavedRules(workspace.root, is_persistent=find_private_directory(directory) is None)
        self.rules = SessionRules(sources.list_configured, saved_rules)
        self.network_grants = NetworkGrants(
            directory / "network", self.rules.load, self.record_network_use, sources.is_private_host
        )
        self._above: WithheldFinder | None = None
        self._withheld = WithheldFinder(workspace, sources.ignore, self._may_read)
        self._reading: tuple[PermissionRule, ...] = ()

    def open_fetch_grants(self, directory: Path) -> NetworkGrants:
        """Open the network that packages of MCP servers are fetched with, after a yes to that."""
        is_private_host = self.network_grants.is_private_host
        return NetworkGrants(directory, self._list_fetch_rules, self.record_network_use, is_private_host)

    def _list_fetch_rules(self) -> tuple[PermissionRule, ...]:
        return (*self.rules.load(), ANY_HOST)

    def find_withheld(self) -> WithheldPaths:
        """Return the paths that a command which starts now must not read. Slow the first time: call it in a thread."""
        reading = tuple(select_rules(self.rules.load(), "Read"))
        if reading != self._reading:
            self._reading = reading
            self._withheld.clear()
        withheld_paths = self._withheld.find_paths()
        return self._add_withheld_above(withheld_paths)

    def find_repository(self) -> RepositoryView:
        """Return the parts of the repository outside of the workspace that commands see. Starts git."""
        return find_repository_view(self._root)

    def _add_withheld_above(self, withheld_paths: WithheldPaths) -> WithheldPaths:
        """Add the withheld paths of the repository around the workspace, which commands see as well."""
        places = find_repository(self._root)
        if places is None or places.root == self._root:
            return withheld_paths
        if self._above is None:
            tree = Workspace(places.root)
            self._above = WithheldFinder(tree, IgnoreRules(tree), left_out=f"{self._root.relative_to(places.root)}/")
        above = self._above.find_paths()
        outside = [*above.outside, *(places.root / path for path in (*above.covered, *above.masked))]
        outer_paths = (path for path in outside if not path.is_relative_to(self._root))
        sibling_paths = [path for path in outer_paths if not self._root.is_relative_to(path)]
        return replace(
            withheld_paths,
            outside=(*withheld_paths.outside, *sibling_paths),
            notes=(*withheld_paths.notes, *above.notes),
        )

    def _may_read(self, path: str) -> bool | None:
        rule = find_strictest(rule for rule in self._reading if rule.matches(path))
        return None if rule is None else rule.choice == "allow"

    async def open_proxy(self) -> Path | None:
        """Return the socket of the network proxy; None = it can't be started, and there is no network. The proxy also
        runs when nobody can be asked, since it reports the hosts that it refuses."""
        return await self.network_grants.open_proxy()

    def list_services(self) -> tuple[BoxService, ...]:
        """Return the granted services of this machine that a command can reach now."""
        services = self.network_grants.list_services()
        reachable_services = (
            service for service in services if explain_unreachable(service, Tier.NAMESPACES, os.environ) is None
        )
        return tuple(map(build_service, reachable_services))

    def record_network_use(self, kind: str, data: dict[str, object]) -> None:
        try:
            self._audit.record(kind, data)
        except StateError as problem:
            self._report_error(problem)

    async def close(self) -> None:
        await self.network_grants.close()
        self._audit.close()
