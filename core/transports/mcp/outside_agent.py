"""The session in which another agent works here: opened when it calls, and let go when it has been quiet.

A session has one writer. The user's review must be able to open it, so it is held no longer than calls come; if the
user has it open when the next call comes, that call begins another session. What is proposed waits in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from core.clock import pause
from core.engine import Engine, EngineOptions
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.tools import OTHER_TOOLS, ToolSettings
from core.sessions.log import read_log
from core.sessions.store import SessionStore
from core.state.fold import apply_event
from core.state.session import SessionState
from core.tasks import TaskOwner
from core.transports.mcp.calling_model import CallingModel, WantedCall, build_access
from core.transports.session_view import SessionView, require_ack

QUIET: Final = 2.0  # seconds without a call after which the session is let go
TITLE: Final = "Proposed by {}"
NOT_ENDED: Final = "The call was not carried out: {}"


class OutsideAgent:
    """Works in one project for an agent that is reached over MCP. One call at a time."""

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

    async def call(self, calls: Sequence[WantedCall]) -> tuple[str, bool]:
        """Carry calls out through the gate. Returns what the last one gave, and whether it failed. Raises
        `CommandRejected`: no session can be opened or no turn begun."""
        async with self._lock:
            view = await self._open()
            try:
                return await self._run(view, calls)
            finally:
                self._wait_for_quiet()

    async def search_symbols(self, name: str, limit: int) -> q.SearchAnswer:
        """Search names of the project, in what the agent may read. Raises `CommandRejected`."""
        async with self._lock:
            view = await self._open()
            try:
                query = q.SearchQuery(session=view.state.session_id, text=name, kind="symbols", limit=limit)
                answer = await self._engine.query(query)
            finally:
                self._wait_for_quiet()
        if isinstance(answer, q.RefusedAnswer):
            raise CommandRejected(answer.message, hint=answer.hint, code=answer.code)
        assert isinstance(answer, q.SearchAnswer)
        return answer

    async def read_state(self) -> SessionState:
        """Read the session as its log has it now, also while the user has it open. Raises `StateError`."""
        async with self._lock:
            if self._view is not None:
                await self._view.settle()
            return await asyncio.to_thread(_read_log, self._log_path) if self._session else SessionState()

    @property
    def _log_path(self) -> Path:
        return self._store.get_path(self._session) / "log.jsonl"

    async def close(self) -> None:
        """Let the session go; one in which nothing waits and nothing was decided is not kept."""
        async with self._lock:
            await self._tasks.cancel()
            await self._let_go(is_over=True)
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
                self._session = ""  # the user has it open: it is theirs now
        if not self._session:
            self._session = require_ack(await self._engine.submit(cmd.SessionOpen(mode="agent"))).session
            title = TITLE.format(self.client)
            await self._engine.submit(cmd.SessionRename(session=self._session, title=title))
        self._view = SessionView(self._engine, self._session)
        await self._view.settle()
        return self._view

    async def _run(self, view: SessionView, calls: Sequence[WantedCall]) -> tuple[str, bool]:
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

    def _wait_for_quiet(self) -> None:
        async def wait() -> None:
            await pause(QUIET)
            async with self._lock:
                await self._let_go()

        self._waiting = self._tasks.start(wait(), name="quiet")

    async def _let_go(self, *, is_over: bool = False) -> None:
        view, self._view = self._view, None
        if view is None:
            return
        await view.settle()
        is_empty = is_over and _is_empty(await asyncio.to_thread(_read_log, self._log_path))
        await view.close()
        await self._engine.submit(cmd.SessionClose(session=self._session, discard=is_empty))


def _read_log(log: Path) -> SessionState:
    """Read all that a log folds to, the verdicts among it. Raises `StateError`: it is gone, or can't be read."""
    state = SessionState(session_id=log.parent.name)
    read_log(log, partial(apply_event, state))
    return state


def _is_empty(state: SessionState) -> bool:
    """True if nothing waits in a session and nothing was decided."""
    verdicts = state.unreported_verdicts or state.reported_verdicts or state.undone_verdicts
    return not (state.changes or state.review.bulks or verdicts)
