"""search_replace: replace text in one file, or create the file; on the matching ladder of `core.edits`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.edits.formats.str_replace import replace_string
from core.errors import ToolInputInvalid
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_edit, describe_match, describe_slips, propose_file
from core.tools.builtin.editing.edit_targets import REPLACING, FilePath, SingleFileEdit, read_editable


class SearchReplaceTool(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "search_replace"
    argument_names: ClassVar = REPLACING
    ignored_arguments: ClassVar = frozenset(("instruction", "instructions", "explanation"))

    file_path: FilePath
    old_string: Annotated[
        str, Meta(description="The text to replace, exactly as it stands in the file; empty only to create a file.")
    ]
    new_string: Annotated[str, Meta(description="The text that takes its place; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        adapted_arguments = dict(arguments)
        if isinstance(count := adapted_arguments.pop("expected_replacements", 1), int) and count > 1:
            adapted_arguments.setdefault("replace_all", True)
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
