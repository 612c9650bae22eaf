"""The commands of recorded agents, run in the box and outside of it: every difference in output is one to explain.

A recording is a trajectory of mini-swe-agent (`*.traj.json`), whose every action is one bash command of a real model.
`python -m benchmarks.commands REPOSITORY RECORDING …` runs the commands of each in two fresh copies of the repository,
one as a session runs them, with its effects kept, the other plainly, and prints where exit code or output differ.
Installations are left out: without a granted host there is no network in the box, and everything after one would
differ. The packages of the repository are found through PYTHONPATH instead.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from core.ids import new_id
from core.protocol.review import Origin
from core.sandbox.box import Tier
from core.shell.command_host import CommandRequest
from core.shell.terminal import Terminal
from tests.support.boxes import boxed

SECONDS = 60.0
RECORDED_ROOT = "/testbed"
SHOWN_LINES = 8
PLAIN_ENVIRONMENT = {"PAGER": "cat", "GIT_PAGER": "cat", "EDITOR": "true"}
_INSTALLS = re.compile(
    r"\b(pip3?|conda|apt(-get)?|npm|uv) (install|add|ci)\b|\bsetup\.py (develop|install)\b|\bcurl\b|\bwget\b"
)
# What differs from run to run: addresses, times, sizes of folders, owners, object ids of new commits.
_VARYING = (
    (re.compile(r"0x[0-9a-f]{6,}"), "0xADDRESS"),
    (re.compile(r"\b\d+(\.\d+)?( ?(ms|µs|us|ns|seconds?|secs?|s))\b"), "TIME"),
    (re.compile(r"\b[A-Z][a-z]{2} [ \d]\d (\d\d:\d\d(:\d\d)?|\d{4})\b"), "DATE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d([.,]\d+)?)?"), "DATE"),
    (re.compile(r"^total \d+$", re.MULTILINE), "total N"),
    (re.compile(r"^([d-][rwxst-]{9})[.+]?\s+\d+\s+\S+\s+\S+\s+\d+ ", re.MULTILINE), r"\1 N OWNER SIZE "),
    (re.compile(r"\b[0-9a-f]{7,40}\b"), "OBJECT"),
    (re.compile(r"/tmp/[\w.-]*\w{6,}"), "/tmp/NAME"),
    (re.compile(r"\bpid[ =]\d+|\bprocess \d+"), "PID"),
)


class Outcome(NamedTuple):
    """The end of one command; `exit_code` None: it was killed."""

    exit_code: int | None
    output: str


def read_commands(recording: Path) -> Iterator[str]:
    """Yield the bash commands of a recording, in order."""
    for message in json.loads(recording.read_text())["messages"]:
        for action in (message.get("extra") or {}).get("actions") or ():
            if not _INSTALLS.search(action["command"]):
                yield action["command"]


def normalise(text: str, root: Path) -> str:
    """Remove what differs from run to run, and the place of the copy."""
    text = text.replace(str(root), "ROOT").replace("\r\n", "\n")
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text.strip()


def run_plainly(command: str, root: Path, environment: Mapping[str, str]) -> Outcome:
    """Run a command outside of every box, in a shell of its own."""
    try:
        process = subprocess.run(
            ["bash", "-c", command],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, "")
    return Outcome(process.returncode, process.stdout.decode("utf-8", "replace"))


async def run_boxed(terminal: Terminal, command: str, root: Path) -> Outcome:
    """Run a command as the agent's tool does, from the root."""
    terminal.reset_shell()
    origin = Origin(call=new_id("call"), tool="run_terminal_cmd", command=command)
    request = CommandRequest(command=command, origin=origin, time_limit=SECONDS, env=find_packages(root))
    result = await terminal.run(request, lambda _: None)
    return Outcome(result.exit_code, result.output)


def find_packages(root: Path) -> dict[str, str]:
    """Return the variables by which Python finds the packages of a copy."""
    return {"PYTHONPATH": f"{root / 'src'}:{root}"}


def _copy_repository(repository: Path, targets: tuple[Path, ...]) -> None:
    for target in targets:
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "-q", str(repository), str(target)]
        subprocess.run(clone, check=True)
        target.parent.chmod(0o755)


async def compare(repository: Path, recording: Path) -> tuple[int, list[str]]:
    """Return the number of commands of a recording, and a report on each that differs."""
    folder = Path(tempfile.mkdtemp(prefix="commands-", dir="/var/tmp"))
    plain, inside = folder / "plain", folder / "boxed" / "project"
    reports, number = list[str](), 0
    try:
        await asyncio.to_thread(_copy_repository, repository, (plain, inside))
        (folder / "home").mkdir()
        shell_variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**shell_variables, **PLAIN_ENVIRONMENT, "HOME": str(folder / "home"), **find_packages(plain)}
        async with boxed(inside.parent, tier=Tier.NAMESPACES) as case:
            for number, command in enumerate(read_commands(recording), 1):
                plain_outcome = run_plainly(command.replace(RECORDED_ROOT, str(plain)), plain, environment)
                boxed_outcome = await run_boxed(
                    case.session.terminal, command.replace(RECORDED_ROOT, str(inside)), inside
                )
                plain_text = normalise(plain_outcome.output, plain)
                boxed_text = normalise(boxed_outcome.output, inside)
                if (plain_outcome.exit_code, plain_text) != (boxed_outcome.exit_code, boxed_text):
                    reports.append(_report(number, command, (plain_outcome, boxed_outcome), (plain_text, boxed_text)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return number, reports


def _report(number: int, command: str, outcomes: tuple[Outcome, Outcome], texts: tuple[str, str]) -> str:
    """Format how the outcomes of one command differ, outside of the box and in it."""
    plain_lines, boxed_lines = (text.splitlines() for text in texts)
    diff = difflib.unified_diff(plain_lines, boxed_lines, "outside", "in the box", n=0, lineterm="")
    lines = [line[:200] for line in diff][: SHOWN_LINES + 2]
    codes = f"exit codes {outcomes[0].exit_code} and {outcomes[1].exit_code}"
    return "\n".join((f"--- {number}: {command[:300]}", codes, *lines))


def main(arguments: list[str]) -> int:
    repository, recordings = Path(arguments[0]), [Path(argument) for argument in arguments[1:]]
    total = different_count = 0
    for recording in recordings:
        count, reports = asyncio.run(compare(repository, recording))
        total, different_count = total + count, different_count + len(reports)
        print(f"=== {recording.name}: {count} commands, {len(reports)} differ", *reports, sep="\n", flush=True)
    print(f"\n{total - different_count} of {total} commands say the same in the box and outside")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
