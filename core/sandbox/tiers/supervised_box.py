"""What boxes below a supervisor process share: starting a command, and ending them all."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import ToolFailed
from core.sandbox.box import BoxRequest, Tier
from core.sandbox.tiers.supervised_process import PreparedLaunch, SupervisedProcess, reject_impossible, remove_abandoned

if TYPE_CHECKING:
    from core.sandbox.box import RunningCommand


class SupervisedBox(ABC):
    """A `Box`. `state` is a directory of ours, hidden from commands; scratch directories and copies are made in it."""

    def __init__(self, tier: Tier, state: Path) -> None:
        self._tier = tier
        self._state = state
        self._running: set[SupervisedProcess] = set()
        self._is_swept = False

    @property
    def tier(self) -> Tier:
        return self._tier

    async def start(
        self, request: BoxRequest, on_output: Callable[[str], None], on_errors: Callable[[str], None] | None = None
    ) -> RunningCommand:
        if request.proxy is not None:
            raise ToolFailed(
                f"Commands have no network in tier {self._tier}.", hint="`agent-tui doctor` says what T1 takes."
            )
        reject_impossible(request)
        if not self._is_swept:
            self._is_swept = True
            await asyncio.to_thread(remove_abandoned, self._state)
        launch = await asyncio.to_thread(self._prepare, request)
        running = await SupervisedProcess.start(launch, request, on_output, on_errors)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    async def close(self) -> None:
        for each in [*self._running]:
            await each.stop()

    @abstractmethod
    def _prepare(self, request: BoxRequest) -> PreparedLaunch:
        """Prepare what the command needs; runs in a thread."""
