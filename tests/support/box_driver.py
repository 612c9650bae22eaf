"""Runs one command in a box and tells how it ended, as whatever user this process is: `box_driver.py TIER STATE`.

The `BoxSpec` comes as JSON on standard input; exit and output go to standard output as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import msgspec

from core.sandbox.box import BoxSpec, Tier
from tests.support.box_cases import MAKERS


async def main(tier: str, state: str) -> None:
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=BoxSpec, dec_hook=lambda kind, value: kind(value))
    box = MAKERS[Tier(tier)](Path(state))
    pieces: list[str] = []
    try:
        exit = await (await box.start(spec, pieces.append)).wait()  # noqa: A001
    finally:
        await box.close()
    json.dump({"exit": msgspec.to_builtins(exit), "output": "".join(pieces)}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
