"""A real engine process whose model works a plan: `python subagents_host.py --engine DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

if __name__ == "__main__":
    from core.cli.arguments import parse
    from core.transports.stdio_server import serve
    from tests.support.subagents import access

    options = parse(sys.argv[1:])
    sys.exit(serve(options, models=access(options.directory)))
