"""Background agents at work: the worker process, the run of one agent, and the push of its branch.

A machine has one worker, ensured by a lock; starting an agent starts it, and it exits when nothing is left to do. The
log of its session contains all that an agent does, so that any worker can resume it after a crash or for another
message. A question of the agent waits for an answer from any client: a message through the store, an attached screen,
the API.

A push accepts the pending changes in the agent's own clone and commits them with the user's identity, without hooks and
filters of the repository; the user's command is the grant.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from core.background.locations import get_agent_dir
from core.background.records import ENDED, AgentState, BackgroundAgent
from core.background.repositories import GIT_OPTIONS, CloneFailed, check_repository_url, clone_repository
from core.background.session_archive import SessionUpload, download_session
from core.background.store import AgentStore, StoreUnavailable
from core.clock import now_ms, pause
from core.engine import Engine
from core.engine.shared.models import ModelAccess
from core.errors import AgentTuiError, CommandRejected
from core.filesystem.private_files import make_private_directory
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.client import Client
from core.protocol.documents import TextDocument
from core.protocol.options import EngineOptions
from core.records import convert
from core.search_paths import find_git
from core.sessions.store import SessionStore
from core.state.session import SessionState
from core.tasks import TaskOwner
from core.transports.engine_host import share_engine
from core.transports.session_client import SessionView, require_ack

ANSWER_SECONDS: Final = 3600
SYNC_SECONDS: Final = 1.0
RESUME_PROMPT: Final = "The program running this was stopped midway. Check what is there, and continue the task."
_Answer = TypeVar("_Answer")
_ENDS: Final[Mapping[str, AgentState]] = {"done": "done", "interrupted": "stopped", "limit": "done"}
IDLE_SECONDS: Final = 60.0
CONCURRENCY: Final = 4
PUSH_SECONDS: Final = 300.0


async def serve_agents(
    store: AgentStore,
    *,
    concurrency: int = CONCURRENCY,
    idle_seconds: float | None = None,
    models: ModelAccess | None = None,
) -> None:
    """Run agents until SIGTERM or SIGINT, or (`idle_seconds`) until there was nothing to do for so long. Running agents
    are interrupted, and resumed by the next worker."""
    busy = 0
    news = asyncio.Event()

    async def run(agent: BackgroundAgent) -> None:
        nonlocal busy
        busy += 1
        news.set()
        try:
            await run_agent(store, agent, models)
        finally:
            busy -= 1
            news.set()

    await store.open()
    working = asyncio.ensure_future(store.work(name_worker(), concurrency, run))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, working.cancel)
    watching = asyncio.ensure_future(_wait_until_idle(lambda: busy, store, news, idle_seconds))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.wait({working, watching})
        await store.close()
    if not working.cancelled() and (fault := working.exception()) is not None:
        raise fault


def name_worker() -> str:
    """Return the name of this process among the workers of a team."""
    return f"{platform.node() or 'localhost'}:{os.getpid()}"


async def _wait_until_idle(
    count_busy: Callable[[], int], store: AgentStore, news: asyncio.Event, seconds: float | None
) -> None:
    """Return after nothing was running or queued for `seconds`; None: never."""
    while True:
        news.clear()
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            if not count_busy() and all(agent.state in ENDED for agent in await store.list_agents()):
                return


async def run_agent(store: AgentStore, agent: BackgroundAgent, models: ModelAccess | None = None) -> None:
    """Run an agent that a worker took from the store."""
    await AgentRunner(store, replace(agent), models).run()


class AgentFenced(AgentTuiError, code="agent_taken"):
    """Another worker has taken the agent over, so this one must not write about it any more."""


class AgentRunner:
    """The run of one agent by one worker."""

    def __init__(self, store: AgentStore, agent: BackgroundAgent, models: ModelAccess | None = None) -> None:
        self._store, self._agent, self._models = store, agent, models
        self._tasks = TaskOwner()
        self._update_lock = asyncio.Lock()
        self._last_message = agent.heard
        self._queued_prompts: list[str] = []
        self._is_stopped = False
        self._timeout_task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the agent to its end, and store the outcome. Raises only cancellation."""
        outcome: dict[str, Any]
        try:
            outcome = await self._work()
        except AgentFenced:
            return
        except AgentTuiError as problem:
            outcome = {"state": "failed", "message": problem.format_with_hint()}
        except Exception as problem:  # a fault with one agent must not end the worker
            outcome = {"state": "failed", "message": f"unexpected error: {type(problem).__name__}: {problem}"}
        finally:
            await self._tasks.cancel()
        await self._update_or_retry({**outcome, "ended": now_ms(), "waits_for": "", "heard": self._last_message})

    async def _update(self, **changes: Any) -> None:
        """Store changes of the agent, one after the other. Raises `AgentFenced`, `StoreUnavailable`."""
        async with self._update_lock:
            agent = await self._store.update(self._agent, changes)
            if agent is None:
                raise AgentFenced("Another worker has taken over this agent.")
            self._agent = agent

    async def _update_or_retry(self, changes: Mapping[str, Any]) -> None:
        """Store changes, retrying until the store is available."""
        while True:
            try:
                await self._update(**changes)
            except StoreUnavailable:
                await pause(SYNC_SECONDS)
            except AgentFenced:
                return
            else:
                return

    async def _retry_until_available(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return the answer of the store, retrying until it is available; meanwhile the agent's message is the
        reason."""
        last_message = ""
        while True:
            try:
                answer = await ask()
                break
            except StoreUnavailable as problem:
                message = problem.format_with_hint()
                with contextlib.suppress(StoreUnavailable):
                    if message != last_message:
                        await self._update(message=message)
                        last_message = message
                await pause(SYNC_SECONDS)
        if last_message:
            with contextlib.suppress(StoreUnavailable):
                await self._update(message="")
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
            is_background=True,
            wakes=False,
            home=home,
        )
        known_size = 0
        if self._agent.session and self._store.stores_sessions:
            session_store = SessionStore(workspace, home)
            known_size = await self._retry_until_available(
                lambda: download_session(self._store, self._agent, session_store)
            )
        # Shared, so that a screen can attach to its session and answer its questions.
        engine = self._engine = share_engine(Engine(workspace, options=options, models=self._models))
        upload: SessionUpload | None = None
        try:
            session = await self._open_session(engine, SessionStore(workspace, home))
            upload = self._upload = SessionUpload(self._store, SessionStore(workspace, home).get_path(session))
            await upload.begin(known_size)
            return await self._run_conversation(engine, session)
        finally:
            await engine.close()
            if upload is not None:  # includes the events of closing
                with contextlib.suppress(StoreUnavailable, OSError):
                    await upload.sync(self._agent)

    async def _prepare_workspace(self) -> Path:
        """Return the directory of the agent's work: its workspace, or a clone that the first attempt creates."""
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
        await self._update(session=ack.session)
        return ack.session

    async def _run_conversation(self, engine: Client, session: str) -> dict[str, Any]:
        """Run the pending turn, then those of messages that arrived meanwhile."""
        view = SessionView(engine, session, self._take_event)
        self._view = view
        try:
            await view.settle()
            state = view.state
            await self._handle_new_messages(engine, session)
            self._tasks.spawn(self._follow_messages(engine, session), name="messages of an agent")
            self._tasks.spawn(self._sync_periodically(), name="log of an agent")
            for prompt in self._list_prompts(state):
                await self._run_turn(engine, view, prompt)
            while self._queued_prompts and not self._is_stopped:
                await self._run_turn(engine, view, self._queued_prompts.pop(0))
            await view.settle()
            if not await self._retry_until_available(lambda: self._upload.sync(self._agent)):
                raise AgentFenced("Another worker has taken over this agent.")
            return self._describe_end(state)
        finally:
            await view.close()

    def _list_prompts(self, state: SessionState) -> list[str]:
        """Return the prompts before any message: the task, or the notice of an interruption."""
        if not state.turns:
            return [self._agent.request.task_description]
        was_cut_off = state.turns[-1].reason == "interrupted" and self._agent.attempt > 1
        return [RESUME_PROMPT] if was_cut_off and not self._queued_prompts else []

    def _is_stop_requested(self) -> bool:
        return self._is_stopped

    async def _run_turn(self, engine: Client, view: SessionView, prompt: str) -> None:
        if self._is_stop_requested():
            return
        count, session = len(view.state.turns), view.state.session_id
        require_ack(await engine.submit(cmd.TurnSubmit(session=session, text=prompt)))
        if self._is_stop_requested():  # meanwhile
            await engine.submit(cmd.TurnInterrupt(session=session))
        await view.wait_until(lambda: len(view.state.turns) > count and bool(view.state.turns[-1].reason))

    def _take_event(self, envelope: ev.Envelope) -> None:
        match envelope.event:
            case ev.ApprovalRequested(subject=subject):
                self._set_waiting(subject)
            case ev.QuestionAsked(questions=questions):
                self._set_waiting(questions[0].text if questions else "?")
            case ev.SteerReturned(text=text):
                self._queued_prompts.append(text)
            case ev.ApprovalResolved() | ev.QuestionAnswered():
                self._set_waiting("")
            case _:
                pass

    def _set_waiting(self, subject: str) -> None:
        """Store the subject of the open question, "" = none, and interrupt the turn if the answer takes too long."""
        if self._timeout_task is not None:
            self._timeout_task.cancel()
        self._tasks.spawn(self._update_waiting(subject), name="an agent waits")
        self._timeout_task = self._tasks.start(self._interrupt_late(), name="an agent gives up") if subject else None

    async def _update_waiting(self, subject: str) -> None:
        with contextlib.suppress(StoreUnavailable, AgentFenced):
            await self._update(state="waiting" if subject else "running", waits_for=subject[:500])

    async def _interrupt_late(self) -> None:
        await pause(self._agent.request.limits.answer_seconds or ANSWER_SECONDS)
        await self._engine.submit(cmd.TurnInterrupt(session=self._view.state.session_id))

    async def _follow_messages(self, engine: Client, session: str) -> None:
        """Execute messages as they arrive."""
        async for _ in self._store.watch():
            with contextlib.suppress(StoreUnavailable):
                await self._handle_new_messages(engine, session)

    async def _handle_new_messages(self, engine: Client, session: str) -> None:
        for message in await self._store.list_messages(self._agent.id, self._last_message):
            self._last_message = message.number
            await self._execute_message(engine, session, message.command)

    async def _execute_message(self, engine: Client, session: str, raw_command: Mapping[str, Any]) -> None:
        """Execute a message. A prompt steers the running turn; otherwise it becomes the next turn."""
        try:
            command = convert({**raw_command, "session": session}, cmd.AnyCommand)
        except ValueError:
            return  # of a newer version, or invalid
        if isinstance(command, cmd.TurnInterrupt):
            self._is_stopped = True
        if not isinstance(command, cmd.TurnSubmit):
            await engine.submit(command)
            return
        steer = cmd.TurnSteer(session=session, text=command.text)
        if self._view.state.current_turn is None or isinstance(await engine.submit(steer), cmd.Reject):
            self._queued_prompts.append(command.text)

    async def _sync_periodically(self) -> None:
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
        costs = {"cost": state.usage.cost, "estimated": state.usage.estimated}
        return {"state": end_state, "message": message[:2000], "pending": waiting, **costs}


class PushFailed(AgentTuiError, code="push_failed"):
    """Git refused to commit or to push."""


async def push_agent(store: AgentStore, agent: BackgroundAgent, branch: str) -> str:
    """Commit the changes of an agent in its clone and push them as a new branch; return the branch. Raises
    `CommandRejected`, `CloneFailed`, `PushFailed`, `StateError`."""
    request = agent.request
    if not request.repository_url:
        hint = f"agent-tui agents pull {agent.id} brings it into your review."
        raise CommandRejected("it worked in a workspace, not in a clone.", hint=hint, code="nothing_to_push")
    if agent.state not in ENDED or not agent.session:
        raise CommandRejected(f"the agent is {agent.state}.", hint="Wait until it ends.", code="agent_runs")
    check_repository_url(request.repository_url, branch)
    agent_dir = get_agent_dir(agent.id)
    clone, home = agent_dir / "project", agent_dir / "sessions"
    if not await asyncio.to_thread((clone / ".git").exists):  # the agent worked on another machine
        await asyncio.to_thread(make_private_directory, agent_dir)
        await clone_repository(request.repository_url, request.branch, clone)
    if store.stores_sessions:
        await download_session(store, agent, SessionStore(clone, home))
    await _accept_all(clone, home, agent.session)
    await _run_git(clone, "checkout", "--quiet", "-B", branch)
    await _run_git(clone, "add", "--all")
    await _run_git(clone, "commit", "--quiet", "--no-verify", "-m", _format_message(agent))
    await _run_git(clone, "push", "--quiet", "--no-verify", "origin", f"refs/heads/{branch}")
    return branch


async def _accept_all(clone: Path, home: Path, session: str) -> None:
    """Accept all pending changes in the clone. Some can't be accepted in bulk, such as those of protected files."""
    engine = Engine(clone, options=EngineOptions(watch=False, private=False, home=home, preload=False, wakes=False))
    try:
        require_ack(await engine.submit(cmd.SessionResume(session=session)))
        view = SessionView(engine, session)
        try:
            await view.settle()
            require_ack(await engine.submit(cmd.HunkResolve(session=session, path="", verdict="accept")))
            await view.settle()
            if view.state.changes:
                pending_paths = ", ".join(sorted(view.state.changes)[:5])
                hint = "Pull it, and decide on these in the review."
                raise PushFailed(f"Not accepted, so nothing was pushed: {pending_paths}.", hint=hint)
        finally:
            await view.close()
    finally:
        await engine.close()


def _format_message(agent: BackgroundAgent) -> str:
    return f"{agent.title}\n\n{agent.request.task_description.strip()}\n"


async def _run_git(clone: Path, *words: str) -> None:
    git = find_git()
    if git is None:
        raise CloneFailed("git is not installed.")
    process = await asyncio.create_subprocess_exec(
        *(git, *GIT_OPTIONS, *words),
        cwd=clone,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"},
    )
    try:
        async with asyncio.timeout(PUSH_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise PushFailed(f"git {words[0]} took longer than {PUSH_SECONDS:.0f} s.") from None
    if process.returncode:
        lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
        raise PushFailed(f"git {words[0]}: {lines[-1] if lines else 'it gave no reason'}")
