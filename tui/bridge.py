"""The one module of the screen that talks to a client: it connects, pumps events, and survives the engine's end.

The screen is painted before the engine is started; what is submitted meanwhile waits here, in order. Events are
folded as they come and shown in batches: at once after a rest, else no oftener than every `max(50 ms, 3 x the cost of
the last batch)`.
When the engine ends, it is started again with growing pauses, the session is resumed, and the events go on after the
last one seen, so nothing appears twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from core.errors import AgentTuiError
from core.protocol import commands, queries
from core.protocol.client import Client, EngineGone
from core.protocol.events import ModeName
from core.protocol.messages import Effort
from tui.state import Block, Topic, ViewState

FLUSH_INTERVAL: Final = 0.06  # seconds between two looks at what has come
TYPING_INTERVAL: Final = 0.25  # the same while the user types: what is typed must not wait for what is drawn
TYPING_LASTS: Final = 0.4  # seconds after a key
FLUSH_COST_FACTOR: Final = 3
SLICE: Final = 0.008
PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
STEADY_AFTER: Final = 30.0
LEAVING: Final = 1.0  # seconds that an engine has to take in what is kept
LONG_LOG: Final = 20_000  # records; of a longer one, old answers are loaded when they are asked for

BRIEF: Final = "This is a long session: the answers of older turns are not loaded."

Connect = Callable[[], Awaitable[Client]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which session to open. `resume`: None = a new one, "" = the latest, else an id. `pane` comes up with it.

    `changes` are told to a session that is resumed: what the user wants to be otherwise in it from now on.
    """

    resume: str | None = None
    mode: ModeName = "agent"
    model: str = ""
    effort: Effort | Literal[""] = ""
    demo: bool = False
    pane: str = ""
    changes: tuple[commands.ModeSet | commands.ModelSet | commands.EffortSet, ...] = ()

    @property
    def names_a_model(self) -> bool:
        """Whether the session can be opened without asking which model to use."""
        return self.demo or bool(self.model) or self.resume is not None


class Listener(Protocol):
    """What the bridge tells the screen. Every call comes from the event loop of the app."""

    def changed(self, topics: frozenset[Topic]) -> None:
        """The state has moved on."""

    def trouble(self, message: str, hint: str) -> None:
        """The engine is gone or refused; something the user has to know."""

    def connected(self) -> None:
        """The engine answers."""

    def ready(self) -> None:
        """A session is open."""

    def refused(self, message: str, hint: str) -> None:
        """The session that was to be resumed can't be: there is nothing to show."""

    async def first_run(self, models: queries.Models) -> Wish | None:
        """No model is configured: ask the user. None = leave."""


class Bridge:
    """One session at one engine, for as long as the app runs."""

    def __init__(self, connect: Connect, wish: Wish, listener: Listener) -> None:
        self.state = ViewState()
        self._connect, self._wish, self._listener = connect, wish, listener
        self._client: Client | None = None
        self._connected = asyncio.Event()
        self._open = asyncio.Event()
        self._order = asyncio.Lock()
        self._is_whole = False
        self._topics: set[Topic] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._flushed = self._typed = float("-inf")
        self._flush_cost = 0.0
        self._switched = False
        self._closing = False
        self._caught_up = asyncio.Event()
        self._logged = 0

    async def run(self) -> None:
        """Connect and pump until `close`. Never raises `EngineGone`."""
        failures = 0
        while not self._closing:
            begun = time.monotonic()
            try:
                self._client = await self._connect()
                self._connected.set()
                self._listener.connected()
                if not await self._open_session():
                    return
                while not self._closing:
                    await self._pump()
            except (EngineGone, AgentTuiError, OSError) as problem:
                if self._is_closing():
                    return
                failures = 0 if time.monotonic() - begun > STEADY_AFTER else failures + 1
                await self._mourn(problem, failures)

    def _is_closing(self) -> bool:
        return self._closing

    async def _mourn(self, problem: Exception, failures: int) -> None:
        self._connected.clear()
        self._open.clear()
        await self._end_client()
        pause = PAUSES[min(failures, len(PAUSES)) - 1] if failures else PAUSES[0]
        said = problem.detail if isinstance(problem, EngineGone) else str(problem)
        detail = said.strip().splitlines()
        again = "Starting it again; the session goes on from its log." if self.state.session else "Starting it again."
        self._listener.trouble(f"The engine ended: {detail[-1]}" if detail else "The engine ended.", again)
        await asyncio.sleep(pause)

    async def _open_session(self) -> bool:
        """False: there is none, and the screen is about to close."""
        assert self._client is not None
        if self.state.session:
            reply = await self._client.submit(commands.SessionResume(session=self.state.session))
        else:
            if not self._wish.names_a_model:
                models = await self._client.query(queries.ModelsQuery(discover=False))
                if isinstance(models, queries.Models) and not models.default and not await self._ask(models):
                    return False
                if isinstance(models, queries.Models) and models.default:
                    self._wish = replace(self._wish, model=models.default)
            reply = await self._client.submit(self._opening())
        while isinstance(reply, commands.Reject):
            if self._wish.resume is not None and not self.state.session:
                self._listener.refused(reply.message, reply.hint)
                return False
            self._listener.trouble(reply.message, reply.hint)
            models = await self._client.query(queries.ModelsQuery(discover=False))
            if not isinstance(models, queries.Models) or not await self._ask(models):
                return False
            reply = await self._client.submit(self._opening())
        if self._wish.changes and not self.state.session:
            await self._change(reply.session)
        self._take_session(reply)
        return True

    async def _change(self, session: str) -> None:
        """Once, at the start: an engine that comes back must not undo what the user has chosen since."""
        from msgspec.structs import replace

        assert self._client is not None
        for change in self._wish.changes:
            reply = await self._client.submit(replace(change, session=session))
            if isinstance(reply, commands.Reject):
                self._listener.trouble(reply.message, reply.hint)

    async def _ask(self, models: queries.Models) -> bool:
        wish = await self._listener.first_run(models)
        if wish is None:
            return False
        self._wish = replace(wish, effort=self._wish.effort)
        return True

    def _opening(self) -> commands.AnyCommand:
        wish = self._wish
        if wish.resume is not None:
            return commands.SessionResume(session=wish.resume)
        return commands.SessionOpen(mode=wish.mode, model=wish.model, effort=wish.effort, demo=wish.demo)

    def _take_session(self, opened: commands.Ack) -> None:
        if opened.session != self.state.session:
            self.state = ViewState(session=opened.session)
        self._logged = opened.seq
        self._is_whole = self.state.seq > 0 or opened.seq <= LONG_LOG
        if not self._is_whole:
            self.state.add(Block("brief", "notice", text=BRIEF, hint="/history loads them all", level="info"))
        self._caught_up.clear()
        self._see_whether_caught_up()
        self._open.set()
        self._listener.ready()

    async def _pump(self) -> None:
        assert self._client is not None
        self._switched = False
        since = time.monotonic()
        brief = not self._is_whole and not self.state.seq
        async for envelope in self._client.events(self.state.session, after=self.state.seq, brief=brief):
            if self._switched:
                return
            if topics := self.state.apply(envelope):
                self._topics |= topics
                self._schedule()
            self._see_whether_caught_up()
            if time.monotonic() - since > SLICE:  # a burst must not keep a keystroke waiting
                await asyncio.sleep(0)
                since = time.monotonic()
        if not self._switched and not self._closing:
            raise EngineGone("the stream of events ended")

    def _see_whether_caught_up(self) -> None:
        if self.state.seq >= self._logged:
            self._caught_up.set()

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._patience(time.monotonic()), self._flush)

    def _patience(self, now: float) -> float:
        """Seconds until what has come is to be shown."""
        interval = TYPING_INTERVAL if now - self._typed < TYPING_LASTS else FLUSH_INTERVAL
        return max(self._flushed + max(interval, FLUSH_COST_FACTOR * self._flush_cost) - now, 0.0)

    def typed(self) -> None:
        """The user has pressed a key: for a moment, what comes is shown less often."""
        was_typing = time.monotonic() - self._typed < TYPING_LASTS
        self._typed = time.monotonic()
        if self._timer is not None and not was_typing:
            self._timer.cancel()
            self._timer = None
            self._schedule()

    def _flush(self) -> None:
        self._timer = None
        topics, self._topics = frozenset(self._topics), set()
        begun = time.monotonic()
        if not self._closing:
            self._listener.changed(topics)
        asyncio.get_running_loop().call_soon(self._measure, begun)

    def _measure(self, begun: float) -> None:
        self._flushed = time.monotonic()
        self._flush_cost = self._flushed - begun

    async def submit(self, command: commands.AnyCommand) -> commands.Reply:
        """Send a command for the open session, after all that was submitted before it.

        Waits for the engine when it is not there (yet). What was under way when the engine ended is sent again only if
        that does nothing twice. A command without a session gets the open one.
        """
        from msgspec.structs import replace

        wants_session = not isinstance(command, commands.SessionOpen | commands.ProviderConfigure | commands.ThemeKeep)
        before: int | None = None
        async with self._order:
            while True:
                await (self._open if wants_session else self._connected).wait()
                if before is not None and (reply := await self._reply_to_lost(command, before)) is not None:
                    return reply
                try:
                    assert self._client is not None
                    before = self.state.seq
                    addressed = command if command.session or not wants_session else None
                    return await self._client.submit(addressed or replace(command, session=self.state.session))
                except EngineGone:
                    self._open.clear()
                    self._connected.clear()

    async def _reply_to_lost(self, command: commands.AnyCommand, before: int) -> commands.Reply | None:
        """The reply to a command that a dead engine may have carried out after event `before`; None: it did not."""
        match command:
            case commands.TurnSubmit(text=text) | commands.TurnSteer(text=text):
                await self._caught_up.wait()
                taken = text in self.state.said_after(before)
                return commands.Ack(session=self.state.session, seq=self.state.seq) if taken else None
            case (
                commands.CommandRun()
                | commands.VerdictUndo()
                | commands.HunkResolve()
                | commands.PlanBuild()
                | commands.ContextCompact()
                | commands.CheckpointRestore()
            ):
                message = "The engine ended before it answered."
                return commands.Reject(code="engine_gone", message=message, hint="Look first; it may have been done.")
            case commands.TurnInterrupt():
                return commands.Ack(session=self.state.session, seq=self.state.seq)
            case _:
                return None

    async def query(self, query: queries.AnyQuery) -> queries.AnyAnswer:
        """Ask. `Refused` when the engine is not there."""
        from msgspec.structs import replace

        if self._client is None or not self._connected.is_set():
            return queries.Refused(code="engine_away", message="The engine is still starting.")
        try:
            return await self._client.query(query if query.session else replace(query, session=self.state.session))
        except EngineGone as gone:
            return queries.Refused(code="engine_gone", message=f"The engine ended: {gone.detail}")

    async def switch(
        self, command: commands.SessionOpen | commands.SessionResume | commands.SessionFork
    ) -> commands.Reply:
        """Open another session in this window; the old one is closed."""
        await self._connected.wait()
        assert self._client is not None
        old = self.state.session
        reply = await self._client.submit(command)
        if isinstance(reply, commands.Ack) and reply.session != old:
            self._switched = True
            if old:
                await self._client.submit(commands.SessionClose(session=old))
            self._take_session(reply)
        return reply

    async def load_history(self) -> bool:
        """Show all of a session of which only the latest answers were loaded. False: all of it is there, or the engine
        is not."""
        client, session = self._client, self.state.session
        if client is None or self._is_whole:
            return False
        whole = ViewState(session=session)
        since = time.monotonic()
        try:
            async for envelope in client.events(session):
                whole.apply(envelope)
                if whole.seq >= self.state.seq:
                    break
                if time.monotonic() - since > SLICE:
                    await asyncio.sleep(0)
                    since = time.monotonic()
        except EngineGone:
            return False
        if session != self.state.session or whole.seq < self.state.seq:
            return False
        self.state, self._is_whole = whole, True
        self._listener.ready()
        return True

    async def caught_up(self) -> None:
        """Until all is folded that the session held when it was opened."""
        await self._caught_up.wait()

    async def _end_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def keep_draft(self, text: str) -> None:
        """What is not sent is there again when the session is gone on with. No engine is waited for."""
        if not self._open.is_set() or text.strip() == self.state.said.draft.strip():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING):
                await self.submit(commands.DraftKeep(text=text))

    async def close(self) -> None:
        """End the connection, and the engine with it."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        await self._end_client()
