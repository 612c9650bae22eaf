"""Commands within a text that is to be sent: run in the box over the pending state, and nothing of them stays.

They run unasked, so only where the box is strong, the project is trusted, and no rule of the user's forbids it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from core.agent.gate.permissions import CallPermissions
from core.errors import ToolFailed
from core.sandbox.box import Box, BoxLimits
from core.secrets import mask_secrets

TIME_LIMIT: Final = 30.0  # seconds
MAX_OUTPUT: Final = 20_000  # characters of the output of one command
MAX_COMMANDS: Final = 20


async def run_injected(permissions: CallPermissions, command: str) -> str:
    """Run a command and return its output. Raises `ToolFailed`: it must not run, or it failed."""
    terminal = permissions.terminal
    box = await terminal.host.box.find()
    quoted_command = f"`{command[:200]}`"
    if box is None or not box.tier.can_run_unasked:
        raise ToolFailed(
            f"{quoted_command} was not run: nothing on this machine holds a command well enough to run it unasked."
        )
    if reason := permissions.explain_unasked(command, terminal.shell.directory):
        raise ToolFailed(f"{quoted_command} was not run: {reason}")
    output, end, exit_code = await _run_boxed(permissions, box, command)
    if end != "exited" or exit_code != 0:
        outcome = f"exit code {exit_code}" if end == "exited" else end
        raise ToolFailed(f"{quoted_command} failed ({outcome}): {output.strip()[-1_000:] or 'it said nothing'}")
    return mask_secrets(output.rstrip("\n"))


async def _run_boxed(permissions: CallPermissions, box: Box, command: str) -> tuple[str, str, int | None]:
    terminal = permissions.terminal
    host, parts = terminal.host, list[str]()
    spec = await host.build_passing_request(
        command,
        lowers=host.shadow.prepare_lowers(),
        cwd=terminal.shell.directory,
        limits=BoxLimits(seconds=TIME_LIMIT),
    )
    remaining = MAX_OUTPUT

    def add(text: str) -> None:
        nonlocal remaining
        if remaining > 0:
            parts.append(text[:remaining])
            remaining -= len(text)

    running = await box.start(spec, add)
    try:
        result = await running.wait()
    except asyncio.CancelledError:
        terminal.finish_in_background(running.stop())
        raise
    cut = f"\n[cut after {MAX_OUTPUT:,} characters]" if remaining < 0 else ""
    return "".join(parts) + cut, result.end_reason, result.exit_code
