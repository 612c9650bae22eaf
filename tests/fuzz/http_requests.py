"""Random requests to the server by HTTP: none of them may be answered by a fault of ours.

`python -m tests.fuzz.http_requests [COUNT] [SEED]` sends 10,000 or as many; a test sends a few hundred.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2

from core.transports.http.app import ALL_ROUTES, build_document
from core.user_dirs import get_state_dir
from tests.support.http_server import CHAT, SESSIONS, TOKENS, Served, prompt, serving
from tests.support.story import access, project_at

WORDS = ["", "x", "a.txt", "../x", "\0", "é", "😀", "\ud800", "ses_none", "conv_none", "a" * 5_000, "%00", "true", "-1"]
AWAY = frozenset(
    {"command.run", "provider.configure", "setting.keep", "theme.keep", "job.stop"}
)  # they start programs, or save settings


def random_value(random_: random.Random, depth: int = 3) -> Any:
    """Any JSON."""
    kind = random_.randrange(8 if depth else 6)
    if kind == 6:
        return [random_value(random_, depth - 1) for _ in range(random_.randrange(3))]
    if kind == 7:
        return {random_.choice(WORDS): random_value(random_, depth - 1) for _ in range(random_.randrange(3))}
    return [None, True, random_.randrange(-(10**6), 10**6), random_.random(), random_.choice(WORDS), 2**70][kind]


class Generator:
    """Makes values that nearly fit a schema."""

    def __init__(self, document: dict[str, Any], random_: random.Random) -> None:
        self._schemas = document["components"]["schemas"]
        self._random = random_

    def value(self, schema: dict[str, Any], depth: int = 5) -> Any:
        """A value of a schema; one in twelve is any other."""
        draw = self._random
        if draw.random() < 0.08 or depth == 0:
            return random_value(draw)
        if "$ref" in schema:
            return self.value(self._schemas[schema["$ref"].rpartition("/")[2]], depth)
        for key in ("anyOf", "oneOf", "enum"):
            if key in schema:
                choice = draw.choice(schema[key])
                return choice if key == "enum" else self.value(choice, depth)
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, Any], depth: int) -> Any:
        draw, kind = self._random, schema.get("type")
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            inner = schema.get("items") or {}
            return [self.value(inner, depth - 1) for _ in range(draw.randrange(3))] if inner else []
        plain = {"integer": [0, 1, -1, 10**9], "number": [0, 1.5], "boolean": [True, False], "null": [None]}
        return draw.choice(plain.get(str(kind), WORDS))

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        draw, required = self._random, schema.get("required", ())
        values = {
            name: self.value(subschema, depth - 1)
            for name, subschema in schema.get("properties", {}).items()
            if name in required or draw.random() < 0.4
        }
        if draw.random() < 0.05:
            values[draw.choice(WORDS)] = random_value(draw)
        return values


async def send_random(served: Served, client: httpx2.AsyncClient, count: int, seed: int) -> dict[int, int]:
    """Send so many requests; return how many had each status. Raises AssertionError for a fault of ours."""
    draw = random.Random(seed)
    document = build_document(ALL_ROUTES)
    generator = Generator(document, draw)
    operations = [(path, method, spec) for path, known in document["paths"].items() for method, spec in known.items()]
    opened = (await client.post(SESSIONS, json={})).json()["session"]
    whole = (await client.post(CHAT, json=prompt())).json()
    known = [opened, whole["metadata"]["sessionId"], whole["conversationId"], *WORDS[4:9]]
    statuses: dict[int, int] = {}
    for number in range(count):
        path, method, operation = draw.choice(operations)
        request = _build(path, method, operation, generator, draw, known)
        answer = await asyncio.wait_for(_send(client, request), 30)
        statuses[answer] = statuses.get(answer, 0) + 1
        assert answer < 500 or answer == 503, (seed, number, request, _read_faults())
    return statuses


def _build(
    path: str, method: str, operation: dict[str, Any], generator: Generator, draw: random.Random, known: list[str]
) -> dict[str, Any]:
    for placeholder in ("session", "conversation_id", "checkpoint", "approval"):
        path = path.replace(f"{{{placeholder}}}", _quote(draw.choice(known)))
    params = {
        parameter["name"]: _to_text(generator.value(parameter["schema"]))
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and draw.random() < 0.7
    }
    if path == "/api/v1/models":
        params = {"discover": "false"}  # looks for servers of models on this machine otherwise, which takes seconds
    request: dict[str, Any] = {"method": method.upper(), "url": path, "params": params}
    if "requestBody" in operation:
        body = generator.value(operation["requestBody"]["content"]["application/json"]["schema"])
        if isinstance(body, dict) and str(body.get("type")) in AWAY:
            body["type"] = "nothing"
        request["content"] = _spoil(json.dumps(body).encode("utf-8", "surrogatepass"), draw)
    return request


def _quote(text: str) -> str:
    from urllib.parse import quote

    return quote(text.encode("utf-8", "surrogatepass"), safe="") or "-"


def _to_text(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, str) else value.encode("utf-8", "replace").decode()


def _spoil(body: bytes, draw: random.Random) -> bytes:
    """Cut or change a byte of one body in ten."""
    if draw.random() > 0.1 or not body:
        return body
    at = draw.randrange(len(body))
    return body[:at] if draw.random() < 0.5 else body[:at] + bytes([draw.randrange(256)]) + body[at + 1 :]


async def _send(client: httpx2.AsyncClient, request: dict[str, Any]) -> int:
    """Send a request; of an answer that goes on, only the status is waited for."""
    headers = {"Content-Type": "application/json"} if "content" in request else {}
    async with client.stream(headers=headers, **request) as answer:
        if answer.headers.get("content-type") != "text/event-stream":
            await answer.aread()
        return answer.status_code


def _read_faults() -> list[str]:
    return [path.read_text()[-3_000:] for path in (get_state_dir() / "faults").glob("*.txt")]


async def _main(count: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {f"AGENT_TUI_{name}_DIR": f"{folder}/{name}" for name in ("STATE", "CONFIG", "CACHE")}
        project = project_at(Path(folder, "project"))
        async with serving(project, access()) as served, served.client(TOKENS.approve) as client:
            print(await send_random(served, client, count, seed))


if __name__ == "__main__":
    asyncio.run(_main(*map(int, [*sys.argv[1:], *("10000", "1")[len(sys.argv) - 1 :]][:2])))
