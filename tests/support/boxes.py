"""The boxes of this machine, for tests that run real commands; a session in one, around a directed model."""

from __future__ import annotations

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
