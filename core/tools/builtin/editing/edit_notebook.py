"""edit_notebook: edit, insert or delete one cell of a Jupyter notebook; every other byte stays the same."""

from __future__ import annotations

from asyncio import to_thread
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from core.edits.errors import EditError
from core.edits.formats.str_replace import replace_string
from core.errors import ToolInputInvalid
from core.notebooks.editing import create_notebook, delete_cell, insert_cell, replace_source
from core.notebooks.notebook import Cell, Notebook, describe_cell, is_notebook_path, parse_notebook
from core.notebooks.rendering import find_comment_sign, render_cell
from core.patterns import compile_lazily
from core.syntax.flaws import describe_flaw, find_new_flaws
from core.text.counting import count
from core.text.similarity import find_nearest_names
from core.tools.base import Editor, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_match, describe_slips
from core.tools.builtin.editing.edit_targets import (
    REPLACEMENT_NAMES,
    FilePath,
    SingleFileEdit,
    require_file,
    require_present,
)

_MAX_BYTES = 64_000_000
_MAX_ROWS = 40
_MAGIC = compile_lazily(r"^(\s*)(?:[%!?].*|.*\?)$")
_TEXT_KINDS = {"markdown": "markdown", "md": "markdown", "raw": "raw"}


class _Edited(Struct, frozen=True):
    """The file's new bytes, the edited cell ("" source = it is deleted), and a description of the edit."""

    data: bytes
    index: int
    before: str
    description: str


class EditNotebook(SingleFileEdit, frozen=True, kw_only=True):
    name: ClassVar[str] = "edit_notebook"
    path_argument: ClassVar[str] = "target_notebook"
    argument_names: ClassVar = {
        **{name: own for name, own in REPLACEMENT_NAMES.items() if own != "file_path"},
        **dict.fromkeys(("notebook_path", "file_path", "path", "target_file"), "target_notebook"),
        **dict.fromkeys(("cell_index", "cell_number"), "cell_idx"),
        **dict.fromkeys(("cell_type", "language"), "cell_language"),
        "newCode": "new_source",
        "editType": "edit_mode",
    }
    ignored_arguments: ClassVar = frozenset(("explanation",))

    target_notebook: FilePath
    cell_idx: Annotated[int | UnsetType, Meta(description="The cell, from 0; -1 is the last, or the end.")] = UNSET
    cell_id: Annotated[str, Meta(description="The cell by id instead; a new cell is put after it.")] = ""
    is_new_cell: Annotated[bool, Meta(description="Insert a new cell at cell_idx.")] = False
    cell_language: Annotated[str, Meta(description="python, markdown, raw …")] = ""
    old_string: Annotated[str, Meta(description="The text of the cell to replace.")] = ""
    new_string: Annotated[str, Meta(description="The replacement, or the text of the new cell.")] = ""
    edit_mode: Annotated[
        Literal["", "replace", "insert", "delete"], Meta(description="replace: the whole cell; delete: the cell.")
    ] = ""
    new_source: str | UnsetType = UNSET  # Claude's name for the new text of a cell, which is replaced by default.

    @classmethod
    def adapt_arguments(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        is_edit = arguments.get("editType") == "edit"
        return arguments | {"editType": "replace"} if is_edit else arguments

    async def run(self, capability: Editor) -> ToolOutcome:
        if not is_notebook_path(self.target_notebook):
            raise ToolInputInvalid(
                f"{self.target_notebook} is not an .ipynb file.", hint="Use the tools for text files."
            )
        if self.new_source is not UNSET:
            return await self._replace_source(self.new_source).run(capability)
        is_new = self.is_new_cell or self.edit_mode == "insert"
        data = self._read(capability, is_new=is_new)
        notebook = await to_thread(parse_notebook, self.target_notebook, data)
        if is_new:
            edit = self._insert(notebook)
        elif self.edit_mode == "delete":
            edit = self._delete(capability, notebook)
        else:
            edit = self._edit(capability, notebook)
        after = await to_thread(parse_notebook, self.target_notebook, edit.data)
        detail = capability.write(self.target_notebook, edit.data)
        rows = [f"Edited {self.target_notebook}: {edit.description}"]
        if self.edit_mode != "delete":
            rows += await to_thread(_describe_result, after, after.cells[edit.index], edit.before)
        return ToolOutcome(content="\n".join(rows), summary=edit.description.partition(".")[0], detail=detail)

    def _replace_source(self, source: str) -> EditNotebook:
        """Return this call with Claude's argument replaced."""
        if self.new_string or self.old_string:
            raise ToolInputInvalid(
                "new_source is the full text of a cell, and can't be combined with new_string or old_string.",
                hint="Give only new_source, or old_string and new_string.",
            )
        mode = self.edit_mode or ("insert" if self.is_new_cell else "replace")
        return replace(self, new_source=UNSET, new_string=source, edit_mode=mode)

    def _read(self, capability: Editor, *, is_new: bool) -> bytes:
        if is_new and capability.stat(self.target_notebook) is None:
            language = self.cell_language if self.cell_language.lower() not in {*_TEXT_KINDS, "", "code"} else "python"
            return create_notebook(language)
        stat = require_present(capability, self.target_notebook)
        require_file(stat, self.target_notebook)
        data = capability.read_bytes(self.target_notebook, _MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ToolInputInvalid(
                f"{self.target_notebook} is too large to edit ({stat.size:,} bytes).",
                hint="Clear its outputs first: jupyter nbconvert --clear-output --inplace FILE",
            )
        return data

    def _insert(self, notebook: Notebook) -> _Edited:
        index = self._find_new_place(notebook)
        kind, language = self._find_kind(), self.cell_language.lower()
        is_other = kind == "code" and language not in {"", "code", notebook.language}
        metadata = {"vscode": {"languageId": language}} if is_other else {}
        data = insert_cell(notebook, index, kind, self.new_string, metadata)
        return _Edited(data, index, "", f"cell {index} is new ({kind}).")

    def _find_new_place(self, notebook: Notebook) -> int:
        if self.cell_id:
            return self._find_cell(notebook).index + 1
        cells = len(notebook.cells)
        index = 0 if self.cell_idx is UNSET else self.cell_idx
        if index < 0:
            index += cells + 1
        if not 0 <= index <= cells:
            raise ToolInputInvalid(
                f"{self.target_notebook} has {_count_cells(notebook)}, so a cell can't be put at {self.cell_idx}.",
                hint=f"Give a cell_idx from 0 to {cells}; {cells} is the end.",
            )
        return index

    def _delete(self, capability: Editor, notebook: Notebook) -> _Edited:
        cell = self._find_cell(notebook)
        self._require_read(capability)
        return _Edited(delete_cell(notebook, cell), 0, cell.source, f"{describe_cell(cell)} was deleted.")

    def _edit(self, capability: Editor, notebook: Notebook) -> _Edited:
        cell = self._find_cell(notebook)
        if self.cell_language and self._find_kind() != cell.kind:
            raise ToolInputInvalid(
                f"Cell {cell.index} is a {cell.kind} cell.",
                hint="Check whether you mean another one; to change its type, delete it and add a new one.",
            )
        if self.old_string:
            source, description = self._replace(notebook, cell)
        elif self.edit_mode == "replace" or not cell.source:
            self._require_read(capability)
            source, description = self.new_string, "the whole cell was replaced."
        else:
            raise ToolInputInvalid(
                f"Cell {cell.index} has text, and old_string is empty.",
                hint="Give the text to replace, or edit_mode “replace” for the whole cell. Nothing was changed.",
            )
        if source == cell.source:
            raise ToolInputInvalid(f"Cell {cell.index} already matches.", hint="Go on.")
        outputs_note = " Its outputs were cleared: they belonged to the old text." if cell.outputs else ""
        data = replace_source(notebook, cell, source)
        return _Edited(data, cell.index, cell.source, f"{_format_name(cell)}: {description}{outputs_note}")

    def _replace(self, notebook: Notebook, cell: Cell) -> tuple[str, str]:
        try:
            replacement = replace_string(cell.source, self.old_string, self.new_string)
        except EditError as error:
            others = [
                other_cell.index
                for other_cell in notebook.cells
                if other_cell is not cell and self.old_string in other_cell.source
            ]
            hint = f"It is in cell {', '.join(map(str, others[:5]))}. " if others else ""
            raise EditError(f"Cell {cell.index}: {error.message}", hint=f"{hint}{error.hint}") from error
        return (
            replacement.text,
            f"1 place replaced.{describe_match([replacement.rung])}{describe_slips(replacement.slips)}",
        )

    def _find_cell(self, notebook: Notebook) -> Cell:
        cells = notebook.cells
        if self.cell_id:
            return self._find_cell_by_id(notebook)
        if self.cell_idx is UNSET:
            raise ToolInputInvalid("No cell is given.", hint="Give cell_idx or cell_id.")
        index = self.cell_idx + len(cells) if self.cell_idx < 0 else self.cell_idx
        if not 0 <= index < len(cells):
            raise ToolInputInvalid(
                f"There is no cell {self.cell_idx}: {self.target_notebook} has {_count_cells(notebook)}.",
                hint="Cells are counted from 0. Read the notebook again.",
            )
        return cells[index]

    def _find_cell_by_id(self, notebook: Notebook) -> Cell:
        same = [cell for cell in notebook.cells if cell.id == self.cell_id]
        if len(same) > 1:
            numbers = ", ".join(str(cell.index) for cell in same)
            raise ToolInputInvalid(
                f"The cells {numbers} of {self.target_notebook} have the id {self.cell_id!r}.",
                hint="Give the one you mean by cell_idx.",
            )
        if same:
            return same[0]
        number = self.cell_id.removeprefix("cell-")
        if number.isdecimal() and int(number) < len(notebook.cells):
            return notebook.cells[int(number)]
        cells_by_id = {cell.id: cell for cell in reversed(notebook.cells) if cell.id}
        suggestions = [
            f"{name} (cell {cells_by_id[name].index})" for name in find_nearest_names(self.cell_id, cells_by_id)
        ]
        hint = f"Did you mean {' or '.join(suggestions)}?" if suggestions else "Give it by cell_idx."
        raise ToolInputInvalid(f"{self.target_notebook} has no cell with the id {self.cell_id!r}.", hint=hint)

    def _find_kind(self) -> str:
        return _TEXT_KINDS.get(self.cell_language.lower(), "code")

    def _require_read(self, capability: Editor) -> None:
        """Raise unless the model has seen the current file, since cells are named by number."""
        if not self.cell_id and not capability.has_read_current(self.target_notebook):
            raise ToolInputInvalid(
                f"{self.target_notebook} has changed since you read it.", hint="Read it, then call again."
            )


def _format_name(cell: Cell) -> str:
    return f"cell {cell.index} ({cell.kind}{f', id {cell.id}' if cell.id else ''})"


def _count_cells(notebook: Notebook) -> str:
    return count("cell", len(notebook.cells))


def _describe_result(notebook: Notebook, cell: Cell, before: str) -> list[str]:
    """Return the cell as it is now, and its new syntax errors."""
    rows = render_cell(cell, find_comment_sign(notebook.language))
    if len(rows) > _MAX_ROWS:
        rows = [*rows[: _MAX_ROWS // 2], f"[... {len(rows) - _MAX_ROWS} lines ...]", *rows[-_MAX_ROWS // 2 :]]
    if cell.kind == "code" and notebook.language == "python":
        flaws = find_new_flaws("cell.py", _blank_magics(before), _blank_magics(cell.source))
        rows += [f"  {describe_flaw(flaw)}" for flaw in flaws[:3]]
    return rows


def _blank_magics(source: str) -> str:
    """Return Python without syntax that only IPython understands: `%magic`, `!command`, `name?`."""
    if source.lstrip().startswith("%%"):
        return ""
    return "\n".join(_MAGIC.sub(r"\1pass", line) for line in source.split("\n"))
