"""apply_patch: a patch over one or more files, `*** Begin Patch` or a unified diff; all of it or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from core.edits.errors import EditError, format_part
from core.edits.formats.patch import apply_file_patch
from core.edits.formats.patch_parser import parse_patch
from core.edits.formats.patch_records import FilePatch
from core.edits.text_file import TextFile
from core.errors import AgentTuiError, ToolInputInvalid
from core.modes import Access
from core.text.counting import count
from core.tools.base import Editor, FileEditDetail, FileEditDetails, Tool, ToolOutcome
from core.tools.builtin.editing.edit_outcome import describe_creation, describe_edit, describe_match, describe_slips
from core.tools.builtin.editing.edit_targets import (
    EDIT_REMARKS,
    build_missing_error,
    open_new_file,
    read_editable,
    refuse_notebook,
)

# A server that follows it sends no patch that can't be parsed. Which lines exist is still only known here.
GRAMMAR = r"""start: begin file+ end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
file: add | delete | update
add: "*** Add File: " path LF added*
delete: "*** Delete File: " path LF
update: "*** Update File: " path LF move? hunk*
move: "*** Move to: " path LF
hunk: head row+ last? | row+ last?
head: /@@.*/ LF
row: /[-+ ].*/ LF
last: "*** End of File" LF
added: /\+.*/ LF
path: /.+/
%import common.LF
"""


class _FileState(Struct, frozen=True, kw_only=True):
    """A file before and after a patch: `text` None = it is deleted; `rungs`: how its hunks were matched; `slips`: what
    was corrected or skipped. `moved_from`: its old path; `fresh`: the form of a new file."""

    before: TextFile | None
    text: str | None
    fresh: TextFile = TextFile(text="")
    rungs: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()
    moved_from: str = ""

    @property
    def data(self) -> bytes | None:
        if self.text is None:
            return None
        return (self.before or self.fresh).encode(self.text)


class ApplyPatch(Tool[Editor], frozen=True, kw_only=True):
    name: ClassVar[str] = "apply_patch"
    access: ClassVar[Access] = Access.PROPOSE
    freeform: ClassVar[str] = "input"
    grammar: ClassVar[str] = GRAMMAR
    argument_names: ClassVar = dict.fromkeys(("patch", "diff", "patch_text"), "input")
    ignored_arguments: ClassVar = EDIT_REMARKS

    input: Annotated[str, Meta(min_length=1, description="The whole patch, from *** Begin Patch to *** End Patch.")]

    def subject(self) -> str:
        return ", ".join(self.paths()) or "a patch"

    def paths(self) -> tuple[str, ...]:
        with suppress(EditError):
            path_pairs = ((file_patch.path, file_patch.moved_to) for file_patch in parse_patch(self.input))
            return tuple(dict.fromkeys(path for pair in path_pairs for path in pair if path))
        return ()

    async def run(self, capability: Editor) -> ToolOutcome:
        sides: dict[str, _FileState] = {}
        files = parse_patch(self.input)
        for number, file in enumerate(files, start=1):
            try:
                sides |= _apply_file(capability, file, sides)
            except EditError as error:
                part = format_part("File", number, len(files))
                raise error.name_part(f"{part}, {file.path}" if part else file.path) from error
        return await self._describe_result(_write_all(capability, sides), sides)

    async def _describe_result(
        self, details: Mapping[str, FileEditDetail], sides: Mapping[str, _FileState]
    ) -> ToolOutcome:
        outcomes = [await _describe_file(path, detail, sides[path]) for path, detail in details.items()]
        if len(outcomes) == 1:
            return outcomes[0]
        added_lines, removed_lines = (
            sum(getattr(file_edit_detail, name) for file_edit_detail in details.values())
            for name in ("added", "removed")
        )
        summary = f"{count('file', len(outcomes))}, +{added_lines} -{removed_lines}"
        content = "\n".join(outcome.content for outcome in outcomes)
        return ToolOutcome(content=content, summary=summary, detail=FileEditDetails(tuple(details.values())))


def _apply_file(reader: Editor, patch: FilePatch, sides: Mapping[str, _FileState]) -> dict[str, _FileState]:
    """Return the files after one file of a patch, on top of the earlier ones. Raises `EditError`."""
    if not patch.path:
        raise EditError("The patch does not name its file.", hint="Begin it with *** Update File: path.")
    path = reader.relative(patch.path)
    side = sides[path] if path in sides else _read_state(reader, path)
    if side.text is None and patch.action != "add":
        raise build_missing_error(reader, path)
    if patch.action == "update" and not patch.hunks and not patch.moved_to:
        raise EditError("The patch names the file and changes no line of it.", hint="Nothing was changed.")
    result = apply_file_patch(side.text, patch)
    rungs, slips = (*side.rungs, *result.rungs), (*side.slips, *result.slips)
    if not patch.moved_to:
        return {path: _FileState(before=side.before, text=result.text, fresh=side.fresh, rungs=rungs, slips=slips)}
    target = reader.relative(patch.moved_to)
    if (sides[target] if target in sides else _read_state(reader, target)).text is not None:
        raise EditError(f"{patch.moved_to} exists, so nothing can be moved there.", hint="Nothing was changed.")
    return {
        path: _FileState(before=side.before, text=None),
        target: _FileState(
            before=side.before, text=result.text, rungs=rungs, slips=slips, moved_from=side.moved_from or path
        ),
    }


def _read_state(reader: Editor, path: str) -> _FileState:
    if reader.stat(path) is None:
        refuse_notebook(path)
        return _FileState(before=None, text=None, fresh=open_new_file(reader, path))
    file = read_editable(reader, path)
    return _FileState(before=file, text=file.text)


def _write_all(editor: Editor, sides: Mapping[str, _FileState]) -> dict[str, FileEditDetail]:
    """Write every file; if one is refused, those already written are restored."""
    before = {path: editor.read_bytes(path, 1 << 26) if editor.stat(path) else None for path in sides}
    if all(side.data == before[path] for path, side in sides.items()):
        raise ToolInputInvalid("The patch changes nothing: the files already match it.", hint="Go on.")
    moves = {
        path: side.moved_from
        for path, side in sides.items()
        if side.data is not None and before.get(path) is None and _is_left(side.moved_from, sides, before)
    }
    details: dict[str, FileEditDetail] = {}
    try:
        for path, side in sides.items():
            if path in moves and side.data is not None:
                details[path] = editor.move(moves[path], path, side.data)
            elif side.data != before[path] and path not in moves.values():
                details[path] = _write_one(editor, path, side.data)
    except AgentTuiError:
        for path in {touched_path for pair in details for touched_path in (pair, moves.get(pair, ""))} - {""}:
            with suppress(AgentTuiError):
                _write_one(editor, path, before[path])
        raise
    return details


def _is_left(path: str, sides: Mapping[str, _FileState], before: Mapping[str, bytes | None]) -> bool:
    """Return True if a patch deletes a file that existed."""
    return path in sides and sides[path].data is None and before[path] is not None


def _write_one(editor: Editor, path: str, data: bytes | None) -> FileEditDetail:
    return editor.delete(path) if data is None else editor.write(path, data)


async def _describe_file(path: str, detail: FileEditDetail, side: _FileState) -> ToolOutcome:
    match detail.operation:
        case "delete":
            return ToolOutcome(content=f"Deleted {path}.", summary=f"-{detail.removed} deleted", detail=detail)
        case "rename" if not detail.hunks:
            return ToolOutcome(content=f"Renamed {detail.renamed_from} to {path}.", summary="renamed", detail=detail)
        case "create":
            return await describe_creation(path, detail, side.text or "")
        case _:
            before = side.before.text if side.before else ""
            rename_note = f"renamed from {detail.renamed_from}, and " if detail.renamed_from else ""
            description = f"{rename_note}the patch was applied.{describe_match(side.rungs)}{describe_slips(side.slips)}"
            return await describe_edit(path, before, side.text or "", detail, description=description)
