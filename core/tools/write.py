"""write: a whole file, new or replaced; an existing one only when its present content was read."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.lines import split_lines, to_lf
from core.edits.textfile import TextFile
from core.errors import ToolInputInvalid
from core.modes import Access
from core.tools.base import Editor, Outcome, Tool
from core.tools.edited import created, faults
from core.tools.targets import editable


class Write(Tool[Editor], frozen=True, kw_only=True):
    name: ClassVar[str] = "write"
    access: ClassVar[Access] = Access.PROPOSE
    argument_names: ClassVar = {
        "path": "file_path",
        "target_file": "file_path",
        "filePath": "file_path",
        "content": "contents",
        "text": "contents",
    }

    file_path: Annotated[str, Meta(min_length=1, description="The file, relative to the workspace or absolute.")]
    contents: Annotated[str, Meta(description="The whole content of the file.")]

    def subject(self) -> str:
        return self.file_path

    def paths(self) -> tuple[str, ...]:
        return (self.file_path,)

    async def run(self, capability: Editor) -> Outcome:
        if capability.stat(self.file_path) is None:
            detail = capability.write(self.file_path, self.contents.encode("utf-8"))
            return await created(self.file_path, detail, self.contents)
        file = editable(capability, self.file_path)
        if not capability.seen_current(self.file_path):
            raise ToolInputInvalid(
                f"{self.file_path} exists, and you have not read it as it is now.",
                hint="Read it to its end with read_file, then write it again. Nothing was changed.",
                code="not_read",
            )
        text = self._fitted(file)
        if text == file.text:
            return Outcome(content=f"{self.file_path} already has this content.", summary="no change")
        detail = capability.write(self.file_path, file.encode(text))
        head = f"Replaced {self.file_path}: {detail.added} lines added, {detail.removed} removed."
        content = "\n".join([head, *await to_thread(faults, self.file_path, file.text, text)])
        return Outcome(content=content, summary=f"+{detail.added} -{detail.removed}", detail=detail)

    def _fitted(self, file: TextFile) -> str:
        """The new content with the line ending that the whole old file had."""
        uniform = set(split_lines(file.text).ends) - {""} == {"\r\n"}
        return to_lf(self.contents).replace("\n", "\r\n") if uniform else self.contents
