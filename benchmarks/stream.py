"""Streamed answers: 5,000 tokens at once, 150 tokens a second for ten seconds, and the end of a short answer."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.clocked import ClockedServer, clocked_server
from benchmarks.echo import percentile
from benchmarks.served import STOCK, answer, environment, home, model_server, project, screen
from benchmarks.table import Result
from benchmarks.terminal import Terminal
from benchmarks.words import END, text
from tests.support.provider_streams import step_from

RATE = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """`seen`: seconds from Enter until the end of the answer shows; `cpu`: of all processes; `written`: bytes."""

    seen: float
    cpu: float
    written: int


def measure(*, quick: bool) -> Iterator[Result]:
    """Ours against the stock Markdown widget, which needs neither a model nor a network for its text."""
    tokens, seconds = (2_000, 3) if quick else (5_000, 10)
    scale = tokens / 5_000
    ours, stock = _ours(tokens, 0), _stock(tokens, 0)
    at_once = f"{tokens:,} tokens at once"
    yield _result(f"{at_once}: last one visible", "s", ours.seen, 0.2 * scale, stock.seen)
    yield _result(f"{at_once}: CPU, all processes", "s", ours.cpu, 0.25 * scale, stock.cpu)
    scale = seconds / 10
    ours, stock = _ours(RATE * seconds, RATE), _stock(RATE * seconds, RATE)
    steady = f"{RATE} tokens/s for {seconds} s"
    yield _result(f"{steady}: CPU, all processes", "s", ours.cpu, 2.5 * scale, stock.cpu)
    yield _result(f"{steady}: written to the terminal", "kB", ours.written / 1e3, 350 * scale, stock.written / 1e3)
    ends = _ends(8 if quick else 25)
    label = "the last token of a short answer, from the server to the screen"
    yield Result(what=f"{label}: median", value=statistics.median(ends) * 1000, unit="ms", limit=20)
    yield Result(what=f"{label}: 95th percentile", value=percentile(ends), unit="ms", limit=40)


def _ends(turns: int) -> list[float]:
    """Seconds for each turn but the first, whose prompt was sent a moment ago."""
    steps = [
        step_from(answer(f"A short answer of a dozen words, END{number:03}", rate=RATE)) for number in range(turns)
    ]
    with home() as folder, clocked_server(steps) as server:
        env = environment(folder, server.openai_url)
        with screen(project(folder / "small", 50), env) as terminal:
            terminal.until_typed(b"y")
            terminal.settle(1.5)
            terminal.drain(1.5)
            return [_end(terminal, server, number) for number in range(turns)][1:]


def _end(terminal: Terminal, server: ClockedServer, number: int) -> float:
    terminal.send(f"turn {number}")
    terminal.wait_for(f"END{number:03}".encode())
    seen_time = time.perf_counter()
    terminal.settle(0.5)
    return seen_time - server.sent[number]


def _result(label: str, unit: str, value: float, limit: float, stock: float) -> Result:
    return Result(what=label, value=value, unit=unit, limit=limit, yardstick=stock, yardstick_name="stock Markdown app")


def _ours(tokens: int, rate: float) -> Streamed:
    steps = answer(text(tokens), rate=rate, piece=5)
    with (
        home() as folder,
        model_server(steps) as url,
        screen(project(folder / "small", 50), environment(folder, url)) as terminal,
    ):
        return _streamed(terminal)


def _stock(tokens: int, rate: float) -> Streamed:
    with home() as folder:
        argv = [sys.executable, str(STOCK), str(tokens), str(rate)]
        with Terminal(argv, env=environment(folder)) as terminal:
            return _streamed(terminal)


def _streamed(terminal: Terminal) -> Streamed:
    terminal.until_typed()
    terminal.settle(1.5)
    terminal.drain(1.5)  # the SDK is imported while the user types
    before, written = terminal.cost().cpu, len(terminal.output)
    begin = time.perf_counter()
    terminal.write(b"\r")
    terminal.wait_for(END.encode(), limit=60)
    first_time = time.perf_counter() - begin
    terminal.settle()
    return Streamed(seen=first_time, cpu=terminal.cost().cpu - before, written=len(terminal.output) - written)
