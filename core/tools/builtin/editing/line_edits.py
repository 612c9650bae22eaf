"""The tools of other agents' editors that ours does in another way: insert text at a line, take the last edit back."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.formats.draft import append_lines
from core.edits.formats.line_plan import LineRange, apply_line_plan
from core.errors import ToolInputInvalid
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_edit, propose_file
from core.tools.builtin.editing.edit_targets import (
    EDIT_REMARKS,
    FILE_NAMES,
    REPLACEMENT_NAMES,
    FilePath,
    SingleFileEdit,
    read_editable,
)


class InsertLines(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "insert_lines"
    argument_names: ClassVar = {
        **FILE_NAMES,
        **dict.fromkeys(
            ("insert_text", "content", *(name for name, own in REPLACEMENT_NAMES.items() if own == "new_string")),
            "text",
        ),
        "insert_line": "line",
    }
    ignored_arguments: ClassVar = EDIT_REMARKS

    file_path: FilePath
    text: Annotated[str, Meta(min_length=1, description="The lines to insert.")]
    line: Annotated[int, Meta(ge=-1, description="The line after which they go; 0 = at the top, -1 = at the end.")]

    async def run(self, capability: Editor) -> ToolOutcome:
        if capability.stat(self.file_path) is None and self.line < 1:
            return await propose_file(capability, self.file_path, self.text)
        file = read_editable(capability, self.file_path)
        if self.line < 0:
            after, place = append_lines(file.text, self.text), "at the end"
        else:
            insertion = LineRange(start_line=self.line + 1, end_line=None, replacement=self.text)
            after, place = apply_line_plan(file.text, (insertion,)), f"after line {self.line}" * bool(self.line)
        detail = capability.write(self.file_path, file.encode(after))
        description = f"the lines were inserted {place or 'at the top'}."
        return await describe_edit(self.file_path, file.text, after, detail, description=description)


class UndoEdit(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "undo_edit"
    argument_names: ClassVar = FILE_NAMES
    ignored_arguments: ClassVar = EDIT_REMARKS

    file_path: FilePath

    async def run(self, capability: Editor) -> ToolOutcome:
        before = read_editable(capability, self.file_path).text if capability.stat(self.file_path) else ""
        detail = capability.undo(self.file_path)
        if detail.operation == "delete" or capability.stat(self.file_path) is None:
            content = f"Your last edit of {self.file_path} is undone: the file does not exist again."
            return ToolOutcome(content=content, summary=f"+{detail.added} -{detail.removed}", detail=detail)
        after = read_editable(capability, self.file_path).text
        if before == after:
            raise ToolInputInvalid(f"Your last edit of {self.file_path} changed none of its text.", hint="Go on.")
        return await describe_edit(self.file_path, before, after, detail, description="your last edit is undone.")
