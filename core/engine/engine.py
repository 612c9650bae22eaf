"""The engine: three verbs (`submit`, `events`, `query`) over the sessions of one workspace.

`commands` holds the effects of commands, `queries` the answers, `session` an open session.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from core import demo
from core.agent.context.offers import Offer
from core.config.settings import LoadedSettings
from core.engine.commands import COMMANDS, STOPPING
from core.engine.commands.checkpoints import check_idle, find_checkpoint
from core.engine.commands.settings import announce_limits, apply_limit_options
from core.engine.configuration.foreign_files import build_notice
from core.engine.configuration.settings_file import save_provider, save_setting, save_settings
from core.engine.configuration.settings_lint import lint_settings, read_user_text
from core.engine.privacy import Privacy, prune_abandoned, save_pending
from core.engine.queries import QUERIES
from core.engine.queries.source import QuerySource
from core.engine.session.closed_sessions import CLOSED_SESSION_COMMANDS, expire_sessions
from core.engine.session.opening import create_session, fill_directory, fork_session, record_branch, resume_session
from core.engine.session.proof import start_after_resume
from core.engine.session.recorder import Subscription
from core.engine.session.server_access import ServerAccess
from core.engine.session.session import Session
from core.engine.session.tasks import explain_fault
from core.engine.shared.background_link import BackgroundLink
from core.engine.shared.box import SharedBox
from core.engine.shared.models import ModelAccess
from core.engine.shared.project_files import FileList, FileWatcher
from core.engine.shared.project_index import ProjectIndex
from core.engine.shared.project_trust import ProjectTrust
from core.engine.shared.services import EngineServices
from core.engine.subagents.sessions import find_ended_log, finish_merges
from core.engine.subagents.task_agents import TaskAgents
from core.engine.turns.lifecycle import on_trust_changed, preload, suggest_prompt
from core.engine.turns.wakes import wake_on_job_ends
from core.errors import CommandRejected
from core.git.layout import read_branch
from core.modes import Access
from core.permissions.foreign_rules import ForeignPermissions
from core.protocol import commands as cmd
from core.protocol.events import (
    EffortChanged,
    Envelope,
    LossyEvent,
    Notice,
    SessionStarted,
    TierChanged,
    TrustStated,
)
from core.protocol.options import EngineOptions
from core.protocol.queries import AnyAnswer, AnyQuery, RefusedAnswer
from core.sandbox.box import Tier
from core.sessions.log import read_envelopes
from core.sessions.store import SessionDirectory
from core.shell.terminal import Terminal
from core.state.session import SessionState
from core.tasks import TaskOwner
from core.workspace import Workspace


class Engine:
    """An engine in this process, used without a transport. It reads and writes nothing until a session is opened."""

    def __init__(
        self,
        directory: Path,
        *,
        options: EngineOptions | None = None,
        models: ModelAccess | None = None,
        boxes: SharedBox | None = None,
    ) -> None:
        self._directory = directory
        self._options = options or EngineOptions()
        self._models = models or ModelAccess()
        tier = self._options.tier
        self._boxes = boxes or SharedBox(required_tier=Tier(tier) if tier else None)
        self._tasks = TaskOwner()
        self._source: QuerySource | None = None
        self._sessions: dict[str, Session] = {}
        self._closing = WeakSet[Session]()
        self._watch: FileWatcher | None = None
        self._closed = False
        self._privacy = Privacy(self._options.private)
        self._commands: Mapping[type, Callable[[Any], Awaitable[cmd.Ack]]] = {
            cmd.SessionOpen: self._open_session,
            cmd.SessionResume: self._resume_session,
            cmd.SessionFork: self._fork_session,
            cmd.SessionClose: self._close_session,
            cmd.SessionDetach: self._refuse_detach,
            cmd.PendingKeep: self._save_pending,
            cmd.ProviderConfigure: self._save_provider,
            cmd.ThemeKeep: self._save_theme,
            cmd.SettingKeep: self._save_setting,
            cmd.TrustSet: self._set_trust,
        }

    async def submit(self, command: cmd.AnyCommand) -> cmd.Reply:
        """Accept or reject a command. The answer comes before any effect."""
        try:
            if self._closed:
                raise CommandRejected("the engine is closing.", code="closing")
            if (accept := self._commands.get(type(command))) is not None:
                return await accept(command)
            if (
                change := CLOSED_SESSION_COMMANDS.get(type(command))
            ) is not None and command.session not in self._sessions:
                await asyncio.to_thread(change, self._load().services.store, command)
                return cmd.Ack(session=command.session)
            session = self._find_session(command.session, subagents=isinstance(command, cmd.TurnInterrupt))
            if type(command) in STOPPING:
                session.proof_slot.stop()
            effect = COMMANDS[type(command)](session, command)
            session.tasks.schedule(await effect if inspect.isawaitable(effect) else effect)
            return _ack(session)
        except Exception as problem:  # a fault of ours in one command must not end the engine
            fault = explain_fault(problem)
            return cmd.Reject(code=fault.code, message=fault.message, hint=fault.hint)

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncGenerator[Envelope]:
        """Yield durable events with `seq > after`, in order and (except with `brief`) without gaps, then live ones.
        Events of a subagent end with it; of one that has ended only those in its log are yielded."""
        if (log := find_ended_log(self._sessions.values(), session)) is not None:
            for envelope in await asyncio.to_thread(read_envelopes, log, after):
                yield envelope
            return
        bus = self._find_session(session, subagents=True).recorder.bus
        async for envelope in Subscription(bus, after, brief).iter_envelopes():
            yield envelope

    async def query(self, query: AnyQuery) -> AnyAnswer:
        """Answer a query. It has no effect."""
        try:
            answer = QUERIES[type(query)](self._load(), query)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as problem:  # a fault of ours in one query must not end the engine
            fault = explain_fault(problem)
            return RefusedAnswer(code=fault.code, message=fault.message, hint=fault.hint)

    def _load(self) -> QuerySource:
        """Return the source of answers for the workspace; workspace and configuration are read once."""
        if self._source is None:
            workspace = Workspace(self._directory)
            trust = ProjectTrust(workspace, for_now=self._options.trust)
            trust.set_callback(partial(asyncio.get_running_loop().call_soon_threadsafe, self._on_trusted_files_changed))
            settings = apply_limit_options(loaded_settings := trust.load_settings(), self._options)
            store = self._privacy.open_store(workspace.root, settings, self._options.home)
            index_directory = self._privacy.choose_index_directory(store, self._options.home)
            services = EngineServices(
                workspace=workspace,
                settings=settings,
                bounds=loaded_settings.bounds,
                models=self._models,
                boxes=self._boxes,
                store=store,
                trust=trust,
                files=FileList(workspace.root),
                index=ProjectIndex(workspace.root, index_directory, self._announce, is_enabled=settings.index.enabled),
                background=BackgroundLink(lambda: services.settings, self._options.program, self._announce),
                foreign=ForeignPermissions(workspace.root),
                options=self._options,
            )
            warnings = [
                f"{problem.message} {problem.hint}".rstrip() for problem in lint_settings(settings, read_user_text())
            ]
            services.notices = [*loaded_settings.notices, *self._privacy.list_notices(), *warnings]
            if self._options.home is None and not self._privacy.is_on:
                check = trust.is_readable if trust.trusted else None
                services.notices += filter(None, [build_notice(workspace, check)])
            prune_abandoned(services)
            if self._options.home is None and not self._privacy.is_on:  # a background agent has its own sessions
                self._tasks.spawn(asyncio.to_thread(expire_sessions, store, settings.sessions), name="expiry")
            self._boxes.use_directory(self._privacy.path, workspace.root)
            services.notices += self._boxes.choose(settings, self._options)
            self._source = QuerySource(services, self._sessions)
        return self._source

    def _switch_directory(self, directory: Path) -> None:
        if self._source is not None:
            self._tasks.spawn(self._source.services.close(), name="index of another directory")
        self._directory, self._source = directory, None
        self._stop_watching()

    def _apply_settings(self, services: EngineServices, loaded_settings: LoadedSettings) -> None:
        services.settings, services.bounds = apply_limit_options(loaded_settings, self._options), loaded_settings.bounds
        for session in self._sessions.values():
            session.services.settings, session.services.bounds = services.settings, services.bounds
            announce_limits(session)

    def _on_disk_changed(self, paths: tuple[str, ...]) -> None:
        if self._source is not None:
            self._source.services.files.forget()
            self._source.services.index.on_disk_changed(paths)
            trust = self._source.services.trust
            trust.check_paths(paths) if paths else trust.check_all()
        for session in self._iter_sessions():
            session.on_disk_changed(paths)
        for session in self._sessions.values():
            record_branch(session)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _find_session(self, session: str, *, subagents: bool = False) -> Session:
        """Return an open session; with `subagents`, also one of a subagent. Raises `CommandRejected` if there is
        none."""
        if (open_session := self._sessions.get(session)) is not None:
            return open_session
        for parent in self._sessions.values() if subagents else ():
            if session in parent.subagents:
                return parent.subagents[session]
        raise CommandRejected(
            f"no session {session!r} is open." if session else "the command has no session.",
            hint="Open or resume one first.",
            code="session_unknown",
        )

    def _iter_sessions(self) -> Iterator[Session]:
        for session in list(self._sessions.values()):
            yield from (session, *session.subagents.values())

    async def _open_session(self, command: cmd.SessionOpen) -> cmd.Ack:
        if command.demo:
            self._switch_directory(demo.create_project())
        services = self._load().services
        start_event = SessionStarted(
            workspace=str(services.workspace.root),
            mode=command.mode if command.mode != "agent" else self._options.mode or services.settings.mode.value,
            model=await self._choose_model(command, services),
            demo=command.demo,
            private=self._privacy.is_on,
            branch=read_branch(services.workspace.root),
            unattended=not self._options.interactive,
            accepts_at_once=services.accepts_at_once,
        )

        def create(directory: SessionDirectory) -> Session:
            session = create_session(directory, services, start_event)
            if effort := command.effort or self._options.effort:
                session.emit(EffortChanged(effort=effort))
            if self._options.is_background and (tier := services.settings.background.tier):
                session.emit(TierChanged(tier=tier))
            return session

        return self._register(fill_directory(services.store.create(), create))

    async def _choose_model(self, command: cmd.SessionOpen, services: EngineServices) -> str:
        if command.demo:
            return demo.build_model_id()
        named_model = self._models.complete(command.model or self._options.model or "", services.settings)
        return named_model or await self._models.default(services.settings)

    async def _resume_session(self, command: cmd.SessionResume) -> cmd.Ack:
        if command.session in self._sessions:
            return _ack(self._sessions[command.session])
        services = self._load().services
        is_here = not command.session or services.store.has_session(command.session)
        if not is_here and (project := demo.find_project(command.session)) is not None:
            self._switch_directory(project)
            services = self._load().services
        self._privacy.check_resume(services.store, command.session)
        name = services.store.resolve_id(command.session)
        if name in self._sessions:
            return _ack(self._sessions[name])
        directory = services.store.open(name)
        try:
            session = resume_session(directory, services)
        except BaseException:
            directory.close()
            raise
        ack = self._register(session)
        await finish_merges(session)
        start_after_resume(session)
        return ack

    async def _fork_session(self, command: cmd.SessionFork) -> cmd.Ack:
        source, store = self._find_session(command.session), self._load().services.store
        checkpoint = find_checkpoint(source, command.at) if command.at else None
        await source.tasks.wait_idle()
        check_idle(source)

        return self._register(fill_directory(store.create(), partial(fork_session, source, checkpoint)))

    async def _save_pending(self, command: cmd.PendingKeep) -> cmd.Ack:
        session = await save_pending(self._sessions, command.session, self._load().services)
        await session.close()
        return _ack(session)

    def _register(self, session: Session) -> cmd.Ack:
        self._sessions[session.id] = session
        agents = TaskAgents(session)
        session.outward[Access.SPAWN] = agents.open
        session.offers.append(Offer("available_agents", agents.describe))
        services = session.services
        ack = _ack(session)  # built first, so that a client which follows from its seq on sees the notices
        for notice in services.notices:
            session.emit(Notice(level="warning", message=notice))
        services.notices.clear()
        self._announce_trust(session)
        announce_limits(session, self._options)
        wake_on_job_ends(session)
        session.routes.warn_of_end()
        if self._options.preload:
            preload(session)
        self._tasks.spawn(self._announce_box(session), name=f"sandbox of {session.id}")
        if session.state.is_demo:
            session.tasks.schedule(partial(suggest_prompt, session))
        if self._options.watch and self._watch is None:
            self._watch = FileWatcher(services.workspace, self._on_disk_changed)
            self._watch.start()
            services.index.start_soon(self._watch)
            services.background.start_watching()
        elif self._options.preload and not self._options.watch:
            services.index.start_soon(None)
        return ack

    def _announce(self, event: LossyEvent) -> None:
        for session in self._sessions.values():
            session.emit(event)

    async def _announce_box(self, session: Session) -> None:
        """Find the box while the user still types, and report its tier if it is another than the session knows."""
        await self._boxes.find()
        event = self._boxes.build_event()
        if session.id in self._sessions and session.state.box != event:
            session.emit_outside_turn(event)

    async def _close_session(self, command: cmd.SessionClose) -> cmd.Ack:
        session = self._find_session(command.session)
        del self._sessions[session.id]
        self._closing.add(session)
        session.tasks.schedule(session.discard if command.discard else partial(session.close, "closed by the user"))
        return _ack(session)

    async def _refuse_detach(self, _: cmd.SessionDetach) -> cmd.Ack:
        raise CommandRejected("this session ends with its program.", code="detach_refused")

    def _announce_trust(self, session: Session) -> None:
        """Ask about trust where the user can answer, else report which files are not read."""
        trust = session.services.trust
        if (trust_event := self._build_trust_event(trust)) is not None:
            session.emit(trust_event)
        elif trust.trusted and session.state.trust_state != "trusted":
            session.emit(trust.build_answer())
        if (warning := trust.warn_about_rules(self._options.allow)) is not None:
            session.emit(warning)

    def _on_trusted_files_changed(self) -> None:
        """Ask about trust in every open session: files with instructions differ from those that were trusted."""
        if self._source is not None:
            for session in self._sessions.values():
                if (trust_event := self._build_trust_event(self._source.services.trust)) is not None:
                    session.emit_outside_turn(trust_event)

    def _build_trust_event(self, trust: ProjectTrust) -> TrustStated | Notice | None:
        return trust.build_question() if self._options.interactive else trust.build_notice()

    async def _set_trust(self, command: cmd.TrustSet) -> cmd.Ack:
        session, services = self._find_session(command.session), self._load().services
        trust = services.trust
        loaded_settings = await asyncio.to_thread(trust.decide, command.trusted)
        self._apply_settings(services, loaded_settings)
        for open_session in self._sessions.values():
            open_session.emit_outside_turn(trust.build_answer())
            on_trust_changed(open_session)
        for notice in loaded_settings.notices:
            session.emit_outside_turn(Notice(level="warning", message=notice))
        return _ack(session)

    async def _save_theme(self, command: cmd.ThemeKeep) -> cmd.Ack:
        await asyncio.to_thread(save_settings, theme=command.theme)
        return cmd.Ack()

    async def _save_setting(self, command: cmd.SettingKeep) -> cmd.Ack:
        services = self._load().services
        services.trust.load_settings()  # raises before the write if the files can't be loaded
        before = services.settings
        await asyncio.to_thread(save_setting, command)
        self._apply_settings(services, services.trust.load_settings())
        if before.list_model_settings() != services.settings.list_model_settings():  # else connections stay open
            for session in self._sessions.values():
                session.tasks.schedule(session.routes.close)
        return cmd.Ack()

    async def _save_provider(self, command: cmd.ProviderConfigure) -> cmd.Ack:
        services = self._load().services
        await asyncio.to_thread(save_provider, command, services.settings)
        self._apply_settings(services, services.trust.load_settings())
        for session in self._sessions.values():
            session.tasks.schedule(session.routes.close)
        return _ack(self._sessions[command.session]) if command.session in self._sessions else cmd.Ack()

    # Access to a session in this process, beyond its events.

    def state(self, session: str) -> SessionState:
        """Return the live state of an open session. Callers only read it."""
        return self._find_session(session).state

    def terminal(self, session: str) -> Terminal:
        """Return the terminal of an open session."""
        return self._find_session(session).terminal

    def server_access(self, session: str) -> ServerAccess:
        """Return the MCP servers of an open session."""
        return self._find_session(session).server_access

    def announce(self, session: str, event: LossyEvent) -> None:
        """Publish an event to the clients of a session without recording it."""
        self._find_session(session).emit_outside_turn(event)

    async def wait_idle(self, session: str) -> None:
        """Wait until every accepted command of a session has had its effect (a turn may still run)."""
        await self._find_session(session).tasks.wait_idle()

    async def close(self) -> None:
        """Interrupt everything and close every session. Safe to call twice."""
        self._closed = True
        self._stop_watching()
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()
        for closing_session in list(self._closing):
            await closing_session.tasks.wait_idle()
        if self._source is not None:
            await self._source.services.close()
        await self._boxes.close()
        self._privacy.close()


def _ack(session: Session) -> cmd.Ack:
    return cmd.Ack(session=session.id, seq=session.state.seq)
