"""The registry of edit formats.

A row names the tool that applies a format, the names under which models know the tool, and the form of the same edit in
the text of a model without function calls. A new format needs a row here, and a tool, whose text for the model is
`core/prompts/tools/<name>.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

EditFormat = Literal["search_replace", "str_replace", "multi_edit", "patch", "lazy", "blocks"]


class TextForm(Struct, frozen=True, kw_only=True):
    """An edit as a tagged block in a text: `<tag path=…>body</tag>`; its parts are named like the tool's arguments.

    `path` "" = the body names its files; `example`: the opening tag, for a model that omitted the path. `texts` and
    `numbers` are further attributes. `trim`: edges of the body whose line breaks do not belong to it. `is_guarded`: the
    closing tag counts between SEARCH/REPLACE blocks only. `frame`: lines that enclose it without a tag.
    """

    tag: str
    body: str
    path: str = ""
    example: str = ""
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    trim: Literal["", "start", "both"] = ""
    is_guarded: bool = False
    frame: tuple[str, str] | None = None


class EditTool(Struct, frozen=True, kw_only=True):
    """A tool that edits files. `location`: module and class. `offers`: its name for models, by format; `aliases`:
    further accepted names."""

    name: str
    location: str
    offers: Mapping[EditFormat, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    form: TextForm | None = None


SEARCH_REPLACE: Final = EditTool(
    name="search_replace",
    location="core.tools.builtin.editing.search_replace:SearchReplaceTool",
    offers={"search_replace": "search_replace", "str_replace": "str_replace"},
    aliases=("StrReplace", "str_replace", "Edit", "replace", "replace_string_in_file", "single_find_and_replace"),
)
BLOCKS: Final = EditTool(
    name="edit_blocks",
    location="core.tools.builtin.editing.search_replace:EditBlocks",
    offers={"blocks": "editTool"},
    aliases=("editTool", "replace_in_file", "apply_diff"),
    form=TextForm(
        tag="file-edit", path="file_path", body="diff", example='<file-edit filePath="the/file">', is_guarded=True
    ),
)
MULTI_EDIT: Final = EditTool(
    name="multi_edit",
    location="core.tools.builtin.editing.search_replace:MultiEdit",
    offers={"multi_edit": "multi_edit"},
    aliases=("MultiEdit", "multi_str_replace", "replace_file_content"),
)
PATCH_FRAME: Final = ("*** Begin Patch", "*** End Patch")
PATCH: Final = EditTool(
    name="apply_patch",
    location="core.tools.builtin.editing.apply_patch:ApplyPatch",
    offers={"patch": "apply_patch"},
    aliases=("ApplyPatch", "patch"),
    form=TextForm(tag="apply_patch", body="input", trim="both", frame=PATCH_FRAME),
)
LAZY: Final = EditTool(
    name="edit_file",
    location="core.tools.builtin.editing.edit_file:EditFile",
    offers={"lazy": "edit_file"},
    aliases=("EditFile", "insert_edit_into_file", "edit_existing_file"),
    form=TextForm(
        tag="edit_file",
        path="target_file",
        body="code_edit",
        example='<edit_file target_file="the/file">',
        texts=("instructions",),
        trim="start",
    ),
)
DRAFT: Final = EditTool(
    name="file_edit",
    location="core.tools.builtin.editing.edit_file:FileEditTool",
    form=TextForm(
        tag="file_edit",
        path="path",
        body="draft",
        example='<file_edit path="the/file">',
        numbers=("start", "end"),
        trim="start",
    ),
)
EDIT_TOOLS: Final = (SEARCH_REPLACE, BLOCKS, MULTI_EDIT, PATCH, LAZY, DRAFT)
EDIT_TAGS: Final[Mapping[str, EditTool]] = {tool.form.tag: tool for tool in EDIT_TOOLS if tool.form is not None}
