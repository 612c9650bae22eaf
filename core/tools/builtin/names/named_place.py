"""The place of a name that a model speaks of: by file, line and the name itself, since models can't count columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.lsp.questions import NamePosition
from core.protocol.language import Place
from core.text.lines import split_lines
from core.tools.base import Reader, ReadTool
from core.tools.builtin.editing.edit_targets import read_editable

NEAR: Final = 5  # lines around the given one in which the name is looked for, too
_NAMED: Final = 10
PlacePath = Annotated[str, Meta(min_length=1, description="where it stands")]
PlaceLine = Annotated[int, Meta(ge=0, description="0: anywhere")]
SymbolName = Annotated[str, Meta(min_length=1, max_length=200, description="the name")]
PLACE_NAMES: Final = {
    **dict.fromkeys(("file_path", "filePath", "target_file", "file"), "path"),
    **dict.fromkeys(("name", "symbol_name", "identifier"), "symbol"),
}


class PlaceTool(ReadTool, frozen=True, kw_only=True):
    """Base of the tools that answer a question about a name where it stands."""

    argument_names: ClassVar = PLACE_NAMES

    symbol: SymbolName
    path: PlacePath
    line: PlaceLine = 0

    def subject(self) -> str:
        return f"{self.symbol} in {self.path}"

    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    def find_place(self, reader: Reader) -> NamePosition:
        """Find the name. Raises `ToolInputInvalid`."""
        return find_named_place(reader, self.path, self.line, self.symbol)


def find_named_place(reader: Reader, path: str, line: int, symbol: str) -> NamePosition:
    """Find a name on a line or close to it. Raises `ToolInputInvalid` with the lines where it stands instead."""
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
    hint = f"It stands on line {elsewhere}." if elsewhere else "It does not stand in that file at all."
    raise ToolInputInvalid(f"There is no {symbol!r} around {path}:{line}.", hint=hint)


def format_places(places: Sequence[Place], limit: int) -> list[str]:
    """Return a line for each place, with its text."""
    rows = [f"  {place.path}:{place.line}{f': {place.text}' if place.text else ''}" for place in places[:limit]]
    return [*rows, f"  [... {len(places) - limit} more]"] if len(places) > limit else rows
