"""A hosted agent's process: in the box over the shadow, with a layer and a copy of its login, connected by ACP.

The agent reaches its own hosts and nothing else. What it writes to the project stays in its layer until it has ended.
Outside of the box the agent also reads its login directories, partly as programs to run (hooks). So it works on a copy
of them that stays with the session; only the named token files, which it refreshes, are written back. No command of
ours sees the copy.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from core import __version__
from core.acp.connection import AUTH_REQUIRED, AcpError, Connection, PeerGone, PeerRequests
from core.engine.session.session import Session
from core.errors import AgentTuiError, StateError, ToolFailed
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.git.layout import read_small_file
from core.permissions.rules import PermissionRule, parse_rule
from core.protocol.events import Notice
from core.protocol.review import Origin
from core.providers.hosted_agents import HostedAgent, ModeOffer, read_mode_offer
from core.shell.network_grants import NetworkGrants
from core.shell.server_process import ServerLog, ServerNetwork, ServerProcess
from core.tasks import TaskOwner

MAX_FILE: Final = 4 << 20  # bytes; larger files are not copied
MAX_TOTAL: Final = 64 << 20
# Earlier conversations, caches and logs: large, and not needed by a new conversation.
_LEFT_OUT: Final = frozenset(
    {
        "projects",
        "sessions",
        "todos",
        "shell-snapshots",
        "file-history",
        "statsig",
        "logs",
        "log",
        "debug",
        "cache",
        "tmp",
    }
)
PROTOCOL_VERSION: Final = 1
START_SECONDS: Final = 60.0
CANCEL_SECONDS: Final = 5.0
MAX_MODE_RETURNS: Final = 20  # times that an agent is reset to the mode of its turn


class AgentFailed(AgentTuiError, code="agent_failed"):
    """A hosted agent could not be started, died, or does not speak the protocol."""


class AgentProcess:
    """One run of an agent. `keeps_effects`: its writes wait for the review, else they are dropped at its end."""

    def __init__(self, session: Session, agent: HostedAgent, requests: PeerRequests, *, keeps_effects: bool) -> None:
        self._session, self._agent = session, agent
        self._log = ServerLog()
        self._grants = NetworkGrants(
            session.directory.path / "agent-network",
            self._list_rules,
            session.permissions.record_network_use,
            session.permissions.network_grants.is_private_host,
        )
        self._grants.login = f"agent:{secrets.token_hex(16)}"  # for hosts that the session's commands may not reach
        self._login = LoginCopy(agent, session.directory.path / "agent-logins")
        self._process = ServerProcess(
            session.terminal.host,
            keeps_effects=keeps_effects,
            network=self._open_network,
            writable=self._login.prepare(),
        )
        self._tasks = TaskOwner()
        self.connection = Connection(self._send, requests)
        self.capabilities: Mapping[str, Any] = {}
        self.id = ""
        self._logins: list[Any] = []
        self._offer: ModeOffer | None = None
        self._mode = ""
        self._mode_returns = 0

    def _list_rules(self) -> tuple[PermissionRule, ...]:
        """Return the user's rules and an allow rule per host of the agent; the user's denials outweigh them."""
        hosts = (parse_rule(f"WebFetch({host})", "allow") for host in self._agent.hosts)
        return (*self._session.permissions.rules.load(), *hosts)

    async def _open_network(self) -> ServerNetwork:
        proxy = await self._grants.open_proxy()
        services = self._session.permissions.list_services()
        return ServerNetwork(proxy=proxy, services=services, login=self._grants.login)

    def _send(self, data: bytes) -> None:
        if (running := self._process.running) is not None:
            running.send(data)

    async def start(self) -> None:
        """Start the agent and initialize the connection. Raises `AgentFailed` with its standard error."""
        agent = self._agent
        command = agent.find_command()
        if command is None:
            programs = " or ".join(candidate[0] for candidate in agent.commands)
            hint = f" Install it: npm install -g {agent.package}" if agent.package else ""
            raise AgentFailed(f"{agent.name} is not installed: {programs} is not on PATH.", hint=hint.strip())
        try:
            running = await self._process.start(command, self._build_environment(), self._receive, self._log.add)
        except ToolFailed as problem:
            raise AgentFailed(f"{agent.name} can't be started: {problem.message}", hint=problem.hint) from None
        self._tasks.spawn(self._watch(running.wait()), name="hosted agent")
        response = await self._ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
                "clientInfo": {"name": "agent-tui", "title": "agent-tui", "version": __version__},
            },
        )
        if response.get("protocolVersion") != PROTOCOL_VERSION:
            version = response.get("protocolVersion")
            raise AgentFailed(f"{agent.name} uses version {version!r} of ACP; agent-tui uses {PROTOCOL_VERSION}.")
        capabilities = response.get("agentCapabilities")
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        logins = response.get("authMethods")
        self._logins = logins if isinstance(logins, list) else []

    def _build_environment(self) -> dict[str, str]:
        user_variables = {name: value for name in self._agent.env if (value := os.environ.get(name))}
        fixed_variables = {name: str(Path(value).expanduser()) for name, value in self._agent.fixed.items()}
        return {"NODE_USE_ENV_PROXY": "1", **fixed_variables, **user_variables}

    def _receive(self, text: str) -> None:
        self.connection.feed(text.encode("utf-8", "surrogateescape"))

    async def _watch(self, ending: Any) -> None:
        result = await ending
        outcome = f"with code {result.exit_code}" if result.exit_code is not None else f"({result.end_reason})"
        reason = self._log.find_reason()
        self.connection.close(f"{self._agent.name} ended {outcome}.{f' It said: {reason}' if reason else ''}")

    async def _ask(self, method: str, params: Any) -> Mapping[str, Any]:
        """Return the answer to a request, within `START_SECONDS`. Raises `AgentFailed`."""
        try:
            response = await self.connection.request(method, params, seconds=START_SECONDS)
        except TimeoutError:
            reason = self._log.find_reason() or self.connection.garbage.strip()
            raise AgentFailed(
                f"{self._agent.name} did not answer {method} in {START_SECONDS:.0f} s.",
                hint=f"It said: {reason}" * bool(reason),
            ) from None
        except PeerGone as gone:
            raise AgentFailed(gone.message) from None
        except AcpError as problem:
            raise self._explain(method, problem) from None
        return response if isinstance(response, dict) else {}

    def _explain(self, method: str, problem: AcpError) -> AgentFailed:
        if problem.number == AUTH_REQUIRED:
            keys = [key for key in self._agent.env if key.endswith("_API_KEY")]
            alternative = f", or set {' or '.join(keys)}" if keys else ""
            hint = f"Log in once outside agent-tui with the agent's own command{alternative}, then try again."
            hint = f"{hint} It said: {problem.message}"
            return AgentFailed(f"{self._agent.name} needs a login.", hint=hint, code="login_required")
        return AgentFailed(f"{self._agent.name} refused {method}: {problem.message}")

    async def _ask_logged_in(self, method: str, params: Any) -> Mapping[str, Any]:
        """Return the answer to a request; if the agent requires a login, log in by its key first. Raises
        `AgentFailed`."""
        try:
            return await self._ask(method, params)
        except AgentFailed as problem:
            if problem.code != "login_required" or not await self._log_in():
                raise
        return await self._ask(method, params)

    async def _log_in(self) -> bool:
        """Log in by a key of the agent's environment. Return False if it offers no method without the user."""
        method_id = self._agent.find_login(self._logins, self._build_environment())
        if not method_id:
            return False
        self._login.is_by_key = True
        await self._ask("authenticate", {"methodId": method_id})
        return True

    async def open_session(self, session_id: str) -> bool:
        """Open the session `session_id` if the agent can load it, else a new one. Return True if the agent remembers
        the conversation. Raises `AgentFailed`."""
        cwd = str(self._session.workspace.root)
        params: dict[str, Any] = {"cwd": cwd, "mcpServers": []}
        if self._agent.session_meta:
            params["_meta"] = self._agent.session_meta
        method = self._find_load_method()
        if session_id and method:
            try:
                response = await self._ask_logged_in(method, {**params, "sessionId": session_id})
            except AgentFailed as problem:
                message = f"{self._agent.name} no longer has this conversation; a new one was started there."
                self._session.emit(Notice(level="info", message=message, hint=problem.message))
            else:
                self.id = session_id
                await self._set_mode(response)
                return True
        response = await self._ask_logged_in("session/new", params)
        self.id = str(response.get("sessionId", ""))
        if not self.id:
            raise AgentFailed(f"{self._agent.name} did not open a session.")
        await self._set_mode(response)
        return False

    def _find_load_method(self) -> str:
        """Return the agent's method to load a session, "" = it has none."""
        sessions = self.capabilities.get("sessionCapabilities")
        if isinstance(sessions, dict) and sessions.get("resume") is not None:
            return "session/resume"
        return "session/load" if self.capabilities.get("loadSession") is True else ""

    async def _set_mode(self, response: Mapping[str, Any]) -> None:
        """Set the agent to a mode that fits the box and the user's rules. Raises `AgentFailed` if none does."""
        offer = self._offer = read_mode_offer(response)
        if offer is None:
            return
        agent, only_reads = self._agent, not self._process.keeps_effects
        mode = offer.choose(only_reads=only_reads, configured_mode=agent.mode, confines_itself=agent.confines_itself)
        if mode is None:
            raise AgentFailed(
                f"{agent.name} has no mode known to work sandboxed; its modes: {offer.describe()}.",
                hint=f'Choose one: [agent_servers."{agent.name}"] mode = "…" in your config.toml.',
                code="agent_mode",
            )
        self._mode = mode
        if mode != offer.current:
            await self._ask(*self._build_mode_request(offer, mode))

    def _build_mode_request(self, offer: ModeOffer, mode: str) -> tuple[str, Mapping[str, str]]:
        """Return the method and parameters of the request that sets a mode."""
        if offer.option:
            return "session/set_config_option", {"sessionId": self.id, "configId": offer.option, "value": mode}
        return "session/set_mode", {"sessionId": self.id, "modeId": mode}

    def restore_mode(self, update: Mapping[str, Any]) -> None:
        """Reset the mode when an update reports that the agent left the mode of its turn for one that may write. In
        such a mode the agent would decide what the user's rules have to decide."""
        offer, mode_offer = self._offer, read_mode_offer(update)
        mode = str(update.get("currentModeId") or (mode_offer.current if mode_offer is not None else ""))
        if offer is None or mode in {"", self._mode} or offer.is_reading(mode):
            return
        self._mode_returns += 1
        if self._mode_returns <= MAX_MODE_RETURNS:
            method, params = self._build_mode_request(offer, self._mode)
            self._tasks.spawn(self._return_to_mode(method, params), name="mode of a hosted agent")

    async def _return_to_mode(self, method: str, params: Mapping[str, str]) -> None:
        try:
            await self._ask(method, params)
        except AgentFailed as problem:
            message = f"{self._agent.name} left its mode {self._mode} and can't be switched back."
            self._session.emit(Notice(level="warning", message=message, hint=problem.message))

    async def prompt(self, blocks: list[Mapping[str, Any]]) -> str:
        """Send a prompt and return why its turn ended (`stopReason`). On cancellation, cancel the agent's turn and wait
        up to `CANCEL_SECONDS` for it. Raises `AgentFailed`."""
        try:
            return await self._send_prompt(blocks)
        except AgentFailed as problem:
            if problem.code != "login_required" or not await self._log_in():
                raise
        return await self._send_prompt(blocks)

    async def _send_prompt(self, blocks: list[Mapping[str, Any]]) -> str:
        asking = self._tasks.start(
            self.connection.request("session/prompt", {"sessionId": self.id, "prompt": blocks}), name="hosted prompt"
        )
        try:
            response = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self.connection.notify("session/cancel", {"sessionId": self.id})
            await asyncio.wait({asking}, timeout=CANCEL_SECONDS)
            raise
        except PeerGone as gone:
            raise AgentFailed(gone.message) from None
        except AcpError as problem:
            raise self._explain("the prompt", problem) from None
        return str(response.get("stopReason", "end_turn")) if isinstance(response, dict) else "end_turn"

    async def stop(self) -> None:
        """End the agent and all its processes. Safe to call twice."""
        await self._process.stop()
        await asyncio.to_thread(self._login.save_tokens)
        self.connection.close(f"{self._agent.name} was stopped.")
        await self._tasks.cancel()
        await self._grants.close()

    def absorb(self, origin: Origin) -> str:
        """Propose the agent's writes for the review; return a summary, "" = it wrote nothing. Call it after `stop`."""
        if not self._process.has_written:
            self._process.drop()
            return ""
        return self._process.absorb(origin)


class LoginCopy:
    """The copy of one agent's login in one session, below `directory`."""

    def __init__(self, agent: HostedAgent, directory: Path) -> None:
        self._agent, self._directory = agent, directory
        self.is_by_key = False  # logged in by a key, so no token is written back

    def _iter_pairs(self) -> Iterator[tuple[Path, Path]]:
        """Yield the copied directories with their originals."""
        for number, original in enumerate(self._agent.list_login_directories()):
            yield self._directory / self._agent.name / str(number), original

    def prepare(self) -> tuple[tuple[Path, Path], ...]:
        """Create the copies, or update the tokens in existing ones; return pairs of copy and original, in whose place
        the box mounts the copy. Raises `StateError`."""
        try:
            for copy, original in self._iter_pairs():
                if copy.is_dir():
                    self._copy_tokens(original, copy)
                else:
                    make_private_directory(copy.parent)
                    copy.mkdir(mode=0o700)
                    _copy_directory(original, copy)
        except OSError as problem:
            raise StateError(f"The login of {self._agent.name} can't be copied: {problem.strerror}.") from problem
        return tuple(self._iter_pairs())

    def save_tokens(self) -> None:
        """Write refreshed tokens back to the user's directories, but no new token files. After a login by a key of the
        environment the tokens are deleted instead, so that the key is on no disk."""
        for copy, original in self._iter_pairs():
            if self.is_by_key:
                self._forget_tokens(copy)
            else:
                self._copy_tokens(copy, original, only_known=True)

    def _forget_tokens(self, copy: Path) -> None:
        for name in self._agent.tokens:
            (copy / name).unlink(missing_ok=True)

    def _copy_tokens(self, source: Path, target: Path, *, only_known: bool = False) -> None:
        for name in self._agent.tokens:
            data, current_data = _read_small(source / name), _read_small(target / name)
            if data is not None and data != current_data and (current_data is not None or not only_known):
                replace_file(target / name, data)


def _read_small(path: Path) -> bytes | None:
    """Return the bytes of a small regular file; None: it is none. Links are not followed: they may be the agent's."""
    with suppress(OSError):
        return read_small_file(path, MAX_FILE)
    return None


def _copy_directory(source: Path, target: Path) -> None:
    remaining_size = MAX_TOTAL
    for above, directories, names in os.walk(source):
        directories[:] = [directory for directory in directories if directory not in _LEFT_OUT]
        target_directory = target / Path(above).relative_to(source)
        target_directory.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            path = Path(above) / name
            file_stat = path.lstat()
            if stat.S_ISREG(file_stat.st_mode) and file_stat.st_size <= min(MAX_FILE, remaining_size):
                remaining_size -= file_stat.st_size
                shutil.copyfile(path, target_directory / name)
                (target_directory / name).chmod(stat.S_IMODE(file_stat.st_mode) & 0o700)
