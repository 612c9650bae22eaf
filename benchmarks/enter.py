"""From Enter to the request: what lies between the user's key and the bytes that a model server receives."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clocked import ClockedServer, clocked_server
from benchmarks.echo import percentile
from benchmarks.headless import SDKS
from benchmarks.served import answer, environment, home, project, screen
from benchmarks.table import Result
from benchmarks.terminal import Terminal
from tests.support.provider_streams import step_from


def measure(*, quick: bool) -> Iterator[Result]:
    """Medians of turns of one session; the first turn, which says where the user works, is left out."""
    turns = 8 if quick else 25
    with home() as folder:
        root = project(folder / "small", 50)
        for sdk in SDKS:
            times = _turns(folder, root, sdk, turns)
            label = f"Enter to the request at the server, {sdk}"
            yield Result(what=f"{label}: median", value=statistics.median(times) * 1000, unit="ms", limit=8)
            yield Result(what=f"{label}: 95th percentile", value=percentile(times), unit="ms", limit=25)


def _turns(folder: Path, path: Path, sdk: str, turns: int) -> list[float]:
    with clocked_server([step_from(answer("The answer of the benchmark."))], repeat=True) as server:
        env = environment(folder, server.openai_url)
        with screen(path, env, ("--model", f"{sdk}/bench-1")) as terminal:
            terminal.until_typed(b"y")
            terminal.settle(1.5)
            return [_turn(terminal, server, number) for number in range(turns + 1)][1:]


def _turn(terminal: Terminal, server: ClockedServer, number: int) -> float:
    terminal.write(f"turn {number}".encode())
    terminal.settle(0.3)
    pressed = time.perf_counter()
    terminal.write(b"\r")
    while len(server.sent) <= number:
        if time.perf_counter() - pressed > 10:
            raise TimeoutError("Enter brought no request")
        terminal.read(0.01)
    terminal.settle(0.3)
    return server.came[number] - pressed
