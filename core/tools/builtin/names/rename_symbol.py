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
        position = find_named_place(capability, self.path, self.line, self.symbol)
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
