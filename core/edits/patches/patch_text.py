"""The text around patches: nothing in it is passed over unless it is plainly prose, a fence or the frame of a command.

A row that looks like part of a patch and belongs to none is refused, so what a parser left over is always named. Prose
is told by its first row: one that begins at the margin and with no sign of a patch; lists and indented rows only follow
such a row. In a script (a heredoc) there is no prose: what else stands there would be a command that nobody runs.
"""

from __future__ import annotations

import re
from typing import Final

from core.edits.indentation import extract_indent
from core.edits.patches.patch_records import build_patch_error
from core.text.lines import normalise_endings
from core.text.markup import Fence, track_fence

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
FILE_HEADER: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+?)\s*$")
GIT_HEADER: Final = re.compile(r"diff --git (?:\"?a/)(.+?)\"? (?:\"?b/)(.+?)\"?$")
_HEREDOC = re.compile(
    r"(?:\$ )?(?:bash -l?c ['\"])?(?:(?:apply_?patch|git apply|patch)(?: -\S+)*\s*)?<<-?\s*(['\"]?)(\w+)\1\s*$"
)
_COMMAND = re.compile(r"[^ +-].*\b(?:apply_?patch|git apply|patch)\b.*<<")
_LIST_ITEM = re.compile(r"[-+] \S")
_RULE = re.compile(r"-{3,}\s*$")
_SIGNATURE = re.compile(r"-- ?$")
_VERSION = re.compile(r"\d+\.\d+[\w.() -]*$")


class PatchText:
    """The rows of a text that holds patches. Places count from 0; `len(rows)` is the end."""

    def __init__(self, content: str) -> None:
        self.rows = normalise_endings(content).removeprefix("\ufeff").split("\n")
        self.fence: Fence | None = None
        self.heredoc = ""
        self._is_script = any(_HEREDOC.match(row) or _COMMAND.match(row) for row in self.rows)
        self._failed = (-1, -1, True)

    def is_start(self, index: int) -> bool:
        """True if a patch, or a further file of one, begins at a place."""
        row = self.rows[index]
        return row.rstrip() == BEGIN or FILE_HEADER.match(row) is not None or self.is_diff_start(index)

    def is_diff_start(self, index: int) -> bool:
        """True if the headers of a unified diff begin at a place."""
        row = self.rows[index]
        if GIT_HEADER.match(row):
            return True
        return row.startswith("--- ") and index + 1 < len(self.rows) and self.rows[index + 1].startswith("+++ ")

    def is_frame(self, index: int) -> bool:
        """True if the row at a place is of the frame that files of the V4A format stand in, so no row of a hunk."""
        row = self.rows[index]
        return row.rstrip() in (BEGIN, END) or FILE_HEADER.match(row) is not None

    def has_end(self, index: int) -> bool:
        """True if an `*** End Patch` follows before another patch begins."""
        for row in self.rows[index:]:
            if row.rstrip() in (BEGIN, END):
                return row.rstrip() == END
        return False

    def is_closed_by(self, index: int) -> bool:
        """True if the row at a place closes the fence or the heredoc that the patch stands in."""
        row = self.rows[index]
        return (self.fence is not None and self.fence.is_closed_by(row)) or row.strip() == (self.heredoc or None)

    def is_signature(self, index: int) -> bool:
        """True if a mail's signature begins at a place: the version of git below two dashes."""
        rows = self.rows[index : index + 2]
        return len(rows) == 2 and _SIGNATURE.match(rows[0]) is not None and _VERSION.match(rows[1]) is not None

    def is_prose_from(self, index: int, *, has_lists: bool) -> bool:
        """True if the rows from a place up to the next patch, or to the end, are none of a patch. `has_lists`: rows
        that look like items of a list may be some."""
        start, failure, had_lists = self._failed
        if start <= index < failure and had_lists >= has_lists:
            return False
        fence, after_prose = self.fence, False
        for position in range(index, len(self.rows)):
            if position > index and self.is_start(position):
                return True
            row = self.rows[position]
            if self.is_signature(position) or (position > index and self.is_signature(position - 1)):
                continue
            is_item = row[:1] in ("-", "+") and not _RULE.match(row)
            if (is_item and not has_lists) or not self._is_outside(
                row, after_prose=after_prose, is_first=position == index
            ):
                self._failed = (index, position, has_lists)
                return False
            after_prose = after_prose or bool(row.strip())
            fence = track_fence(fence, row)
        return fence is None

    def _is_outside(self, row: str, *, after_prose: bool, is_first: bool) -> bool:
        if not row.strip() or (after_prose and _RULE.match(row)):
            return True
        if self._is_script and row.strip() not in (self.heredoc, ")", "'", '"') and not row.startswith("```"):
            return _HEREDOC.match(row) is not None
        if row[0] in " \t" or _LIST_ITEM.match(row):
            return after_prose and not is_first
        return row[0] not in "-+" and not row.startswith(("@@", "*** ", "\\ "))

    def skip_prose(self, index: int) -> int:
        """Return the place of the next patch, or of a row of one, from a place on. Raises `EditError` for a row that is
        no prose and belongs to no patch."""
        first, after_prose = index, index == 0
        while index < len(self.rows):
            self._dedent_patch(index)
            row = self.rows[index]
            if self.is_start(index) or row.rstrip() == END or row.startswith("@@"):
                return index
            if self.is_signature(index):
                index += 2
                continue
            if not self._is_outside(row, after_prose=after_prose, is_first=index == first and index > 0):
                raise build_patch_error(f"{row[:60]!r} belongs to no file of the patch", index + 1)
            self._track_frame(row)
            after_prose = after_prose or bool(row.strip())
            index += 1
        return index

    def _track_frame(self, row: str) -> None:
        match = _HEREDOC.match(row)
        if match:
            self.heredoc = match[2]
        elif row.strip() == self.heredoc:
            self.heredoc = ""
        self.fence = track_fence(self.fence, row)

    def _dedent_patch(self, index: int) -> None:
        """Take off the indentation of a patch that stands as a whole in a list or an indented block."""
        row = self.rows[index]
        indent = extract_indent(row)
        bare = row[len(indent) :]
        below = self.rows[index + 1] if index + 1 < len(self.rows) else ""
        is_diff = GIT_HEADER.match(bare) or (bare.startswith("--- ") and below.startswith(f"{indent}+++ "))
        if not indent or not (is_diff or bare.rstrip() == BEGIN or FILE_HEADER.match(bare)):
            return
        stop = index
        while stop < len(self.rows) and (not self.rows[stop].strip() or self.rows[stop].startswith(indent)):
            stop += 1
        if bare.rstrip() == BEGIN and f"{indent}{END}" not in map(str.rstrip, self.rows[index:stop]):
            stop = index + 1
        self.rows[index:stop] = [line.removeprefix(indent) for line in self.rows[index:stop]]
