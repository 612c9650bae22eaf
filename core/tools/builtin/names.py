"""The tools that answer questions about a name in the code, and the one that renames it.

A model names a position by file, line and the name itself, since models can't count columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from core.errors import AgentTuiError, ToolFailed, ToolInputInvalid
from core.lsp.questions import NamePosition
from core.modes import Access
from core.protocol.language import Place
from core.protocol.queries import SearchQuery
from core.text.lines import split_lines
from core.tools.base import Editor, FileEditDetail, FileEditDetails, Reader, ReadTool, Tool, ToolOutcome
from core.tools.builtin.editing.edit_targets import read_editable

NEAR: Final = 5  # The name may be this many lines away from the line of the call.
_NAMED: Final = 10
PlacePath = Annotated[str, Meta(min_length=1, description="where it is")]
PlaceLine = Annotated[int, Meta(ge=0, description="0: anywhere")]
SymbolName = Annotated[str, Meta(min_length=1, max_length=200, description="the name")]
PLACE_NAMES: Final = {
    **dict.fromkeys(("file_path", "file_paths", "target_file", "file"), "path"),
    **dict.fromkeys(("name", "symbol_name", "identifier"), "symbol"),
}
_MAX_DEFINITIONS = 20
_SEARCHED = 100
_LONGEST_HOVER = 2_000
_MAX_REFERENCES = 100


class NameTool(ReadTool, frozen=True, kw_only=True):
    """Base of the tools that answer a question about a name at a position."""

    argument_names: ClassVar = PLACE_NAMES

    symbol: SymbolName
    path: PlacePath
    line: PlaceLine = 0

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Take the first of several files: the name is looked up from there."""
        return {name: value[0] if isinstance(value, list) and value else value for name, value in arguments.items()}

    def subject(self) -> str:
        return f"{self.symbol} in {self.path}"

    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    def find_position(self, reader: Reader) -> NamePosition:
        """Return the position of the name. Raises `ToolInputInvalid`."""
        return find_named_position(reader, self.path, self.line, self.symbol)


def find_named_position(reader: Reader, path: str, line: int, symbol: str) -> NamePosition:
    """Return the position of a name on a line or close to it. Raises `ToolInputInvalid` with the lines that have the
    name."""
    pattern = re.compile(rf"(?<!\w){re.escape(symbol.rpartition('.')[2].strip('()'))}(?!\w)")
    bodies = split_lines(read_editable(reader, path).text).bodies
    positions = [(number, hit.start() + 1) for number, body in enumerate(bodies, 1) for hit in pattern.finditer(body)]
    nearby_positions = [position for position in positions if not line or abs(position[0] - line) <= NEAR]
    if nearby_positions:
        line_number, column = (
            min(nearby_positions, key=lambda position: abs(position[0] - line)) if line else nearby_positions[0]
        )
        return NamePosition(path=reader.relative(path), line=line_number, column=column)
    elsewhere = ", ".join(
        str(number) for number in list(dict.fromkeys(line_number for line_number, _ in positions))[:_NAMED]
    )
    hint = f"It is on line {elsewhere}." if elsewhere else "It is not in that file at all."
    raise ToolInputInvalid(f"There is no {symbol!r} around {path}:{line}.", hint=hint)


def format_places(places: Sequence[Place], limit: int) -> list[str]:
    """Return a line for every place, with its text."""
    rows = [f"  {place.path}:{place.line}{f': {place.text}' if place.text else ''}" for place in places[:limit]]
    return [*rows, f"  [... {len(places) - limit} more]"] if len(places) > limit else rows


class FindDefinition(NameTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "find_definition"

    async def run(self, capability: Reader) -> ToolOutcome:
        position = self.find_position(capability)
        source, documentation = "", ""
        try:
            places = await capability.find_places("definition", position)
            with suppress(ToolFailed):  # A definition without documentation is a valid answer.
                documentation = (await capability.describe_name(position))[:_LONGEST_HOVER]
        except ToolFailed as problem:
            places = await _search_definitions(capability, self.symbol.rpartition(".")[2])
            if not places:
                raise
            source = f" by its name in the project's index ({problem.message.rstrip('.')})"
        if not places:
            return ToolOutcome(
                content=f"No definition of {self.symbol} was found.\n{documentation}".strip(), summary="none"
            )
        rows = [
            f"{self.symbol} is defined{source} at:",
            *format_places(places, _MAX_DEFINITIONS),
            *filter(None, [documentation]),
        ]
        return ToolOutcome(content="\n".join(rows), summary=f"{places[0].path}:{places[0].line}")


async def _search_definitions(reader: Reader, name: str) -> tuple[Place, ...]:
    """Return the definitions of a bare name in the project's index."""
    answer = await reader.search(SearchQuery(text=name, kind="symbols", limit=_SEARCHED))
    return tuple(
        Place(path=hit.path, line=hit.start, end_line=hit.end, text=hit.text.strip().partition("\n")[0])
        for hit in answer.hits
        if hit.symbol.rpartition(".")[2] == name
    )


class FindReferences(NameTool, frozen=True, kw_only=True):
    name: ClassVar[str] = "find_references"

    async def run(self, capability: Reader) -> ToolOutcome:
        position = self.find_position(capability)
        places = await capability.find_places("references", position)
        files = len({place.path for place in places})
        count = f"{len(places)} place{'s' * (len(places) != 1)} in {files} file{'s' * (files != 1)}"
        rows = [f"{self.symbol} is used in {count}{':' if places else '.'}", *format_places(places, _MAX_REFERENCES)]
        return ToolOutcome(content="\n".join(rows), summary=count)


class RenameSymbol(Tool[Editor], frozen=True, kw_only=True):
    name: ClassVar[str] = "rename_symbol"
    access: ClassVar[Access] = Access.PROPOSE
    argument_names: ClassVar = {**PLACE_NAMES, "newName": "new_name"}

    symbol: SymbolName
    new_name: Annotated[str, Meta(min_length=1, max_length=200, description="The new name.")]
    path: PlacePath
    line: PlaceLine = 0

    def subject(self) -> str:
        return f"{self.symbol} -> {self.new_name}"

    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    async def run(self, capability: Editor) -> ToolOutcome:
        position = find_named_position(capability, self.path, self.line, self.symbol)
        texts = await capability.plan_rename(position, self.new_name)
        before = {path: read_editable(capability, path) for path in texts}
        details: dict[str, FileEditDetail] = {}
        try:
            for path, text in texts.items():
                details[path] = capability.write(path, before[path].encode(text))
        except AgentTuiError:
            for path in details:
                with suppress(AgentTuiError):
                    capability.write(path, before[path].encode(before[path].text))
            raise
        return self._describe(details)

    def _describe(self, details: dict[str, FileEditDetail]) -> ToolOutcome:
        added_lines = sum(edit.added for edit in details.values())
        removed_lines = sum(edit.removed for edit in details.values())
        edits = tuple(details.values())
        detail = edits[0] if len(edits) == 1 else FileEditDetails(edits)
        rows = [f"Renamed {self.symbol} to {self.new_name} in {len(details)} file{'s' * (len(details) != 1)}:"]
        rows += [f"  {path}: {edit.added} line{'s' * (edit.added != 1)}" for path, edit in details.items()]
        return ToolOutcome(content="\n".join(rows), summary=f"+{added_lines} -{removed_lines}", detail=detail)
