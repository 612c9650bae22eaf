"""The engine: three verbs (`submit`, `events`, `query`) over the sessions of one workspace.

It routes and answers; what a command does is in `effects`, what a question finds in `answers`, what a session is in
`runtime`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from core import demo
from core.agent.terminal import Terminal
from core.config import LoadedSettings
from core.engine.answers import Answers
from core.engine.bounds import state_bounds, with_limits
from core.engine.boxes import Boxes
from core.engine.effects import prepare
from core.engine.faults import explained
from core.engine.forking import fork
from core.engine.live import LiveSession
from core.engine.merging import carry_on
from core.engine.models import ModelAccess
from core.engine.privacy import Privacy, keep_pending, sweep
from core.engine.rewinding import known, need_rest
from core.engine.runtime import SessionRuntime, Surroundings
from core.engine.settings_file import keep_provider, remember
from core.engine.trusting import Trusting
from core.engine.watch import Watch
from core.errors import AgentTuiError, CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import EffortChanged, Envelope, ModeName, Notice, SessionRenamed, SessionStarted, TrustStated
from core.protocol.messages import Effort
from core.protocol.queries import AnyAnswer, AnyQuery, Refused
from core.sandbox.box import Tier
from core.sessions.fold import SessionState
from core.sessions.store import SessionStore
from core.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What a command line adds to the configuration; None = not said. `watch`: tell clients what changes on disk.

    `tier`: the one way in which commands are to be contained. `trust`: the project is trusted, for this start.
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
class _House:
    """The workspace and what was configured for it, read when the first session is opened."""

    around: Surroundings
    store: SessionStore
    answers: Answers
    trusting: Trusting
    notices: list[str] = field(default_factory=list)


class Engine:
    """An engine in this process; it is its own client. Nothing is read or written until the first session is opened."""

    def __init__(
        self,
        directory: Path,
        *,
        options: EngineOptions | None = None,
        models: ModelAccess | None = None,
        boxes: Boxes | None = None,
    ) -> None:
        self._directory = directory
        self._options = options or EngineOptions()
        self._models = models or ModelAccess()
        self._boxes = boxes or Boxes(wanted=self._options.tier)
        self._finding: set[asyncio.Task[None]] = set()
        self._house: _House | None = None
        self._sessions: dict[str, LiveSession] = {}
        self._closing: list[LiveSession] = []
        self._watch: Watch | None = None
        self._closed = False
        self._privacy = Privacy(self._options.private)

    async def submit(self, command: cmd.AnyCommand) -> cmd.Reply:
        """Answered before the command has any effect."""
        try:
            return await self._accept(command)
        except AgentTuiError as problem:
            return cmd.Reject(code=problem.code, message=problem.message, hint=problem.hint)
        except Exception as problem:  # a fault of ours in one command must not end the engine
            fault = explained(problem)
            return cmd.Reject(code=fault.code, message=fault.message, hint=fault.hint)

    async def _accept(self, command: cmd.AnyCommand) -> cmd.Ack:
        if self._closed:
            raise CommandRejected("the engine is closing.", code="closing")
        match command:
            case cmd.SessionOpen():
                return await self._open(command)
            case cmd.SessionResume():
                return await self._resume(command)
            case cmd.SessionFork() | cmd.PendingKeep():
                return await (self._fork(command) if isinstance(command, cmd.SessionFork) else self._keep(command))
            case cmd.ProviderConfigure() | cmd.ThemeKeep():
                return await self._configure(command)
            case cmd.TrustSet():
                return await self._trust(command)
            case cmd.SessionClose():
                live = self._live(command.session)
                del self._sessions[live.runtime.id]
                self._closing.append(live)
                live.schedule(lambda: self._close_session(live))
            case _:
                child = self._child(command.session) if isinstance(command, cmd.TurnInterrupt) else None
                live = child or self._live(command.session)
                live.schedule(await prepare(live, command))
        return _ack(live)

    def _live(self, session: str) -> LiveSession:
        live = self._sessions.get(session)
        if live is None:
            raise CommandRejected(
                f"no session {session!r} is open." if session else "the command names no session.",
                hint="Open or resume one first.",
                code="session_unknown",
            )
        return live

    def _child(self, session: str) -> LiveSession | None:
        """The open session of a subagent."""
        return next((each.children[session] for each in self._sessions.values() if session in each.children), None)

    def _ready(self) -> _House:
        if self._house is None:
            workspace = Workspace(self._directory)
            trusting = Trusting(workspace, for_now=self._options.trust)
            trusting.listen(partial(asyncio.get_running_loop().call_soon_threadsafe, self._words_changed))
            loaded = trusting.settings()
            around = Surroundings(
                workspace=workspace,
                settings=with_limits(loaded, self._options),
                bounds=loaded.bounds,
                models=self._models,
                boxes=self._boxes,
                interactive=self._options.interactive,
                trusted=trusting.trusted,
                trusting=trusting,
            )
            sweep(around)
            store = self._privacy.store(workspace.root, around.settings)
            self._boxes.work_in(self._privacy.path)
            answers = Answers(workspace, around.settings, self._sessions, store)
            notices = [*loaded.notices, *self._privacy.notices()]
            self._house = _House(around, store, answers, trusting, notices)
        return self._house

    async def _open(self, command: cmd.SessionOpen) -> cmd.Ack:
        if command.demo:
            self._move_to(demo.prepare())
        house = self._ready()
        model = await self._model(command, house)
        started = SessionStarted(
            workspace=str(house.around.workspace.root),
            mode=self._mode(command, house),
            model=model,
            demo=command.demo,
            private=self._privacy.on,
        )
        directory = house.store.create()
        try:
            runtime = SessionRuntime.create(directory, house.around, started)
            if effort := command.effort or self._options.effort:
                runtime.emit(EffortChanged(effort=effort))
        except BaseException:
            directory.discard()
            directory.close()
            raise
        return self._admit(runtime, house)

    async def _model(self, command: cmd.SessionOpen, house: _House) -> str:
        if command.demo:
            return demo.model()
        return command.model or self._options.model or await self._models.default(house.around.settings)

    async def _keep(self, command: cmd.PendingKeep) -> cmd.Ack:
        house = self._ready()
        kept = await keep_pending(self._sessions, command.session, house.store, house.around)
        kept.close()
        return cmd.Ack(session=kept.id, seq=kept.log.last)

    def _move_to(self, directory: Path) -> None:
        """Work in another workspace from the next session on."""
        self._directory, self._house = directory, None
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _mode(self, command: cmd.SessionOpen, house: _House) -> ModeName:
        """A client that says nothing special gets what the command line says, else what is configured."""
        if command.mode != "agent":
            return command.mode
        return self._options.mode or house.around.settings.mode.value

    async def _resume(self, command: cmd.SessionResume) -> cmd.Ack:
        house = self._ready()
        if command.session in self._sessions:
            return _ack(self._sessions[command.session])
        if command.session and not house.store.holds(command.session) and (copy := demo.copy_of(command.session)):
            self._move_to(copy)
            house = self._ready()
        self._privacy.check_resumed(house.store, command.session)
        session = house.store.wanted(command.session)
        if session in self._sessions:
            return _ack(self._sessions[session])
        directory = house.store.open(session)
        try:
            runtime = SessionRuntime.resume(directory, house.around)
        except BaseException:
            directory.close()
            raise
        ack = self._admit(runtime, house)
        await carry_on(self._sessions[runtime.id])
        return ack

    async def _fork(self, command: cmd.SessionFork) -> cmd.Ack:
        live, house = self._live(command.session), self._ready()
        at = known(live.runtime, command.at) if command.at else None
        await live.settled()
        need_rest(live)
        directory = house.store.create()
        try:
            fork(live.runtime, directory, at)
            runtime = SessionRuntime.resume(directory, house.around)
            runtime.emit(SessionRenamed(title=f"{live.runtime.state.title} (fork)".strip()))
        except BaseException:
            directory.discard()
            directory.close()
            raise
        return self._admit(runtime, house)

    def _admit(self, runtime: SessionRuntime, house: _House) -> cmd.Ack:
        live = LiveSession(runtime)
        self._sessions[runtime.id] = live
        opened = _ack(live)  # whoever follows from here on sees the notices
        for notice in house.notices:
            runtime.emit(Notice(level="warning", message=notice))
        house.notices.clear()
        self._say_trust(runtime, house.trusting)
        state_bounds(runtime, self._options)
        live.turns.preload()
        self._tell_box(live)
        if runtime.state.demo:
            live.schedule(live.turns.suggest)
        if self._options.watch and self._watch is None:
            self._watch = Watch(house.around.workspace, self._disk_changed)
            self._watch.start()
        return opened

    def _say_trust(self, runtime: SessionRuntime, trusting: Trusting) -> None:
        """Ask where the user can answer, else say what is not heard."""
        if (stated := self._stated(trusting)) is not None:
            runtime.emit(stated)
        elif trusting.trusted and runtime.state.trust != "trusted":
            runtime.emit(trusting.answer())

    def _words_changed(self) -> None:
        """The project speaks otherwise than when it was trusted: ask, in every open session."""
        if self._house is not None:
            for live in self._sessions.values():
                if (stated := self._stated(self._house.trusting)) is not None:
                    live.runtime.emit_apart(stated)

    def _stated(self, trusting: Trusting) -> TrustStated | Notice | None:
        return trusting.question() if self._options.interactive else trusting.notice()

    async def _trust(self, command: cmd.TrustSet) -> cmd.Ack:
        live, house = self._live(command.session), self._ready()
        loaded = await asyncio.to_thread(house.trusting.decide, command.trusted)
        self._take_settings(house, loaded)
        for each in self._sessions.values():
            for one in (each, *each.children.values()):
                one.runtime.trusted = house.trusting.trusted
            each.runtime.emit_apart(house.trusting.answer())
            each.turns.trust_changed()
        for notice in loaded.notices:
            live.runtime.emit_apart(Notice(level="warning", message=notice))
        return _ack(live)

    def _take_settings(self, house: _House, loaded: LoadedSettings) -> None:
        """These hold from now on, in every open session."""
        trusted = house.trusting.trusted
        settings = with_limits(loaded, self._options)
        house.around = dataclasses.replace(house.around, settings=settings, trusted=trusted, bounds=loaded.bounds)
        house.answers.settings = settings
        for live in self._sessions.values():
            live.runtime.configured, live.runtime.bounds = settings, loaded.bounds
            state_bounds(live.runtime)

    def _tell_box(self, live: LiveSession) -> None:
        """Find the box while the user still types, and say which one it is when that is news."""

        async def tell() -> None:
            await self._boxes.find()
            found = self._boxes.event()
            if live.runtime.id in self._sessions and live.runtime.state.tier != found.tier:
                live.runtime.emit_apart(found)

        task = asyncio.create_task(tell(), name=f"box of {live.runtime.id}")
        self._finding.add(task)
        task.add_done_callback(self._finding.discard)

    def _disk_changed(self, paths: tuple[str, ...]) -> None:
        if self._house is not None:
            self._house.answers.disk_changed()
            self._house.trusting.look(paths or self._house.trusting.places())
        for live in self._sessions.values():
            for each in (live, *live.children.values()):
                each.runtime.disk_changed(paths)

    async def _configure(self, command: cmd.ProviderConfigure | cmd.ThemeKeep) -> cmd.Ack:
        if isinstance(command, cmd.ThemeKeep):
            await asyncio.to_thread(remember, theme=command.theme)
            return cmd.Ack()
        house = self._ready()
        await asyncio.to_thread(keep_provider, command, house.around.settings)
        self._take_settings(house, house.trusting.settings())
        for live in self._sessions.values():
            live.schedule(live.turns.drop_provider)
        if command.session in self._sessions:
            return _ack(self._sessions[command.session])
        return cmd.Ack()

    async def _close_session(self, live: LiveSession) -> None:
        await live.close("closed by the user")

    async def events(self, session: str, *, after: int = 0, brief: bool = False) -> AsyncGenerator[Envelope]:
        """Durable events with `seq > after`, in order, without gaps but for what `brief` leaves out; then live ones."""
        subscription = (self._child(session) or self._live(session)).runtime.bus.subscribe(after, brief=brief)
        async for envelope in subscription.envelopes():
            yield envelope

    async def query(self, query: AnyQuery) -> AnyAnswer:
        """A question without effect."""
        try:
            return await self._ready().answers.answer(query)
        except AgentTuiError as problem:
            return Refused(code=problem.code, message=problem.message, hint=problem.hint)
        except Exception as problem:  # a fault of ours in one question must not end the engine
            fault = explained(problem)
            return Refused(code=fault.code, message=fault.message, hint=fault.hint)

    def state(self, session: str) -> SessionState:
        """The live fold of an open session, to be read only. For front ends in this process."""
        return self._live(session).runtime.state

    def terminal(self, session: str) -> Terminal:
        """The terminal of an open session. For front ends in this process."""
        return self._live(session).runtime.terminal

    async def discard(self, session: str) -> None:
        """Close a session as if it had never been."""
        await self._sessions.pop(session).discard()

    async def settled(self, session: str) -> None:
        """Until every accepted command of a session has had its effect (a turn that was begun may still run)."""
        await self._live(session).settled()

    async def close(self) -> None:
        """Interrupt what runs, close every session. Safe to call twice."""
        self._closed = True
        if self._watch is not None:
            self._watch.stop()
            self._watch = None
        while self._sessions:
            _, live = self._sessions.popitem()
            await live.close()
        while self._closing:
            await self._closing.pop().settled()
        await self._boxes.close()
        self._privacy.end()


def _ack(live: LiveSession) -> cmd.Ack:
    return cmd.Ack(session=live.runtime.id, seq=live.runtime.log.last)
