"""The box of this machine, shared by the sessions of an engine: found once, by really trying, and kept warm.

A machine without one is no fault: the tier says so, and why, and what would help.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import AgentTuiError
from core.protocol.events import BoxFound
from core.sandbox.box import Box, Tier
from core.sandbox.runner import containment
from core.user_dirs import state_dir

if TYPE_CHECKING:
    from core.sandbox.tiers import TierReport

WORDS = {
    Tier.NAMESPACES: "namespaces and an overlay",
    Tier.BWRAP_OVERLAY: "bubblewrap and its overlay",
    Tier.BWRAP_MOUNTED: "bubblewrap over an overlay",
    Tier.BWRAP_COPY: "bubblewrap on a copy of your project",
    Tier.LANDLOCK: "Landlock and seccomp on a copy of your project",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the search gave. `box` None: commands can't be contained."""

    box: Box | None
    tier: Tier
    reason: str = ""
    cure: str = ""


Finder = Callable[[Tier | None], Awaitable[Found]]


async def find_box(wanted: Tier | None, state: Path | None = None) -> Found:
    """The strongest box of this machine, or the one that is `wanted`. `state`: where it works; None = the state
    directory."""
    from core.sandbox.tiers import open_box

    box, report = await open_box(state or state_dir(), wanted=wanted)
    reason, cure = _why(report)
    return Found(box=box, tier=report.tier, reason=reason, cure=cure)


def _why(report: TierReport) -> tuple[str, str]:
    """Why it is not a stronger tier, and what would help: of the strongest one that failed."""
    for tried in report.reasons:
        if tried.tier is report.tier:
            break
        if not tried.ok:
            return f"{tried.tier.value}: {tried.reason}", tried.cure
    return "", ""


class Boxes:
    """A `BoxSource`. `wanted`: no other tier will do."""

    def __init__(self, find: Finder = find_box, *, wanted: Tier | None = None) -> None:
        self._find = find
        self._wanted = wanted
        self._search: asyncio.Task[Found] | None = None
        self._found = Found(box=None, tier=Tier.NONE)

    def work_in(self, state: Path | None) -> None:
        """Keep what a box needs on the way in this directory; None = the state directory. Before it is found."""
        if state is not None and self._find is find_box:
            self._find = partial(find_box, state=state)

    @property
    def tier(self) -> Tier:
        return self._found.tier

    def words(self) -> str:
        if self._found.box is None:
            return containment()
        how = WORDS.get(self.tier, self.tier.value)
        return f"{self.tier.value}: held by {how}; what it changes waits for your review"

    async def find(self) -> Box | None:
        if self._search is None or (self._search.done() and self._search.cancelled()):
            self._search = asyncio.create_task(self._once(), name="finding the box")
        self._found = await asyncio.shield(self._search)
        return self._found.box

    async def _once(self) -> Found:
        try:
            return await self._find(self._wanted)
        except AgentTuiError as problem:
            return Found(box=None, tier=Tier.NONE, reason=problem.message, cure=problem.hint)
        except Exception as problem:  # a fault in finding it means that there is none; commands are asked about then
            return Found(box=None, tier=Tier.NONE, reason=f"The search failed: {type(problem).__name__}: {problem}.")

    def event(self) -> BoxFound:
        return BoxFound(tier=self.tier.value, reason=self._found.reason, cure=self._found.cure)

    async def close(self) -> None:
        """Give the box up, with everything in it."""
        search, self._search = self._search, None
        if search is None:
            return
        if not search.done():
            search.cancel()
            await asyncio.wait({search})
        if not search.cancelled() and (box := search.result().box) is not None:
            await box.close()
