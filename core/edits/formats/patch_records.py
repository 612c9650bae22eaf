"""The contents of a patch: its files, their hunks, and the rows of a hunk.

A row has a sign, one of " ", "-" and "+". A row without a sign is a line of context that lost its leading space, and is
used unchanged; only the file can tell whether a row that begins with a space lost one, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from core.edits.errors import EditError
from core.patterns import compile_lazily

Action = Literal["add", "update", "delete"]
Row = tuple[str, str]

PATCH_HINT: Final = (
    "A patch is either *** Begin Patch, *** Update File: path, @@, lines that begin with a space, - or +, "
    "*** End Patch; or a unified diff with ---, +++ and @@ lines. Nothing was changed."
)
_RANGE = compile_lazily(r"@@+ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@+ ?(.*)$")


class PatchHunk(Struct, frozen=True, kw_only=True):
    """One hunk. `rows` are (sign, line without its ending).

    `line` (1-indexed) and `old_count` come from the header, `anchors` are lines that precede the hunk, `is_at_end`: it
    reaches the end of the file. The last `spare` rows are empty and may only be the end of the text. `is_old_open` and
    `is_new_open`: the last old or new line has no newline.
    """

    rows: tuple[Row, ...]
    line: int | None = None
    old_count: int | None = None
    anchors: tuple[str, ...] = ()
    is_at_end: bool = False
    is_old_open: bool = False
    is_new_open: bool = False
    spare: int = 0

    @property
    def is_insertion(self) -> bool:
        """True if no line is removed."""
        return not any(sign == "-" for sign, _ in self.rows)


class FilePatch(Struct, frozen=True, kw_only=True):
    """Changes of the file at `path`; `moved_to` is its new name, or "". `slips`: instructions that are ignored, or that
    are repetitions ("mode", "repeated")."""

    path: str
    action: Action
    hunks: tuple[PatchHunk, ...] = ()
    moved_to: str = ""
    slips: tuple[str, ...] = ()


class HunkHeader(NamedTuple):
    """An `@@` line: the start of the hunk, its numbers of old and new lines, and the line that it names."""

    line: int | None = None
    counts: tuple[int, int] | None = None
    anchor: str = ""


def build_patch_error(problem: str, number: int) -> EditError:
    """Build the `EditError` for a patch that is broken in line `number` (1-indexed)."""
    return EditError(f"The patch is broken in line {number}: {problem}.", hint=PATCH_HINT)


def parse_hunk_header(row: str) -> HunkHeader:
    """Parse an `@@` line, with or without numbers."""
    match = _RANGE.match(row)
    if match:
        old, new = (int(match[group] or 1) for group in (2, 4))
        return HunkHeader(int(match[1]), (old, new))
    anchor = row.strip("@ \t") if row.rstrip().endswith(" @@") else row[2:].strip()
    return HunkHeader(anchor="" if anchor in ("...", "…", "@@") or re.match(r"-\d", anchor) else anchor)


def split_sign(row: str) -> Row:
    """Split a row into its sign and its line."""
    return (row[0], row[1:]) if row[:1] in (" ", "-", "+") else (" ", row)


def count_spare(rows: Sequence[str]) -> int:
    """Count the empty rows at the end."""
    count = 0
    while count < len(rows) - 1 and not rows[-1 - count]:
        count += 1
    return count


def drop_repeats(files: Sequence[FilePatch]) -> list[FilePatch]:
    """Return the files of a patch without repetitions: of all changes of a file, or of a hunk that only adds lines,
    which would be inserted twice."""
    file_patches: list[FilePatch] = []
    known_indexes: dict[object, int] = {}
    for file in files:
        changes = tuple(map(_identify, file.hunks))
        index = known_indexes.setdefault((file.path, file.action, file.moved_to, changes), len(file_patches))
        if index < len(file_patches):
            file_patches[index] = replace(file_patches[index], slips=(*file_patches[index].slips, "repeated"))
            continue
        firsts = [
            known_indexes.setdefault((file.path, change), len(file_patches)) == len(file_patches) for change in changes
        ]
        hunks = [
            hunk
            for number, hunk in enumerate(file.hunks)
            if not hunk.is_insertion or (firsts[number] and changes.index(changes[number]) == number)
        ]
        slips = (*file.slips, "repeated") if len(hunks) < len(file.hunks) else file.slips
        file_patches.append(replace(file, hunks=tuple(hunks), slips=slips))
    return file_patches


def _identify(hunk: PatchHunk) -> object:
    rows = hunk.rows[: len(hunk.rows) - hunk.spare]
    return rows, hunk.line, hunk.anchors, hunk.is_at_end
