"""Runs one command in a box and tells how it ended, as whatever user this process is: `box_driver.py TIER STATE`.

The `BoxSpec` comes as JSON on standard input; exit and output go to standard output as JSON, with the command lines
of the machine's processes right after the command's end, and how many bytes this process has grown by.
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

from core.sandbox.box import BoxSpec, Tier
from tests.support.box_cases import MAKERS


async def main(tier: str, state: str) -> None:
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=BoxSpec, dec_hook=lambda kind, value: kind(value))
    box = MAKERS[Tier(tier)](Path(state))
    pieces: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        exit = await (await box.start(spec, pieces.append)).wait()  # noqa: A001
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        alive = list(command_lines())
    finally:
        await box.close()
    answer = {"exit": msgspec.to_builtins(exit), "output": "".join(pieces), "alive": alive, "grown": grown}
    json.dump(answer, sys.stdout)


def command_lines() -> Iterator[str]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            with contextlib.suppress(OSError):
                yield (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
