"""delete_file: a pending deletion of one file."""

from __future__ import annotations

from typing import ClassVar

from core.errors import ToolInputInvalid
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_targets import FilePath, SingleFileEdit, require_present


class DeleteFile(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "delete_file"
    path_argument: ClassVar[str] = "target_file"
    argument_names: ClassVar = {"path": "target_file", "file_path": "target_file", "filePath": "target_file"}

    target_file: FilePath
    explanation: str = ""  # models of other agents give it

    async def run(self, capability: Editor) -> ToolOutcome:
        if require_present(capability, self.target_file).kind == "directory":
            raise ToolInputInvalid(
                f"{self.target_file} is a directory; this tool deletes one file.", hint="Delete its files one by one."
            )
        detail = capability.delete(self.target_file)
        return ToolOutcome(content=f"Deleted {self.target_file}.", summary=f"-{detail.removed}", detail=detail)
