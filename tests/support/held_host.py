"""A real engine process whose model never answers: `python held_host.py --engine DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

if __name__ == "__main__":
    import asyncio

    from core.cli.arguments import parse
    from core.transports.stdio_server import serve
    from tests.support.story import access

    sys.exit(serve(parse(sys.argv[1:]), models=access([[asyncio.Event()]])))
