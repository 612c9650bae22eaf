"""find_references: every place where a name is used, by the language server of its file."""

from __future__ import annotations

from typing import ClassVar

from core.tools.base import Reader, ToolOutcome
from core.tools.builtin.names.named_place import PlaceTool, format_places

_SHOWN = 100


class FindReferences(PlaceTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "find_references"

    async def run(self, capability: Reader) -> ToolOutcome:
        position = self.find_place(capability)
        places = await capability.find_places("references", position)
        files = len({place.path for place in places})
        count = f"{len(places)} place{'s' * (len(places) != 1)} in {files} file{'s' * (files != 1)}"
        rows = [f"{self.symbol} is used in {count}{':' if places else '.'}", *format_places(places, _SHOWN)]
        return ToolOutcome(content="\n".join(rows), summary=count)
