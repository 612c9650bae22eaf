"""A hosted agent's process: in the box over the shadow, with a layer of its own, spoken to by ACP.

It reaches its own hosts and nothing else, and works on a copy of its login; no command of ours sees either. What it
writes to the project is in its layer until it has ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from core import __version__
from core.acp.connection import AUTH_REQUIRED, AcpError, Connection, PeerGone, PeerRequests
from core.engine.hosted.login import LoginCopy
from core.engine.session.session import Session
from core.errors import AgentTuiError, ToolFailed
from core.permissions.rules import PermissionRule, parse_rule
from core.protocol.events import Notice
from core.protocol.review import Origin
from core.providers.hosted_agents import HostedAgent
from core.sandbox.box import BoxService
from core.shell.network_grants import NetworkGrants
from core.shell.servers.boxed_process import ServerLog, ServerProcess
from core.tasks import TaskOwner

PROTOCOL_VERSION: Final = 1
START_SECONDS: Final = 60.0
CANCEL_SECONDS: Final = 5.0
READ_ONLY_MODES: Final = ("plan", "read-only", "readonly", "ask", "architect")


class AgentFailed(AgentTuiError, code="agent_failed"):
    """A hosted agent could not be started, died, or does not speak the protocol."""


class AgentProcess:
    """One run of an agent. `keeps_effects`: what it writes waits for the review, else it is gone with it."""

    def __init__(self, session: Session, agent: HostedAgent, requests: PeerRequests, *, keeps_effects: bool) -> None:
        self._session, self._agent = session, agent
        self._log = ServerLog()
        self._grants = NetworkGrants(
            session.directory.path / "agent-network", self._list_rules, session.permissions.record_network_use
        )
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

    def _list_rules(self) -> tuple[PermissionRule, ...]:
        """Return the user's rules with one for each host of the agent: what they deny stays denied."""
        hosts = (parse_rule(f"WebFetch({each})", "allow") for each in self._agent.hosts)
        return (*self._session.permissions.load_rules(), *hosts)

    async def _open_network(self) -> tuple[Path | None, tuple[BoxService, ...]]:
        return await self._grants.open_proxy(), self._session.permissions.list_services()

    def _send(self, data: bytes) -> None:
        if (running := self._process.running) is not None:
            running.send(data)

    async def start(self) -> None:
        """Start it and shake hands. Raises `AgentFailed` with what it wrote on standard error."""
        agent = self._agent
        command = agent.find_command()
        if command is None:
            tried = " or ".join(each[0] for each in agent.commands)
            how = f" Install it: npm install -g {agent.package}" if agent.package else ""
            raise AgentFailed(f"{agent.name} is not installed: there is no {tried} on PATH.", hint=how.strip())
        try:
            running = await self._process.start(command, self._build_environment(), self._receive, self._log.add)
        except ToolFailed as problem:
            raise AgentFailed(f"{agent.name} can't be started: {problem.message}", hint=problem.hint) from None
        self._tasks.spawn(self._watch(running.wait()), name="hosted agent")
        told = await self._ask(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
                "clientInfo": {"name": "agent-tui", "title": "agent-tui", "version": __version__},
            },
        )
        if told.get("protocolVersion") != PROTOCOL_VERSION:
            version = told.get("protocolVersion")
            raise AgentFailed(f"{agent.name} speaks version {version!r} of ACP; {PROTOCOL_VERSION} is spoken here.")
        found = told.get("agentCapabilities")
        self.capabilities = found if isinstance(found, dict) else {}

    def _build_environment(self) -> dict[str, str]:
        given = {name: value for name in self._agent.env if (value := os.environ.get(name))}
        fixed = {name: str(Path(value).expanduser()) for name, value in self._agent.fixed.items()}
        return {"NODE_USE_ENV_PROXY": "1", **fixed, **given}

    def _receive(self, text: str) -> None:
        self.connection.feed(text.encode("utf-8", "surrogateescape"))

    async def _watch(self, ending: Any) -> None:
        result = await ending
        how = f"with code {result.exit_code}" if result.exit_code is not None else f"({result.end_reason})"
        reason = self._log.find_reason()
        self.connection.close(f"{self._agent.name} ended {how}.{f' It said: {reason}' if reason else ''}")

    async def _ask(self, method: str, params: Any) -> Mapping[str, Any]:
        """Return the answer to a request that is answered soon. Raises `AgentFailed`."""
        try:
            found = await self.connection.request(method, params, seconds=START_SECONDS)
        except TimeoutError:
            said = self._log.find_reason() or self.connection.garbage.strip()
            raise AgentFailed(
                f"{self._agent.name} did not answer {method} in {START_SECONDS:.0f} s.",
                hint=f"It said: {said}" * bool(said),
            ) from None
        except PeerGone as gone:
            raise AgentFailed(gone.message) from None
        except AcpError as problem:
            raise self._explain(method, problem) from None
        return found if isinstance(found, dict) else {}

    def _explain(self, method: str, problem: AcpError) -> AgentFailed:
        if problem.number == AUTH_REQUIRED:
            hint = f"Log in once outside of agent-tui, with its own command, then ask again. It said: {problem.message}"
            return AgentFailed(f"{self._agent.name} wants a login.", hint=hint, code="login_required")
        return AgentFailed(f"{self._agent.name} refused {method}: {problem.message}")

    async def open_session(self, known: str) -> bool:
        """Open a session: the `known` one, if there is one and the agent can load it, else a new one. Returns True if
        it remembers what was said before. Raises `AgentFailed`."""
        cwd = str(self._session.workspace.root)
        wanted = {"cwd": cwd, "mcpServers": list[Any]()}
        method = self._find_loading()
        if known and method:
            try:
                found = await self._ask(method, {**wanted, "sessionId": known})
            except AgentFailed as problem:
                message = f"{self._agent.name} does not have this conversation any more; a new one was begun there."
                self._session.emit(Notice(level="info", message=message, hint=problem.message))
            else:
                self.id = known
                await self._settle_mode(found)
                return True
        found = await self._ask("session/new", wanted)
        self.id = str(found.get("sessionId", ""))
        if not self.id:
            raise AgentFailed(f"{self._agent.name} opened no session.")
        await self._settle_mode(found)
        return False

    def _find_loading(self) -> str:
        """Return the method by which it takes up a session, "" = it can't."""
        sessions = self.capabilities.get("sessionCapabilities")
        if isinstance(sessions, dict) and sessions.get("resume") is not None:
            return "session/resume"
        return "session/load" if self.capabilities.get("loadSession") is True else ""

    async def _settle_mode(self, opened: Mapping[str, Any]) -> None:
        """Choose a mode of the agent's: one that only reads where its work is thrown away, else the one for a box."""
        modes = opened.get("modes")
        offered = modes.get("availableModes") if isinstance(modes, dict) else None
        ids = [each.get("id") for each in offered if isinstance(each, dict)] if isinstance(offered, list) else []
        fitting = (self._agent.work_mode,) if self._process.keeps_effects else READ_ONLY_MODES
        wanted = next((each for each in fitting if each in ids), None)
        if wanted is not None:
            await self._ask("session/set_mode", {"sessionId": self.id, "modeId": wanted})

    async def prompt(self, blocks: list[Mapping[str, Any]]) -> str:
        """Send a prompt and return why its turn ended (`stopReason`). Cancelled, it cancels the agent's turn, too, and
        waits a moment for it. Raises `AgentFailed`."""
        asking = self._tasks.start(
            self.connection.request("session/prompt", {"sessionId": self.id, "prompt": blocks}), name="hosted prompt"
        )
        try:
            found = await asyncio.shield(asking)
        except asyncio.CancelledError:
            self.connection.notify("session/cancel", {"sessionId": self.id})
            await asyncio.wait({asking}, timeout=CANCEL_SECONDS)
            raise
        except PeerGone as gone:
            raise AgentFailed(gone.message) from None
        except AcpError as problem:
            raise self._explain("the prompt", problem) from None
        return str(found.get("stopReason", "end_turn")) if isinstance(found, dict) else "end_turn"

    async def stop(self) -> None:
        """End it with all that it started. Safe to call twice."""
        await self._process.stop()
        await asyncio.to_thread(self._login.keep_tokens)
        self.connection.close(f"{self._agent.name} was stopped.")
        await self._tasks.cancel()
        await self._grants.close()

    def absorb(self, origin: Origin) -> str:
        """Let what it wrote wait for the review; return the line about it, "" = it wrote nothing. It has to have
        ended."""
        if not self._process.has_written:
            self._process.drop()
            return ""
        return self._process.absorb(origin)
