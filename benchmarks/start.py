"""From exec to the first letter that somebody typed on the screen, to the first frame of the loaded one, and to the end
of `--help`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.served import BARE, PROGRAM, environment, home, model_server, project, screen
from benchmarks.table import Result
from benchmarks.terminal import Terminal

RATIO_LIMIT = 0.3  # the launcher shows it
LOADED_RATIO_LIMIT = 1.7
LOADED = b"starting"  # of the status bar, which the launcher leaves empty
HELP_RATIO_LIMIT = 6.0


def measure(*, quick: bool) -> Iterator[Result]:
    """The bare app and ours in turns, so that a busy moment of the machine meets both."""
    rounds = 5 if quick else 11
    with home() as folder, model_server() as url:
        small = project(folder / "small", 50)
        large = project(folder / "large", 5_000 if quick else 50_000)
        env = environment(folder, url)
        for name, directory in (("a small project", small), (f"{5 if quick else 50},000 files", large)):
            bare, ours, loaded = _alternate(directory, env, rounds)
            yield Result(
                what=f"exec → a typed letter shows, {name}",
                value=ours,
                unit="s",
                yardstick=bare,
                yardstick_name="bare app",
                ratio_limit=RATIO_LIMIT,
            )
            yield Result(
                what=f"exec → the screen is loaded, {name}",
                value=loaded,
                unit="s",
                yardstick=bare,
                yardstick_name="bare app, a letter",
                ratio_limit=LOADED_RATIO_LIMIT,
            )
        times = [(_run((*PROGRAM, "--help"), env), _run((sys.executable, "-c", ""), env)) for _ in range(2 * rounds)]
        yield Result(
            what="--help",
            value=min(ours for ours, _ in times),
            unit="s",
            yardstick=min(bare for _, bare in times),
            yardstick_name="an empty script",
            ratio_limit=HELP_RATIO_LIMIT,
        )


def _alternate(path: Path, env: dict[str, str], rounds: int) -> tuple[float, float, float]:
    bare, ours, loaded = [], [], []
    for _ in range(rounds + 1):  # the first round fills the caches and does not count
        with Terminal([sys.executable, str(BARE)], cwd=path, env=env) as terminal:
            bare.append(terminal.until_typed())
        with screen(path, env) as terminal:
            ours.append(terminal.until_typed())
            if LOADED not in terminal.text():
                terminal.wait_for(LOADED)
            loaded.append(time.perf_counter() - terminal.started)
            terminal.settle(0.3)
    bare_median, ours_median, loaded_median = (statistics.median(values[1:]) for values in (bare, ours, loaded))
    return bare_median, ours_median, loaded_median


def _run(command: Sequence[str], env: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=env, capture_output=True, check=True)
    return time.perf_counter() - begin
