"""The tasks of a session: effects of commands in their order, the user's commands in parallel, and the one turn.

A command is answered first; effects then happen in the order in which the commands were accepted. An internal fault in
one of them is saved as a crash report, and neither the session nor the engine ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError, CommandRejected
from core.secrets import redact
from core.tasks import TaskOwner, cancel_tasks

STOP_LIMIT: Final = 5.0  # seconds that a turn has to end when it is stopped
Effect = Callable[[], object]  # an awaitable result is awaited, any other is ignored


def explain_fault(fault: Exception) -> AgentTuiError:
    """Return the error to report for an exception: itself if it is ours, else an internal fault. Never raises."""
    if isinstance(fault, AgentTuiError):
        return fault
    text = f"internal error: {type(fault).__name__}: {fault}"
    return AgentTuiError(
        redact(text[:2_000]),
        hint=f"The session is intact. {describe_crash_report(save_crash_report(fault, 'the engine'))}",
    )


class SessionTasks:
    """Owns the tasks of one session: effects, commands and `others`. `report_error` is called with the errors of
    effects and commands."""

    def __init__(self, report_error: Callable[[AgentTuiError], None]) -> None:
        self._report_error = report_error
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._commands = TaskOwner()
        self.others = TaskOwner()
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    def schedule(self, effect: Effect) -> None:
        """Queue an effect after those accepted before it. It starts at the caller's next await at the earliest. Once no
        more effects run, it is dropped: whoever waits for the queue would wait for it."""
        if self._is_closed:
            return
        if self._worker is None:
            self._worker = self.others.start(self._run_effects(), name="effects")
        self._effects.put_nowait(effect)

    async def _run_effects(self) -> None:
        while not self._is_closed:
            await self._run_guarded(await self._effects.get())
            await asyncio.sleep(0)  # a turn that the effect began starts before the next effect, which may address it
            self._effects.task_done()
        while not self._effects.empty():  # accepted after the last one that runs
            self._effects.get_nowait()
            self._effects.task_done()

    async def _run_guarded(self, work: Effect) -> None:
        try:
            if inspect.isawaitable(result := work()):
                await result
        except Exception as problem:  # a fault of ours in one command must not end the session
            self._report_error(explain_fault(problem))

    async def wait_idle(self) -> None:
        """Wait until every accepted command has had its effect."""
        await self._effects.join()

    async def finish_effects(self) -> None:
        """Run the accepted effects and none after them. If called by an effect, that one is the last."""
        if self._worker is not None and self._worker is not asyncio.current_task():
            await self._effects.join()
        self.drop_effects()

    def drop_effects(self) -> None:
        """Run no more effects. If called by an effect, that one still ends."""
        self._is_closed = True
        if self._worker is not None and self._worker is not asyncio.current_task():
            self._worker.cancel()

    def run_in_parallel(self, work: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Run work in parallel to turns and effects. It is stopped like a command of the user."""
        self._commands.spawn(self._run_guarded(work), name=name)

    def start_loop(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Start the task of a loop, which lasts until it ends by itself, is ended, or the session closes."""
        self._loops[name] = self.others.start(self._run_guarded(work), name=name)

    def end_loop(self, name: str) -> None:
        """End the task of a loop. A turn that it has begun goes on."""
        if (task := self._loops.pop(name, None)) is not None:
            task.cancel()

    async def stop_loops(self) -> None:
        """End all loops, and wait for the end of their commands."""
        await cancel_tasks(self._loops.values(), limit=STOP_LIMIT)
        self._loops.clear()

    @property
    def has_running_commands(self) -> bool:
        """True if a command of the user runs."""
        return self._commands.is_busy

    async def stop_commands(self) -> None:
        """Stop the user's own commands."""
        await self._commands.cancel()


class TurnSlot:
    """Owns the one turn that a session may run at a time. `interrupt_work()` stops the work that the turn waits for;
    False: it waits for nothing, so its task is cancelled."""

    def __init__(self, interrupt_work: Callable[[], bool]) -> None:
        self._interrupt_work = interrupt_work
        self._task: asyncio.Task[None] | None = None
        self._is_reserved = False
        self._has_begun = False
        self._is_interrupted = False  # before it began
        self._freed = asyncio.Event()
        self.is_stopping = False

    @property
    def is_running(self) -> bool:
        """True from its reservation until its task has ended."""
        return self._is_reserved or (self._task is not None and not self._task.done())

    @asynccontextmanager
    async def reserve(self) -> AsyncGenerator[None]:
        """Reserve the next turn, which the block prepares; wait for a turn that is being stopped. Raises
        `CommandRejected` while another turn runs. If the block raises, the slot is free again."""
        if self.is_stopping and self._task is not None:
            await asyncio.wait({self._task}, timeout=STOP_LIMIT)
        if self.is_running:
            raise CommandRejected(
                "a turn is running.",
                hint="Wait until it ends, interrupt it, or send a message to it.",
                code="turn_running",
            )
        self._is_reserved = True
        try:
            yield
        except BaseException:
            self._is_reserved = self._is_interrupted = self.is_stopping = False
            self._freed.set()
            raise

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the reserved turn."""
        self._has_begun = False
        self._task = asyncio.create_task(self._run(work), name="turn")
        self._is_reserved = False

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a turn. A turn that was interrupted before it began ends at its first await: a task that is cancelled
        before its first step would record nothing of its turn."""
        self._has_begun = True
        task, is_interrupted = asyncio.current_task(), self._is_interrupted
        self._is_interrupted = False
        if task is not None and is_interrupted:
            task.cancel()
        try:
            await work
        finally:
            self._freed.set()

    async def wait_free(self) -> None:
        """Wait until no turn runs. A cancellation does not touch the turn."""
        while self.is_running:
            self._freed.clear()
            await self._freed.wait()

    async def wait_ended(self) -> None:
        """Wait until the running turn has ended. On cancellation, interrupt the turn and wait for it."""
        if (task := self._task) is None:
            return
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self.interrupt()
            await asyncio.wait({task}, timeout=STOP_LIMIT)
            raise

    def interrupt(self) -> None:
        """Request the end of the turn; its partial answer is recorded."""
        if not self.is_running:
            return
        if self._task is None or self._is_reserved or not self._has_begun:
            self._is_interrupted = True
        elif not self._interrupt_work():
            self._task.cancel()

    async def stop(self) -> None:
        """Interrupt the turn and wait until it has ended."""
        task = self._task
        if task is not None and not task.done():
            self.interrupt()
            await asyncio.wait({task}, timeout=STOP_LIMIT)
            task.cancel()
            await asyncio.wait({task}, timeout=STOP_LIMIT)


class ProofSlot:
    """Owns the one proof that a session may run at a time. Whatever the user does stops it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True while a proof runs."""
        return self._task is not None and not self._task.done()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a proof; one that runs is stopped first."""
        self._task = asyncio.create_task(self._run(work, self._task), name="proof")

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]], previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await cancel_tasks([previous], limit=STOP_LIMIT)
        await work()

    def stop(self) -> None:
        """Stop the proof that runs; its end is recorded a moment later."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Stop the proof, and wait for its end."""
        if self._task is not None:
            await cancel_tasks([self._task], limit=STOP_LIMIT)
