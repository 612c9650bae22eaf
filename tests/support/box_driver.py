"""Runs commands in boxes and tells how they ended, as whatever user this process is: `box_driver.py TIER`.

Each line of standard input is JSON, `{"state": ..., "spec": ...}` with a `BoxRequest`, and is answered with a line of
JSON
on standard output: exit, output, the command lines of the machine's processes right after the command's end, and how
many bytes this process has grown by. Every command has a box of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from core.sandbox.box import Box, BoxRequest, Tier
from tests.support.box_cases import MAKERS


async def main(tier: str) -> None:
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        order = json.loads(line)
        spec = msgspec.convert(order["spec"], BoxRequest, dec_hook=lambda kind, value: kind(value))
        print(json.dumps(await answer(MAKERS[Tier(tier)](Path(order["state"])), spec)), flush=True)


async def answer(box: Box, spec: BoxRequest) -> dict[str, object]:
    pieces: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        exit = await (await box.start(spec, pieces.append)).wait()  # noqa: A001
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        alive = list(command_lines())
    finally:
        await box.close()
    return {"exit": msgspec.to_builtins(exit), "output": "".join(pieces), "alive": alive, "grown": grown}


def command_lines() -> Iterator[str]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
