"""One file of a patch in the V4A format, from its `*** Update File:` line to the next line that frames a patch.

Only a line at the margin frames: ` *** End Patch` is context. A row without a sign is context, too, as long as the
patch has an end; where the end is missing, prose ends it.
"""

from __future__ import annotations

import re
from typing import Final

from core.edits.patches.patch_records import (
    FilePatch,
    PatchHunk,
    Row,
    build_patch_error,
    count_spare,
    parse_hunk_header,
    split_sign,
)
from core.edits.patches.patch_text import FILE_HEADER, PatchText

_MOVE = re.compile(r"\*\*\* Move to: (.+?)\s*$")
_END_OF_FILE: Final = "*** End of File"
_OTHER_FRAME = re.compile(r"\*\*\* [A-Z]\w+")


class V4AReader:
    """Reads the file whose header stands at `index`; afterwards `index` is that of the first row that is not read."""

    def __init__(self, text: PatchText, index: int) -> None:
        self.text = text
        self.place = index + 1
        header = FILE_HEADER.match(text.rows[index])
        assert header is not None
        self.action, self.path = header[1], header[2]
        self._has_end = text.has_end(index)

    def read(self) -> FilePatch:
        """Read the file's changes. Raises `EditError` that names the line."""
        match self.action:
            case "Delete":
                return FilePatch(path=self.path, action="delete")
            case "Add":
                return FilePatch(path=self.path, action="add", hunks=(self._read_new_file(),))
            case _:
                return self._read_update()

    def _is_over(self, *, is_found: bool = True) -> bool:
        """True if the rows of this file end here. `is_found`: the hunk can do without this row."""
        rows = self.text.rows
        if self.place >= len(rows) or self.text.is_frame(self.place):
            return True
        row = rows[self.place]
        if self._has_end or row[:1] in (" ", "+") or row.startswith("@@"):
            return False
        if self.text.is_diff_start(self.place):
            return True
        closes = self.text.is_closed_by(self.place)
        return (is_found or closes) and row[:1] != "-" and self.text.is_prose_from(self.place, has_lists=closes)

    def _read_new_file(self) -> PatchHunk:
        rows: list[str] = []
        start = self.place
        while not self._is_over():
            row = self.text.rows[self.place]
            if row and row[0] != "+":
                raise build_patch_error("every line of an added file begins with +", self.place + 1)
            rows.append(row)
            self.place += 1
        while rows and not rows[-1]:
            rows.pop()
        if rows and not rows[0]:
            raise build_patch_error("every line of an added file begins with +", start + 1)
        return PatchHunk(rows=tuple(("+", row[1:]) for row in rows))

    def _read_update(self) -> FilePatch:
        start = self.place
        match = _MOVE.match(self.text.rows[self.place]) if self.place < len(self.text.rows) else None
        self.place += 1 if match else 0
        self._skip_diff_names()
        hunks: list[PatchHunk] = []
        while not self._is_over():
            if self.text.rows[self.place]:
                hunks.append(self._read_hunk())
            else:
                self.place += 1
        if not hunks and not match:
            raise build_patch_error(f"*** Update File: {self.path} has no changes", start + 1)
        return FilePatch(path=self.path, action="update", hunks=tuple(hunks), moved_to=match[1] if match else "")

    def _skip_diff_names(self) -> None:
        """Pass over the `---` and `+++` lines of a diff that name the same file once more."""
        if self.place + 1 >= len(self.text.rows) or not self.text.is_diff_start(self.place):
            return
        names = [row[4:].partition("\t")[0].strip() for row in self.text.rows[self.place : self.place + 2]]
        if all(re.sub(r"^(?:[ab]|\.)/", "", name) == self.path.removeprefix("./") for name in names):
            self.place += 2

    def _read_hunk(self) -> PatchHunk:
        start, line, old_count, anchors = self.place, None, None, []
        while self.place < len(self.text.rows) and self.text.rows[self.place].startswith("@@"):
            header = parse_hunk_header(self.text.rows[self.place])
            line, old_count = header.line, header.counts[0] if header.counts else None
            anchors += [header.anchor] if header.anchor else []
            self.place += 1
        raw, rows, at_end = self._read_rows()
        if all(sign == " " for sign, _ in rows):
            raise build_patch_error("the hunk has no line that begins with - or +, so it changes nothing", start + 1)
        return PatchHunk(
            rows=tuple(rows),
            line=line,
            old_count=old_count,
            anchors=tuple(anchors),
            is_at_end=at_end,
            spare=count_spare(raw),
        )

    def _read_rows(self) -> tuple[list[str], list[Row], bool]:
        """Read up to the end of a hunk: the rows as they stand, split, and True if they reach the end of the file."""
        raw: list[str] = []
        rows: list[Row] = []
        while not self._is_over(is_found=any(sign != "+" and line.strip() for sign, line in rows)):
            row = self.text.rows[self.place]
            if row.startswith("@@"):
                break
            self.place += 1
            if row.rstrip() == _END_OF_FILE:
                return raw, rows, True
            if _OTHER_FRAME.match(row):
                raise build_patch_error(f"{row[:60]!r} can't stand here", self.place)
            raw.append(row)
            rows.append(split_sign(row))
        return raw, rows, False
