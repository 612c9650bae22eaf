"""`python -m tests.conformance DIR [SCENARIO …]`: DIR is where `npm i --ignore-scripts` put the suite.

It needs Node 22 or newer. Prints a line a scenario. Returns 1 if one fails that is no named exception, or if one of
those does not fail any more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SUITE: Final = Path("node_modules/@modelcontextprotocol/conformance/dist/index.js")
NOT_OURS: Final = "a login without a user, which this program does not offer"
# Scenarios that may fail, and why. Which of them a version of the suite has differs.
EXCEPTIONS: Final[dict[str, str]] = {
    "auth/client-credentials-jwt": NOT_OURS,
    "auth/client-credentials-basic": NOT_OURS,
    "auth/cross-app-access-complete-flow": NOT_OURS,
    "auth/enterprise-managed-authorization": NOT_OURS,
    "auth/wif-jwt-bearer": NOT_OURS,
    "auth/dpop": "tokens are not bound to a key (DPoP)",
    "auth/dpop-nonce": "tokens are not bound to a key (DPoP)",
    "auth/2025-03-26-oauth-metadata-backcompat": "0.1 only: its server names another issuer than where it is",
}
_FIRST_SUITE_ONLY: Final = frozenset({"auth/2025-03-26-oauth-metadata-backcompat"})


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="The suite for MCP clients.")
    parser.add_argument("directory", type=Path, metavar="DIR", help="where the suite is installed")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="which (default: all for clients)")
    parser.add_argument("--node", default=shutil.which("node") or "node", help="Node 22 or newer")
    args = parser.parse_args(words)
    suite = [args.node, str(args.directory / SUITE)]
    wrong = []
    for scenario in args.scenarios or list_scenarios(suite):
        passed, text = play(suite, scenario)
        excepted = scenario in EXCEPTIONS
        print(f"{'passed' if passed else 'excepted' if excepted else 'FAILED'}  {scenario}", flush=True)
        if passed == excepted and not (passed and scenario in _FIRST_SUITE_ONLY):
            wrong.append(scenario)
            print(text)
    print(f"{len(wrong)} not as expected: {', '.join(wrong)}" if wrong else "all as expected")
    return 1 if wrong else 0


def list_scenarios(suite: Sequence[str]) -> list[str]:
    """Return the names of the scenarios for clients."""
    listed = subprocess.run([*suite, "list", "--client"], capture_output=True, text=True, check=False)
    if listed.returncode:
        error = next((line for line in listed.stderr.splitlines() if "Error: " in line), "")
        sys.exit(f"The suite does not start with {suite[0]}; it needs Node 22 or newer (--node). {error}")
    clients = listed.stdout.partition("Server scenarios")[0]
    return re.findall(r"^\s*-?\s*([a-z][a-z0-9_/.-]+)", clients, re.MULTILINE)


def play(suite: Sequence[str], scenario: str) -> tuple[bool, str]:
    """Play one in an empty home; return whether all of its checks passed, and what was printed."""
    with tempfile.TemporaryDirectory() as home:
        base_env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        env = {**base_env, "HOME": home, "PYTHONPATH": str(ROOT)}
        client = f"{sys.executable} -m tests.conformance.client"
        command = [*suite, "client", "--command", client, "--scenario", scenario]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=home, timeout=120, check=False)
    return done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
