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
        removed_probes = await capability.remove_probes(self.ids)
        removed_ids = removed_probes.gone
        remaining_ids = ", ".join(probe.id for probe in capability.probes())
        in_place = remaining_ids or "none, and no file has a mark of one"
        report = f"Removed: {', '.join(removed_ids) or 'nothing, there was none'}. In place: {in_place}."
        return ToolOutcome(content=f"{removed_probes.said}\n{report}".strip(), summary=f"{len(removed_ids)} removed")
