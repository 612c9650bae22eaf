"""delete_file: a pending deletion of one file."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.base import Editor, Tool, ToolOutcome
from core.tools.builtin.editing.edit_targets import require_present


class DeleteFile(Tool[Editor], frozen=True, kw_only=True):
    name: ClassVar[str] = "delete_file"
    access: ClassVar[Access] = Access.PROPOSE
    argument_names: ClassVar = {"path": "target_file", "file_path": "target_file", "filePath": "target_file"}

    target_file: Annotated[str, Meta(min_length=1, description="The file, relative to the workspace or absolute.")]
    explanation: str = ""  # models of other agents give it

    def subject(self) -> str:
        return self.target_file

    def paths(self) -> tuple[str, ...]:
        return (self.target_file,)

    async def run(self, capability: Editor) -> ToolOutcome:
        if require_present(capability, self.target_file).kind == "directory":
            raise ToolInputInvalid(
                f"{self.target_file} is a directory; this tool deletes one file.", hint="Delete its files one by one."
            )
        detail = capability.delete(self.target_file)
        return ToolOutcome(content=f"Deleted {self.target_file}.", summary=f"-{detail.removed}", detail=detail)
