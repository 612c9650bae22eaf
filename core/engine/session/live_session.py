"""An open session with its turns, and the queue of its commands' effects.

A command is answered first; effects then happen in the order in which the commands were accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.engine.faults import explain_fault
from core.engine.session.session import Session
from core.engine.session.turn_runner import TurnRunner
from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.attachment_labels import LABEL_PATTERN
from core.protocol.events import AttachmentAdded

Effect = Callable[[], Awaitable[None] | None]


def copy_attachments(source: Session, target: Session, text: str) -> None:
    """Copy the attachments that a text names into another session, under the same labels."""
    for label in dict.fromkeys(LABEL_PATTERN.findall(text)):
        attachment = source.state.attachments.get(label)
        if attachment is not None and target.state.attachments.get(label) != attachment:
            target.shadow.blobs.put(source.shadow.blobs.get(attachment.digest))
            target.emit_apart(AttachmentAdded(label=label, attachment=attachment))


class LiveSession:
    """A session that clients may command.

    `children`: the open sessions of its subagents, by id. `builds`: they are working on a plan.
    """

    def __init__(self, runtime: Session) -> None:
        self.runtime = runtime
        self.turns = TurnRunner(runtime)
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self.children: dict[str, LiveSession] = {}
        self.builds = False
        self._closed = False

    def schedule(self, effect: Effect) -> None:
        """Queue an effect behind those accepted before it; it starts at the caller's next await at the earliest."""
        if self._worker is None:
            self._worker = asyncio.create_task(self._run_effects(), name=f"effects of {self.runtime.id}")
        self._effects.put_nowait(effect)

    async def _run_effects(self) -> None:
        while not self._closed:
            effect = await self._effects.get()
            try:
                waiting = effect()
                if waiting is not None:
                    await waiting
            except AgentTuiError as problem:
                self.runtime.report_error(problem)
            except Exception as problem:  # a fault of ours in one command must not end the session
                self.runtime.report_error(explain_fault(problem))
            await asyncio.sleep(
                0
            )  # a turn that was begun has started before the next effect, which may be meant for it
            self._effects.task_done()

    async def wait_idle(self) -> None:
        """Wait until every accepted command has had its effect."""
        await self._effects.join()

    def steer(self, text: str) -> None:
        """Send a message of the user to the running turn and to all its subagents."""
        identity = new_id("steer")
        self.turns.steer(text, identity)
        for child in self.children.values():
            if child.turns.is_running:
                copy_attachments(self.runtime, child.runtime, text)
                child.turns.steer(text, identity)

    def return_steers(self, ids: tuple[str, ...]) -> None:
        """Give messages that were not sent back to the user."""
        self.turns.return_steers(ids)
        for child in self.children.values():
            child.turns.return_steers(ids)

    def run_command(self, command: str) -> None:
        """Run a command that the user typed, beside whatever else runs."""
        from core.shell.user_command import UserCommand

        run = UserCommand(self.runtime.terminal, command)
        self.run_beside(run.run, run.call)

    def run_beside(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Run work that holds a command, beside whatever else runs; it is stopped like a command."""
        task = asyncio.create_task(self._run_guarded(work), name=name)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _run_guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            if not self.turns.is_running:
                self.runtime.terminal.squash_layers()
        except AgentTuiError as problem:
            self.runtime.report_error(problem)
        except Exception as problem:  # a fault of ours in one command must not end the session
            self.runtime.report_error(explain_fault(problem))

    @property
    def has_running_commands(self) -> bool:
        """True if a command of the user's own runs."""
        return bool(self._commands)

    async def stop_commands(self) -> None:
        """Stop the user's own commands."""
        for task in list(self._commands):
            task.cancel()
        if self._commands:
            await asyncio.wait(set(self._commands))

    async def close(self, reason: str = "") -> None:
        """Interrupt what runs, carry out what was accepted, write what is left."""
        if self._worker is not None and self._worker is not asyncio.current_task():
            await self._effects.join()
            self._worker.cancel()
        self._closed = True
        await self._stop()
        self.runtime.close(reason)

    async def discard(self) -> None:
        """Stop what runs, and leave nothing of the session."""
        if self._worker is not None:
            self._worker.cancel()
        await self._stop()
        self.runtime.discard()

    async def _stop(self) -> None:
        await self.turns.stop()
        while self.children:
            _, child = self.children.popitem()
            await child.close()
        await self.stop_commands()
        await self.runtime.terminal.close()
        await self.runtime.permissions.close()
