"""One background agent at work: its workspace, an engine in it, one turn, and what becomes of it.

Everything that it does is in the log of its session, so whoever takes it up again, after a crash or for another
message, resumes that session. What needs an answer waits for one, by whatever door it comes: a message through the
store, a screen that is attached, the API.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from core.background.places import get_agent_dir
from core.background.records import AgentState, BackgroundAgent
from core.background.repositories import clone_repository
from core.background.session_archive import SessionUpload, download_session
from core.background.store import AgentStore, StoreUnavailable
from core.clock import now_ms, pause
from core.engine import Engine
from core.engine.models import ModelAccess
from core.errors import AgentTuiError
from core.filesystem.private_directories import make_private_directory
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client
from core.protocol.documents import TextDocument
from core.protocol.options import EngineOptions
from core.records import convert
from core.sessions.store import SessionStore
from core.state.session import SessionState
from core.tasks import TaskOwner
from core.transports.engine_host import share_engine
from core.transports.session_client import SessionView, require_ack

ANSWER_SECONDS: Final = 3600
SYNC_SECONDS: Final = 1.0
GO_ON: Final = "The program that ran this was ended in the middle. Look at what is there, and go on with the task."
_Answer = TypeVar("_Answer")
_ENDS: Final[Mapping[str, AgentState]] = {"done": "done", "interrupted": "stopped", "limit": "done"}


class AgentFenced(AgentTuiError, code="agent_taken"):
    """Another worker has taken the agent up: this one has nothing more to say about it."""


class AgentRunner:
    """The run of one agent by one worker."""

    def __init__(self, store: AgentStore, agent: BackgroundAgent, models: ModelAccess | None = None) -> None:
        self._store, self._agent, self._models = store, agent, models
        self._tasks = TaskOwner()
        self._telling = asyncio.Lock()
        self._heard = agent.heard
        self._unsaid: list[str] = []
        self._is_stopped = False
        self._giving_up: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run it to its end, which is told to the store. Raises nothing but cancellation."""
        outcome: dict[str, Any]
        try:
            outcome = await self._work()
        except AgentFenced:
            return
        except AgentTuiError as problem:
            outcome = {"state": "failed", "message": problem.format_with_hint()}
        except Exception as problem:  # a fault of ours with one agent must not end the worker
            outcome = {"state": "failed", "message": f"unexpected fault: {type(problem).__name__}: {problem}"}
        finally:
            await self._tasks.cancel()
        await self._tell_surely({**outcome, "ended": now_ms(), "waits_for": "", "heard": self._heard})

    async def _tell(self, **changes: Any) -> None:
        """Change what the store knows, one change after the other. Raises `AgentFenced`, `StoreUnavailable`."""
        async with self._telling:
            agent = await self._store.update(self._agent, changes)
            if agent is None:
                raise AgentFenced("Another worker has taken this agent up.")
            self._agent = agent

    async def _tell_surely(self, changes: Mapping[str, Any]) -> None:
        """Tell it as soon as the store is there again."""
        while True:
            try:
                await self._tell(**changes)
            except StoreUnavailable:
                await pause(SYNC_SECONDS)
            except AgentFenced:
                return
            else:
                return

    async def _insist(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return what the store answers, as soon as it does; meanwhile the agent's message is why it does not."""
        last_message = ""
        while True:
            try:
                answer = await ask()
                break
            except StoreUnavailable as problem:
                message = problem.format_with_hint()
                with contextlib.suppress(StoreUnavailable):
                    if message != last_message:
                        await self._tell(message=message)
                        last_message = message
                await pause(SYNC_SECONDS)
        if last_message:
            with contextlib.suppress(StoreUnavailable):
                await self._tell(message="")
        return answer

    async def _work(self) -> dict[str, Any]:
        workspace = await self._prepare_workspace()
        home = get_agent_dir(self._agent.id) / "sessions"
        request, limits = self._agent.request, self._agent.request.limits
        options = EngineOptions(
            model=request.model or None,
            max_steps=limits.max_steps,
            max_cost=limits.max_cost,
            max_tokens=limits.max_tokens,
            watch=False,
            private=False,
            home=home,
        )
        known_size = 0
        if self._agent.session and self._store.keeps_sessions:
            session_store = SessionStore(workspace, home)
            known_size = await self._insist(lambda: download_session(self._store, self._agent, session_store))
        # Shared, so that a screen can attach to its session and answer what it asks.
        engine = self._engine = share_engine(Engine(workspace, options=options, models=self._models))
        upload: SessionUpload | None = None
        try:
            session = await self._open_session(engine, SessionStore(workspace, home))
            upload = self._upload = SessionUpload(self._store, SessionStore(workspace, home).get_path(session))
            await upload.begin(known_size)
            return await self._converse(engine, session)
        finally:
            await engine.close()
            if upload is not None:  # also what closing says, for whoever goes on from there
                with contextlib.suppress(StoreUnavailable, OSError):
                    await upload.sync(self._agent)

    async def _prepare_workspace(self) -> Path:
        """Return the directory to work in: the given one, or a clone that is made at the first attempt."""
        request = self._agent.request
        if request.workspace_path:
            return Path(request.workspace_path)
        agent_dir = get_agent_dir(self._agent.id)
        target = agent_dir / "project"
        await asyncio.to_thread(make_private_directory, agent_dir)
        if not await asyncio.to_thread((target / ".git").exists):
            await clone_repository(request.repository_url, request.branch, target)
        return target

    async def _open_session(self, engine: Client, session_store: SessionStore) -> str:
        request, session = self._agent.request, self._agent.session
        if session and session_store.has_session(session):
            return require_ack(await engine.submit(cmd.SessionResume(session=session))).session
        mode: Any = request.mode
        ack = require_ack(await engine.submit(cmd.SessionOpen(mode=mode, model=request.model)))
        await self._tell(session=ack.session)
        return ack.session

    async def _converse(self, engine: Client, session: str) -> dict[str, Any]:
        """Run the turn that is due, then those of messages that came meanwhile."""
        view = SessionView(engine, session, self._take_event)
        self._view = view
        try:
            await view.settle()
            state = view.state
            await self._hear_news(engine, session)
            self._tasks.spawn(self._hear(engine, session), name="messages of an agent")
            self._tasks.spawn(self._keep_syncing(), name="log of an agent")
            for prompt in self._list_prompts(state):
                await self._run_turn(engine, view, prompt)
            while self._unsaid and not self._is_stopped:
                await self._run_turn(engine, view, self._unsaid.pop(0))
            await view.settle()
            if not await self._insist(lambda: self._upload.sync(self._agent)):
                raise AgentFenced("Another worker has taken this agent up.")
            return self._describe_end(state)
        finally:
            await view.close()

    def _list_prompts(self, state: SessionState) -> list[str]:
        """Return what is to be said before any message: the task, or that a crash came between."""
        if not state.turns:
            return [self._agent.request.task_description]
        was_cut_off = state.turns[-1].reason == "interrupted" and self._agent.attempt > 1
        return [GO_ON] if was_cut_off and not self._unsaid else []

    def _stops(self) -> bool:
        return self._is_stopped

    async def _run_turn(self, engine: Client, view: SessionView, prompt: str) -> None:
        if self._stops():
            return
        count, session = len(view.state.turns), view.state.session_id
        require_ack(await engine.submit(cmd.TurnSubmit(session=session, text=prompt)))
        if self._stops():  # meanwhile
            await engine.submit(cmd.TurnInterrupt(session=session))
        await view.wait_until(lambda: len(view.state.turns) > count and bool(view.state.turns[-1].reason))

    # while it runs

    def _take_event(self, envelope: ev.Envelope) -> None:
        match envelope.event:
            case ev.ApprovalRequested(subject=subject):
                self._note_waiting(subject)
            case ev.QuestionAsked(questions=questions):
                self._note_waiting(questions[0].text if questions else "?")
            case ev.SteerReturned(text=text):
                self._unsaid.append(text)
            case ev.ApprovalResolved() | ev.QuestionAnswered():
                self._note_waiting("")
            case _:
                pass

    def _note_waiting(self, subject: str) -> None:
        """Tell what an answer is waited for, "" = for none any more, and give up when it takes too long."""
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._tasks.spawn(self._tell_waiting(subject), name="an agent waits")
        self._giving_up = self._tasks.start(self._give_up(), name="an agent gives up") if subject else None

    async def _tell_waiting(self, subject: str) -> None:
        with contextlib.suppress(StoreUnavailable, AgentFenced):
            await self._tell(state="waiting" if subject else "running", waits_for=subject[:500])

    async def _give_up(self) -> None:
        await pause(self._agent.request.limits.answer_seconds or ANSWER_SECONDS)
        await self._engine.submit(cmd.TurnInterrupt(session=self._view.state.session_id))

    async def _hear(self, engine: Client, session: str) -> None:
        """Carry out messages as they come."""
        async for _ in self._store.watch():
            with contextlib.suppress(StoreUnavailable):
                await self._hear_news(engine, session)

    async def _hear_news(self, engine: Client, session: str) -> None:
        for message in await self._store.take_messages(self._agent.id, self._heard):
            self._heard = message.number
            await self._carry_out(engine, session, message.command)

    async def _carry_out(self, engine: Client, session: str, raw_command: Mapping[str, Any]) -> None:
        """Carry out a message. A prompt steers the turn that runs; without one, or too late for it, it is the next."""
        try:
            command = convert({**raw_command, "session": session}, cmd.AnyCommand)
        except ValueError:
            return  # of a program that is newer, or a message that is none
        if isinstance(command, cmd.TurnInterrupt):
            self._is_stopped = True
        if not isinstance(command, cmd.TurnSubmit):
            await engine.submit(command)
            return
        steer = cmd.TurnSteer(session=session, text=command.text)
        if self._view.state.current_turn is None or isinstance(await engine.submit(steer), cmd.Reject):
            self._unsaid.append(command.text)

    async def _keep_syncing(self) -> None:
        while True:
            await pause(SYNC_SECONDS)
            with contextlib.suppress(StoreUnavailable):
                if not await self._upload.sync(self._agent):
                    return

    def _describe_end(self, state: SessionState) -> dict[str, Any]:
        turn = state.turns[-1] if state.turns else None
        if turn is None:
            return {"state": "stopped" if self._is_stopped else "failed", "message": "Nothing was done."}
        replies = [
            document.content or "" for document in turn.list_finished_documents() if isinstance(document, TextDocument)
        ]
        end_state = "stopped" if self._is_stopped else _ENDS.get(turn.reason, "failed")
        message = turn.message if end_state == "failed" or not replies else replies[-1].strip()
        waiting = len(state.changes) + sum(bulk.needs_verdict for bulk in state.review.bulks)
        return {"state": end_state, "message": message[:2000], "pending": waiting, "cost": state.usage.cost}


async def run_agent(store: AgentStore, agent: BackgroundAgent, models: ModelAccess | None = None) -> None:
    """Run an agent that a worker took from the store."""
    await AgentRunner(store, replace(agent), models).run()
