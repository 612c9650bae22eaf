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
    place, is_framed, is_first = 0, False, True
    while (place := _find_next(text, place, is_framed=is_framed)) < len(text.rows):
        row = text.rows[place]
        if row.rstrip() in (BEGIN, END):
            is_framed, place = row.rstrip() == BEGIN, place + 1
            continue
        if row.startswith("@@") and not is_first:
            raise build_patch_error(f"{row[:60]!r} belongs to no file of the patch", place + 1)
        reader = V4AReader(text, place) if FILE_HEADER.match(row) else UnifiedReader(text, place)
        yield reader.read()
        place, is_first = reader.place, False


def _find_next(text: PatchText, place: int, *, is_framed: bool) -> int:
    """Return the place of the next row that begins or ends a patch; between the two lines of a frame there is no
    prose. Raises `EditError`."""
    while is_framed and place < len(text.rows) and not text.rows[place].strip():
        place += 1
    if not is_framed or place == len(text.rows):
        return text.skip_prose(place)
    if text.is_start(place) or text.rows[place].rstrip() == END:
        return place
    if text.has_end(place) or not text.is_prose_from(place, has_lists=True):
        what = f"{text.rows[place][:60]!r} is not *** Add, Update or Delete File"
        raise build_patch_error(what, place + 1)
    return text.skip_prose(place)
