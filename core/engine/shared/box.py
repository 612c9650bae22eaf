"""The box of this machine, shared by the sessions of an engine: found once, by trying the tiers, and reused.

A machine without a box is not an error: the tier says so, with a reason and a remedy.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from core.config.settings import Settings
from core.errors import AgentTuiError, ConfigError
from core.protocol.choices import CONTAINER_CHOICES
from core.protocol.events import BoxFound
from core.protocol.options import EngineOptions
from core.sandbox.box import Box, Tier
from core.sandbox.host_view import NO_CONTAINER, find_container_signs
from core.sandbox.unboxed_run import describe_containment
from core.user_dirs import get_state_dir

if TYPE_CHECKING:
    from core.sandbox.tiers.selection import TierReport


class BoxSearchResult(Struct, frozen=True, kw_only=True):
    """The result of the search. `box` None: commands can't be contained. `cure`: a remedy."""

    box: Box | None
    tier: Tier
    reason: str = ""
    cure: str = ""


SANDBOX_VARIABLE: Final = "AGENT_TUI_SANDBOX"
FindBox = Callable[[Tier | None], Awaitable[BoxSearchResult]]


async def find_box(
    required_tier: Tier | None, state: Path | None = None, workspace: Path | None = None
) -> BoxSearchResult:
    """Find the strongest box for a workspace, or the tier `required_tier`. `state`: its working directory, None = the
    default."""
    from core.sandbox.tiers.selection import open_box

    box, report = await open_box(state or get_state_dir(), tier=required_tier, workspace=workspace)
    reason, cure = _explain_tier(report)
    return BoxSearchResult(box=box, tier=report.tier, reason=reason, cure=cure)


def _explain_tier(report: TierReport) -> tuple[str, str]:
    """Return why the box has no stronger tier, and a remedy, both from the strongest tier that failed."""
    for trial in report.reasons:
        if trial.tier is report.tier:
            break
        if not trial.ok:
            return f"{trial.tier.value}: {trial.reason}", trial.cure
    return "", ""


def build_box_event(tier: Tier, reason: str = "", cure: str = "") -> BoxFound:
    """Build the report of a tier; `reason` and `cure` as in `BoxFound`."""
    return BoxFound(
        tier=tier.value,
        reason=reason,
        cure=cure,
        is_contained=tier.is_contained,
        is_walled=tier.is_walled,
        can_run_unasked=tier.can_run_unasked,
    )


class SharedBox:
    """The engine's `BoxSource`. `required_tier`: accept this tier only."""

    def __init__(self, find: FindBox = find_box, *, required_tier: Tier | None = None) -> None:
        self._find_box = find
        self._required_tier = required_tier
        self._search: asyncio.Task[BoxSearchResult] | None = None
        self._result = BoxSearchResult(box=None, tier=Tier.NONE)
        self.tier = Tier.NONE

    def use_directory(self, state: Path | None, workspace: Path) -> None:
        """Let the box work in this directory (None = the default), for a workspace. Call it before `find`."""
        if self._find_box is find_box:
            self._find_box = partial(find_box, state=state, workspace=workspace)

    def choose(self, settings: Settings, options: EngineOptions) -> list[str]:
        """Let the box be the container that this machine is, if the user's environment or configuration says so; call
        it before `find`. On a machine that does not look like one, the configuration (which may be shared by several
        machines) is ignored with a notice, and a wrong variable raises `ConfigError`."""
        variable = os.environ.get(SANDBOX_VARIABLE, "")
        choice = variable or settings.commands.sandbox
        if options.tier is not None or self._required_tier is not None or choice == "auto":
            return []
        if choice not in CONTAINER_CHOICES:
            known = " or ".join(CONTAINER_CHOICES)
            raise ConfigError(f"{SANDBOX_VARIABLE} is {choice!r}.", hint=f"Set it to {known}, or unset it.")
        if not options.i_know and not find_container_signs(os.environ):
            problem = f"is {choice}, but {NO_CONTAINER}"
            if variable:
                raise ConfigError(f"{SANDBOX_VARIABLE} {problem}", hint="Unset it, or add --i-know.")
            return [f"commands.sandbox {problem} It is ignored; --i-know overrides that."]
        self._required_tier = Tier(choice)
        return []

    def describe(self) -> str:
        if self._result.box is None:
            return describe_containment()
        if not self.tier.is_contained:
            return "in place: it runs in the project itself, on this machine"
        if not self.tier.is_walled:
            return "file changes go to review; nothing else keeps it from this container"
        return "sandboxed; file changes go to review"

    async def find(self) -> Box | None:
        if self._search is None or (self._search.done() and self._search.cancelled()):
            self._search = asyncio.create_task(self._search_once(), name="finding the sandbox")
        self._result = await asyncio.shield(self._search)
        self.tier = self._result.tier
        return self._result.box

    async def _search_once(self) -> BoxSearchResult:
        try:
            return await self._find_box(self._required_tier)
        except AgentTuiError as problem:
            return BoxSearchResult(box=None, tier=Tier.NONE, reason=problem.message, cure=problem.hint)
        except Exception as problem:  # after a fault there is no box, and commands need approval
            reason = f"Finding a sandbox failed: {type(problem).__name__}: {problem}."
            return BoxSearchResult(box=None, tier=Tier.NONE, reason=reason)

    def build_event(self) -> BoxFound:
        return build_box_event(self.tier, self._result.reason, self._result.cure)

    @property
    def is_in_place(self) -> bool:
        """True if commands work in the project itself, which is known before the box is found."""
        return self._required_tier is Tier.IN_PLACE

    async def close(self) -> None:
        """Close the box, with everything in it."""
        search, self._search = self._search, None
        if search is None:
            return
        if not search.done():
            search.cancel()
            await asyncio.wait({search})
        if not search.cancelled() and (box := search.result().box) is not None:
            await box.close()
