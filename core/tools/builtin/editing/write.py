"""The tools for whole files: write one, delete one."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.text_file import TextFile
from core.errors import ToolInputInvalid
from core.text.counting import count
from core.text.lines import normalise_endings, split_lines
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import find_new_faults, propose_file
from core.tools.builtin.editing.edit_targets import (
    EDIT_REMARKS,
    FILE_NAMES,
    FilePath,
    SingleFileEdit,
    read_editable,
    require_present,
)


class WriteTool(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "write"
    argument_names: ClassVar = {
        **FILE_NAMES,
        **dict.fromkeys(("content", "text", "file_text", "file_content", "CodeContent"), "contents"),
    }
    ignored_arguments: ClassVar = EDIT_REMARKS | {"line_count", "EmptyFile"}
    assumed_arguments: ClassVar = {"mode": "overwrite", "add_last_line_newline": False}

    file_path: FilePath
    contents: Annotated[str, Meta(description="The full content of the file.")]

    async def run(self, capability: Editor) -> ToolOutcome:
        if capability.stat(self.file_path) is None:
            return await propose_file(capability, self.file_path, self.contents)
        file = read_editable(capability, self.file_path)
        if not capability.has_read_current(self.file_path):
            raise ToolInputInvalid(
                f"{self.file_path} exists, and you have not read its current content.",
                hint="Read it to the end with read_file, then write it again. Nothing was changed.",
                code="not_read",
            )
        text = self._fit_line_endings(file)
        if text == file.text:
            return ToolOutcome(content=f"{self.file_path} already has this content.", summary="no change")
        detail = capability.write(self.file_path, file.encode(text))
        head = f"Replaced {self.file_path}: {count('line', detail.added)} added, {detail.removed} removed."
        content = "\n".join([head, *await to_thread(find_new_faults, self.file_path, file.text, text)])
        return ToolOutcome(content=content, summary=f"+{detail.added} -{detail.removed}", detail=detail)

    def _fit_line_endings(self, file: TextFile) -> str:
        uniform = set(split_lines(file.text).ends) - {""} == {"\r\n"}
        return normalise_endings(self.contents).replace("\n", "\r\n") if uniform else self.contents


class DeleteFile(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "delete_file"
    path_argument: ClassVar[str] = "target_file"
    argument_names: ClassVar = {"path": "target_file", "file_path": "target_file"}

    target_file: FilePath
    explanation: str = ""  # For models of other agents.

    async def run(self, capability: Editor) -> ToolOutcome:
        if require_present(capability, self.target_file).kind == "directory":
            raise ToolInputInvalid(
                f"{self.target_file} is a directory; this tool deletes one file.", hint="Delete its files one by one."
            )
        detail = capability.delete(self.target_file)
        return ToolOutcome(content=f"Deleted {self.target_file}.", summary=f"-{detail.removed}", detail=detail)
