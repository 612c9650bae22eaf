"""The detail of one edit of one file, for the document that shows it: the changed region and its size."""

from __future__ import annotations

from core.protocol.documents import FileEditDiff, FileOperation
from core.shadow import ShadowEdit
from core.shadow.diff.text_lines import split_lines
from core.tools.base import FileEditDetail

MAX_CONTENT = 200_000


def build_edit_detail(path: str, edit: ShadowEdit) -> FileEditDetail:
    """Build the detail of an edit from its hunks. Binary content is described, not shown."""
    before, after = edit.before or b"", edit.after or b""
    operation: FileOperation = "create" if edit.before is None else "delete" if edit.after is None else "edit"
    if b"\0" in before[:8192] or b"\0" in after[:8192]:
        return FileEditDetail(path=path, operation=operation, content=f"[binary, {len(after):,} bytes]")
    diff = _build_diff(edit, before, after) if operation == "edit" and edit.hunks else None
    return FileEditDetail(
        path=path,
        operation=operation,
        content=(diff.new_string if diff else _decode(after))[:MAX_CONTENT],
        diff=diff,
        hunks=edit.hunks,
        added=sum(each.new_lines for each in edit.hunks),
        removed=sum(each.old_lines for each in edit.hunks),
    )


def _build_diff(edit: ShadowEdit, before: bytes, after: bytes) -> FileEditDiff:
    """Build the one region from the first hunk to the last."""
    first, last = edit.hunks[0], edit.hunks[-1]
    gone = split_lines(before)[first.old_start - 1 : last.old_start - 1 + last.old_lines]
    come = split_lines(after)[first.new_start - 1 : last.new_start - 1 + last.new_lines]
    return FileEditDiff(
        old_string=_decode(b"".join(gone)),
        new_string=_decode(b"".join(come)),
        start_line=first.old_start,
        end_line=max(first.old_start + len(gone) - 1, first.old_start),
    )


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
