"""The boxes of this machine, for tests that run real commands; a session in one, around a directed model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.config.settings import CommandSettings, Settings
from core.engine.shared.box import SharedBox
from core.sandbox.box import Tier
from tests.support.agent_case import Case, Step, calls

AUTO = Settings(commands=CommandSettings(policy="auto"))


def command(text: str, **more: Any) -> Step:
    """A step in which the model runs one command."""
    return calls(("run_terminal_cmd", {"command": text, **more}))


@asynccontextmanager
async def boxed(
    root: Path, *steps: Step, mode: str = "agent", tier: Tier | None = None, settings: Settings = AUTO
) -> AsyncIterator[Case]:
    """A case whose commands run in a real box, unasked; nothing of it is left behind."""
    boxes = SharedBox(required_tier=tier)
    case = Case(root, *steps, mode=mode, settings=settings, box=boxes)
    try:
        assert await boxes.find() is not None, boxes.build_event()
        yield case
    finally:
        await case.session.terminal.close()
        await boxes.close()


async def wait_for_output(case: Case, *words: str, job: str = "job_1") -> str:
    """Wait until a job has printed all words."""
    background_job = case.session.terminal.jobs.get_job(job)
    printed, feed = asyncio.Event(), background_job.execution.output.add

    def take(text: str) -> None:
        feed(text)
        printed.set()

    background_job.execution.output.add = take  # type: ignore[method-assign]
    async with asyncio.timeout(30):
        while not all(word in background_job.execution.output.render_text() for word in words):
            printed.clear()
            await printed.wait()
    return background_job.execution.output.render_text()
