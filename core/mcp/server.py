"""One server of a session: started when it is first wanted, one call at a time, started anew when it would see an old
project.

A process sees the project as it was when it began. So it is ended when something else changed meanwhile, and when it
wrote itself: what it wrote then waits for the review, and the next call starts it over that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from core.errors import AgentTuiError, ConfigError, ToolFailed
from core.mcp.boxed_process import ServerLog, ServerProcess
from core.mcp.sdk_connection import CallAnswer, MessagePipe, Progress, SdkConnection, ToolDefinition
from core.mcp.server_config import ServerConfig, Variables, parse_env_file
from core.protocol.review import Origin
from core.shell.command_host import CommandHost
from core.tasks import TaskOwner

START_SECONDS: Final = 30.0
MOST_UNASKED: Final = 64 << 20  # characters of messages that a server may send for one request
REMOTE: Final = "remote servers can't be used yet."
ServerStatus = Literal["idle", "running", "failed"]


class McpServer:
    """A server. `on_change`: called when it says that its tools are others now."""

    def __init__(self, config: ServerConfig, host: CommandHost, on_change: Callable[[], None]) -> None:
        self.config, self._host, self._on_change = config, host, on_change
        self.status: ServerStatus = "idle"
        self.problem = ""
        self.version = ""
        self.log = ServerLog()
        self._lock = asyncio.Lock()
        self._tasks = TaskOwner()
        self._process: ServerProcess | None = None
        self._pipe: MessagePipe | None = None
        self._connection: SdkConnection | None = None
        self._received = 0

    async def list_tools(self, *, keeps_effects: bool) -> tuple[ToolDefinition, ...]:
        """Return its tools; it is started for that. Raises `ToolFailed`."""
        async with self._lock:
            connection = await self._connect(keeps_effects=keeps_effects)
            try:
                async with asyncio.timeout(START_SECONDS):
                    return await connection.list_tools()
            except (TimeoutError, ToolFailed) as problem:
                raise await self._end_failed(problem, f"It did not list its tools in {START_SECONDS:.0f} s") from None

    async def call(
        self, tool: str, arguments: Mapping[str, Any], origin: Origin, *, keeps_effects: bool, on_progress: Progress
    ) -> tuple[CallAnswer, str]:
        """Call a tool; return its answer, and a line on what it changed, "" = nothing. Raises `ToolFailed`."""
        async with self._lock:
            connection = await self._connect(keeps_effects=keeps_effects)
            try:
                answer = await self._ask(connection, tool, arguments, on_progress)
            except (asyncio.CancelledError, TimeoutError, ToolFailed) as problem:
                is_refusal = isinstance(problem, ToolFailed) and self._is_alive
                if not is_refusal:
                    raise await self._end_failed(problem, f"It said nothing for {self.config.seconds:g} s") from None
                await self._take_effects(origin)
                raise
            return answer, await self._take_effects(origin)

    async def _ask(
        self, connection: SdkConnection, tool: str, arguments: Mapping[str, Any], on_progress: Progress
    ) -> CallAnswer:
        """Call, as long as it says something now and then."""
        loop, limit = asyncio.get_running_loop(), self.config.seconds
        self._received = 0
        async with asyncio.timeout(limit) as patience:

            def hear(progress: float, total: float | None, message: str | None) -> None:
                patience.reschedule(loop.time() + limit)
                on_progress(progress, total, message)

            return await connection.call_tool(tool, arguments, hear)

    async def _take_effects(self, origin: Origin) -> str:
        """Let what it wrote wait for the review; then it has to begin anew."""
        process = self._process
        if process is None or not process.has_written:
            return ""
        await self._disconnect()
        await process.stop()
        self.status, self._process = "idle", None
        return process.absorb(origin)

    # its life

    @property
    def _is_alive(self) -> bool:
        return self._pipe is not None and not self._pipe.problem

    async def _connect(self, *, keeps_effects: bool) -> SdkConnection:
        process = self._process
        if process is not None and (
            process.is_outdated or process.keeps_effects != keeps_effects or not self._is_alive
        ):
            await self._stop()
        if self._connection is None:
            try:
                await self._start(keeps_effects=keeps_effects)
            except (AgentTuiError, TimeoutError, asyncio.CancelledError) as problem:
                raise await self._end_failed(problem, f"It did not answer in {START_SECONDS:.0f} s") from None
        assert self._connection is not None
        return self._connection

    async def _start(self, *, keeps_effects: bool) -> None:
        if not self.config.command:
            raise ToolFailed(REMOTE)
        command, env = await asyncio.to_thread(self._expand)
        self.log, self._received = ServerLog(), 0
        self._process = process = ServerProcess(self._host, keeps_effects=keeps_effects)
        pipe = self._pipe = MessagePipe(self._send, self.log.add)
        self._connection = SdkConnection(pipe.open_streams(), self._on_change)
        await self._connection.load()
        await process.start(command, env, self._receive, self.log.add)
        self._tasks.spawn(self._watch(process, pipe), name=f"mcp {self.config.name}")
        await self._connection.open(START_SECONDS, str(self._host.workspace.root))
        self.status, self.problem, self.version = "running", "", self._connection.version

    def _expand(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return command and environment with their variables replaced. Raises `ConfigError`."""
        config, root = self.config, self._host.workspace.root
        variables = Variables(root, os.environ)
        env = {"CLAUDE_PROJECT_DIR": str(root)}
        if config.env_file:
            try:
                data = self._host.workspace.read_bytes(variables.expand(config.env_file), 1 << 20)
            except AgentTuiError as problem:
                raise ConfigError(f'its "envFile" can\'t be read: {problem.message}') from None
            env |= parse_env_file(data.decode("utf-8", "replace"))
        return (
            tuple(variables.expand(word, is_public=True) for word in config.command),
            env | variables.expand_all(config.env),
        )

    def _send(self, data: bytes) -> None:
        if self._process is not None and self._process.running is not None:
            self._process.running.send(data)

    def _receive(self, text: str) -> None:
        if self._pipe is None:
            return
        self._received += len(text)
        if self._received > MOST_UNASKED:
            self._pipe.close("It floods its client with messages.")
        else:
            self._pipe.feed(text)

    async def _watch(self, process: ServerProcess, pipe: MessagePipe) -> None:
        assert process.running is not None
        ended = await process.running.wait()
        how = f"exit code {ended.exit_code}" if ended.exit_code is not None else ended.end_reason.replace("_", " ")
        pipe.close(f"It ended ({how}).")

    async def _end_failed(self, problem: BaseException, silence: str) -> BaseException:
        """End it after a fault, drop what it wrote, and return what to raise."""
        ended = self._pipe.problem if self._pipe is not None else ""
        await asyncio.shield(self._stop())
        if isinstance(problem, asyncio.CancelledError):
            return problem
        what = silence if isinstance(problem, TimeoutError) else ended or str(problem)
        said = self.log.find_reason()
        self.status, self.problem = "failed", f"{what.rstrip('.')}.{f' Its log ends: {said}' if said else ''}"
        hint = problem.hint if isinstance(problem, AgentTuiError) else ""
        return ToolFailed(f"The MCP server {self.config.name} failed: {self.problem}", hint=hint)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _stop(self) -> None:
        process, self._process = self._process, None
        self.status = "idle"
        if process is not None:
            await process.stop()
            process.drop()
        await self._disconnect()

    async def close(self) -> None:
        """End it; nothing of it is left."""
        await self._stop()
        await self._tasks.cancel(limit=2.0)
