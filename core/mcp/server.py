"""One MCP server of a session: started on demand, called one call at a time, restarted when its view is outdated.

A process sees the project as of its start plus its own writes, which go to the review after every call. If anything
else changed meanwhile, the process is stopped and the next call starts it over the new state. A remote server is
connected to instead, with retries while it is unreachable; a call is repeated only if the server did not receive it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from msgspec import Struct

from core.clock import monotonic
from core.errors import AgentTuiError, ConfigError, StateError, ToolFailed
from core.mcp.package_servers import OpenGrants, explain_network, prepare_command
from core.mcp.server_config import ServerConfig, Variables, find_remote_host, parse_env_file
from core.mcp.wire.elicitation import AskUser, Elicitation, ElicitationAnswer, answer_elicitation
from core.mcp.wire.sdk_connection import AnswerServer, CallAnswer, MessagePipe, Progress, SdkConnection, ToolDefinition
from core.protocol.review import Origin
from core.shell.command_host import CommandHost
from core.shell.server_process import ServerLog, ServerNetwork, ServerProcess
from core.tasks import TaskOwner

if TYPE_CHECKING:
    from core.mcp.http_link import HttpLink

START_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 5.0  # grace period for waiters when the server closes
MAX_UNSOLICITED: Final = 64 << 20  # characters of messages that a server may send per request
RETRY_WAITS: Final = (0.5, 1.0, 2.0, 4.0)  # seconds between attempts to reach a remote server
BACKOFF_SECONDS: Final = (30.0, 300.0)  # pause after a failure: the first one, and the longest
STOPPED: Final = "The user stopped it."
MAX_QUESTIONS: Final = 10  # questions to the user per call
A = TypeVar("A")
ServerStatus = Literal["idle", "running", "failed"]


class CallListener(Struct, frozen=True):
    """The callbacks of a running call: `progress` reports progress, `ask` puts a question of the server to the user,
    `tell` shows the user a notice."""

    progress: Progress
    ask: AskUser
    tell: Callable[[str], None]


class McpServer:
    """A server. `on_change` is called when the server reports a change of its tools; `open_grants` opens the network
    that its package is fetched with."""

    def __init__(
        self, config: ServerConfig, host: CommandHost, on_change: Callable[[], None], open_grants: OpenGrants
    ) -> None:
        self.config, self._host, self._on_change, self._open_grants = config, host, on_change, open_grants
        self.status: ServerStatus = "idle"
        self.problem = ""
        self.version = ""
        self.log = ServerLog()
        self._lock = asyncio.Lock()
        self._tasks = TaskOwner()
        self._process: ServerProcess | None = None
        self._pipe: MessagePipe | HttpLink | None = None
        self.host = find_remote_host(config, self._variables)
        self._answer_call: AnswerServer | None = None
        self._address = ""
        self._login_number = 0
        self._failures = 0
        self._retry_at = 0.0
        self._connection: SdkConnection | None = None
        self._received = 0
        self._is_flooding = False
        self._is_closed = False

    async def list_tools(self, *, keeps_effects: bool) -> tuple[ToolDefinition, ...]:
        """Return the tools of the server, which is started for that. Raises `ToolFailed`."""
        async with self._lock:
            connection = await self._connect(keeps_effects=keeps_effects)
            try:
                definitions = await connection.list_tools(START_SECONDS)
                return tuple(definition for definition in definitions if self.config.offers(definition.name))
            except (TimeoutError, ToolFailed) as problem:
                raise await self._stop_failed(problem, f"It did not list its tools in {START_SECONDS:.0f} s") from None

    async def ask(self, work: Callable[[SdkConnection], Awaitable[A]], *, keeps_effects: bool) -> A:
        """Return the result of `work` on the connection; starts the server. A refusal leaves it running. Raises
        `ToolFailed`."""
        async with self._lock:
            connection = await self._connect(keeps_effects=keeps_effects)
            try:
                async with asyncio.timeout(START_SECONDS):
                    return await work(connection)
            except (asyncio.CancelledError, TimeoutError, ToolFailed) as problem:
                if isinstance(problem, ToolFailed) and self._is_alive:
                    raise
                raise await self._stop_failed(problem, f"It said nothing for {START_SECONDS:.0f} s") from None

    async def call(
        self, tool: str, arguments: Mapping[str, Any], origin: Origin, *, keeps_effects: bool, listener: CallListener
    ) -> tuple[CallAnswer, str]:
        """Call a tool; return its answer and a line about the files that it changed, "" = none. Raises `ToolFailed`."""
        async with self._lock:
            connection = await self._connect(keeps_effects=keeps_effects)
            try:
                answer = await self._ask(connection, tool, arguments, listener)
            except (asyncio.CancelledError, TimeoutError, ToolFailed) as problem:
                is_refusal = isinstance(problem, ToolFailed) and self._is_alive
                if not is_refusal:
                    raise await self._stop_failed(problem, f"It said nothing for {self.config.seconds:g} s") from None
                await self._collect_effects(origin)
                raise
            return answer, await self._collect_effects(origin)

    async def _ask(
        self, connection: SdkConnection, tool: str, arguments: Mapping[str, Any], listener: CallListener
    ) -> CallAnswer:
        """Call a tool with a time limit that every progress report restarts, and that stops while the user answers."""
        loop, limit = asyncio.get_running_loop(), self.config.seconds
        self._received, question_count, asking = 0, 0, asyncio.Lock()
        async with asyncio.timeout(limit) as time_limit:

            def report_progress(progress: float, total: float | None, message: str | None) -> None:
                time_limit.reschedule(loop.time() + limit)
                listener.progress(progress, total, message)

            async def answer(elicitation: Elicitation) -> ElicitationAnswer:
                nonlocal question_count
                question_count += 1
                if question_count > MAX_QUESTIONS:
                    return ElicitationAnswer(action="cancel")
                async with asking:
                    time_limit.reschedule(None)
                    reply = await answer_elicitation(self.config.name, elicitation, listener.ask)
                    time_limit.reschedule(loop.time() + limit)
                if reply.notice:
                    listener.tell(reply.notice)
                return reply

            self._answer_call = answer
            try:
                return await connection.call_tool(tool, arguments, report_progress)
            except ToolFailed:
                if not self._was_unsent:
                    raise
                time_limit.reschedule(None)
                new_connection = await self._connect(keeps_effects=False)
                time_limit.reschedule(loop.time() + limit)
                return await new_connection.call_tool(tool, arguments, report_progress)
            finally:
                self._answer_call = None

    async def _answer(self, elicitation: Elicitation) -> ElicitationAnswer:
        """Answer a question of the server: the user is asked only while a call runs."""
        return (
            await self._answer_call(elicitation)
            if self._answer_call is not None
            else ElicitationAnswer(action="cancel")
        )

    async def _collect_effects(self, origin: Origin) -> str:
        """Move the process's writes to the review; the process keeps running with its state in memory."""
        process = self._process
        if process is None or not process.has_written:
            return ""
        try:
            return await process.absorb_new_changes(origin)
        except ToolFailed:
            await self._stop()
            raise

    @property
    def is_retry_due(self) -> bool:
        """True if a failed remote server may be tried again: after the pause, or after another login."""
        if not self.config.is_remote or self.status != "failed":
            return False
        return monotonic() >= self._retry_at or self._read_login_number() != self._login_number

    def _read_login_number(self) -> int:
        """Return a number that changes with every login to the server."""
        from core.mcp.logins import LoginStore

        with suppress(StateError):
            return LoginStore(self._address).find_entry().number
        return 0

    @property
    def _is_alive(self) -> bool:
        is_open = self._connection is not None and self._connection.is_open
        return is_open and self._pipe is not None and not self._pipe.problem

    @property
    def _was_unsent(self) -> bool:
        """True if a call can't have reached the remote server, or the server has lost the session."""
        fault = None if self._pipe is None or isinstance(self._pipe, MessagePipe) else self._pipe.fault
        return fault is not None and fault.is_unsent

    async def _connect(self, *, keeps_effects: bool) -> SdkConnection:
        if self._is_closed:
            raise ToolFailed(f"The MCP server {self.config.name} was stopped: its entry has changed.")
        process, is_own = self._process, self.config.is_own
        is_old = process is not None and not is_own and (process.is_outdated or process.keeps_effects != keeps_effects)
        if self._connection is not None and (is_old or not self._is_alive):
            await self._stop()
        if self._connection is None:
            try:
                await (self._connect_remote() if self.config.is_remote else self._start(keeps_effects=keeps_effects))
            except (AgentTuiError, TimeoutError, asyncio.CancelledError) as problem:
                raise await self._stop_failed(problem, f"It did not answer in {START_SECONDS:.0f} s") from None
        assert self._connection is not None
        return self._connection

    async def _connect_remote(self) -> None:
        """Connect to a remote server; retry after a pause while the fault is transient."""
        from core.mcp.http_link import HttpLink, build_target, read_headers

        self.log = ServerLog()
        for wait in (*RETRY_WAITS, None):
            command_headers = await read_headers(self.config, self._variables, self._host, self.log.add)
            target = await asyncio.to_thread(build_target, self.config, self._variables, command_headers)
            self._address = str(target.address)
            self._login_number = self._read_login_number()
            link = self._pipe = HttpLink(self.config, target)
            self._connection = SdkConnection(link.open_streams(), self._on_change, self._answer)
            link.on_loss = self._connection.end
            await self._connection.load()
            try:
                await self._connection.open(START_SECONDS, "")
            except ToolFailed as problem:
                await self._disconnect()
                if wait is None or link.fault is None or not link.fault.is_transient:
                    raise link.build_error(problem.message) from None
                await asyncio.sleep(wait)
            else:
                break
        self._set_running()

    def _set_running(self) -> None:
        assert self._connection is not None
        self.status, self.problem, self.version = "running", "", self._connection.version
        self._failures = 0

    async def _open_network(self) -> ServerNetwork:
        return ServerNetwork(proxy=await self._host.proxy(), services=self._host.services())

    async def _start(self, *, keeps_effects: bool) -> None:
        command, env = await asyncio.to_thread(self._expand_command)
        command = await prepare_command(command, self._host, self._open_grants)
        self.log, self._received, self._is_flooding = ServerLog(), 0, False
        is_own = self.config.is_own
        self._process = process = ServerProcess(
            self._host,
            keeps_effects=keeps_effects and not is_own,
            network=self._open_network if is_own else None,
            folder=self.config.folder,
        )
        pipe = self._pipe = MessagePipe(self._send, self.log.add)
        self._connection = SdkConnection(pipe.open_streams(), self._on_change, self._answer)
        await self._connection.load()
        await process.start(command, env, self._receive, self._log)
        self._tasks.spawn(self._watch(process, pipe), name=f"mcp {self.config.name}")
        await self._connection.open(START_SECONDS, str(self._host.workspace.root))
        self._set_running()

    @property
    def _variables(self) -> Variables:
        return Variables(self._host.workspace.root, os.environ)

    def _expand_command(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return command and environment with variables replaced. Raises `ConfigError`."""
        config, root = self.config, self._host.workspace.root
        variables = self._variables
        env = {"CLAUDE_PROJECT_DIR": str(root)}
        env |= {"CLAUDE_PLUGIN_ROOT": config.folder} if config.folder else {}
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
        if isinstance(self._pipe, MessagePipe):
            self._pipe.feed(text)
            self._count(text)

    def _log(self, text: str) -> None:
        self.log.add(text)
        self._count(text)

    def _count(self, text: str) -> None:
        """Count the output of the server, and stop it if that is a flood, also between calls."""
        self._received += len(text)
        process, pipe = self._process, self._pipe
        if process is None or pipe is None:
            return
        if self._received > MAX_UNSOLICITED:
            pipe.close("It floods its client with messages.")
        if pipe.problem and not self._is_flooding:
            self._is_flooding = True
            self._tasks.spawn(process.stop(), name=f"mcp end {self.config.name}")

    async def _watch(self, process: ServerProcess, pipe: MessagePipe) -> None:
        assert process.running is not None
        result = await process.running.wait()
        cause = f"exit code {result.exit_code}" if result.exit_code is not None else result.end_reason.replace("_", " ")
        pipe.close(f"It ended ({cause}).")
        if self._process is process and not self._lock.locked():  # no call waits that would report it
            self.status, self.problem = "failed", self._add_log(pipe.problem)

    def _add_log(self, problem: str) -> str:
        """Return the problem together with the end of the server's log."""
        reason = self.log.find_reason()
        cause = f" {explain_network(self.log.read())}".rstrip() if not self.config.is_remote else ""
        return f"{problem.rstrip('.')}.{f' Last lines of its log: {reason}' if reason else ''}{cause}"

    async def _stop_failed(self, problem: BaseException, silence: str) -> BaseException:
        """Stop the server after a fault, drop its writes, and return the exception to raise."""
        pipe_problem = self._pipe.problem if self._pipe is not None else ""
        await asyncio.shield(self._stop())
        if isinstance(problem, asyncio.CancelledError):
            return problem
        cause = silence if isinstance(problem, TimeoutError) else pipe_problem or str(problem)
        self.status, self.problem = "failed", self._add_log(cause)
        shortest, longest = BACKOFF_SECONDS
        self._retry_at = monotonic() + min(shortest * 2**self._failures, longest)
        self._failures += 1
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

    async def stop(self) -> None:
        """Stop the server. A running call fails; the next one starts the server again."""
        await self._abort_waits()
        async with self._lock:
            await self._stop()
            self.problem = ""

    async def _abort_waits(self) -> None:
        """End pending requests, so that their callers release the lock."""
        if self._pipe is not None:
            self._pipe.close(STOPPED)
        if self._connection is not None:
            await self._connection.close()

    async def close(self) -> None:
        """Stop the server for good, also while it is starting."""
        self._is_closed = True
        await self._abort_waits()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS), self._lock:
                await self._stop()
        await self._stop()
        await self._tasks.cancel(limit=2.0)
