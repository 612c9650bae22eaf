"""`agent-tui -p`: one short answer, and what the engine itself takes for a tool step."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.clocked import clocked_server
from benchmarks.served import PLAIN_SDK, PROGRAM, answer, call, environment, home, model_server, project
from benchmarks.table import Result
from tests.support.provider_streams import step_from

STEPS = 20
SDKS = ("openai", "anthropic")


def measure(*, quick: bool) -> Iterator[Result]:
    """Wall time of whole processes, medians; and the engine's own part of a step."""
    rounds = 3 if quick else 9
    with home() as folder, model_server() as url:
        root = project(folder / "small", 50)
        env = environment(folder, url)
        for sdk in SDKS:
            ours = [*PROGRAM, str(root), "-p", "hi", "--model", f"{sdk}/bench-1"]
            plain = [sys.executable, str(PLAIN_SDK), sdk]
            times = [(_wall(ours, root, env), _wall(plain, root, env)) for _ in range(rounds + 1)][1:]
            yield Result(
                what=f"-p, one short answer, {sdk}: wall",
                value=statistics.median(first for first, _ in times),
                unit="s",
                ratio_limit=0.75,
                yardstick=statistics.median(second for _, second in times),
                yardstick_name="a script with the plain SDK",
            )
        for sdk in SDKS:
            runs = [_overhead(root, folder, sdk) for _ in range(rounds)]
            label = f"-p, {STEPS} tool steps, {sdk}: engine per step"
            yield Result(what=label, value=statistics.median(runs) * 1000, unit="ms", limit=3)


def _wall(argv: list[str], path: Path, env: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    run = subprocess.run(argv, cwd=path, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    took = time.perf_counter() - begin
    if run.returncode or b"Hello." not in run.stdout:
        raise RuntimeError(f"{argv[-1]}: no answer: {run.stdout + run.stderr!r}")
    return took


def _overhead(path: Path, folder: Path, sdk: str) -> float:
    """Mean seconds from the end of an answer to the next request, SDK and tool included; the first step warms up."""
    steps = [call("read_file", target_file=f"package000/module{number:02}.py") for number in range(STEPS + 1)]
    with clocked_server([step_from(text) for text in (*steps, answer("Hello."))]) as server:
        env = environment(folder, server.openai_url)
        _wall([*PROGRAM, str(path), "-p", "go", "--model", f"{sdk}/bench-1"], path, env)
    gaps = [came - sent for came, sent in zip(server.came[2:], server.sent[1:], strict=False)]
    assert len(gaps) == STEPS, f"{len(gaps)} steps were made"
    return statistics.mean(gaps)
