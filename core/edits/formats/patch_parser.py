"""Patches as text: the V4A format (`*** Begin Patch`) and unified diffs, as many as there are, parsed into `FilePatch`.

A text is parsed as a whole or refused: every row is part of a file's changes, or plainly prose, a fence or the frame of
a command around the patches; otherwise the error names the row. A change that is in the text twice counts once.

Prose is recognised by its first row, which begins at the margin and not with a sign of a patch; lists and indented rows
only follow such a row. A script (a heredoc) has no prose: any other row in it would be a command that nobody runs.

The counts in a hunk's header are not relied upon; they only tell whether a row without a sign is the first one after
the hunk, or context that lost its leading space. In a V4A patch only a line at the margin frames: ` *** End Patch` is
context. A row without a sign is context, too, as long as the patch has an end; where the end is missing, prose ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from core.edits.errors import EditError
from core.edits.formats.patch_records import (
    PATCH_HINT,
    Action,
    FilePatch,
    HunkHeader,
    PatchHunk,
    Row,
    build_patch_error,
    count_spare,
    drop_repeats,
    parse_hunk_header,
    split_sign,
)
from core.edits.indentation import extract_indent
from core.patterns import compile_lazily
from core.text.lines import normalise_endings
from core.text.markup import Fence, track_fence

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
FILE_HEADER: Final = compile_lazily(r"\*\*\* (Add|Update|Delete) File: (.+?)\s*$")
GIT_HEADER: Final = compile_lazily(r"diff --git (?:\"?a/)(.+?)\"? (?:\"?b/)(.+?)\"?$")
_HEREDOC = compile_lazily(
    r"(?:\$ )?(?:bash -l?c ['\"])?(?:(?:apply_?patch|git apply|patch)(?: -\S+)*\s*)?<<-?\s*(['\"]?)(\w+)\1\s*$"
)
_COMMAND = compile_lazily(r"[^ +-].*\b(?:apply_?patch|git apply|patch)\b.*<<")
_LIST_ITEM = compile_lazily(r"[-+] \S")
_RULE = compile_lazily(r"-{3,}\s*$")
_SIGNATURE = compile_lazily(r"-- ?$")
_VERSION = compile_lazily(r"\d+\.\d+[\w.() -]*$")
_TIME = compile_lazily(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d.*$")
_PASSED: Final = ("index ", "old mode ", "similarity index ", "dissimilarity index ")
_NOT_DONE: Final = ("GIT binary patch", "Binary files ", "copy from ", "copy to ")
_MOVE = compile_lazily(r"\*\*\* Move to: (.+?)\s*$")
_END_OF_FILE: Final = "*** End of File"
_OTHER_FRAME = compile_lazily(r"\*\*\* [A-Z]\w+")


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
        index, is_first = reader.position, False


def _find_next(text: PatchText, index: int, *, is_framed: bool) -> int:
    """Return the position of the next row that begins or ends a patch; a frame contains no prose. Raises
    `EditError`."""
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


class PatchText:
    """The rows of a text that contains patches. Positions count from 0; `len(rows)` is the end."""

    def __init__(self, content: str) -> None:
        self.rows = normalise_endings(content).removeprefix("\ufeff").split("\n")
        self.fence: Fence | None = None
        self.heredoc = ""
        self._is_script = any(_HEREDOC.match(row) or _COMMAND.match(row) for row in self.rows)
        self._failed = (-1, -1, True)

    def is_start(self, index: int) -> bool:
        """True if a patch, or a further file of one, begins at a row."""
        row = self.rows[index]
        return row.rstrip() == BEGIN or FILE_HEADER.match(row) is not None or self.is_diff_start(index)

    def is_diff_start(self, index: int) -> bool:
        """True if the headers of a unified diff begin at a row."""
        row = self.rows[index]
        if GIT_HEADER.match(row):
            return True
        return row.startswith("--- ") and index + 1 < len(self.rows) and self.rows[index + 1].startswith("+++ ")

    def is_frame(self, index: int) -> bool:
        """True if a row belongs to the frame around the files of a V4A patch, so that it is no row of a hunk."""
        row = self.rows[index]
        return row.rstrip() in (BEGIN, END) or FILE_HEADER.match(row) is not None

    def has_end(self, index: int) -> bool:
        """True if an `*** End Patch` follows before another patch begins."""
        for row in self.rows[index:]:
            if row.rstrip() in (BEGIN, END):
                return row.rstrip() == END
        return False

    def is_closed_by(self, index: int) -> bool:
        """True if a row closes the fence or the heredoc around the patch."""
        row = self.rows[index]
        return (self.fence is not None and self.fence.is_closed_by(row)) or row.strip() == (self.heredoc or None)

    def is_signature(self, index: int) -> bool:
        """True if the signature of a mail begins at a row: the version of git below two dashes."""
        rows = self.rows[index : index + 2]
        return len(rows) == 2 and _SIGNATURE.match(rows[0]) is not None and _VERSION.match(rows[1]) is not None

    def is_prose_from(self, index: int, *, has_lists: bool) -> bool:
        """True if the rows from `index` up to the next patch, or to the end, belong to no patch. `has_lists`: they may
        include items of a list."""
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
        """Return the position of the next patch, or of a row of one, from `index` on. Raises `EditError` for a row that
        is no prose and belongs to no patch."""
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
        """Remove the indentation of a patch that is in a list or an indented block as a whole."""
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


class UnifiedReader:
    """Reader of the file whose headers begin at `index`; afterwards `position` is that of the first unread row."""

    def __init__(self, text: PatchText, index: int) -> None:
        self.text = text
        self.position = index
        self.old = self.new = ""
        self.action: Action = "update"
        self.slips: list[str] = []
        self.hunks: list[PatchHunk] = []

    def read(self) -> FilePatch:
        """Read the file's changes. Raises `EditError` that names the line."""
        git = GIT_HEADER.match(self.text.rows[self.position])
        if git:
            self.old, self.new = git[1], git[2]
            self.position += 1
            while self._read_git_header():
                self.position += 1
        if self._is_at_names() and self._is_same_file():
            self._read_names()
        while self.position < len(self.text.rows) and self._is_at_hunk():
            self.hunks.append(self._read_hunk())
        old, new = _strip_prefix(self.old), _strip_prefix(self.new)
        path = new if self.action == "add" else old or new
        destination = new if self.action == "update" and new and old and new != old else ""
        return FilePatch(
            path=path, action=self.action, hunks=tuple(self.hunks), moved_to=destination, slips=tuple(self.slips)
        )

    def _is_at_names(self) -> bool:
        rows, index = self.text.rows, self.position
        return index + 1 < len(rows) and rows[index].startswith("--- ") and rows[index + 1].startswith("+++ ")

    def _is_same_file(self) -> bool:
        """True if the next two names are those of the `diff --git` line, or there was no such line."""
        names = (_strip_prefix(_parse_name(row)) for row in self.text.rows[self.position : self.position + 2])
        git_names = (_strip_prefix(name) for name in (self.old, self.new))
        return not self.old or all(one in ("/dev/null", other) for one, other in zip(names, git_names, strict=True))

    def _is_at_hunk(self) -> bool:
        row = self.text.rows[self.position]
        if row.startswith("@@"):
            return True
        return not self.hunks and row[:1] in (" ", "-", "+") and not self._is_over(HunkHeader(), [])

    def _read_git_header(self) -> bool:
        """Read a row between `diff --git` and the hunks; False = it is none."""
        row = self.text.rows[self.position] if self.position < len(self.text.rows) else ""
        if row.startswith(_NOT_DONE):
            raise build_patch_error(f"{row[:60]!r} can't be done by a patch", self.position + 1)
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
        self.old, self.new = (_parse_name(row) for row in self.text.rows[self.position : self.position + 2])
        self.action = "add" if self.old == "/dev/null" else "delete" if self.new == "/dev/null" else self.action
        self.position += 2

    def _read_hunk(self) -> PatchHunk:
        start, header = self.position, HunkHeader()
        if self.text.rows[self.position].startswith("@@"):
            header = parse_hunk_header(self.text.rows[self.position])
            self.position += 1
        raw: list[str] = []
        rows: list[Row] = []
        is_open = {" ": False, "-": False, "+": False}
        while not self._is_over(header, rows):
            row = self.text.rows[self.position]
            if row.startswith("\\"):
                is_open[rows[-1][0] if rows else " "] = True
            else:
                raw.append(row)
                rows.append(split_sign(row))
            self.position += 1
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
        """True if the hunk ends here; `rows` are its rows so far."""
        if self.position >= len(self.text.rows):
            return True
        row, missing = self.text.rows[self.position], _count_missing(header, rows)
        if row.startswith("@@") or self.text.is_frame(self.position) or GIT_HEADER.match(row):
            return True
        if self._is_at_names():
            after = self.text.rows[self.position + 2] if self.position + 2 < len(self.text.rows) else ""
            return after.startswith("@@") or missing == (0, 0)
        if row[:1] in ("+", "-", " ", "\\"):
            return missing == (0, 0) and self.text.is_signature(self.position)
        is_blank_context = not row and missing[0] == missing[1] > 0
        return not is_blank_context and self._may_end(rows, is_whole=missing == (0, 0))

    def _may_end(self, rows: list[Row], *, is_whole: bool) -> bool:
        """True if the hunk may end before the current row, which has no sign and begins prose."""
        closes = self.text.is_closed_by(self.position)
        is_found = any(sign != "+" and line.strip() for sign, line in rows)
        may_end = is_whole or is_found or closes or not any(self.text.rows[self.position :])
        return may_end and self.text.is_prose_from(self.position, has_lists=is_whole or closes)


def _count_missing(header: HunkHeader, rows: list[Row]) -> tuple[int, int]:
    """Return the numbers of old and new lines that a hunk lacks by its header; (-1, -1) = the header has no counts."""
    if header.counts is None:
        return -1, -1
    old, new = (sum(sign != other for sign, _ in rows) for other in ("+", "-"))
    return header.counts[0] - old, header.counts[1] - new


def _parse_name(row: str) -> str:
    return _TIME.sub("", row[4:].partition("\t")[0]).strip().strip('"')


def _strip_prefix(name: str) -> str:
    return name[2:] if name.startswith(("a/", "b/")) else name


class V4AReader:
    """Reader of the file whose header is at `index`; afterwards `position` is that of the first unread row."""

    def __init__(self, text: PatchText, index: int) -> None:
        self.text = text
        self.position = index + 1
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
        """True if the rows of this file end here. `is_found`: the hunk can be found without this row."""
        rows = self.text.rows
        if self.position >= len(rows) or self.text.is_frame(self.position):
            return True
        row = rows[self.position]
        if self._has_end or row[:1] in (" ", "+") or row.startswith("@@"):
            return False
        if self.text.is_diff_start(self.position):
            return True
        closes = self.text.is_closed_by(self.position)
        return (is_found or closes) and row[:1] != "-" and self.text.is_prose_from(self.position, has_lists=closes)

    def _read_new_file(self) -> PatchHunk:
        rows: list[str] = []
        start = self.position
        while not self._is_over():
            row = self.text.rows[self.position]
            if row and row[0] != "+":
                raise build_patch_error("every line of an added file begins with +", self.position + 1)
            rows.append(row)
            self.position += 1
        while rows and not rows[-1]:
            rows.pop()
        if rows and not rows[0]:
            raise build_patch_error("every line of an added file begins with +", start + 1)
        return PatchHunk(rows=tuple(("+", row[1:]) for row in rows))

    def _read_update(self) -> FilePatch:
        start = self.position
        match = _MOVE.match(self.text.rows[self.position]) if self.position < len(self.text.rows) else None
        self.position += 1 if match else 0
        self._skip_diff_names()
        hunks: list[PatchHunk] = []
        while not self._is_over():
            if self.text.rows[self.position]:
                hunks.append(self._read_hunk())
            else:
                self.position += 1
        if not hunks and not match:
            raise build_patch_error(f"*** Update File: {self.path} has no changes", start + 1)
        return FilePatch(path=self.path, action="update", hunks=tuple(hunks), moved_to=match[1] if match else "")

    def _skip_diff_names(self) -> None:
        """Skip the `---` and `+++` lines of a diff that repeat the name of the file."""
        if self.position + 1 >= len(self.text.rows) or not self.text.is_diff_start(self.position):
            return
        names = [row[4:].partition("\t")[0].strip() for row in self.text.rows[self.position : self.position + 2]]
        if all(re.sub(r"^(?:[ab]|\.)/", "", name) == self.path.removeprefix("./") for name in names):
            self.position += 2

    def _read_hunk(self) -> PatchHunk:
        start, line, old_count, anchors = self.position, None, None, []
        while self.position < len(self.text.rows) and self.text.rows[self.position].startswith("@@"):
            header = parse_hunk_header(self.text.rows[self.position])
            line, old_count = header.line, header.counts[0] if header.counts else None
            anchors += [header.anchor] if header.anchor else []
            self.position += 1
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
        """Read up to the end of a hunk. Returns the raw rows, the split rows, and True if they reach the end of the
        file."""
        raw: list[str] = []
        rows: list[Row] = []
        while not self._is_over(is_found=any(sign != "+" and line.strip() for sign, line in rows)):
            row = self.text.rows[self.position]
            if row.startswith("@@"):
                break
            self.position += 1
            if row.rstrip() == _END_OF_FILE:
                return raw, rows, True
            if _OTHER_FRAME.match(row):
                raise build_patch_error(f"{row[:60]!r} is not allowed here", self.position)
            raw.append(row)
            rows.append(split_sign(row))
        return raw, rows, False
