"""file_edit: a draft for a range of lines, in which comments say what does not change; the format of seed prompts.

What the comments leave open goes to the model of the `apply` route.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.errors import UndecidedEdit
from core.edits.formats.draft import FileDraft, append_lines, apply_draft, parse_drafts
from core.errors import ToolInputInvalid
from core.tools.base import Editor, EditRequest, ToolOutcome
from core.tools.builtin.editing.edit_file import BY_MODEL, apply_with_model
from core.tools.builtin.editing.edit_outcome import describe_edit, propose_file
from core.tools.builtin.editing.edit_targets import FilePath, SingleFileEdit, read_editable


class FileEditTool(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "file_edit"
    path_argument: ClassVar[str] = "path"
    argument_names: ClassVar = {"file_path": "path", "filePath": "path", "target_file": "path", "content": "draft"}

    path: FilePath
    draft: Annotated[str, Meta(description="The new lines; a comment may say which ones stay as they are.")]
    start: Annotated[int, Meta(description="The first line of the range, from 1; -1 with end -1 appends.")] = 1
    end: Annotated[int, Meta(description="The last line of the range, inclusive; -1 is the last of the file.")] = -1

    async def run(self, capability: Editor) -> ToolOutcome:
        draft = FileDraft(path=self.path, body=_extract_body(self.draft), start=self.start, end=self.end)
        if capability.stat(self.path) is None:
            return await propose_file(capability, self.path, draft.body)
        file = read_editable(capability, self.path)
        text, description = await self._apply(capability, file.text, draft)
        if text == file.text:
            raise ToolInputInvalid(
                f"The draft changes nothing: {self.path} is already as it says.", hint="Write the new lines into it."
            )
        detail = capability.write(self.path, file.encode(text))
        return await describe_edit(self.path, file.text, text, detail, description=description)

    async def _apply(self, capability: Editor, text: str, draft: FileDraft) -> tuple[str, str]:
        if (draft.start, draft.end) == (-1, -1):
            return append_lines(text, draft.body), "the lines were appended."
        try:
            return apply_draft(text, draft), "the draft was laid on the range."
        except UndecidedEdit as undecided:
            instruction = f"The draft is meant for lines {draft.start} to {draft.end} (-1: the last)."
            order = EditRequest(self.path, text, instruction, draft.body, undecided.message)
            return await apply_with_model(capability, order), BY_MODEL


def _extract_body(text: str) -> str:
    """A body that was handed over with its tag is taken out of it."""
    return parse_drafts(text)[0].body if text.lstrip().startswith("<file_edit") else text
