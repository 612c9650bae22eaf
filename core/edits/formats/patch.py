"""Apply a patch to a text: all of its hunks or none.

Every hunk is placed by its lines (`patch_placement`); lines that it does not change keep the file's bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from core.edits.errors import EditError
from core.edits.formats.patch_parser import parse_patch
from core.edits.formats.patch_placement import place_hunks
from core.edits.formats.patch_records import FilePatch, PatchHunk
from core.edits.formats.target_file import select_for_file
from core.edits.matching.search_text import SearchText
from core.text.lines import apply_splices, trim_ending


class PatchResult(NamedTuple):
    """The result of a patch. `text` None: the file is deleted. `rungs`: the rung on which every hunk matched, in order.

    `slips`: the kinds of mistakes that were repaired in new lines, and of instructions that were ignored.
    """

    text: str | None
    rungs: tuple[str, ...] = ()
    slips: tuple[str, ...] = ()


def apply_patch(text: str | None, content: str, path: str = "") -> str:
    """Return the file at `path` (`text` None: it does not exist) after the patch, "" if deleted. Raises `EditError`."""
    files = parse_patch(content)
    file_patches = select_for_file(files, path)
    if not file_patches:
        path_list = ", ".join(file_patch.path for file_patch in files)
        raise EditError(f"The patch does not name {path}, but: {path_list}.", hint="Nothing was changed.")
    for file_patch in file_patches:
        text = apply_file_patch(text, file_patch).text
    return text or ""


def apply_file_patch(text: str | None, patch: FilePatch) -> PatchResult:
    """Apply one file's changes to its text (None: it does not exist). Raises `EditError`."""
    match patch.action:
        case "delete":
            return PatchResult(None)
        case "add":
            if text:
                raise EditError(f"{patch.path} is to be added, but it exists.", hint="Update it. Nothing was changed.")
            return PatchResult(_build_new_text(patch.hunks))
        case "update":
            if text is None:
                raise EditError(f"{patch.path} is to be updated, but there is no such file.", hint="Add it instead.")
            result = apply_hunks(text, patch.hunks)
            return result._replace(slips=tuple(dict.fromkeys((*patch.slips, *result.slips))))


def _build_new_text(hunks: Sequence[PatchHunk]) -> str:
    text = _join_closed([row for hunk in hunks for sign, row in hunk.rows if sign == "+"])
    return text.removesuffix("\n") if hunks and hunks[-1].is_new_open else text


def apply_hunks(text: str, hunks: Sequence[PatchHunk]) -> PatchResult:
    """Apply all hunks or none. Raises `EditError` that names the hunk."""
    placements = place_hunks(SearchText(text), hunks)
    new_text = apply_splices(text, [placement.splice for placement in placements])
    slips = dict.fromkeys(slip for placement in placements for slip in placement.slips)
    return PatchResult(
        _fit_final_newline(text, new_text, hunks), tuple(placement.rung for placement in placements), tuple(slips)
    )


def _fit_final_newline(text: str, new_text: str, hunks: Sequence[PatchHunk]) -> str:
    """Change the final newline only when a hunk says so."""
    last = next((hunk for hunk in hunks if hunk.is_old_open != hunk.is_new_open), None)
    if last is None:
        return new_text
    if last.is_new_open:
        return trim_ending(new_text)
    return new_text if new_text.endswith("\n") or text.endswith("\n") else f"{new_text}\n"


def _join_closed(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
