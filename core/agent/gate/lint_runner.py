"""Runs of linters for a tool that only reads: boxed, over the shadow or over the user's files; nothing stays.

A linter runs unasked, so only where the box is strong, the project is trusted, and no rule of the user's forbids it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.gate.permissions import CallPermissions
from core.errors import ToolFailed
from core.sandbox.box import Box, BoxLimits, BoxResult
from core.shell.terminal import Terminal
from core.tools.base import LintRun
from core.tools.linters import LINTERS, SIDES, LintJob, build_script, format_command
from core.workspace import Workspace

TIME_LIMIT: Final = 45.0
MAX_OUTPUT: Final = 2_000_000  # characters of output that are read
EMPTY_RUN: Final = LintRun(exit_code=0, output="")


async def run_linter(permissions: CallPermissions, job: LintJob, *, pending: bool) -> LintRun:
    """Run a linter. What is not on disk has no problems there. Raises `ToolFailed` when it must not or can't be run."""
    terminal = permissions.terminal
    box = await terminal.host.box.find()
    if box is None or not box.tier.can_run_unasked:
        raise ToolFailed(
            "was not run: nothing on this machine holds a command well enough to run it unasked.",
            hint="Run the linter with run_terminal_cmd instead, where the mode allows it.",
        )
    if reason := permissions.explain_unasked(format_command(job), job.directory):
        raise ToolFailed(f"was not run: {reason}")
    if not pending and (disk_job := _narrow_to_disk(terminal.host.workspace, job)) is not job:
        if disk_job is None:
            return EMPTY_RUN
        job = disk_job
    return await _run_boxed(terminal, box, job, pending=pending)


def _narrow_to_disk(workspace: Workspace, job: LintJob) -> LintJob | None:
    """Return the job without the files that the user does not have; None: then there is nothing to run."""
    disk_files = tuple(path for path in job.files if workspace.stat(path) is not None)
    if workspace.stat(job.directory) is None or (LINTERS[job.linter].named and not disk_files):
        return None
    return job if disk_files == job.files else replace(job, files=disk_files)


async def _run_boxed(terminal: Terminal, box: Box, job: LintJob, *, pending: bool) -> LintRun:
    host, output = terminal.host, _BoundedOutput()
    lowers: tuple[Path, ...] = host.shadow.prepare_lowers() if pending else host.shadow.layers.list_uppers()
    spec = await host.build_passing_request(
        build_script(job, SIDES[pending]), lowers=lowers, cwd=job.directory, limits=BoxLimits(seconds=TIME_LIMIT)
    )
    running = await box.start(spec, output.add)
    try:
        result: BoxResult = await running.wait()
    except asyncio.CancelledError:
        terminal.finish_in_background(running.stop())
        raise
    return LintRun(exit_code=result.exit_code, output="".join(output.parts), ended=result.end_reason)


class _BoundedOutput(Struct):
    """The beginning of a linter's output."""

    parts: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, text: str) -> None:
        if self.size < MAX_OUTPUT:
            self.parts.append(text[: MAX_OUTPUT - self.size])
            self.size += len(self.parts[-1])
