"""What one edit did to one file, for the document that shows it: the changed region and its size."""

from __future__ import annotations

from core.edits.transplant import shared_head
from core.protocol.documents import Diff, FileOperation
from core.shadow.hunks import hunks
from core.tools.base import FileEditDetail

MAX_CONTENT = 200_000


def detail_of(path: str, before: bytes | None, after: bytes | None) -> FileEditDetail:
    """`before` and `after` as the agent sees the file, None: absent. Binary content is described, not shown."""
    operation: FileOperation = "create" if before is None else "delete" if after is None else "edit"
    if b"\0" in (before or b"")[:8192] or b"\0" in (after or b"")[:8192]:
        content = f"[binary, {len(after or b''):,} bytes]"
        return FileEditDetail(path=path, operation=operation, content=content)
    old, new = _lines(before), _lines(after)
    if operation != "edit":
        content = "".join(new)[:MAX_CONTENT]
        return FileEditDetail(path=path, operation=operation, content=content, added=len(new), removed=len(old))
    head = shared_head(old, new)
    tail = shared_head(old[head:][::-1], new[head:][::-1])
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    diff = Diff(
        old_string="".join(gone),
        new_string="".join(come),
        start_line=head + 1,
        end_line=max(head + len(gone), head + 1),
    )
    made = hunks("".join(gone).encode(), "".join(come).encode())  # between the first and the last much may have stayed
    return FileEditDetail(
        path=path,
        operation=operation,
        content="".join(come)[:MAX_CONTENT],
        diff=diff,
        added=sum(each.new_lines for each in made),
        removed=sum(each.old_lines for each in made),
    )


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
