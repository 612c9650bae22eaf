"""Patches as text: the V4A format (`*** Begin Patch`) and unified diffs, read into one form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from core.edits.errors import EditError

Action = Literal["add", "update", "delete"]

_HINT = (
    "A patch is either *** Begin Patch, *** Update File: path, @@, lines that begin with a space, - or +, "
    "*** End Patch; or a unified diff with ---, +++ and @@ lines. Nothing was changed."
)
_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+?)\s*$")
_MOVE = re.compile(r"\*\*\* Move to: (.+?)\s*$")
_HUNK = re.compile(r"@@+ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@+ ?(.*)$")
_GIT = re.compile(r"diff --git (?:\"?a/)(.+?)\"? (?:\"?b/)(.+?)\"?$")


class PatchHunk(Struct, frozen=True, kw_only=True):
    """`rows` are (sign, line without its ending), sign one of " ", "-", "+". `line` is where it is said to begin
    (1-indexed), `anchors` lines that stand before it, `is_at_end` if it reaches the end of the file. `is_old_open`
    and `is_new_open`: the last old or new line has no newline at its end."""

    rows: tuple[tuple[str, str], ...]
    line: int | None = None
    anchors: tuple[str, ...] = ()
    is_at_end: bool = False
    is_old_open: bool = False
    is_new_open: bool = False


class FilePatch(Struct, frozen=True, kw_only=True):
    """Changes of the file at `path`; `moved_to` is its new name, or ""."""

    path: str
    action: Action
    hunks: tuple[PatchHunk, ...] = ()
    moved_to: str = ""


def parse_patch(content: str) -> tuple[FilePatch, ...]:
    """Parse every file of a patch, in order. Raises `EditError` that names the line."""
    rows = content.replace("\r\n", "\n").split("\n")
    is_v4a = any(row.strip() == "*** Begin Patch" or _FILE.match(row) for row in rows)
    found = tuple(_parse_v4a(rows) if is_v4a else _parse_unified(rows))
    if not found:
        raise EditError("There is no patch in the text.", hint=_HINT)
    return found


def _build_patch_error(what: str, number: int) -> EditError:
    return EditError(f"The patch is broken in line {number}: {what}.", hint=_HINT)


def _parse_v4a(rows: Sequence[str]) -> Iterator[FilePatch]:
    begin = next((i for i, row in enumerate(rows) if row.strip() == "*** Begin Patch"), -1)
    end = next((i for i, row in enumerate(rows) if i > begin and row.strip() == "*** End Patch"), None)
    if begin >= 0 and end is None:
        raise _build_patch_error("*** End Patch is missing", len(rows))
    stop = len(rows) if end is None else end
    while stop and not rows[stop - 1].strip():
        stop -= 1
    place = begin + 1
    while place < stop:
        if not rows[place].strip():
            place += 1
            continue
        found = _FILE.match(rows[place].strip())
        if not found:
            raise _build_patch_error(f"{rows[place][:60]!r} is not *** Add, Update or Delete File", place + 1)
        after = next((i for i in range(place + 1, stop) if _FILE.match(rows[i])), stop)
        yield _parse_v4a_file(found[1], found[2], rows[place + 1 : after], place + 2)
        place = after


def _parse_v4a_file(action: str, path: str, body: Sequence[str], number: int) -> FilePatch:
    if action == "Delete":
        if any(row.strip() for row in body):
            raise _build_patch_error("*** Delete File has no body", number)
        return FilePatch(path=path, action="delete")
    if action == "Add":
        wrong = next((i for i, row in enumerate(body) if row and row[0] != "+"), None)
        if wrong is not None:
            raise _build_patch_error("every line of an added file begins with +", number + wrong)
        rows = tuple(("+", row[1:]) for row in body if row)
        return FilePatch(path=path, action="add", hunks=(PatchHunk(rows=rows),))
    moved = _MOVE.match(body[0]) if body else None
    hunks = tuple(_parse_v4a_hunks(body[1:] if moved else body, number + bool(moved)))
    if not hunks and not moved:
        raise _build_patch_error(f"*** Update File: {path} has no changes", number)
    return FilePatch(path=path, action="update", hunks=hunks, moved_to=moved[1] if moved else "")


def _parse_v4a_hunks(body: Sequence[str], number: int) -> Iterator[PatchHunk]:
    rows: list[tuple[str, str]] = []
    anchors: list[str] = []
    at_end, line = False, None
    for index, row in enumerate(body):
        if row.startswith("@@"):
            if rows:
                yield PatchHunk(rows=tuple(rows), anchors=tuple(anchors), is_at_end=at_end, line=line)
                rows, anchors, at_end, line = [], [], False, None
            line, anchor = _parse_header(row)
            anchors += [anchor] if anchor else []
        elif row.strip() == "*** End of File":
            at_end = True
        else:
            rows.append(_split_sign(row, number + index))
    if rows:
        yield PatchHunk(rows=tuple(_trim_rows(rows)), anchors=tuple(anchors), is_at_end=at_end, line=line)
    elif anchors:
        raise _build_patch_error("@@ without a change after it", number + len(body))


def _parse_header(row: str) -> tuple[int | None, str]:
    ranged = _HUNK.match(row)
    if ranged:
        return int(ranged[1]), ""
    anchor = row.strip("@ \t") if row.rstrip().endswith(" @@") else row[2:].strip()
    return None, "" if anchor in ("...", "…", "@@") or re.match(r"-\d", anchor) else anchor


def _split_sign(row: str, number: int) -> tuple[str, str]:
    if not row:
        return " ", ""
    if row[0] in " -+":
        return row[0], row[1:]
    raise _build_patch_error(f"{row[:60]!r} begins with neither a space, - nor +", number)


def _trim_rows(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drop the empty rows that merely end the text of the patch."""
    while len(rows) > 1 and rows[-1] == (" ", ""):
        rows = rows[:-1]
    return rows


def _parse_unified(rows: Sequence[str]) -> Iterator[FilePatch]:
    reader = _UnifiedReader()
    fenced = [i for i, row in enumerate(rows) if row.startswith("```")]
    for index, row in enumerate(rows):
        if index in fenced:
            yield from reader.finish()
            continue
        following = rows[index + 1] if index + 1 < len(rows) else ""
        yield from reader.feed(row, following, index + 1)
    yield from reader.finish()


class _UnifiedReader:
    """Collects the headers and hunks of one file after the other; counts in hunk headers are not relied upon."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.old = self.new = ""
        self.action: Action = "update"
        self.hunks: list[PatchHunk] = []
        self.rows: list[tuple[str, str]] | None = None
        self.line: int | None = None
        self.anchors: tuple[str, ...] = ()
        self.open = [False, False]
        self.is_seen = False

    def feed(self, row: str, following: str, number: int) -> Iterator[FilePatch]:
        """Read one row; `following` is the next one, `number` counts from 1. Yields what ended before it."""
        git = _GIT.match(row)
        if git:
            yield from self.finish()
            self.old, self.new, self.is_seen = git[1], git[2], True
        elif row.startswith("--- ") and following.startswith("+++ "):
            if self.hunks or self.rows:
                yield from self.finish()
            self.old = _parse_name(row)
            self.action = "add" if self.old == "/dev/null" else self.action
        elif row.startswith("+++ ") and not self.rows and self.old:
            self.new, self.is_seen = _parse_name(row), True
            self.action = "delete" if self.new == "/dev/null" else self.action
        elif row.startswith("@@"):
            self._close_hunk()
            self.line, anchor = _parse_header(row)
            self.anchors, self.rows, self.is_seen = ((anchor,) if anchor else ()), [], True
        elif self.rows is None:
            self._read_git_header(row)
        elif row.startswith("\\"):
            sign = self.rows[-1][0] if self.rows else " "
            self.open = [self.open[0] or sign in " -", self.open[1] or sign in " +"]
        elif row[:1] in ("", " ", "-", "+"):
            self.rows.append((row[:1] or " ", row[1:]))
        elif row.strip():
            raise _build_patch_error(f"{row[:60]!r} begins with neither a space, - nor +", number)

    def _read_git_header(self, row: str) -> None:
        if row.startswith("new file mode"):
            self.action = "add"
        elif row.startswith("deleted file mode"):
            self.action = "delete"
        elif row.startswith("rename from "):
            self.old = row[12:]
        elif row.startswith("rename to "):
            self.new = row[10:]

    def _close_hunk(self) -> None:
        if self.rows:
            rows, (old, new) = tuple(_trim_rows(self.rows)), self.open
            hunk = PatchHunk(rows=rows, line=self.line, anchors=self.anchors, is_old_open=old, is_new_open=new)
            self.hunks.append(hunk)
        self.rows, self.line, self.anchors, self.open = None, None, (), [False, False]

    def finish(self) -> Iterator[FilePatch]:
        self._close_hunk()
        if self.is_seen:
            old, new = _strip_prefix(self.old), _strip_prefix(self.new)
            path = new if self.action == "add" else old or new
            moved = new if self.action == "update" and new and old and new != old else ""
            yield FilePatch(path=path, action=self.action, hunks=tuple(self.hunks), moved_to=moved)
        self._clear()


def _parse_name(row: str) -> str:
    return row[4:].partition("\t")[0].strip().strip('"')


def _strip_prefix(name: str) -> str:
    return name[2:] if name.startswith(("a/", "b/")) else name
