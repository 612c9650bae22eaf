"""find_references: every place where a name is used, by the language server of its file."""

from __future__ import annotations

from typing import ClassVar

from core.tools.base import Reader, ReadTool, ToolOutcome
from core.tools.builtin.names.named_place import (
    PLACE_NAMES,
    PlaceLine,
    PlacePath,
    SymbolName,
    find_named_place,
    format_places,
)

_SHOWN = 100


class FindReferences(ReadTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "find_references"
    argument_names: ClassVar = PLACE_NAMES

    symbol: SymbolName
    path: PlacePath
    line: PlaceLine = 0

    def subject(self) -> str:
        return f"{self.symbol} in {self.path}"

    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    async def run(self, capability: Reader) -> ToolOutcome:
        at = find_named_place(capability, self.path, self.line, self.symbol)
        places = await capability.find_places("references", at)
        files = len({each.path for each in places})
        count = f"{len(places)} place{'s' * (len(places) != 1)} in {files} file{'s' * (files != 1)}"
        rows = [f"{self.symbol} is used in {count}{':' if places else '.'}", *format_places(places, _SHOWN)]
        return ToolOutcome(content="\n".join(rows), summary=count)
