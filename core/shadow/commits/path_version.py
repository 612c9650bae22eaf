"""Versions of a path, and what a commit may hold of it: the last commit's version with the accepted edits in it.

The user's own edits of the file stay out. Where they changed what they had accepted, the file on the disk counts: what
is committed never undoes what the user sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError
from core.shadow.diff.alignment import Region, find_pieces
from core.shadow.diff.hunks import is_divisible
from core.shadow.diff.text_lines import split_lines
from core.shadow.diff.three_way_merge import merge_three_way


class EditClash(AgentTuiError, code="edit_clash"):
    """An accepted edit can't be told from the user's own; the message says of which kind."""


class PathVersion(Struct, frozen=True, kw_only=True):
    """A path as git keeps it: the bytes of a file, or the target of a link."""

    kind: Literal["absent", "file", "symlink"] = "absent"
    data: bytes = b""
    is_executable: bool = False


class AcceptedEdit(Struct, frozen=True, kw_only=True):
    """One accepted step of a path. `hunks` by id; `todo` and `turn` by id, "" = none; `command`: whose effect it is."""

    id: str
    path: str
    before: PathVersion
    after: PathVersion
    hunks: tuple[str, ...] = ()
    todo: str = ""
    turn: str = ""
    command: str = ""


def apply_edits(head: PathVersion, edits: Sequence[AcceptedEdit], disk: PathVersion | None) -> PathVersion:
    """Return the version of the next commit: `head` with the edits, as far as the disk still has them. `disk` None:
    more edits of the path are accepted, so that it has to be as it was between them.

    Raises `EditClash` where the edits stand on lines that the commit would not have.
    """
    version = head
    for edit in edits:
        version = _apply_edit(version, edit.before, edit.after)
    return version if disk is None else _follow_disk(head, version, disk)


def _apply_edit(now: PathVersion, before: PathVersion, after: PathVersion) -> PathVersion:
    if now in (before, after):
        return after
    if reason := _find_difference(now, before, after):
        raise EditClash(reason)
    merged_content = merge_three_way(before.data, now.data, after.data)
    if merged_content is None:
        raise EditClash(
            "accepted hunks stand on lines that are not committed: your own, or those of hunks beside these"
        )
    is_executable = after.is_executable if before.is_executable != after.is_executable else now.is_executable
    return replace(now, data=merged_content, is_executable=is_executable)


def _find_difference(now: PathVersion, before: PathVersion, after: PathVersion) -> str:
    """Return why no edit from `before` to `after` can be made in the last commit's version; "" = it may be tried."""
    kinds = {before.kind, after.kind}
    if now.kind == "absent":
        return "you have not committed it yet, and its hunks stand on text of your own"
    if now.kind == "file" and (kinds == {"file"} or (before.kind == "absent" and now.data == after.data)):
        return ""
    if now.kind in kinds:
        return "the last commit has another version of it than the one that was changed"
    return "it is another kind of file in the last commit than it was when its hunks were accepted"


def _follow_disk(head: PathVersion, accepted_version: PathVersion, disk: PathVersion) -> PathVersion:
    """Return the accepted version with what the user did since to the accepted lines themselves."""
    if disk in (accepted_version, head):
        return disk
    if accepted_version.kind != disk.kind or disk.kind != "file" or not is_divisible(accepted_version.data, disk.data):
        raise EditClash("it was changed as a whole since its hunks were accepted")
    begin = head.data if head.kind == "file" and is_divisible(head.data, accepted_version.data) else b""
    old, lines, new = split_lines(begin), split_lines(accepted_version.data), split_lines(disk.data)
    touched_spans = [(start, end) for _, _, start, end in find_pieces(old, lines)]
    edits = [region for region in find_pieces(lines, new) if any(_touches(region, span) for span in touched_spans)]
    return replace(accepted_version, data=b"".join(_take_regions(lines, new, edits)))


def _touches(edit: Region, span: tuple[int, int]) -> bool:
    """True if an edit changes lines of a span, or stands inside of it; next to it lies what is the user's own."""
    start, end, (first, last) = edit[0], edit[1], span
    if first == last:
        return start <= first <= end if start == end else start < first < end
    return first < start < last if start == end else start < last and first < end


def _take_regions(old: Sequence[bytes], new: Sequence[bytes], regions: Sequence[Region]) -> Iterator[bytes]:
    position = 0
    for a0, a1, b0, b1 in regions:
        yield from old[position:a0]
        yield from new[b0:b1]
        position = a1
    yield from old[position:]
