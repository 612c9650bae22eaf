"""edit_file: new code in which `... existing code ...` stands for what stays; spliced by rules where they decide.

What they can't decide goes, with the instructions, to the model of the `apply` route.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from core.edits.drafts.markers import is_marker
from core.edits.errors import UndecidedEdit
from core.edits.formats.lazy import apply_lazy
from core.errors import ToolInputInvalid
from core.tools.base import Editor, EditRequest, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_edit, propose_file
from core.tools.builtin.editing.edit_targets import FilePath, SingleFileEdit, build_missing_error, read_editable

BY_RULES = "the code_edit was spliced in."
BY_MODEL = "the code_edit did not tell by itself where it belongs, so it was worked out by a model. Check the result."


class EditFile(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "edit_file"
    path_argument: ClassVar[str] = "target_file"
    argument_names: ClassVar = {
        **dict.fromkeys(("file_path", "path", "filePath"), "target_file"),
        **dict.fromkeys(("instruction", "explanation"), "instructions"),
        **dict.fromkeys(("update", "content"), "code_edit"),
    }
    ignored_arguments: ClassVar = frozenset(("blocking",))

    target_file: FilePath
    code_edit: Annotated[
        str, Meta(description="The new code with a line of the file before and after each change; the rest marked.")
    ]
    instructions: Annotated[str, Meta(description="One sentence: what the edit does.")] = ""

    async def run(self, capability: Editor) -> ToolOutcome:
        if capability.stat(self.target_file) is None:
            return await self._create(capability)
        file = read_editable(capability, self.target_file)
        description = BY_RULES
        try:
            text = apply_lazy(file.text, self.code_edit, self.target_file)
        except UndecidedEdit as undecided:
            order = EditRequest(self.target_file, file.text, self.instructions, self.code_edit, undecided.message)
            text, description = await apply_with_model(capability, order), BY_MODEL
        if text == file.text:
            raise ToolInputInvalid(
                f"The edit changes nothing: {self.target_file} is already as it says.",
                hint="Read the file; if something is still to be changed, write the new lines into code_edit.",
            )
        detail = capability.write(self.target_file, file.encode(text))
        return await describe_edit(self.target_file, file.text, text, detail, description=description)

    async def _create(self, capability: Editor) -> ToolOutcome:
        if any(is_marker(line) for line in self.code_edit.splitlines()):
            raise build_missing_error(capability, self.target_file)
        return await propose_file(capability, self.target_file, self.code_edit)


async def apply_with_model(capability: Editor, order: EditRequest) -> str:
    """Return what a model makes of the order. Refused when the file changed while the model thought about it."""
    text = await capability.apply_with_model(order)
    if capability.stat(order.path) is None or read_editable(capability, order.path).text != order.text:
        raise ToolInputInvalid(
            f"{order.path} changed while the edit was worked out.",
            hint="Nothing was changed by it. Read the file and edit it again.",
            code="changed_meanwhile",
        )
    return text
