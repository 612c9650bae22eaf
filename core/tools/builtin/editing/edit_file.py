"""The tools for edits without an exact old text: `edit_file` with marked omissions, `file_edit` with a range of lines.

An edit whose position is ambiguous is applied by a model.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from core.edits.drafts.markers import has_code, is_marker
from core.edits.errors import UndecidedEdit
from core.edits.formats.draft import FileDraft, append_lines, apply_draft, parse_drafts
from core.edits.formats.lazy import apply_lazy
from core.errors import ToolInputInvalid
from core.tools.base import Editor, EditRequest, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_edit, propose_file
from core.tools.builtin.editing.edit_targets import FilePath, SingleFileEdit, build_missing_error, read_editable

_REMARKS = ("instructions", "instruction", "explanation", "display_description")
ONLY_WORDS = "The draft has no code: its instructions alone say what to change."
BY_RULES = "the code_edit was merged in."
BY_MODEL = "the code_edit was ambiguous, so a model placed it. Check the result."


class EditFile(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "edit_file"
    path_argument: ClassVar[str] = "target_file"
    argument_names: ClassVar = {
        **dict.fromkeys(("file_path", "path"), "target_file"),
        **dict.fromkeys(_REMARKS, "instructions"),
        **dict.fromkeys(("update", "content", "code", "changes"), "code_edit"),
    }
    ignored_arguments: ClassVar = frozenset(("blocking",))

    target_file: FilePath
    code_edit: Annotated[
        str, Meta(description="The new code with a line of the file before and after each change; the rest marked.")
    ]
    instructions: Annotated[str, Meta(description="What the edit does, in one sentence.")] = ""

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Join remarks about the edit: all of them help a model to place it."""
        remarks = [arguments[name] for name in _REMARKS if isinstance(arguments.get(name), str)]
        if len(remarks) < 2:
            return arguments
        rest = {name: value for name, value in arguments.items() if name not in _REMARKS}
        return {**rest, "instructions": "\n".join(dict.fromkeys(filter(None, remarks)))}

    async def run(self, capability: Editor) -> ToolOutcome:
        if capability.stat(self.target_file) is None:
            return await self._create(capability)
        file = read_editable(capability, self.target_file)
        description = BY_RULES
        try:
            if not has_code(self.code_edit) and self.instructions.strip():
                raise UndecidedEdit(ONLY_WORDS)
            text = apply_lazy(file.text, self.code_edit, self.target_file)
        except UndecidedEdit as undecided:
            order = EditRequest(self.target_file, file.text, self.instructions, self.code_edit, undecided.message)
            text, description = await apply_with_model(capability, order), BY_MODEL
        if text == file.text:
            raise ToolInputInvalid(
                f"The edit changes nothing: {self.target_file} already matches it.",
                hint="Read the file; if something still has to change, write the new lines in code_edit.",
            )
        detail = capability.write(self.target_file, file.encode(text))
        return await describe_edit(self.target_file, file.text, text, detail, description=description)

    async def _create(self, capability: Editor) -> ToolOutcome:
        if any(is_marker(line) for line in self.code_edit.splitlines()):
            raise build_missing_error(capability, self.target_file)
        return await propose_file(capability, self.target_file, self.code_edit)


async def apply_with_model(capability: Editor, order: EditRequest) -> str:
    """Return the text that a model makes of the request. Raises `ToolInputInvalid` if the file changed in the
    meantime."""
    text = await capability.apply_with_model(order)
    if capability.stat(order.path) is None or read_editable(capability, order.path).text != order.text:
        raise ToolInputInvalid(
            f"{order.path} changed while the edit was being placed.",
            hint="Nothing was changed by it. Read the file and edit it again.",
            code="changed_meanwhile",
        )
    return text


class FileEditTool(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "file_edit"
    path_argument: ClassVar[str] = "path"
    argument_names: ClassVar = {"file_path": "path", "target_file": "path", "content": "draft"}

    path: FilePath
    draft: Annotated[str, Meta(description="The new lines; a comment may mark unchanged ones.")]
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
                f"The draft changes nothing: {self.path} already matches it.", hint="Write the new lines in it."
            )
        detail = capability.write(self.path, file.encode(text))
        return await describe_edit(self.path, file.text, text, detail, description=description)

    async def _apply(self, capability: Editor, text: str, draft: FileDraft) -> tuple[str, str]:
        if (draft.start, draft.end) == (-1, -1):
            return append_lines(text, draft.body), "the lines were appended."
        try:
            return apply_draft(text, draft), "the draft was placed in the range."
        except UndecidedEdit as undecided:
            instruction = f"The draft is meant for lines {draft.start} to {draft.end} (-1: the last)."
            order = EditRequest(self.path, text, instruction, draft.body, undecided.message)
            return await apply_with_model(capability, order), BY_MODEL


def _extract_body(text: str) -> str:
    """Return the body without the tag that may wrap it."""
    return parse_drafts(text)[0].body if text.lstrip().startswith("<file_edit") else text
