"""What the program costs while nobody does anything, and what it holds in memory."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.served import answer, call, environment, home, model_server, project, screen
from benchmarks.table import Result
from benchmarks.terminal import Terminal
from benchmarks.words import text

TURN_LIMIT = 60
REST_SECONDS = 10.0  # in which the index is made and its builder ends


def measure(*, quick: bool) -> Iterator[Result]:
    """Idle first, then after 30 turns and after 200. A turn reads a file and says 200 tokens."""
    seconds, turns = (3, (5, 20)) if quick else (10, (30, 200))
    steps = [step for number in range(turns[-1]) for step in _turn(number)]
    with (
        home() as folder,
        model_server(*steps) as url,
        screen(project(folder / "small", 50), environment(folder, url)) as terminal,
    ):
        terminal.until_typed()
        terminal.settle(1.5)
        terminal.drain(REST_SECONDS)
        yield Result(what="memory idle, all processes", value=_megabytes(terminal), unit="MB", limit=105)
        before = terminal.cost().cpu
        written = terminal.drain(seconds)
        busy = (terminal.cost().cpu - before) / seconds * 100
        yield Result(what=f"idle for {seconds} s: CPU", value=busy, unit="%", limit=0.2)
        yield Result(what=f"idle for {seconds} s: bytes to the terminal", value=written, unit="B", limit=0)
        yield from _turns(terminal, turns)


def _turn(number: int) -> tuple[dict[str, object], dict[str, object]]:
    reply = f"{text(200)} number {number:04}"
    return call("read_file", target_file=f"package000/module{number % 50:02}.py"), answer(reply)


def _turns(terminal: Terminal, stops: tuple[int, int]) -> Iterator[Result]:
    first, last = stops
    for number in range(last):
        terminal.send("go on")
        terminal.wait_for(f"number {number:04}".encode(), limit=TURN_LIMIT)
        terminal.settle(0.15)
        if number + 1 == first:
            terminal.settle(1.0)
            early = _megabytes(terminal)
            yield Result(what=f"memory after {first} turns, all processes", value=early, unit="MB", limit=125)
    terminal.settle(1.0)
    late = _megabytes(terminal)
    yield Result(
        what=f"memory after {last} turns, all processes",
        value=late,
        unit="MB",
        yardstick=early,
        yardstick_name=f"after {first} turns",
        ratio_limit=1.12,  # of a base that counts shared pages once
    )


def _megabytes(terminal: Terminal) -> float:
    return terminal.cost().memory / 1e6
