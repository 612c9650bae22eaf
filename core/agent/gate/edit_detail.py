"""The detail of one edit of one file, for the document that shows it: the changed region and its size."""

from __future__ import annotations

from core.edits.matching.block_merge import count_shared_head
from core.protocol.documents import FileEditDiff, FileOperation
from core.shadow.diff.hunks import compute_hunks
from core.tools.base import FileEditDetail

MAX_CONTENT = 200_000


def build_edit_detail(path: str, before: bytes | None, after: bytes | None) -> FileEditDetail:
    """Build the detail of an edit. `before`, `after`: bytes as the agent sees the file, None = absent.

    Binary content is described, not shown.
    """
    operation: FileOperation = "create" if before is None else "delete" if after is None else "edit"
    if b"\0" in (before or b"")[:8192] or b"\0" in (after or b"")[:8192]:
        content = f"[binary, {len(after or b''):,} bytes]"
        return FileEditDetail(path=path, operation=operation, content=content)
    old, new = _split_lines(before), _split_lines(after)
    if operation != "edit":
        content = "".join(new)[:MAX_CONTENT]
        return FileEditDetail(path=path, operation=operation, content=content, added=len(new), removed=len(old))
    head = count_shared_head(old, new)
    tail = count_shared_head(old[head:][::-1], new[head:][::-1])
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    diff = FileEditDiff(
        old_string="".join(gone),
        new_string="".join(come),
        start_line=head + 1,
        end_line=max(head + len(gone), head + 1),
    )
    made = compute_hunks(
        "".join(gone).encode(), "".join(come).encode()
    )  # between the first and the last much may have stayed
    return FileEditDetail(
        path=path,
        operation=operation,
        content="".join(come)[:MAX_CONTENT],
        diff=diff,
        added=sum(each.new_lines for each in made),
        removed=sum(each.old_lines for each in made),
    )


def _split_lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
