"""find_definition: where a name is defined, by the language server of its file, else by the project's index."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from core.errors import ToolFailed
from core.protocol.language import Place
from core.protocol.queries import SearchQuery
from core.tools.base import Reader, ToolOutcome
from core.tools.builtin.names.named_place import PlaceTool, format_places

_SHOWN = 20
_SEARCHED = 100
_LONGEST_HOVER = 2_000


class FindDefinition(PlaceTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "find_definition"

    async def run(self, capability: Reader) -> ToolOutcome:
        position = self.find_place(capability)
        source, documentation = "", ""
        try:
            places = await capability.find_places("definition", position)
            with suppress(ToolFailed):  # a definition without a word about it is an answer all the same
                documentation = (await capability.describe_name(position))[:_LONGEST_HOVER]
        except ToolFailed as problem:
            places = await _search_definitions(capability, self.symbol.rpartition(".")[2])
            if not places:
                raise
            source = f" by its name in the project's index ({problem.message.rstrip('.')})"
        if not places:
            return ToolOutcome(
                content=f"No definition of {self.symbol} is known.\n{documentation}".strip(), summary="none"
            )
        rows = [f"{self.symbol} is defined{source} at:", *format_places(places, _SHOWN), *filter(None, [documentation])]
        return ToolOutcome(content="\n".join(rows), summary=f"{places[0].path}:{places[0].line}")


async def _search_definitions(reader: Reader, name: str) -> tuple[Place, ...]:
    """Return the definitions of a bare name, as the project's index has them."""
    answer = await reader.search(SearchQuery(text=name, kind="symbols", limit=_SEARCHED))
    return tuple(
        Place(path=hit.path, line=hit.start, end_line=hit.end, text=hit.text.strip().partition("\n")[0])
        for hit in answer.hits
        if hit.symbol.rpartition(".")[2] == name
    )
