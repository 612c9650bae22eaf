"""An editor of the Agent Client Protocol: the Python SDK's client around a real `agent-tui acp`, every line checked."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import acp
from acp import schema as s
from acp.connection import StreamDirection, StreamEvent

from tests.support.acp_lines import LineChecker
from tests.support.program import PROGRAM

Choose = Callable[[Any, list[Any]], "str | None"]


def accept_first(_call: Any, options: list[Any]) -> str | None:
    return str(options[0].option_id)


class Editor(acp.Client):
    """Records what it is told; `choose(call, options)` answers permissions: an id, None = cancelled; a test may put
    another function there. `hangs`: permissions are never answered; `released`: they wait for it, whatever the agent
    says meanwhile."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.forms: list[str] = []
        self.choose: Choose = accept_first
        self.hangs = False
        self.released: asyncio.Event | None = None
        self.form_content: dict[str, Any] = {}
        self.news = asyncio.Event()
        self.requested = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        self.news.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        self.asked.append(tool_call)
        self.requested.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.released is not None:
            await self.released.wait()
        if (chosen := self.choose(tool_call, options)) is None:
            return s.RequestPermissionResponse(outcome=s.DeniedOutcome(outcome="cancelled"))
        return s.RequestPermissionResponse(outcome=s.AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        self.forms.append(message)
        return s.AcceptElicitationResponse(action="accept", content=self.form_content)

    def text(self, kind: str = "agent_message_chunk") -> str:
        updates = (update for update in self.updates if update.session_update == kind)
        return "".join(update.content.text for update in updates)

    def of(self, kind: str) -> list[Any]:
        return [update for update in self.updates if update.session_update == kind]

    async def wait_for(self, is_met: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not is_met():
                self.news.clear()
                await self.news.wait()


class Opened:
    """A running agent: `call` its methods on `peer`; `session` is the one that was opened."""

    def __init__(self, peer: Any, process: Any, editor: Editor) -> None:
        self.peer, self.process, self.editor = peer, process, editor
        self.session = ""

    async def open(self, project: Path, servers: list[Any] | None = None) -> Any:
        opened = await self.peer.new_session(cwd=str(project), mcp_servers=servers or [])
        self.session = opened.session_id
        return opened

    async def prompt(self, text: str, *blocks: Any) -> str:
        """The reason for which a prompt stopped."""
        response = await self.peer.prompt(session_id=self.session, prompt=[acp.text_block(text), *blocks])
        return str(response.stop_reason)


@contextlib.asynccontextmanager
async def editor_of(script: Path, *arguments: str, forms: bool = False, **environment: str) -> AsyncIterator[Opened]:
    """A running agent that plays a script, initialized; at the end every line of both sides has to be as the official
    schema says."""
    checker, editor = LineChecker(), Editor()

    def observe(event: StreamEvent) -> None:
        checker.check("agent" if event.direction is StreamDirection.INCOMING else "client", event.message)

    command = (*PROGRAM, "acp", "--model", f"scripted/{script}", *arguments)
    async with acp.spawn_agent_process(
        editor,
        *command,
        env={**os.environ, "PYTHONWARNINGS": "always", **environment},
        cwd="/",
        transport_kwargs={"limit": 64 << 20, "stderr": asyncio.subprocess.DEVNULL},
        observers=[observe],
        use_unstable_protocol=True,  # forms are not yet stable in this SDK
    ) as (peer, process):
        elicitation = s.ElicitationCapabilities(form=s.ElicitationFormCapabilities()) if forms else None
        capabilities = s.ClientCapabilities(elicitation=elicitation)
        await peer.initialize(protocol_version=1, client_capabilities=capabilities)
        yield Opened(peer, process, editor)
    assert checker.count > 2
    assert checker.faults == []
