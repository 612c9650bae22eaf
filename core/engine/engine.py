"""The engine: three verbs (`submit`, `events`, `query`) over the sessions of one workspace.

It routes and answers. `commands` holds the effects of commands, `queries` the answers, `session` an open session.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from core import demo
from core.config import LoadedSettings
from core.engine.commands.checkpoints import check_idle, find_checkpoint
from core.engine.commands.dispatch import prepare_command
from core.engine.commands.limits import announce_limits, apply_limit_options
from core.engine.faults import explain_fault
from core.engine.file_watcher import FileWatcher
from core.engine.models import ModelAccess
from core.engine.privacy import Privacy, keep_pending, prune_abandoned
from core.engine.project_trust import ProjectTrust
from core.engine.queries.dispatch import QueryDispatcher
from core.engine.session.fork import fork_session
from core.engine.session.live_session import LiveSession
from core.engine.session.session import EngineServices, Session
from core.engine.settings_file import save_provider, save_settings
from core.engine.shared_box import SharedBox
from core.engine.subagents.merging import finish_merges
from core.errors import AgentTuiError, CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import EffortChanged, Envelope, ModeName, Notice, SessionRenamed, SessionStarted, TrustStated
from core.protocol.messages import Effort
from core.protocol.queries import AnyAnswer, AnyQuery, RefusedAnswer
from core.sandbox.box import Tier
from core.sessions.store import SessionStore
from core.shell.terminal import Terminal
from core.state.fold import SessionState
from core.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of the command line on top of the configuration; None = not given.

    `watch`: report changes on disk. `tier`: the one tier of box to use. `trust`: trust the project for this run.
    """

    mode: ModeName | None = None
    model: str | None = None
    effort: Effort | None = None
    max_steps: int | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    interactive: bool = True
    watch: bool = True
    tier: Tier | None = None
    trust: bool = False
    private: bool | None = None


@dataclass(slots=True)
class _LoadedProject:
    """A workspace and its configuration, read when the first session is opened."""

    around: EngineServices
    store: SessionStore
    answers: QueryDispatcher
    trusting: ProjectTrust
    notices: list[str] = field(default_factory=list)


class Engine:
    """An engine in this process; it is its own client. Nothing is read or written until a session is opened."""

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
        self._boxes = boxes or SharedBox(wanted=self._options.tier)
        self._box_searches: set[asyncio.Task[None]] = set()
        self._project: _LoadedProject | None = None
        self._sessions: dict[str, LiveSession] = {}
        self._closing: list[LiveSession] = []
        self._watch: FileWatcher | None = None
        self._closed = False
        self._privacy = Privacy(self._options.private)

    async def submit(self, command: cmd.AnyCommand) -> cmd.Reply:
        """Accept or reject a command; it is answered before it has any effect."""
        try:
            return await self._accept(command)
        except AgentTuiError as problem:
            return cmd.Reject(code=problem.code, message=problem.message, hint=problem.hint)
        except Exception as problem:  # a fault of ours in one command must not end the engine
            fault = explain_fault(problem)
            return cmd.Reject(code=fault.code, message=fault.message, hint=fault.hint)

    async def _accept(self, command: cmd.AnyCommand) -> cmd.Ack:
        if self._closed:
            raise CommandRejected("the engine is closing.", code="closing")
        match command:
            case cmd.SessionOpen():
                return await self._open_session(command)
            case cmd.SessionResume():
                return await self._resume_session(command)
            case cmd.SessionFork() | cmd.PendingKeep():
                return await (
                    self._fork_session(command) if isinstance(command, cmd.SessionFork) else self._keep_pending(command)
                )
            case cmd.ProviderConfigure() | cmd.ThemeKeep():
                return await self._save_configuration(command)
            case cmd.TrustSet():
                return await self._set_trust(command)
            case cmd.SessionClose():
                live = self._find_session(command.session)
                del self._sessions[live.runtime.id]
                self._closing.append(live)
                live.schedule(lambda: self._close_session(live))
            case _:
                child = self._find_subagent_session(command.session) if isinstance(command, cmd.TurnInterrupt) else None
                live = child or self._find_session(command.session)
                live.schedule(await prepare_command(live, command))
        return _ack(live)

    def _find_session(self, session: str) -> LiveSession:
        live = self._sessions.get(session)
        if live is None:
            raise CommandRejected(
                f"no session {session!r} is open." if session else "the command names no session.",
                hint="Open or resume one first.",
                code="session_unknown",
            )
        return live

    def _find_subagent_session(self, session: str) -> LiveSession | None:
        """Return the open session of a subagent; None = there is none."""
        return next((each.children[session] for each in self._sessions.values() if session in each.children), None)

    def _load_project(self) -> _LoadedProject:
        if self._project is None:
            workspace = Workspace(self._directory)
            trusting = ProjectTrust(workspace, for_now=self._options.trust)
            trusting.set_callback(
                partial(asyncio.get_running_loop().call_soon_threadsafe, self._on_trusted_files_changed)
            )
            loaded = trusting.load_settings()
            around = EngineServices(
                workspace=workspace,
                settings=apply_limit_options(loaded, self._options),
                bounds=loaded.bounds,
                models=self._models,
                boxes=self._boxes,
                interactive=self._options.interactive,
                trusted=trusting.trusted,
                trusting=trusting,
            )
            prune_abandoned(around)
            store = self._privacy.open_store(workspace.root, around.settings)
            self._boxes.use_directory(self._privacy.path)
            answers = QueryDispatcher(workspace, around.settings, self._sessions, store)
            notices = [*loaded.notices, *self._privacy.list_notices()]
            self._project = _LoadedProject(around, store, answers, trusting, notices)
        return self._project

    async def _open_session(self, command: cmd.SessionOpen) -> cmd.Ack:
        if command.demo:
            self._switch_directory(demo.create_project())
        house = self._load_project()
        model = await self._choose_model(command, house)
        started = SessionStarted(
            workspace=str(house.around.workspace.root),
            mode=self._choose_mode(command, house),
            model=model,
            demo=command.demo,
            private=self._privacy.is_on,
        )
        directory = house.store.create()
        try:
            runtime = Session.create(directory, house.around, started)
            if effort := command.effort or self._options.effort:
                runtime.emit(EffortChanged(effort=effort))
        except BaseException:
            directory.discard()
            directory.close()
            raise
        return self._register(runtime, house)

    async def _choose_model(self, command: cmd.SessionOpen, house: _LoadedProject) -> str:
        if command.demo:
            return demo.build_model_id()
        return command.model or self._options.model or await self._models.default(house.around.settings)

    async def _keep_pending(self, command: cmd.PendingKeep) -> cmd.Ack:
        house = self._load_project()
        kept = await keep_pending(self._sessions, command.session, house.store, house.around)
        kept.close()
        return cmd.Ack(session=kept.id, seq=kept.log.last_seq)

    def _switch_directory(self, directory: Path) -> None:
        """Work in another workspace from the next session on."""
        self._directory, self._project = directory, None
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _choose_mode(self, command: cmd.SessionOpen, house: _LoadedProject) -> ModeName:
        """Return the mode of a new session: the client's choice, else the command line's, else the configured one."""
        if command.mode != "agent":
            return command.mode
        return self._options.mode or house.around.settings.mode.value

    async def _resume_session(self, command: cmd.SessionResume) -> cmd.Ack:
        house = self._load_project()
        if command.session in self._sessions:
            return _ack(self._sessions[command.session])
        if (
            command.session
            and not house.store.has_session(command.session)
            and (copy := demo.find_project(command.session))
        ):
            self._switch_directory(copy)
            house = self._load_project()
        self._privacy.check_resume(house.store, command.session)
        session = house.store.resolve_id(command.session)
        if session in self._sessions:
            return _ack(self._sessions[session])
        directory = house.store.open(session)
        try:
            runtime = Session.resume(directory, house.around)
        except BaseException:
            directory.close()
            raise
        ack = self._register(runtime, house)
        await finish_merges(self._sessions[runtime.id])
        return ack

    async def _fork_session(self, command: cmd.SessionFork) -> cmd.Ack:
        live, house = self._find_session(command.session), self._load_project()
        at = find_checkpoint(live.runtime, command.at) if command.at else None
        await live.wait_idle()
        check_idle(live)
        directory = house.store.create()
        try:
            fork_session(live.runtime, directory, at)
            runtime = Session.resume(directory, house.around)
            runtime.emit(SessionRenamed(title=f"{live.runtime.state.title} (fork)".strip()))
        except BaseException:
            directory.discard()
            directory.close()
            raise
        return self._register(runtime, house)

    def _register(self, runtime: Session, house: _LoadedProject) -> cmd.Ack:
        live = LiveSession(runtime)
        self._sessions[runtime.id] = live
        opened = _ack(live)  # whoever follows from here on sees the notices
        for notice in house.notices:
            runtime.emit(Notice(level="warning", message=notice))
        house.notices.clear()
        self._announce_trust(runtime, house.trusting)
        announce_limits(runtime, self._options)
        live.turns.preload()
        self._announce_box(live)
        if runtime.state.is_demo:
            live.schedule(live.turns.suggest)
        if self._options.watch and self._watch is None:
            self._watch = FileWatcher(house.around.workspace, self._on_disk_changed)
            self._watch.start()
        return opened

    def _announce_trust(self, runtime: Session, trusting: ProjectTrust) -> None:
        """Ask about trust where the user can answer, else say what is not read."""
        if (stated := self._build_trust_event(trusting)) is not None:
            runtime.emit(stated)
        elif trusting.trusted and runtime.state.trust_state != "trusted":
            runtime.emit(trusting.build_answer())

    def _on_trusted_files_changed(self) -> None:
        """Ask in every open session: files that speak for the project differ from those that were trusted."""
        if self._project is not None:
            for live in self._sessions.values():
                if (stated := self._build_trust_event(self._project.trusting)) is not None:
                    live.runtime.emit_apart(stated)

    def _build_trust_event(self, trusting: ProjectTrust) -> TrustStated | Notice | None:
        return trusting.build_question() if self._options.interactive else trusting.build_notice()

    async def _set_trust(self, command: cmd.TrustSet) -> cmd.Ack:
        live, house = self._find_session(command.session), self._load_project()
        loaded = await asyncio.to_thread(house.trusting.decide, command.trusted)
        self._apply_settings(house, loaded)
        for each in self._sessions.values():
            for one in (each, *each.children.values()):
                one.runtime.trusted = house.trusting.trusted
            each.runtime.emit_apart(house.trusting.build_answer())
            each.turns.on_trust_changed()
        for notice in loaded.notices:
            live.runtime.emit_apart(Notice(level="warning", message=notice))
        return _ack(live)

    def _apply_settings(self, house: _LoadedProject, loaded: LoadedSettings) -> None:
        """Apply settings to every open session."""
        trusted = house.trusting.trusted
        settings = apply_limit_options(loaded, self._options)
        house.around = dataclasses.replace(house.around, settings=settings, trusted=trusted, bounds=loaded.bounds)
        house.answers.settings = settings
        for live in self._sessions.values():
            live.runtime.configured, live.runtime.bounds = settings, loaded.bounds
            announce_limits(live.runtime)

    def _announce_box(self, live: LiveSession) -> None:
        """Find the box while the user still types, and report its tier when that is news."""

        async def tell() -> None:
            await self._boxes.find()
            found = self._boxes.build_event()
            if live.runtime.id in self._sessions and live.runtime.state.tier != found.tier:
                live.runtime.emit_apart(found)

        task = asyncio.create_task(tell(), name=f"box of {live.runtime.id}")
        self._box_searches.add(task)
        task.add_done_callback(self._box_searches.discard)

    def _on_disk_changed(self, paths: tuple[str, ...]) -> None:
        if self._project is not None:
            self._project.answers.forget_file_list()
            self._project.trusting.check_paths(paths or self._project.trusting.list_paths())
        for live in self._sessions.values():
            for each in (live, *live.children.values()):
                each.runtime.on_disk_changed(paths)

    async def _save_configuration(self, command: cmd.ProviderConfigure | cmd.ThemeKeep) -> cmd.Ack:
        if isinstance(command, cmd.ThemeKeep):
            await asyncio.to_thread(save_settings, theme=command.theme)
            return cmd.Ack()
        house = self._load_project()
        await asyncio.to_thread(save_provider, command, house.around.settings)
        self._apply_settings(house, house.trusting.load_settings())
        for live in self._sessions.values():
            live.schedule(live.turns.close_providers)
        if command.session in self._sessions:
            return _ack(self._sessions[command.session])
        return cmd.Ack()

    async def _close_session(self, live: LiveSession) -> None:
        await live.close("closed by the user")

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncGenerator[Envelope]:
        """Yield durable events with `seq > after` in order and without gaps (`brief`: some are left out), then live
        ones."""
        subscription = (self._find_subagent_session(session) or self._find_session(session)).runtime.bus.subscribe(
            after, brief=brief
        )
        async for envelope in subscription.iter_envelopes():
            yield envelope

    async def query(self, query: AnyQuery) -> AnyAnswer:
        """Answer a question; it has no effect."""
        try:
            return await self._load_project().answers.answer(query)
        except AgentTuiError as problem:
            return RefusedAnswer(code=problem.code, message=problem.message, hint=problem.hint)
        except Exception as problem:  # a fault of ours in one question must not end the engine
            fault = explain_fault(problem)
            return RefusedAnswer(code=fault.code, message=fault.message, hint=fault.hint)

    def state(self, session: str) -> SessionState:
        """Return the live fold of an open session, to be read only."""
        return self._find_session(session).runtime.state

    def terminal(self, session: str) -> Terminal:
        """Return the terminal of an open session."""
        return self._find_session(session).runtime.terminal

    async def discard(self, session: str) -> None:
        """Close a session as if it had never been."""
        await self._sessions.pop(session).discard()

    async def wait_idle(self, session: str) -> None:
        """Wait until every accepted command of a session has had its effect (a turn may still run)."""
        await self._find_session(session).wait_idle()

    async def close(self) -> None:
        """Interrupt what runs and close every session. Safe to call twice."""
        self._closed = True
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        while self._sessions:
            _, live = self._sessions.popitem()
            await live.close()
        while self._closing:
            await self._closing.pop().wait_idle()
        await self._boxes.close()
        self._privacy.close()


def _ack(live: LiveSession) -> cmd.Ack:
    return cmd.Ack(session=live.runtime.id, seq=live.runtime.log.last_seq)
