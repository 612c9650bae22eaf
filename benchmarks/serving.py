"""`agent-tui serve`: what it adds to a first word, to a hundred streams at once, and a thousand idle conversations."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import httpx2
import psutil

from benchmarks.clocked import clocked_server
from benchmarks.served import MODEL, PROGRAM, answer, environment, home, model_server, project
from benchmarks.table import Result
from core.transports.engines import LEAST_IDLE
from tests.support.provider_streams import step_from

WORDS = 60
RATE = 10  # pieces a second
CHAT = "/api/v1/chat/completions"


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    url: str
    token: str
    process: subprocess.Popen[str]

    @property
    def resident(self) -> float:
        """Megabytes of it and of the processes that it started."""
        process = psutil.Process(self.process.pid)
        return sum(member.memory_info().rss for member in (process, *process.children(recursive=True))) / 2**20


@contextmanager
def serve(path: Path, env: dict[str, str]) -> Iterator[Server]:
    argv = [*PROGRAM, "serve", str(path)]
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        url, _, token = process.stdout.readline().strip().partition("/#")
        yield Server(url, token, process)
    finally:
        process.terminate()
        process.wait()


def measure(*, quick: bool) -> Iterator[Result]:
    """Medians and 95th percentiles; the yardstick asks the model's server without us, as often at once."""
    count, idle = (20, 100) if quick else (100, 1_000)
    yield _measure_first(5 if quick else 15)
    reply = answer("word " * WORDS, piece=5, rate=RATE)
    with home() as folder, model_server(reply) as url:
        root = project(folder / "small", 50)
        with serve(root, environment(folder, url)) as server:
            yield from _measure_streams(server, url, count)
    with home() as folder, model_server(answer("Hello.")) as url:
        root = project(folder / "small", 50)
        with serve(root, environment(folder, url)) as server:
            before = asyncio.run(_talk(server, 5))
            after = asyncio.run(_talk(server, idle))
            yield Result(
                what=f"{idle:,} idle conversations: memory",
                value=after,
                unit="MB",
                limit=300,
                yardstick=before,
                yardstick_name="5 of them",
            )


def _measure_first(rounds: int) -> Result:
    """Return the time from the model's being asked, which it answers at once, to the first piece at the client."""
    with home() as folder, clocked_server([step_from(answer("Hello."))], repeat=True) as model:
        root = project(folder / "small", 50)
        with serve(root, environment(folder, model.openai_url)) as server:
            asyncio.run(_stream_all(server, 2))
            ours = [asyncio.run(_stream_all(server, 1))[0].first - model.came[-1] for _ in range(rounds)]
        alone = [asyncio.run(_ask_all(model.openai_url, 1))[0].first - model.came[-1] for _ in range(rounds)]
    return Result(
        what="serve: from the model's being asked to the first event",
        value=statistics.median(ours) * 1000,
        unit="ms",
        limit=30,
        yardstick=statistics.median(alone) * 1000,
        yardstick_name="the model without us",
    )


def _measure_streams(server: Server, model_url: str, count: int) -> Iterator[Result]:
    asyncio.run(_stream_all(server, 3))  # what is loaded at the first prompt
    many, plain = asyncio.run(_stream_all(server, count)), asyncio.run(_ask_all(model_url, count))
    gaps = sorted(gap for client in many for gap in client.gaps)
    theirs = sorted(gap for client in plain for gap in client.gaps)
    added = max(0.0, _percentile(gaps) - _percentile(theirs))
    yield Result(
        what=f"serve: {count} streams at once, added between two pieces, p95",
        value=added * 1000,
        unit="ms",
        limit=100,
        yardstick=_percentile(theirs) * 1000,
        yardstick_name="between two pieces without us",
    )


def _percentile(values: list[float]) -> float:
    return values[int(len(values) * 0.95)]


@dataclass(frozen=True)
class Timing:
    """The moment of the first piece of text, and the seconds between the pieces."""

    first: float
    gaps: list[float]


async def _stream_all(server: Server, count: int) -> list[Timing]:
    headers = {"Authorization": f"Bearer {server.token}"}
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "go"}]}
    return await _time_all(f"{server.url}{CHAT}", headers, body, "content_delta", count)


async def _ask_all(model_url: str, count: int) -> list[Timing]:
    body = {"model": "bench-1", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    return await _time_all(f"{model_url}/chat/completions", {"Authorization": "Bearer bench"}, body, '"content"', count)


async def _time_all(url: str, headers: dict[str, str], body: object, sign: str, count: int) -> list[Timing]:
    limits = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
    async with httpx2.AsyncClient(headers=headers, timeout=300, limits=limits, trust_env=False) as client:
        return await asyncio.gather(*(_time_one(client, url, body, sign) for _ in range(count)))


async def _time_one(client: httpx2.AsyncClient, url: str, body: object, sign: str) -> Timing:
    came = list[float]()
    async with client.stream("POST", url, json=body) as response:
        if response.status_code != 200:
            raise RuntimeError(f"{url}: {(await response.aread())!r}")
        async for text in response.aiter_text():
            if sign in text:
                came.append(time.perf_counter())
    return Timing(came[0], [after - before for before, after in pairwise(came)])


async def _talk(server: Server, count: int) -> float:
    """Have so many conversations of one prompt each; return megabytes when all are idle."""
    headers = {"Authorization": f"Bearer {server.token}"}
    gate = asyncio.Semaphore(8)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "go"}]}
    async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=300, trust_env=False) as client:

        async def talk() -> None:
            async with gate:
                response = await client.post(CHAT, json=body)
                if response.json()["status"] != "completed":
                    raise RuntimeError(response.text)

        await asyncio.gather(*(talk() for _ in range(count)))
        await asyncio.sleep(2 * LEAST_IDLE)
    return server.resident
