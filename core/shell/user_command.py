"""A command that the user typed: `!command` runs where the agent's commands run, `!!command` unsandboxed, from the
project's root.

It belongs to no turn and may run concurrently with one. The chat shows it like any other command; the model learns of
it with the next prompt, or at the next step of the running turn.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from msgspec.structs import replace

from core.errors import AgentTuiError
from core.ids import new_id
from core.protocol.documents import TerminalCommandDocument, TerminalCommandMetadata
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
from core.sandbox.results import CommandResult
from core.search_paths import restore_user_paths
from core.shell.command_host import CommandRequest, build_unsandboxed_environment
from core.shell.long_output import shorten_middle
from core.shell.terminal import Terminal
from core.shell.unsandboxed_run import STOPPED, run_unsandboxed
from core.shell.verification.clean_run import list_acceptable_changes, run_clean
from core.state.live_text import append_piece

TOOL = "user_command"
UNSANDBOXED_TOOL = "machine_command"  # a user's command outside of every box
PROJECT_TOOL = "project_command"  # one in the project itself, as nothing contains commands there
TIME_LIMIT = 600.0
MAX_REPORTED = 16_000  # characters of output for the model
MAX_STOPPED = 64_000  # characters at the end of the output of a command that was stopped


class UserCommand:
    """One command of the user. Its call has an id, to which effects and checks refer. `is_clean`: it runs alone, in a
    clean layer over all pending changes."""

    def __init__(
        self, terminal: Terminal, command: str, *, is_unsandboxed: bool = False, is_clean: bool = False
    ) -> None:
        self._terminal = terminal
        self._is_clean = is_clean
        self._is_unsandboxed = is_unsandboxed
        self._tool = UNSANDBOXED_TOOL if is_unsandboxed else TOOL
        self._emit = terminal.host.emit_outside_turn
        self.command = command
        self.call = new_id("user")
        self.result: CommandResult | None = None
        self._document = new_id("doc")
        # The agent's directory is not the user's: it may be another repository, with its own programs.
        self._directory = "." if is_unsandboxed or is_clean else terminal.shell.directory

    async def run(self) -> None:
        """Run the command; cancelling stops it. Its output and its end are emitted in any case."""
        if not (self._is_clean or self._is_unsandboxed or await self._terminal.find_box()):
            self._tool = PROJECT_TOOL
        self._emit(DocumentStarted(id=self._document, kind="terminal_command", sequence=0, title=self.command))
        self._emit(
            ToolRequested(
                call=self.call, tool=self._tool, arguments="{}", document=self._document, summary=self.command
            )
        )
        output = ""

        def show(piece: str) -> None:
            nonlocal output
            output = append_piece(output, piece)[-MAX_STOPPED:]
            self._emit(ToolOutput(call=self.call, text=piece))

        try:
            result = self.result = await self._start(show)
            self._emit_end("completed" if result.exit_code is not None else "failed", result)
        except asyncio.CancelledError:
            self._emit_end("cancelled", _build_stopped_result(output, self._describe_stop()))
            raise
        except AgentTuiError as problem:
            self._emit_end("failed", _build_stopped_result("", problem.format_with_hint()))

    async def _start(self, on_output: Callable[[str], None]) -> CommandResult:
        if self._is_clean:
            text = list_acceptable_changes(self._terminal.host.state.changes)
            return await run_clean(self._terminal.host, text, self.command, on_output)
        request = self._build_request()
        if not self._is_unsandboxed:
            if not await self._terminal.find_box():
                self._directory = "."
            return await self._terminal.run(request, on_output)
        host = replace(self._terminal.host, emit=self._emit)  # its effects belong to no turn
        environment = build_unsandboxed_environment(restore_user_paths(os.environ))
        return await run_unsandboxed(host, request, self._directory, environment, on_output)

    def _describe_stop(self) -> str:
        return STOPPED if self._is_unsandboxed else self._terminal.describe_stop()

    def _build_request(self) -> CommandRequest:
        mount = self._terminal.probe_mount
        return CommandRequest(
            command=self.command,
            origin=Origin(call=self.call, tool=self._tool, command=self.command),
            keeps_effects=mount is None and self._terminal.keeps_effects(is_typed=True),
            time_limit=TIME_LIMIT,
            overlays=mount.overlays if mount else (),
            env=mount.env if mount else {},
            is_typed=True,
        )

    def _emit_end(self, status: ToolStatus, result: CommandResult) -> None:
        output = "\n".join(filter(None, (*result.notes, result.output)))
        metadata = TerminalCommandMetadata(
            command=self.command,
            working_directory=str(self._terminal.host.workspace.root / self._directory),
            exit_code=result.exit_code,
            output=shorten_middle(output, MAX_REPORTED),
            duration_ms=result.duration_ms,
            tool_call_id=self.call,
            effects=result.effects,
            tests=result.tests,
            permissions=("all",) if self._is_unsandboxed else (),
        )
        self._emit(DocumentFinished(document=TerminalCommandDocument(id=self._document, sequence=0, metadata=metadata)))
        summary = "" if status == "completed" else result.ended.replace("_", " ")
        self._emit(
            ToolFinished(
                call=self.call,
                tool=self._tool,
                status=status,
                duration_ms=result.duration_ms,
                summary=summary,
                spilled=result.spilled_path,
            )
        )
        self._emit(
            CommandRan(
                id=self.call,
                command=self.command,
                directory=self._directory,
                ended=result.ended,
                exit_code=result.exit_code,
                output=shorten_middle(output, MAX_REPORTED),
                effects=result.effects,
            )
        )


def _build_stopped_result(output: str, effects: str) -> CommandResult:
    return CommandResult(exit_code=None, output=output, duration_ms=0, ended="stopped", effects=effects)
