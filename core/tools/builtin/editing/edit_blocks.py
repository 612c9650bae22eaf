"""edit_blocks: the SEARCH/REPLACE blocks of a `<file-edit>`, applied to one file all together or not at all."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.formats.search_replace import (
    SearchReplaceBlock,
    SearchReplaceResult,
    apply_blocks,
    parse_blocks,
    select_blocks,
)
from core.errors import ToolInputInvalid
from core.text.counting import count
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import RUNGS, describe_edit, describe_slips, propose_file
from core.tools.builtin.editing.edit_targets import FILE_NAMES, FilePath, SingleFileEdit, read_editable

_MAX_LINES = 20


class EditBlocks(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "edit_blocks"
    argument_names: ClassVar = {**FILE_NAMES, "diffContent": "diff"}

    file_path: FilePath
    diff: Annotated[str, Meta(description="One or more SEARCH/REPLACE blocks.")]

    async def run(self, capability: Editor) -> ToolOutcome:
        blocks = self._parse_blocks()
        if len(blocks) == 1 and not blocks[0].search and capability.stat(self.file_path) is None:
            return await propose_file(capability, self.file_path, blocks[0].replace)
        file = read_editable(capability, self.file_path)
        if any(not block.search for block in blocks) and not capability.has_read_current(self.file_path):
            raise ToolInputInvalid(
                f"{self.file_path} exists, and you have not read it as it is now, so it is not replaced as a whole.",
                hint="Read it with read_file first, or give the lines to replace. Nothing was changed.",
                code="not_read",
            )
        result = apply_blocks(file.text, blocks)
        detail = capability.write(self.file_path, file.encode(result.text))
        return await describe_edit(
            self.file_path, file.text, result.text, detail, description=_describe_matches(result)
        )

    def _parse_blocks(self) -> tuple[SearchReplaceBlock, ...]:
        blocks = parse_blocks(self.diff)
        own_blocks = select_blocks(blocks, self.file_path)
        if len(own_blocks) < len(blocks):
            others = sorted({block.path for block in blocks if block.path and block not in own_blocks})
            raise ToolInputInvalid(
                f"The blocks are for several files: {self.file_path}, {', '.join(others) or 'others'}.",
                hint="Make one call for each file. Nothing was changed.",
            )
        return own_blocks


def _describe_matches(result: SearchReplaceResult) -> str:
    rows = [
        f"block {number}: line {line}{f', matched with {RUNGS[rung]}' if rung in RUNGS else ''}"
        for number, (line, rung) in enumerate(zip(result.lines, result.rungs, strict=True), start=1)
    ]
    overflow = [f"[... {len(rows) - _MAX_LINES} more blocks]"] if len(rows) > _MAX_LINES else []
    head = f"{count('block', len(rows))} applied.{describe_slips(result.slips)}"
    return "\n".join([head, *rows[:_MAX_LINES], *overflow])
