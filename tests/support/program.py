"""The program as a user starts it: `agent_tui.py` in a process of its own, against a model server on loopback."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import warm_program
from tests.support.provider_server import ProviderServer, Request, provider_server
from tests.support.provider_streams import Step

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, str(ROOT / "agent_tui.py"))
KEY = "sk-test-0123456789abcdef"
_DROP_BOUND, _POWERS = 24, (1, 2, 3)  # prctl(PR_CAPBSET_DROP): to write, read and own what is not ours


@dataclass(frozen=True)
class Ended:
    """How a run ended, and what it said."""

    code: int
    out: str
    err: str


def environment(server: ProviderServer | None, **more: str) -> dict[str, str]:
    """This process's environment with a model server in it."""
    variables = dict(os.environ)
    if server is not None:
        variables |= {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.anthropic_url}
        variables |= {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    return variables | more


def without_powers() -> None:
    """Between fork and exec: a superuser has to obey permissions like everybody else."""
    if os.geteuid() == 0:
        library = ctypes.CDLL(None, use_errno=True)
        for power in _POWERS:
            library.prctl(_DROP_BOUND, power, 0, 0, 0)


async def run(
    project: Path,
    *arguments: str,
    env: Mapping[str, str],
    stdin: bytes = b"",
    before: Callable[[], None] | None = None,
    seconds: float = 50,
) -> Ended:
    """Run `agent-tui ARGUMENTS` in a project and wait for its end; with `before`, in a process started for it."""
    if before is None and warm_program.is_possible(env):
        async with asyncio.timeout(seconds):
            code, out, err = await warm_program.run(project, arguments, env, stdin)
        return Ended(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        cwd=project,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=before,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode is not None
    return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


async def ask(
    project: Path,
    *steps: Step | str,
    arguments: Sequence[str] = (),
    dialect: str = "openai",
    model: str = "tiny-1",
    env: Mapping[str, str] | None = None,
    **how: Any,
) -> tuple[Ended, list[Request]]:
    """How a run with a prompt ended, and the requests it made. `steps` are what the model server answers."""
    async with provider_server(steps, strict=True) as server:
        chosen = () if "-c" in arguments else ("--model", f"{dialect}/{model}")
        ended = await run(project, "-p", "Do it", *chosen, *arguments, env=environment(server, **(env or {})), **how)
        assert "Traceback" not in ended.err + ended.out
        assert KEY not in ended.err + ended.out
        return ended, server.answered
