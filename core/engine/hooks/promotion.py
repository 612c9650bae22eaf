"""The hooks of the way to the disk: asked before anything is accepted, told of what was written.

Every acceptance comes past here, whoever gives it: a verdict of the user or of `-p`, or the policy that accepts by
itself. They run in the box like all others, over what is pending: a refusal leaves it so, and what they change waits
for the review.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field

from core.engine.session.tasks import Effect, SessionTasks
from core.errors import AgentTuiError
from core.hooks.dialect_names import HookEvent
from core.hooks.session_hooks import HookOccasion, SessionHooks
from core.protocol.events import FileWritten

LEFT_HINT = "It waits for the review still. /hooks lists the hooks."


class AcceptanceRefused(AgentTuiError):
    """A hook refused that pending changes are written to the project; nothing was."""

    code = "hook_refused"


class PromotionHooks(Struct, eq=False):
    """The hooks of one session's acceptances. `report_error(problem, path=)` tells the user of a refusal; `_written`:
    files that hooks are still to be told of."""

    hooks: SessionHooks
    tasks: SessionTasks
    root: Path
    report_error: Callable[..., None]
    _written: dict[str, None] = field(default_factory=dict)

    def guard(self, list_paths: Callable[[], Sequence[str]], effect: Effect) -> Effect:
        """Return an effect that accepts changes, with the hooks asked first about the paths that it is about."""

        async def run() -> None:
            if await self._is_allowed(list_paths()) and inspect.isawaitable(result := effect()):
                await result

        return run

    async def _is_allowed(self, paths: Sequence[str]) -> bool:
        if not paths:
            return True
        outcome = await self.hooks.run(self._build_occasion(HookEvent.BEFORE_PROMOTE, paths))
        if outcome.is_denied:
            path = paths[0] if len(paths) == 1 else ""
            self.report_error(AcceptanceRefused(outcome.describe_refusal(), hint=LEFT_HINT), path=path)
        return not outcome.is_denied

    def _build_occasion(self, event: HookEvent, paths: Sequence[str]) -> HookOccasion:
        fields = {"paths": list(paths), "file_paths": [str(self.root / path) for path in paths]}
        return HookOccasion(event=event, fields=fields, subjects=tuple(paths), texts=tuple(paths))

    def accept(self, list_paths: Callable[[], Sequence[str]], accept: Callable[[], object]) -> None:
        """Accept what the policy accepts by itself: at once, or when the hooks that there are were asked."""
        if self.hooks.has(HookEvent.BEFORE_PROMOTE):
            self.tasks.schedule(self.guard(list_paths, accept))
        else:
            accept()

    def observe(self, event: FileWritten) -> None:
        """Tell the hooks of a file that was written to the project, with all others of its acceptance."""
        if not self.hooks.has(HookEvent.AFTER_PROMOTE):
            return
        if not self._written:
            self.tasks.schedule(self._report_written)
        self._written[event.path] = None

    async def _report_written(self) -> None:
        paths = list(self._written)
        self._written.clear()
        await self.hooks.run(self._build_occasion(HookEvent.AFTER_PROMOTE, paths))
