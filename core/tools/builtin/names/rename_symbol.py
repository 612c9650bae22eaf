"""rename_symbol: a name changed wherever it is used, as pending edits; all of them or none."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, ClassVar

from msgspec import Meta

from core.errors import AgentTuiError
from core.modes import Access
from core.tools.base import Editor, FileEditDetail, FileEditDetails, Tool, ToolOutcome
from core.tools.builtin.editing.edit_targets import read_editable
from core.tools.builtin.names.named_place import PLACE_NAMES, PlaceLine, PlacePath, SymbolName, find_named_place


class RenameSymbol(Tool[Editor], frozen=True, kw_only=True):
    name: ClassVar[str] = "rename_symbol"
    access: ClassVar[Access] = Access.PROPOSE
    argument_names: ClassVar = {**PLACE_NAMES, "newName": "new_name"}

    symbol: SymbolName
    new_name: Annotated[str, Meta(min_length=1, max_length=200, description="The name that it gets.")]
    path: PlacePath
    line: PlaceLine = 0

    def subject(self) -> str:
        return f"{self.symbol} -> {self.new_name}"

    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    async def run(self, capability: Editor) -> ToolOutcome:
        at = find_named_place(capability, self.path, self.line, self.symbol)
        texts = await capability.plan_rename(at, self.new_name)
        before = {path: read_editable(capability, path) for path in texts}
        done: dict[str, FileEditDetail] = {}
        try:
            for path, text in texts.items():
                done[path] = capability.write(path, before[path].encode(text))
        except AgentTuiError:
            for path in done:
                with suppress(AgentTuiError):
                    capability.write(path, before[path].encode(before[path].text))
            raise
        return self._describe(done)

    def _describe(self, done: dict[str, FileEditDetail]) -> ToolOutcome:
        added = sum(each.added for each in done.values())
        removed = sum(each.removed for each in done.values())
        edits = tuple(done.values())
        detail = edits[0] if len(edits) == 1 else FileEditDetails(edits)
        rows = [f"Renamed {self.symbol} to {self.new_name} in {len(done)} file{'s' * (len(done) != 1)}:"]
        rows += [f"  {path}: {each.added} line{'s' * (each.added != 1)}" for path, each in done.items()]
        return ToolOutcome(content="\n".join(rows), summary=f"+{added} -{removed}", detail=detail)
