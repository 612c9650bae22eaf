"""What the boxes share whose commands run below a launcher of their own: beginning a command, and ending them all."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ToolFailed
from core.sandbox.box import BoxSpec, Tier
from core.sandbox.boxed_process import BoxedProcess, Launch, refuse_impossible, sweep

if TYPE_CHECKING:
    from core.sandbox.box import Running


class LaunchedBox(ABC):
    """A `Box`. `state` is a directory of ours, hidden from commands; scratch directories and copies are made in it."""

    def __init__(self, tier: Tier, state: Path) -> None:
        self._tier = tier
        self._state = state
        self._running: set[BoxedProcess] = set()
        self._swept = False

    @property
    def tier(self) -> Tier:
        return self._tier

    async def start(
        self, spec: BoxSpec, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> Running:
        if spec.proxy is not None:
            raise ToolFailed(
                f"Commands have no network in tier {self._tier}.", hint="`agent-tui doctor` says what T1 takes."
            )
        refuse_impossible(spec)
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(sweep, self._state)
        launch = await asyncio.to_thread(self._prepare, spec)
        running = await BoxedProcess.start(launch, spec, on_output, on_errors)
        self._running.add(running)
        running.when_over(self._running.discard)
        return running

    async def close(self) -> None:
        for each in [*self._running]:
            await each.stop()

    @abstractmethod
    def _prepare(self, spec: BoxSpec) -> Launch:
        """Make ready what the command needs; runs in a thread."""
