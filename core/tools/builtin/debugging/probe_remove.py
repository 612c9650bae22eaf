"""probe_remove: take probes away."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.tools.base import ToolOutcome
from core.tools.builtin.debugging.debugger import Debugger, DebugTool


class ProbeRemove(DebugTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "probe_remove"
    argument_names: ClassVar = {"probes": "ids", "probe_ids": "ids"}

    ids: Annotated[tuple[str, ...], Meta(max_length=200, description="Which, as p1; left out: all of them.")] = ()

    def subject(self) -> str:
        return ", ".join(self.ids) or "all probes"

    async def run(self, capability: Debugger) -> ToolOutcome:
        removed = await capability.remove_probes(self.ids)
        gone = removed.gone
        left = ", ".join(each.id for each in capability.probes())
        in_place = left or "none, and no file has a mark of one"
        told = f"Removed: {', '.join(gone) or 'nothing, there was none'}. In place: {in_place}."
        return ToolOutcome(content=f"{removed.said}\n{told}".strip(), summary=f"{len(gone)} removed")
