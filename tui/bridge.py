"""The bridge, the only module of the screen that talks to a client: it connects, pumps events, and survives the engine.

The screen is painted before the engine starts; commands submitted meanwhile are queued. Events are folded as they
arrive and displayed in batches (`tui/state/batches.py`). When the engine ends, or another screen's engine becomes
unreachable, a new one is started with growing delays, the session is resumed, and events continue after the last one
seen, so none appears twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from core.errors import AgentTuiError
from core.protocol import commands, queries
from core.protocol.client import Client, EngineGone
from core.protocol.events import Envelope, ModeName
from core.protocol.messages import Effort
from tui.block import TranscriptBlock
from tui.state import Topic, ViewState, show_event
from tui.state.batches import EventBatches

TIME_SLICE: Final = 0.008
RESTART_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
STEADY_AFTER: Final = 30.0
DRAFT_TIMEOUT: Final = 1.0  # timeout in seconds for an engine to accept the queued commands
DETACH_TIMEOUT: Final = 5.0
LONG_LOG: Final = 20_000  # records; of a longer one, old answers are loaded when they are asked for

WITHOUT_SESSION: Final = (
    commands.SessionOpen,
    commands.ProviderConfigure,
    commands.SettingKeep,
    commands.ThemeKeep,
)
BRIEF_NOTICE: Final = "Long session: older answers are not loaded."

Connect = Callable[[], Awaitable[Client]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The session to open. `resume`: None = a new one, "" = the latest, else an id. `pane` is opened, at `place` (a
    turn or a document).

    `changes` are submitted once to a resumed session: the settings of the command line.
    """

    resume: str | None = None
    mode: ModeName = "agent"
    model: str = ""
    effort: Effort | Literal[""] = ""
    demo: bool = False
    pane: str = ""
    place: str = ""
    changes: tuple[commands.ModeSet | commands.ModelSet | commands.EffortSet, ...] = ()

    @property
    def has_model(self) -> bool:
        """True if the session can be opened without asking which model to use."""
        return self.demo or bool(self.model) or self.resume is not None


class BridgeListener(Protocol):
    """The receiver of the bridge's reports. Every call comes from the event loop of the app."""

    def show_changes(self, topics: frozenset[Topic]) -> None:
        """Show the parts of the state that are named by `topics`."""

    def report_trouble(self, message: str, hint: str) -> None:
        """Report that the engine is gone, or rejected something."""

    def handle_connected(self) -> None:
        """Note that the engine is connected."""

    def handle_session_opened(self) -> None:
        """Show the session that was opened."""

    def handle_session_refused(self, message: str, hint: str) -> None:
        """Exit, because the requested session can't be resumed."""

    async def choose_model(self, models: queries.ModelsAnswer) -> SessionRequest | None:
        """Ask the user for a model, since none is configured. None = quit."""


class Bridge:
    """One session at one engine, for as long as the app runs."""

    def __init__(self, connect: Connect, request: SessionRequest, listener: BridgeListener) -> None:
        self.state = ViewState()
        self._connect, self._request, self._listener = connect, request, listener
        self._client: Client | None = None
        self._connected = asyncio.Event()
        self._session_open = asyncio.Event()
        self._submit_lock = asyncio.Lock()
        self._is_whole = False
        self.batches = EventBatches(self._show_changes)
        self._is_switched = False
        self._closes = self.is_detached = False
        self.caught_up = asyncio.Event()
        self._logged_seq = 0

    async def run(self) -> None:
        """Connect and pump until `close`. Never raises `EngineGone`."""
        failures = 0
        while not self._closes:
            start_time = time.monotonic()
            try:
                self._client = await self._connect()
                self._connected.set()
                self._listener.handle_connected()
                if not await self._open_session():
                    return
                while not self._closes:
                    await self._pump_events()
            except (EngineGone, AgentTuiError, OSError) as problem:
                if self._is_closing():
                    return
                failures = 0 if time.monotonic() - start_time > STEADY_AFTER else failures + 1
                await self._await_restart(problem, failures)

    def _is_closing(self) -> bool:
        return self._closes

    async def _await_restart(self, problem: Exception, failures: int) -> None:
        self._connected.clear()
        self._session_open.clear()
        await self._close_client()
        message = problem.detail if isinstance(problem, EngineGone) else str(problem)
        detail = message.strip().splitlines()
        hint = f"Restarting it{'; the session resumes from its log' if self.state.session_id else ''}."
        self._listener.report_trouble(f"The engine stopped: {detail[-1]}" if detail else "The engine stopped.", hint)
        await asyncio.sleep(RESTART_PAUSES[min(max(failures, 1), len(RESTART_PAUSES)) - 1])

    async def _open_session(self) -> bool:
        """Open or resume the session. False if there is none, and the screen is about to close."""
        assert self._client is not None
        if self.state.session_id:
            reply = await self._client.submit(commands.SessionResume(session=self.state.session_id))
            if isinstance(reply, commands.Reject) and reply.code == "session_locked":  # another screen was faster
                raise EngineGone(reply.message)
        else:
            if not self._request.has_model:
                models = await self._client.query(queries.ModelsQuery(discover=False))
                if isinstance(models, queries.ModelsAnswer) and models.default:
                    self._request = replace(self._request, model=models.default)
                elif isinstance(models, queries.ModelsAnswer) and not await self._ask_for_model(models):
                    return False
            reply = await self._client.submit(self._build_open_command())
        while isinstance(reply, commands.Reject):
            is_named = self._request.resume is not None and not self.state.session_id
            models = await self._client.query(queries.ModelsQuery(discover=False))
            if is_named or not isinstance(models, queries.ModelsAnswer):  # no other model would help
                self._listener.handle_session_refused(reply.message, reply.hint)
                return False
            self._listener.report_trouble(reply.message, reply.hint)
            if not await self._ask_for_model(models):
                return False
            reply = await self._client.submit(self._build_open_command())
        if self._request.changes and not self.state.session_id:
            await self._submit_changes(reply.session)
        self._adopt_session(reply)
        return True

    async def _submit_changes(self, session: str) -> None:
        """Submit the requested changes once: a restarted engine must not undo later choices."""
        from msgspec.structs import replace

        assert self._client is not None
        for change in self._request.changes:
            reply = await self._client.submit(replace(change, session=session))
            if isinstance(reply, commands.Reject):
                self._listener.report_trouble(reply.message, reply.hint)

    async def _ask_for_model(self, models: queries.ModelsAnswer) -> bool:
        wish = await self._listener.choose_model(models)
        if wish is None:
            return False
        self._request = replace(wish, effort=self._request.effort)
        return True

    def _build_open_command(self) -> commands.AnyCommand:
        wish = self._request
        if wish.resume is not None:
            return commands.SessionResume(session=wish.resume)
        return commands.SessionOpen(mode=wish.mode, model=wish.model, effort=wish.effort, demo=wish.demo)

    def _adopt_session(self, ack: commands.Ack) -> None:
        if ack.session != self.state.session_id:
            self.state = ViewState(session_id=ack.session)
        self._logged_seq = ack.seq
        self._is_whole = self.state.seq > 0 or ack.seq <= LONG_LOG
        if not self._is_whole:
            hint = "/history loads them"
            self.state.transcript.add(TranscriptBlock("brief", "notice", text=BRIEF_NOTICE, hint=hint, level="info"))
        self.caught_up.clear()
        self._check_caught_up()
        self._session_open.set()
        self._listener.handle_session_opened()

    async def _pump_events(self) -> None:
        assert self._client is not None
        self._is_switched = False
        slice_start = time.monotonic()
        brief = not self._is_whole and not self.state.seq
        async for envelope in self._client.events(self.state.session_id, after=self.state.seq, brief=brief):
            if self._is_switched:
                return
            if topics := show_event(self.state, envelope):
                self.batches.add(topics, envelope.event)
            self._check_caught_up()
            if time.monotonic() - slice_start > TIME_SLICE:  # a burst must not keep a keystroke waiting
                await asyncio.sleep(0)
                slice_start = time.monotonic()
        if not self._is_switched and not self._closes:
            raise EngineGone("the event stream ended")

    def _check_caught_up(self) -> None:
        if self.state.seq >= self._logged_seq:
            self.caught_up.set()

    def note_typing(self) -> None:
        """Show changes less often for a moment, since the user has pressed a key."""
        self.batches.note_typing()

    def _show_changes(self, topics: frozenset[Topic]) -> None:
        if not self._closes:
            self._listener.show_changes(topics)

    async def submit(self, command: commands.AnyCommand) -> commands.Reply:
        """Send a command for the open session, after all that was submitted before it.

        Waits for the engine when it is not there (yet). A command that was on its way when the engine ended is sent
        again only if that has no second effect. A command without a session gets the open one.
        """
        from msgspec.structs import replace

        self.batches.note_sent()
        wants_session = not isinstance(command, WITHOUT_SESSION)
        before: int | None = None
        async with self._submit_lock:
            while True:
                await (self._session_open if wants_session else self._connected).wait()
                if before is not None and (reply := await self._find_lost_reply(command, before)) is not None:
                    return reply
                try:
                    assert self._client is not None
                    before = self.state.seq
                    if wants_session and not command.session:
                        return await self._client.submit(replace(command, session=self.state.session_id))
                    return await self._client.submit(command)
                except EngineGone:
                    self._session_open.clear()
                    self._connected.clear()

    async def _find_lost_reply(self, command: commands.AnyCommand, before: int) -> commands.Reply | None:
        """Find the reply to a command that a dead engine may have carried out after event `before`; None: it wasn't."""
        match command:
            case commands.TurnSubmit(text=text) | commands.TurnSteer(text=text):
                await self.caught_up.wait()
                is_received = text in self.state.list_prompts_after(before)
                return commands.Ack(session=self.state.session_id, seq=self.state.seq) if is_received else None
            case commands.TurnInterrupt():
                return commands.Ack(session=self.state.session_id, seq=self.state.seq)
            case (
                commands.CommandRun()
                | commands.VerdictUndo()
                | commands.HunkResolve()
                | commands.BulkResolve()
                | commands.PlanBuild()
                | commands.ContextCompact()
                | commands.CheckpointRestore()
            ):
                message = "The engine stopped before it answered."
                return commands.Reject(
                    code="engine_gone", message=message, hint="Check before you retry: it may have been done."
                )
            case _:
                return None

    async def query(self, query: queries.AnyQuery) -> queries.AnyAnswer:
        """Ask the engine. The answer is `Refused` when the engine is not there."""
        from msgspec.structs import replace

        if self._client is None or not self._connected.is_set():
            return queries.RefusedAnswer(code="engine_away", message="The engine is still starting.")
        try:
            return await self._client.query(query if query.session else replace(query, session=self.state.session_id))
        except EngineGone as gone:
            return queries.RefusedAnswer(code="engine_gone", message=f"The engine stopped: {gone.detail}")

    async def switch(
        self, command: commands.SessionOpen | commands.SessionResume | commands.SessionFork
    ) -> commands.Reply:
        await self._connected.wait()
        assert self._client is not None
        old = self.state.session_id
        reply = await self._client.submit(command)
        if isinstance(reply, commands.Ack) and reply.session != old:
            self._is_switched = True
            if old:
                await self._client.submit(commands.SessionClose(session=old))
            self._adopt_session(reply)
        return reply

    async def follow(self, session: str) -> AsyncIterator[Envelope]:
        """Yield the events of a subagent, those of its log first, until it has ended or the engine is gone."""
        if (client := self._client) is not None:
            with contextlib.suppress(EngineGone):
                async for envelope in client.events(session):
                    yield envelope

    async def load_history(self) -> bool:
        """Load all of a session of which only the latest answers were loaded. False: there is no more, or no engine."""
        client, session = self._client, self.state.session_id
        if client is None or self._is_whole:
            return False
        full_state = ViewState(session_id=session)
        slice_start = time.monotonic()
        try:
            async for envelope in client.events(session):
                show_event(full_state, envelope)
                if full_state.seq >= self.state.seq:
                    break
                if time.monotonic() - slice_start > TIME_SLICE:
                    await asyncio.sleep(0)
                    slice_start = time.monotonic()
        except EngineGone:
            return False
        if session != self.state.session_id or full_state.seq < self.state.seq:
            return False
        self.state, self._is_whole = full_state, True
        self._listener.handle_session_opened()
        return True

    async def wait_until_caught_up(self, seq: int = 0) -> None:
        """Wait until every event that the session held when it was opened is folded, and those up to `seq`."""
        if seq > self._logged_seq:
            self._logged_seq = seq
            self.caught_up.clear()
            self._check_caught_up()
        await self.caught_up.wait()

    async def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def save_draft(self, text: str) -> None:
        """Save the unsent text of the prompt with the session. Gives up after `DRAFT_TIMEOUT`."""
        if not self._session_open.is_set() or text.strip() == self.state.draft.strip():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAFT_TIMEOUT):
                await self.submit(commands.DraftKeep(text=text))

    async def detach(self, *, by_hangup: bool = False) -> commands.Reply | None:
        """Detach, so that the session continues without this screen. None: there is no session, or `DETACH_TIMEOUT`
        expired."""
        if not self._session_open.is_set():
            return None
        reply = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DETACH_TIMEOUT):
                reply = await self.submit(commands.SessionDetach(by_hangup=by_hangup))
        self.is_detached = isinstance(reply, commands.Ack)
        self._closes = self._closes or self.is_detached
        return reply

    async def close(self) -> None:
        self._closes = True
        self.is_detached = self.is_detached or self.state.client_count > 1
        self.batches.cancel()
        await self._close_client()
