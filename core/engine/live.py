"""An open session with its turns, and the line in which the effects of its commands wait for each other.

A command is answered first; its effect then happens in the order in which the commands were accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.engine.faults import explained
from core.engine.runtime import SessionRuntime
from core.engine.turns import Turns
from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.attachments import LABEL
from core.protocol.events import AttachmentAdded

Effect = Callable[[], Awaitable[None] | None]


def adopt(source: SessionRuntime, target: SessionRuntime, text: str) -> None:
    """Take what a text names from one session into another, under the same labels."""
    for label in dict.fromkeys(LABEL.findall(text)):
        attachment = source.state.attached.get(label)
        if attachment is not None and target.state.attached.get(label) != attachment:
            target.shadow.blobs.put(source.shadow.blobs.get(attachment.digest))
            target.emit_apart(AttachmentAdded(label=label, attachment=attachment))


class LiveSession:
    """One session that clients may command. `children` are the open sessions of its subagents, by id;
    `builds`: they are working a plan."""

    def __init__(self, runtime: SessionRuntime) -> None:
        self.runtime = runtime
        self.turns = Turns(runtime)
        self._effects: asyncio.Queue[Effect] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()
        self.children: dict[str, LiveSession] = {}
        self.builds = False
        self._closed = False

    def schedule(self, effect: Effect) -> None:
        """Carry `effect` out after those accepted before it, and not before the caller's next wait."""
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name=f"effects of {self.runtime.id}")
        self._effects.put_nowait(effect)

    async def _work(self) -> None:
        while not self._closed:
            effect = await self._effects.get()
            try:
                waiting = effect()
                if waiting is not None:
                    await waiting
            except AgentTuiError as problem:
                self.runtime.complain(problem)
            except Exception as problem:  # a fault of ours in one command must not end the session
                self.runtime.complain(explained(problem))
            await asyncio.sleep(
                0
            )  # a turn that was begun has started before the next effect, which may be meant for it
            self._effects.task_done()

    async def settled(self) -> None:
        """Until every accepted command has had its effect."""
        await self._effects.join()

    def steer(self, text: str) -> None:
        """A message of the user for the turn that runs, and for all that work for it."""
        identity = new_id("steer")
        self.turns.steer(text, identity)
        for child in self.children.values():
            if child.turns.running:
                adopt(self.runtime, child.runtime, text)
                child.turns.steer(text, identity)

    def take_back(self, ids: tuple[str, ...]) -> None:
        """What was said and not sent is the user's again."""
        self.turns.take_back(ids)
        for child in self.children.values():
            child.turns.take_back(ids)

    def run_command(self, command: str) -> None:
        """Run what the user typed, beside whatever else goes on."""
        from core.agent.user_command import UserCommand

        run = UserCommand(self.runtime.terminal, command)
        self.run_beside(run.run, run.call)

    def run_beside(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Do something with a command in it, beside whatever else goes on; it is stopped like one."""
        task = asyncio.create_task(self._ran(work), name=name)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def _ran(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            if not self.turns.running:
                self.runtime.terminal.squash()
        except AgentTuiError as problem:
            self.runtime.complain(problem)
        except Exception as problem:  # a fault of ours in one command must not end the session
            self.runtime.complain(explained(problem))

    @property
    def runs_commands(self) -> bool:
        """Whether a command of the user's own runs."""
        return bool(self._commands)

    async def stop_commands(self) -> None:
        """Stop what the user ran."""
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
        await self.runtime.permits.close()
