"""Patches as text: the V4A format (`*** Begin Patch`) and unified diffs, as many as there are, read into one form.

A text is taken as a whole or refused: each row is part of a file's changes, or plainly prose, a fence or the frame of
a command around the patches; else the row is named (`patch_text`). What is in it twice counts once.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.edits.errors import EditError
from core.edits.patches.patch_records import PATCH_HINT, FilePatch, build_patch_error, drop_repeats
from core.edits.patches.patch_text import BEGIN, END, FILE_HEADER, PatchText
from core.edits.patches.unified_diff import UnifiedReader
from core.edits.patches.v4a_patch import V4AReader


def parse_patch(content: str) -> tuple[FilePatch, ...]:
    """Parse every file of every patch in a text, in order. Raises `EditError` that names the line."""
    files = drop_repeats(list(_read_files(PatchText(content))))
    if not files:
        raise EditError("There is no patch in the text.", hint=PATCH_HINT)
    return tuple(files)


def _read_files(text: PatchText) -> Iterator[FilePatch]:
    index, is_framed, is_first = 0, False, True
    while (index := _find_next(text, index, is_framed=is_framed)) < len(text.rows):
        row = text.rows[index]
        if row.rstrip() in (BEGIN, END):
            is_framed, index = row.rstrip() == BEGIN, index + 1
            continue
        if row.startswith("@@") and not is_first:
            raise build_patch_error(f"{row[:60]!r} belongs to no file of the patch", index + 1)
        reader = V4AReader(text, index) if FILE_HEADER.match(row) else UnifiedReader(text, index)
        yield reader.read()
        index, is_first = reader.place, False


def _find_next(text: PatchText, index: int, *, is_framed: bool) -> int:
    """Return the place of the next row that begins or ends a patch; between the two lines of a frame there is no
    prose. Raises `EditError`."""
    while is_framed and index < len(text.rows) and not text.rows[index].strip():
        index += 1
    if not is_framed or index == len(text.rows):
        return text.skip_prose(index)
    if text.is_start(index) or text.rows[index].rstrip() == END:
        return index
    if text.has_end(index) or not text.is_prose_from(index, has_lists=True):
        problem = f"{text.rows[index][:60]!r} is not *** Add, Update or Delete File"
        raise build_patch_error(problem, index + 1)
    return text.skip_prose(index)
