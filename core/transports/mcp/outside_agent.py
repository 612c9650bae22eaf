"""The session in which another agent works over MCP, and the scripted model that asks for its calls.

A call from outside is a tool call of a turn, so it takes the one path through the gate and is recorded in the log. The
caller gets the result that the model would be sent.

A session has one writer, and the user's review must be able to open it. So the session is closed after a quiet moment;
if the user has it open at the next call, that call begins another session. Proposed changes wait in either case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from core.clock import pause
from core.engine import Engine, EngineOptions
from core.engine.shared.models import ModelAccess
from core.errors import CommandRejected
from core.ids import new_id
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.messages import ToolMessage
from core.protocol.tools import OTHER_TOOLS, ToolSettings
from core.providers.base import Delta, ModelInfo, ModelRequest, StreamEnd, TextDelta, ToolCallDelta
from core.providers.catalog.capabilities import Capabilities
from core.sessions.log import read_log
from core.sessions.store import SessionStore
from core.state.fold import apply_event
from core.state.session import SessionState
from core.tasks import TaskOwner
from core.transports.session_client import SessionView, require_ack, require_answer

MODEL: Final = "mcp/client"
QUIET: Final = 2.0  # seconds without a call until the session is closed
TITLE: Final = "Proposed by {}"
NOT_ENDED: Final = "The call failed: {}"


class RequestedCall(Struct, frozen=True):
    """A call of one of our tools, by its canonical name."""

    tool: str
    arguments: dict[str, object]


class CallingModel(Struct, eq=False):
    """Requests the `wanted` calls in its next answer and ends the turn with the one after it. `results`: those of the
    latest calls, in order."""

    name: str = "mcp"
    wanted: Sequence[RequestedCall] = ()
    results: list[ToolMessage] = field(default_factory=list)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Answer with the calls, or with the end of the turn once they have results."""
        wanted_calls, self.wanted = self.wanted, ()
        for index, call in enumerate(wanted_calls):
            arguments = msgspec.json.encode(call.arguments).decode()
            yield ToolCallDelta(index, id=new_id("call"), name=call.tool, arguments=arguments)
        if wanted_calls:
            self.results.clear()
            yield StreamEnd("tool_calls")
            return
        for message in reversed(request.messages):
            if not isinstance(message, ToolMessage):
                break
            self.results.insert(0, message)
        yield TextDelta("Done.")
        yield StreamEnd("stop")

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return none: this model has no API."""
        return ()

    async def close(self) -> None:
        """Release nothing."""


def build_access(model: CallingModel) -> ModelAccess:
    """Build an engine's access to this one model, which costs nothing and has no window."""

    async def choose(_: object) -> str:
        return MODEL

    return ModelAccess(
        resolve=lambda _id, _settings: (model, "client"),
        cost=lambda _id, _usage: 0.0,
        window=lambda _id: 0,
        capabilities=lambda _id, _settings: Capabilities(),
        preload=lambda _id: None,
        default=choose,
    )


class OutsideAgent:
    """Works in one project for an agent that connects over MCP. One call at a time."""

    def __init__(self, directory: Path) -> None:
        self._model = CallingModel()
        options = EngineOptions(interactive=False, preload=False)
        self._engine = Engine(directory, options=options, models=build_access(self._model))
        self._store = SessionStore(directory)
        self._session = ""
        self._view: SessionView | None = None
        self._lock = asyncio.Lock()
        self._tasks = TaskOwner()
        self._waiting: asyncio.Task[None] | None = None
        self.client = "another agent"

    async def call(self, calls: Sequence[RequestedCall]) -> tuple[str, bool]:
        """Carry out calls through the gate. Returns the result of the last one, and True if it failed. Raises
        `CommandRejected` if no session can be opened or no turn begun."""
        async with self._lock:
            view = await self._open()
            try:
                return await self._run(view, calls)
            finally:
                self._schedule_release()

    async def search_symbols(self, name: str, limit: int) -> q.SearchAnswer:
        """Search names in the files that the agent may read. Raises `CommandRejected`."""
        async with self._lock:
            view = await self._open()
            try:
                query = q.SearchQuery(session=view.state.session_id, text=name, kind="symbols", limit=limit)
                answer = require_answer(await self._engine.query(query))
            finally:
                self._schedule_release()
        assert isinstance(answer, q.SearchAnswer)
        return answer

    async def read_state(self) -> SessionState:
        """Read the current state from the session's log, even while the user has it open. Raises `StateError`."""
        async with self._lock:
            if self._view is not None:
                await self._view.settle()
            return await asyncio.to_thread(_read_log, self._log_path) if self._session else SessionState()

    @property
    def _log_path(self) -> Path:
        return self._store.get_path(self._session) / "log.jsonl"

    async def close(self) -> None:
        """Close the session; discard it if nothing is pending and no verdict was given."""
        async with self._lock:
            await self._tasks.cancel()
            await self._release_session(is_over=True)
            await self._engine.close()

    async def _open(self) -> SessionView:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._view is not None:
            return self._view
        if self._session:
            reply = await self._engine.submit(cmd.SessionResume(session=self._session))
            if isinstance(reply, cmd.Reject):
                self._session = ""  # the user has it open
        if not self._session:
            self._session = require_ack(await self._engine.submit(cmd.SessionOpen(mode="agent"))).session
            title = TITLE.format(self.client)
            await self._engine.submit(cmd.SessionRename(session=self._session, title=title))
        self._view = SessionView(self._engine, self._session)
        await self._view.settle()
        return self._view

    async def _run(self, view: SessionView, calls: Sequence[RequestedCall]) -> tuple[str, bool]:
        limits = {OTHER_TOOLS: ToolSettings(enabled=False), **{call.tool: ToolSettings() for call in calls}}
        turns, self._model.wanted = len(view.state.turns), calls
        prompt = f"{self.client}: {', '.join(call.tool for call in calls)}"
        require_ack(
            await self._engine.submit(cmd.TurnSubmit(session=self._session, text=prompt, available_tools=limits))
        )
        await view.wait_until(lambda: len(view.state.turns) > turns and bool(view.state.turns[-1].reason))
        turn = view.state.turns[-1]
        if not self._model.results:
            raise CommandRejected(NOT_ENDED.format(turn.message or turn.reason), code="turn_failed")
        last = self._model.results[-1]
        return str(last.content), last.is_error

    def _schedule_release(self) -> None:
        async def wait() -> None:
            await pause(QUIET)
            async with self._lock:
                await self._release_session()

        self._waiting = self._tasks.start(wait(), name="quiet")

    async def _release_session(self, *, is_over: bool = False) -> None:
        view, self._view = self._view, None
        if view is None:
            return
        await view.settle()
        is_empty = is_over and _is_empty(await asyncio.to_thread(_read_log, self._log_path))
        await view.close()
        await self._engine.submit(cmd.SessionClose(session=self._session, discard=is_empty))


def _read_log(log: Path) -> SessionState:
    """Fold a log into a state, with its verdicts. Raises `StateError` if it can't be read."""
    state = SessionState(session_id=log.parent.name)
    read_log(log, partial(apply_event, state))
    return state


def _is_empty(state: SessionState) -> bool:
    """Return True if nothing is pending in a session and no verdict was given."""
    verdicts = state.unreported_verdicts or state.reported_verdicts or state.undone_verdicts
    return not (state.changes or state.review.bulks or verdicts)
