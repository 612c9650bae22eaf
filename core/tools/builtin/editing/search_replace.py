"""The tools that replace exact texts in a file: one, several of one file, or blocks of several files."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, to_builtins

from core.edits.formats.search_replace import (
    SearchReplaceBlock,
    SearchReplaceResult,
    apply_blocks,
    parse_blocks,
    select_blocks,
)
from core.edits.formats.str_replace import apply_edits, replace_string
from core.errors import ToolInputInvalid
from core.text.counting import count
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import RUNGS, describe_edit, describe_match, describe_slips, propose_file
from core.tools.builtin.editing.edit_targets import (
    EDIT_REMARKS,
    FILE_NAMES,
    REPLACEMENT_NAMES,
    FilePath,
    SingleFileEdit,
    read_editable,
)

_MAX_LINES = 20


class SearchReplaceTool(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "search_replace"
    argument_names: ClassVar = REPLACEMENT_NAMES
    ignored_arguments: ClassVar = EDIT_REMARKS

    file_path: FilePath
    old_string: Annotated[str, Meta(description="The exact text in the file; empty only to create a file.")]
    new_string: Annotated[str, Meta(description="The replacement; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Replace all occurrences, not only one.")] = False

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        adapted_arguments = dict(arguments)
        if isinstance(count := adapted_arguments.pop("expected_replacements", 1), int) and count > 1:
            adapted_arguments.setdefault("replace_all", True)
        match adapted_arguments.get("edits", adapted_arguments.get("edit")):
            case [dict(edit)] | dict(edit):  # The only one of a list.
                rest = {name: value for name, value in adapted_arguments.items() if name not in {"edits", "edit"}}
                return {**rest, **edit} if not rest.keys() & edit.keys() else adapted_arguments
        return adapted_arguments

    async def run(self, capability: Editor) -> ToolOutcome:
        if not self.old_string:
            return await self._create(capability)
        file = read_editable(capability, self.file_path)
        replacement = replace_string(file.text, self.old_string, self.new_string, replace_all=self.replace_all)
        detail = capability.write(self.file_path, file.encode(replacement.text))
        description = f"{f'{replacement.count} places' if replacement.count > 1 else '1 place'} replaced."
        description += describe_match([replacement.rung]) + describe_slips(replacement.slips)
        return await describe_edit(self.file_path, file.text, replacement.text, detail, description=description)

    async def _create(self, capability: Editor) -> ToolOutcome:
        if capability.stat(self.file_path) is not None:
            raise ToolInputInvalid(
                f"{self.file_path} exists, and old_string is empty.",
                hint="Give the text to replace, or use write to replace the whole file. Nothing was changed.",
            )
        return await propose_file(capability, self.file_path, self.new_string)


class ReplacementArgument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old_string: Annotated[str, Meta(description="The exact text in the file.")]
    new_string: Annotated[str, Meta(description="The replacement; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Replace all occurrences, not only one.")] = False


class MultiEdit(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "multi_edit"
    argument_names: ClassVar = {**REPLACEMENT_NAMES, **dict.fromkeys(("ReplacementChunks", "edit"), "edits")}
    ignored_arguments: ClassVar = EDIT_REMARKS

    file_path: FilePath
    edits: Annotated[tuple[ReplacementArgument, ...], Meta(min_length=1, description="The replacements, in order.")]

    async def run(self, capability: Editor) -> ToolOutcome:
        edits = to_builtins(self.edits)
        if not self.edits[0].old_string and capability.stat(self.file_path) is None:
            text = apply_edits(None, list(edits)).text
            return await propose_file(capability, self.file_path, text)
        file = read_editable(capability, self.file_path)
        text, rungs, slips = apply_edits(file.text, list(edits))
        detail = capability.write(self.file_path, file.encode(text))
        description = f"{count('replacement', len(rungs))} made.{describe_match(rungs)}{describe_slips(slips)}"
        return await describe_edit(self.file_path, file.text, text, detail, description=description)


class EditBlocks(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "edit_blocks"
    argument_names: ClassVar = {**FILE_NAMES, "diffContent": "diff"}
    ignored_arguments: ClassVar = EDIT_REMARKS

    file_path: FilePath
    diff: Annotated[str, Meta(description="One or more SEARCH/REPLACE blocks.")]

    async def run(self, capability: Editor) -> ToolOutcome:
        blocks = self._parse_blocks()
        if len(blocks) == 1 and not blocks[0].search and capability.stat(self.file_path) is None:
            return await propose_file(capability, self.file_path, blocks[0].replace)
        file = read_editable(capability, self.file_path)
        if any(not block.search for block in blocks) and not capability.has_read_current(self.file_path):
            raise ToolInputInvalid(
                (
                    f"{self.file_path} exists, and you have not read its current content, so it is not "
                    "replaced as a whole."
                ),
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
                hint="Make one call per file. Nothing was changed.",
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
