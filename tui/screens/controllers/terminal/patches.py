"""Pending changes as a unified diff, as git applies it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from core.protocol.review import ChangeDiff, DiffLine

_SIGNS = {"context": " ", "removed": "-", "added": "+"}
_MODES = {"create": "new file mode", "delete": "deleted file mode"}
_QUOTED = frozenset('"\\')  # what git would quote in a path
NO_NEWLINE = "\\ No newline at end of file"


def format_patch(diff: ChangeDiff, hunk: int | None = None) -> str:
    """Format a change, or one of its hunks by its index, as a unified diff; "" = it has no lines that could be shown,
    or not all of them."""
    path = diff.change.path
    if diff.truncated or not path.isprintable() or set(path) & _QUOTED:
        return ""
    parts = [list(lines) for is_gap, lines in groupby(diff.lines, lambda line: line.kind == "gap") if not is_gap]
    if hunk is not None:
        parts = [[line for line in part if line.hunk in {hunk, -1}] for part in parts if _holds(part, hunk)]
    hunks = [text for part in parts if any(line.kind != "context" for line in part) for text in _format_hunk(part)]
    return "\n".join([*_format_head(diff), *hunks, ""]) if hunks else ""


def copy_hunk(diff: ChangeDiff, hunk: int) -> str:
    """Return the lines that a hunk puts into the file, or those that it takes out if it puts none."""
    own = [line for line in diff.lines if line.hunk == hunk]
    kind = "added" if any(line.kind == "added" for line in own) else "removed"
    return "\n".join(line.text for line in own if line.kind == kind)


def _holds(lines: Sequence[DiffLine], hunk: int) -> bool:
    return any(line.hunk == hunk for line in lines)


def _format_head(diff: ChangeDiff) -> list[str]:
    change = diff.change
    old, new = f"a/{change.path}", f"b/{change.path}"
    state = change.base if change.operation == "delete" else change.pending
    mode = [f"{_MODES[change.operation]} 100{state.mode & 0o755:03o}"] if change.operation in _MODES else []
    before = "/dev/null" if change.operation == "create" else old
    after = "/dev/null" if change.operation == "delete" else new
    return [f"diff --git {old} {new}", *mode, f"--- {before}", f"+++ {after}"]


def _format_hunk(lines: Sequence[DiffLine]) -> Iterator[str]:
    olds, news = [line.old for line in lines if line.old], [line.new for line in lines if line.new]
    yield f"@@ -{_format_range(olds, news)} +{_format_range(news, olds)} @@"
    for line in lines:
        yield _SIGNS[line.kind] + line.text + ("\r" if line.eol == "crlf" else "")
        if line.eol == "none":
            yield NO_NEWLINE


def _format_range(numbers: Sequence[int], others: Sequence[int]) -> str:
    """Format where lines stand; of none, the line after which the others do."""
    return f"{numbers[0]},{len(numbers)}" if numbers else f"{max(others[0] - 1, 0)},0"
