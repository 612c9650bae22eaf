"""`agent-tui -p`: one short answer, and what the engine itself takes for a tool step."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.served import PLAIN_SDK, PROGRAM, answer, call, environment, home, model_server, project
from benchmarks.table import Result
from tests.support.provider_server import ProviderServer, Request
from tests.support.provider_streams import step_from

STEPS = 20
SDKS = ("openai", "anthropic")


def measure(*, quick: bool) -> Iterator[Result]:
    """Wall time of whole processes, medians; and the engine's own part of a step."""
    rounds = 3 if quick else 9
    with home() as folder, model_server() as url:
        place = project(folder / "small", 50)
        env = environment(folder, url)
        for sdk in SDKS:
            ours = [*PROGRAM, str(place), "-p", "hi", "--model", f"{sdk}/bench-1"]
            plain = [sys.executable, str(PLAIN_SDK), sdk]
            times = [(_wall(ours, place, env), _wall(plain, place, env)) for _ in range(rounds + 1)][1:]
            yield Result(
                what=f"-p, one short answer, {sdk}: wall",
                value=statistics.median(first for first, _ in times),
                unit="s",
                limit=0.9,
                yardstick=statistics.median(second for _, second in times),
                yardstick_name="a script with the plain SDK",
            )
        for sdk in SDKS:
            runs = [_overhead(place, folder, sdk) for _ in range(rounds)]
            what = f"-p, {STEPS} tool steps, {sdk}: engine per step"
            yield Result(what=what, value=statistics.median(runs) * 1000, unit="ms", limit=4)


def _wall(argv: list[str], place: Path, env: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=place, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    took = time.perf_counter() - begin
    if done.returncode or b"Hello." not in done.stdout:
        raise RuntimeError(f"{argv[-1]}: no answer: {done.stdout + done.stderr!r}")
    return took


@dataclass
class _Clocked(ProviderServer):
    """A model server that notes when a request was there and when its answer was sent."""

    came: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.came.append(time.perf_counter())
        again = await super()._answer(request, reader, writer)
        self.sent.append(time.perf_counter())
        return again


def _overhead(place: Path, folder: Path, sdk: str) -> float:
    """Mean seconds from the end of an answer to the next request, SDK and tool included; the first step warms up."""
    steps = [call("read_file", target_file=f"package000/module{number:02}.py") for number in range(STEPS + 1)]
    server = _Clocked([step_from(each) for each in (*steps, answer("Hello."))])
    started: Future[int] = Future()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_serve, args=(loop, server, started), daemon=True)
    thread.start()
    try:
        env = environment(folder, f"http://127.0.0.1:{started.result(10)}/v1")
        _wall([*PROGRAM, str(place), "-p", "go", "--model", f"{sdk}/bench-1"], place, env)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
    gaps = [came - sent for came, sent in zip(server.came[2:], server.sent[1:], strict=False)]
    assert len(gaps) == STEPS, f"{len(gaps)} steps were made"
    return statistics.mean(gaps)


def _serve(loop: asyncio.AbstractEventLoop, server: ProviderServer, started: Future[int]) -> None:
    async def listen() -> Any:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        started.set_result(listener.sockets[0].getsockname()[1])
        return listener

    asyncio.set_event_loop(loop)
    listener = loop.run_until_complete(listen())
    loop.run_forever()
    listener.close()
    loop.run_until_complete(server.stop())
    loop.close()
