"""multi_edit: several replacements in one file, each in the text that the one before it left; all or none."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct, to_builtins

from core.edits.formats.str_replace import apply_edits
from core.text.counting import count
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_edit, describe_match, describe_slips, propose_file
from core.tools.builtin.editing.edit_targets import REPLACING, FilePath, SingleFileEdit, read_editable


class ReplacementArgument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    old_string: Annotated[str, Meta(description="The text to replace, exactly as it stands in the file.")]
    new_string: Annotated[str, Meta(description="The text that takes its place; empty to delete.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False


class MultiEdit(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "multi_edit"
    argument_names: ClassVar = REPLACING

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
