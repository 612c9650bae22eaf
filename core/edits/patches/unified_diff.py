"""One file of a unified diff, from its headers to the next row that is none of it.

The counts of a hunk's header are not relied upon; they only tell whether a row without a sign is the first one after
the hunk, or context that lost its leading space.
"""

from __future__ import annotations

import re
from typing import Final

from core.edits.patches.patch_records import (
    Action,
    FilePatch,
    HunkHeader,
    PatchHunk,
    Row,
    build_patch_error,
    count_spare,
    parse_hunk_header,
    split_sign,
)
from core.edits.patches.patch_text import GIT_HEADER, PatchText

_TIME = re.compile(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d.*$")
_PASSED: Final = ("index ", "old mode ", "similarity index ", "dissimilarity index ")
_NOT_DONE: Final = ("GIT binary patch", "Binary files ", "copy from ", "copy to ")


class UnifiedReader:
    """Reads the file whose headers begin at `index`; afterwards `index` is that of the first row that is not read."""

    def __init__(self, text: PatchText, index: int) -> None:
        self.text = text
        self.place = index
        self.old = self.new = ""
        self.action: Action = "update"
        self.slips: list[str] = []
        self.hunks: list[PatchHunk] = []

    def read(self) -> FilePatch:
        """Read the file's changes. Raises `EditError` that names the line."""
        git = GIT_HEADER.match(self.text.rows[self.place])
        if git:
            self.old, self.new = git[1], git[2]
            self.place += 1
            while self._read_git_header():
                self.place += 1
        if self._is_at_names() and self._is_same_file():
            self._read_names()
        while self.place < len(self.text.rows) and self._is_at_hunk():
            self.hunks.append(self._read_hunk())
        old, new = _strip_prefix(self.old), _strip_prefix(self.new)
        path = new if self.action == "add" else old or new
        destination = new if self.action == "update" and new and old and new != old else ""
        return FilePatch(
            path=path, action=self.action, hunks=tuple(self.hunks), moved_to=destination, slips=tuple(self.slips)
        )

    def _is_at_names(self) -> bool:
        rows, index = self.text.rows, self.place
        return index + 1 < len(rows) and rows[index].startswith("--- ") and rows[index + 1].startswith("+++ ")

    def _is_same_file(self) -> bool:
        """True if the two names at hand are those of the `diff --git` line, if there was one."""
        names = (_strip_prefix(_parse_name(row)) for row in self.text.rows[self.place : self.place + 2])
        git_names = (_strip_prefix(name) for name in (self.old, self.new))
        return not self.old or all(one in ("/dev/null", other) for one, other in zip(names, git_names, strict=True))

    def _is_at_hunk(self) -> bool:
        row = self.text.rows[self.place]
        if row.startswith("@@"):
            return True
        return not self.hunks and row[:1] in (" ", "-", "+") and not self._is_over(HunkHeader(), [])

    def _read_git_header(self) -> bool:
        """Read a row between `diff --git` and the hunks; False if it is none."""
        row = self.text.rows[self.place] if self.place < len(self.text.rows) else ""
        if row.startswith(_NOT_DONE):
            raise build_patch_error(f"{row[:60]!r} can't be done by a patch", self.place + 1)
        if row.startswith(("new file mode", "deleted file mode")):
            self.action = "add" if row.startswith("new") else "delete"
        elif row.startswith("new mode "):
            self.slips.append("mode")
        elif row.startswith("rename from "):
            self.old = row[12:]
        elif row.startswith("rename to "):
            self.new = row[10:]
        else:
            return row.startswith(_PASSED)
        return True

    def _read_names(self) -> None:
        self.old, self.new = (_parse_name(row) for row in self.text.rows[self.place : self.place + 2])
        self.action = "add" if self.old == "/dev/null" else "delete" if self.new == "/dev/null" else self.action
        self.place += 2

    def _read_hunk(self) -> PatchHunk:
        start, header = self.place, HunkHeader()
        if self.text.rows[self.place].startswith("@@"):
            header = parse_hunk_header(self.text.rows[self.place])
            self.place += 1
        raw: list[str] = []
        rows: list[Row] = []
        is_open = {" ": False, "-": False, "+": False}
        while not self._is_over(header, rows):
            row = self.text.rows[self.place]
            if row.startswith("\\"):
                is_open[rows[-1][0] if rows else " "] = True
            else:
                raw.append(row)
                rows.append(split_sign(row))
            self.place += 1
        if all(sign == " " for sign, _ in rows) and not any(is_open.values()):
            raise build_patch_error("the hunk has no line that begins with - or +, so it changes nothing", start + 1)
        return PatchHunk(
            rows=tuple(rows),
            line=header.line,
            old_count=header.counts[0] if header.counts else None,
            anchors=(header.anchor,) if header.anchor else (),
            is_old_open=is_open[" "] or is_open["-"],
            is_new_open=is_open[" "] or is_open["+"],
            spare=count_spare(raw),
        )

    def _is_over(self, header: HunkHeader, rows: list[Row]) -> bool:
        """True if the hunk, of which `rows` are read, ends here."""
        if self.place >= len(self.text.rows):
            return True
        row, missing = self.text.rows[self.place], _count_missing(header, rows)
        if row.startswith("@@") or self.text.is_frame(self.place) or GIT_HEADER.match(row):
            return True
        if self._is_at_names():
            after = self.text.rows[self.place + 2] if self.place + 2 < len(self.text.rows) else ""
            return after.startswith("@@") or missing == (0, 0)
        if row[:1] in ("+", "-", " ", "\\"):
            return missing == (0, 0) and self.text.is_signature(self.place)
        is_blank_context = not row and missing[0] == missing[1] > 0
        return not is_blank_context and self._may_end(rows, is_whole=missing == (0, 0))

    def _may_end(self, rows: list[Row], *, is_whole: bool) -> bool:
        """True if the hunk can do without the row at hand, which has no sign, and prose begins with it."""
        closes = self.text.is_closed_by(self.place)
        is_found = any(sign != "+" and line.strip() for sign, line in rows)
        may_end = is_whole or is_found or closes or not any(self.text.rows[self.place :])
        return may_end and self.text.is_prose_from(self.place, has_lists=is_whole or closes)


def _count_missing(header: HunkHeader, rows: list[Row]) -> tuple[int, int]:
    """Return by how many old and new lines a hunk is shorter than its header says; (-1, -1) if it says nothing."""
    if header.counts is None:
        return -1, -1
    old, new = (sum(sign != other for sign, _ in rows) for other in ("+", "-"))
    return header.counts[0] - old, header.counts[1] - new


def _parse_name(row: str) -> str:
    return _TIME.sub("", row[4:].partition("\t")[0]).strip().strip('"')


def _strip_prefix(name: str) -> str:
    return name[2:] if name.startswith(("a/", "b/")) else name
