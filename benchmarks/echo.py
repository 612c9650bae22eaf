"""From a key press to its letter on the screen, at the pace of a human hand: while nothing happens, and while a model
streams 150 tokens a second.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

from benchmarks.served import BARE, answer, environment, home, model_server, project, screen
from benchmarks.table import Result
from benchmarks.terminal import Terminal
from benchmarks.words import text

RATE = 150
_LETTERS = "QXZKVJWB"


def measure(*, quick: bool) -> Iterator[Result]:
    """95th percentiles."""
    keys = 40 if quick else 100
    tokens = int(keys * 0.08 * RATE * 1.6) + 300
    with home() as folder, model_server(answer(text(tokens), rate=RATE, piece=5)) as url:
        root = project(folder / "small", 50)
        env = environment(folder, url)
        with Terminal([sys.executable, str(BARE)], cwd=root, env=env) as terminal:
            terminal.until_typed(b"y")
            terminal.settle()
            bare = typing(terminal, keys)
        with screen(root, env) as terminal:
            terminal.until_typed(b"y")
            terminal.settle(1.5)
            idle = typing(terminal, keys)
            terminal.settle(0.3)
            terminal.write(b"\r")
            terminal.wait_for(b"quick brown")
            terminal.drain(0.5)
            streaming = typing(terminal, keys)
    yield Result(
        what="key echo, 95th percentile, idle",
        value=percentile(idle),
        unit="ms",
        limit=6,
        yardstick=percentile(bare),
        yardstick_name="bare app",
    )
    yield Result(
        what=f"key echo, 95th percentile, while {RATE} tokens/s stream",
        value=percentile(streaming),
        unit="ms",
        limit=12,
    )


def percentile(seconds: list[float]) -> float:
    """The 95th percentile in milliseconds."""
    return sorted(seconds)[int(len(seconds) * 0.95)] * 1000


def typing(terminal: Terminal, keys: int) -> list[float]:
    """Seconds for each key. The letters are such that their last four were never typed before."""
    chance = random.Random(4)
    typed, times = "", []
    while len(times) < keys:
        terminal.drain(chance.uniform(0.06, 0.1))
        letter = chance.choice(_LETTERS)
        if (typed + letter)[-4:] in typed:
            continue
        typed += letter
        times.append(terminal.echo(letter.encode(), expected=typed[-4:].encode()))
    return times
