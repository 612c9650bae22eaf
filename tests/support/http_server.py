"""A server by HTTP in this process, on loopback, and a client that holds one of its tokens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from core.engine import Engine
from core.engine.shared.models import ModelAccess
from core.protocol.client import Client
from core.protocol.options import EngineOptions
from core.transports.engine_host import share_engine
from core.transports.engines import Engines
from core.transports.http.access import AccessRules, Tokens
from core.transports.http.app import build_application
from core.transports.http.server import HttpServer, ListenAddress, build_gates, build_rules, open_socket
from core.transports.http.service import AgentAccess, HttpService
from core.transports.http.terminal import Terminals
from tests.support.program import PROGRAM

TOKENS = Tokens(read="r" * 40, drive="d" * 40, approve="a" * 40)
CHAT = "/api/v1/chat/completions"
PLAN = "/api/v1/chat/plan"
SESSIONS = "/api/v1/sessions"


@dataclass
class Served:
    """A server that runs."""

    port: int
    rules: AccessRules
    service: HttpService

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = TOKENS.approve, **headers: str) -> httpx2.AsyncClient:
        all_headers = {"Authorization": f"Bearer {token}", **headers}
        return httpx2.AsyncClient(base_url=self.url, headers=all_headers, timeout=60, trust_env=False)


@asynccontextmanager
async def serving(project: Path, models: ModelAccess | None = None, **rule_options: Any) -> AsyncIterator[Served]:
    """A server for a project; `rule_options`: what `build_rules` takes. With a page, its screens reach the engine."""
    place = ListenAddress()
    listening = open_socket(place)
    port = int(listening.getsockname()[1])
    options = EngineOptions(preload=False, watch=False)
    has_page = rule_options.get("has_page", False)

    def make(at: Path, engine_options: EngineOptions) -> Client:
        engine = Engine(at, options=engine_options, models=models)
        return share_engine(engine) if has_page else engine

    engines = Engines(options, make)
    terminals, gates = (Terminals(PROGRAM), build_gates(place)) if has_page else (None, None)
    service = HttpService(engines, project, AgentAccess(project), terminals=terminals, gates=gates)
    rules = build_rules(place, port, TOKENS, **rule_options)
    ready = asyncio.Event()
    application = build_application(service, rules)
    server = HttpServer(listening, application, service=service, listen_address=place, on_ready=ready.set)
    running = asyncio.create_task(server.run())
    await ready.wait()
    try:
        yield Served(port, rules, service)
    finally:
        server.stop()
        await running


def prompt(text: str = "Do it", **more: Any) -> dict[str, Any]:
    """A request of the chat API."""
    return {"messages": [{"role": "user", "content": text}], **more}


@dataclass(frozen=True)
class Told:
    """One event of a stream; `id` "" = it has none."""

    name: str
    data: Any
    id: str = ""


def parse_stream(text: str) -> list[Told]:
    """The events of a stream, with the last line as one without a name."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            data = fields["data"] if fields["data"] == "[DONE]" else json.loads(fields["data"])
            events.append(Told(fields.get("event", ""), data, fields.get("id", "")))
    return events
