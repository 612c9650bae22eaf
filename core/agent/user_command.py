"""A command that the user typed (`!command`): run where the agent's commands run, without a question.

It belongs to no turn and may run beside one. The chat shows it like any other command; the model is told of it with the
next prompt, or at the next step of the turn that runs.
"""

from __future__ import annotations

import asyncio

from core.agent.execution import DROPPED, Order
from core.agent.terminal import Terminal
from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.documents import TerminalCommand, TerminalCommandMetadata
from core.protocol.events import (
    CommandRan,
    DocumentFinished,
    DocumentStarted,
    ToolFinished,
    ToolOutput,
    ToolRequested,
    ToolStatus,
)
from core.protocol.review import Origin
from core.sandbox.result import CommandResult

TOOL = "user_command"
SECONDS = 600.0
TOLD = 16_000  # characters of output that the model is told


class UserCommand:
    """One of them. Its call has an id of its own, so that effects and checks can name it."""

    def __init__(self, terminal: Terminal, command: str) -> None:
        self._terminal = terminal
        self._emit = terminal.ground.emit_apart
        self.command = command
        self.call = new_id("user")
        self.result: CommandResult | None = None
        self._document = new_id("doc")
        self._directory = terminal.shell.directory

    async def run(self) -> None:
        """All of it; cancelling stops it. What it printed and how it ended is told in any case."""
        self._emit(DocumentStarted(id=self._document, kind="terminal_command", sequence=0, title=self.command))
        self._emit(
            ToolRequested(call=self.call, tool=TOOL, arguments="{}", document=self._document, summary=self.command)
        )
        heard: list[str] = []

        def shown(text: str) -> None:
            heard.append(text)
            self._emit(ToolOutput(call=self.call, text=text))

        try:
            result = self.result = await self._terminal.run(self._order(), shown)
            self._finish("completed" if result.exit_code is not None else "failed", result)
        except asyncio.CancelledError:
            self._finish("cancelled", _stopped("".join(heard), DROPPED))
            raise
        except AgentTuiError as problem:
            self._finish("failed", _stopped("", problem.explained()))

    def _order(self) -> Order:
        origin = Origin(call=self.call, tool=TOOL, command=self.command)
        if (layer := self._terminal.probing) is not None:
            return Order(
                command=self.command, origin=origin, keeps=False, seconds=SECONDS, over=layer.over, env=layer.env
            )
        return Order(command=self.command, origin=origin, keeps=self._terminal.keeps(typed=True), seconds=SECONDS)

    def _finish(self, status: ToolStatus, result: CommandResult) -> None:
        output = "\n".join(filter(None, (*result.notes, result.output)))
        metadata = TerminalCommandMetadata(
            command=self.command,
            working_directory=self._directory,
            exit_code=result.exit_code,
            output=_shortened(output, TOLD),
            duration_ms=result.duration_ms,
            tool_call_id=self.call,
            effects=result.effects,
        )
        self._emit(DocumentFinished(document=TerminalCommand(id=self._document, sequence=0, metadata=metadata)))
        summary = "" if status == "completed" else result.ended.replace("_", " ")
        self._emit(
            ToolFinished(
                call=self.call,
                tool=TOOL,
                status=status,
                duration_ms=result.duration_ms,
                summary=summary,
                spilled=result.spilled,
            )
        )
        self._emit(
            CommandRan(
                id=self.call,
                command=self.command,
                directory=self._directory,
                ended=result.ended,
                exit_code=result.exit_code,
                output=_shortened(output, TOLD),
                effects=result.effects,
            )
        )


def _stopped(output: str, effects: str) -> CommandResult:
    return CommandResult(exit_code=None, output=output, duration_ms=0, ended="stopped", effects=effects)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters …]\n{text[-tail:]}"
