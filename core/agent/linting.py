"""A linter run for a tool that only reads: in the box, over the shadow or over the user's files, and nothing stays.

It runs unasked, so only where the box is strong, the project is trusted, and no rule of the user's speaks against it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from core.agent.session import SessionContext
from core.errors import ToolFailed
from core.modes import Access
from core.policy import Terms, decide
from core.sandbox.box import Box, BoxSpec, Exit, Limits
from core.tools.base import LintRun
from core.tools.linters import LINTERS, SIDES, LintJob, script, words_of

SECONDS: Final = 45.0
MOST: Final = 2_000_000  # characters of output that are read
NOTHING: Final = LintRun(exit_code=0, output="")


async def linted(session: SessionContext, job: LintJob, *, pending: bool) -> LintRun:
    """Raises `ToolFailed` when it must not or can't be run. What is not on disk has no problems there."""
    ground = session.terminal.ground
    box = await ground.box.find()
    if box is None or not box.tier.may_run_unasked:
        raise ToolFailed(
            "was not run: nothing on this machine holds a command well enough to run it unasked.",
            hint="Run the linter with run_terminal_cmd instead, where the mode allows it.",
        )
    _check(session, job)
    if not pending and (there := _on_disk(session, job)) is not job:
        if there is None:
            return NOTHING
        job = there
    return await _run(session, box, job, pending=pending)


def _check(session: SessionContext, job: LintJob) -> None:
    if not session.trusted:
        raise ToolFailed("was not run: the user has not said that they trust this project.")
    terms = Terms(
        contained=True,
        unasked=True,
        by_hand=session.settings.commands.policy == "human",
        directory=job.directory,
    )
    decided = decide(Access.EXEC, words_of(job), terms, rules=session.rules())
    if decided.choice != "allow":
        raise ToolFailed(f"was not run: {decided.reason or 'the user wants to be asked about commands.'}")


def _on_disk(session: SessionContext, job: LintJob) -> LintJob | None:
    """The job without the files that the user does not have; None: then there is nothing to run."""
    there = tuple(path for path in job.files if session.workspace.stat(path) is not None)
    if session.workspace.stat(job.directory) is None or (LINTERS[job.linter].named and not there):
        return None
    return job if there == job.files else replace(job, files=there)


async def _run(session: SessionContext, box: Box, job: LintJob, *, pending: bool) -> LintRun:
    ground, output = session.terminal.ground, _Output()
    kept = await asyncio.to_thread(ground.withheld)
    lowers: tuple[Path, ...] = ground.shadow.lowers() if pending else ground.shadow.layers.stack()
    spec = BoxSpec(
        workspace=ground.workspace.root,
        command=script(job, SIDES[pending]),
        env=ground.environment(),
        lowers=lowers,
        cwd=job.directory,
        cache=ground.made_cache(),
        hidden=(*ground.hidden, *kept.outside),
        withheld=kept.covered,
        masked=kept.masked,
        readable=ground.readable(),
        limits=Limits(seconds=SECONDS),
    )
    running = await box.start(spec, output.add)
    try:
        ended: Exit = await running.wait()
    except asyncio.CancelledError:
        session.terminal.leave(running.stop())
        raise
    return LintRun(exit_code=ended.exit_code, output=output.text(), ended=ended.ended)


class _Output:
    """The beginning of what a linter says."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        if self._size < MOST:
            self._parts.append(text[: MOST - self._size])
            self._size += len(self._parts[-1])

    def text(self) -> str:
        return "".join(self._parts)
