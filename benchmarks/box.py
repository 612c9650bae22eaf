"""What the box costs: `true` in it, against a bare fork and exec, on a small tree and on a large one.

It also runs a thousand commands and counts what they leave behind.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psutil

from benchmarks.table import Result
from core.sandbox.box import Box, BoxRequest
from core.sandbox.tiers.namespaces import NamespaceBox

FILES = 50_000


def measure(*, quick: bool) -> Iterator[Result]:
    """The median of `true`, on 10 and on 50,000 files, as the user who measures."""
    rounds, files, many = (50, 5_000, 100) if quick else (200, FILES, 1_000)
    with tempfile.TemporaryDirectory(prefix="box-bench-", dir="/var/tmp") as folder:
        small, large = tree(Path(folder, "small"), 10), tree(Path(folder, "large"), files)
        yield from asyncio.run(_measure(small, large, Path(folder), (rounds, files, many)))
        for shut in Path(folder).glob("work*/work"):
            shut.chmod(0o700)


def tree(root: Path, files: int) -> Path:
    for number in range(files):
        package = root / f"package{number // 100:03}"
        if number % 100 == 0:
            package.mkdir(parents=True)
        (package / f"module{number % 100:02}.py").write_text(f"number = {number}\n")
    return root


async def _measure(small: Path, large: Path, folder: Path, sizes: tuple[int, int, int]) -> list[Result]:
    rounds, files, many = sizes
    box = NamespaceBox()
    try:
        began = time.perf_counter()
        await _true(box, small)
        first = (time.perf_counter() - began) * 1000
        layers = _layers(folder, rounds)
        bare, short, long, layered = await _in_turn(
            rounds,
            _bare,
            lambda: _true(box, small),
            lambda: _true(box, large),
            lambda: _true(box, large, **next(layers)),
        )
        left = await _many(box, small, many)
    finally:
        await box.close()
    yardstick = {"yardstick": bare, "yardstick_name": "fork and exec"}
    return [
        Result(what="box: the first `true`, server included", value=first, unit="ms"),
        Result(what="box: `true` on 10 files", value=short, unit="ms", limit=30, **yardstick),
        Result(what=f"box: `true` on {files:,} files", value=long, unit="ms", limit=30, **yardstick),
        Result(
            what="box: `true` on the large tree against the small one",
            value=long,
            unit="ms",
            yardstick=short,
            yardstick_name="10 files",
            ratio_limit=1.2,
        ),
        Result(what="box: `true` over 8 layers, its own on disk", value=layered, unit="ms", limit=30, **yardstick),
        *(
            Result(what=f"box: {trace} left by {many:,} commands", value=count, unit="", limit=0)
            for trace, count in left
        ),
    ]


async def _in_turn(rounds: int, *actions: Callable[[], Awaitable[None]]) -> list[float]:
    """The median of each in ms, measured in turn so that what else the machine does falls on all alike."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, durations in zip(actions, times, strict=True):
            began = time.perf_counter()
            await action()
            durations.append((time.perf_counter() - began) * 1000)
    return [statistics.median(durations) for durations in times]


async def _bare() -> None:
    subprocess.run(["/bin/true"], check=True)  # noqa: ASYNC221 - nothing else is to happen meanwhile


async def _true(box: Box, workspace: Path, **layers: object) -> None:
    env = {"HOME": os.environ.get("HOME", "/root"), "PATH": "/usr/bin:/bin"}
    spec = BoxRequest(workspace=workspace, command="true", env=env, **layers)
    running = await box.start(spec, lambda _: None)
    ended = await running.wait()
    if ended.exit_code != 0:
        raise RuntimeError(f"`true` ended so: {ended}")


def _layers(folder: Path, rounds: int) -> Iterator[dict[str, object]]:
    """The case of every day: pending layers below, and an upper one on disk."""
    lowers = tuple(tree(folder / f"lower{number}", 10 + number) for number in range(8))
    pairs = [(folder / f"upper{number}", folder / f"work{number}") for number in range(rounds)]
    for upper, work in pairs:
        upper.mkdir()
        work.mkdir()
    for upper, work in pairs:
        yield {"lowers": lowers, "upper": upper, "work": work}


async def _many(box: Box, workspace: Path, many: int) -> list[tuple[str, int]]:
    before = _traces()
    for _ in range(many):
        await _true(box, workspace)
    return [(trace, count - before[trace]) for trace, count in _traces().items()]


def _traces() -> dict[str, int]:
    return {
        "processes": len(psutil.Process().children(recursive=True)),
        "mounts": len(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()),
        "descriptors": psutil.Process().num_fds(),
        "megabytes of memory": max(0, psutil.Process().children()[0].memory_info().rss // (1 << 20)),
    }
