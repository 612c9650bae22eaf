"""A change as lines to look at: context, removed, added and gaps, decoded, clipped and marked within lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.review import Change, ChangeDiff, DiffLine, Hunk
from core.secrets import masked
from core.shadow.lines import Encoding, encoding_of, has_bom, split_lines, text_of
from core.shadow.marks import marks

MAX_LINES = 200_000
ONLY_MOVED = "renamed, content unchanged"
MAX_WIDTH = 2_000  # characters of one line
MARKED_PAIRS = 1_500  # removed/added pairs of one diff that are compared word by word


class _Side(Struct, frozen=True):
    lines: list[bytes]
    encoding: Encoding
    usual_ending: str

    def text(self, number: int) -> tuple[str, str]:
        """Line `number` (from 1): what to show of it, and its ending where that is worth showing."""
        text, ending = text_of(self.lines[number - 1], self.encoding)
        if len(text) > MAX_WIDTH:
            text = f"{text[:MAX_WIDTH]}… [{len(text) - MAX_WIDTH:,} more characters]"
        return text, "" if ending == self.usual_ending else ending


def difference(change: Change, old: bytes, new: bytes, *, context: int = 3, note: str = "") -> ChangeDiff:
    """`change` with its lines; `context` unchanged lines around hunks, -1 = all of them."""
    notes = [note, *_notes(change, old, new)]
    if all(each.moves for each in change.hunks) and change.hunks:
        return ChangeDiff(change=change, lines=(), note="; ".join(filter(None, (ONLY_MOVED, *notes))))
    if change.binary or "symlink" in {change.base.kind, change.pending.kind}:
        return ChangeDiff(change=change, lines=(), note="; ".join(filter(None, notes)))
    usual = "crlf" if (old or new).count(b"\r\n") * 2 > (old or new).count(b"\n") else "lf"
    if encoding_of(old or new) != "utf-8":
        usual = _usual_of_utf16(old or new)
    before = _Side(split_lines(old), encoding_of(old), usual)
    after = _Side(split_lines(new), encoding_of(new), usual)
    found = list(islice(_lines(change.hunks, before, after, context), MAX_LINES + 1))
    truncated = len(found) > MAX_LINES
    if truncated:
        notes.append(f"only the first {MAX_LINES:,} lines are shown")
    return ChangeDiff(
        change=change,
        lines=tuple(_marked(found[:MAX_LINES])),
        truncated=truncated,
        note="; ".join(filter(None, notes)),
    )


def excerpt(change: Change, chosen: tuple[Hunk, ...], old: bytes, new: bytes, *, limit: int = 40) -> str:
    """The lines of some hunks as `-` and `+` lines, at most `limit` of them, without keys: to tell which were meant."""
    if change.binary or "symlink" in {change.base.kind, change.pending.kind}:
        return ""
    before = _Side(split_lines(old), encoding_of(old), "lf")
    after = _Side(split_lines(new), encoding_of(new), "lf")
    rows = (row for index, hunk in enumerate(chosen) for row in _hunk_lines(index, hunk, before, after))
    shown = [("-" if row.kind == "removed" else "+") + masked(row.text)[:200] for row in islice(rows, limit + 1)]
    return "\n".join((*shown[:limit], "…") if len(shown) > limit else shown)


def _usual_of_utf16(data: bytes) -> str:
    return text_of(split_lines(data)[0], encoding_of(data))[1]


def _notes(change: Change, old: bytes, new: bytes) -> Iterator[str]:
    base, pending = change.counted, change.pending
    if change.binary:
        yield f"binary file, {base.size:,} → {pending.size:,} bytes"
    if base.kind == "file" == pending.kind and base.mode != pending.mode:
        yield f"mode {base.mode:04o} → {pending.mode:04o}"
    if base.kind == "absent" and pending.kind == "file" and pending.mode & 0o111:
        yield f"mode {pending.mode:04o}"
    for name, state, data in (("from", base, old), ("to", pending, new)):
        if state.kind == "symlink":
            yield f"symbolic link {name} {data.decode('utf-8', 'replace')}"
    if old and new and has_bom(old) != has_bom(new):
        yield "byte order mark " + ("added" if has_bom(new) else "removed")
    if old and new and encoding_of(old) != encoding_of(new):
        yield f"encoding {encoding_of(old)} → {encoding_of(new)}"
    if change.operation in {"create", "delete"} and not (old or new) and not change.binary:
        yield "empty file"


def _lines(hunks: tuple[Hunk, ...], before: _Side, after: _Side, context: int) -> Iterator[DiffLine]:
    old = new = 1
    for index, hunk in enumerate(hunks):
        if hunk.moves:
            continue
        is_first = all(each.moves for each in hunks[:index])
        yield from _unchanged(before, old, new, hunk.old_start - old, _around(context, first=is_first))
        yield from _hunk_lines(index, hunk, before, after)
        old, new = hunk.old_start + hunk.old_lines, hunk.new_start + hunk.new_lines
    yield from _unchanged(before, old, new, len(before.lines) + 1 - old, _around(context, last=True))


def _around(context: int, *, first: bool = False, last: bool = False) -> tuple[int, int]:
    """How many unchanged lines to show at the beginning and at the end of an unchanged stretch."""
    shown = context if context >= 0 else MAX_LINES
    return 0 if first else shown, 0 if last else shown


def _unchanged(side: _Side, old: int, new: int, count: int, shown: tuple[int, int]) -> Iterator[DiffLine]:
    head, tail = min(shown[0], count), shown[1]
    tail = max(min(tail, count - head), 0)
    left_out = count - head - tail
    if left_out == 1:
        head, left_out = head + 1, 0  # a gap line would take as much room
    for offset in range(count):
        if head <= offset < head + left_out:
            if offset == head:
                yield DiffLine(kind="gap", old=old + offset, new=new + offset, text=_gap(left_out))
            continue
        text, eol = side.text(old + offset)
        yield DiffLine(kind="context", old=old + offset, new=new + offset, text=text, eol=eol)


def _gap(count: int) -> str:
    return f"{count:,} unchanged lines"


def _hunk_lines(index: int, hunk: Hunk, before: _Side, after: _Side) -> Iterator[DiffLine]:
    for number in range(hunk.old_start, hunk.old_start + hunk.old_lines):
        text, eol = before.text(number)
        yield DiffLine(kind="removed", old=number, new=0, text=text, hunk=index, eol=eol)
    for number in range(hunk.new_start, hunk.new_start + hunk.new_lines):
        text, eol = after.text(number)
        yield DiffLine(kind="added", old=0, new=number, text=text, hunk=index, eol=eol)


def _marked(rows: list[DiffLine]) -> list[DiffLine]:
    """Set the marks of removed and added lines that stand for each other, in place."""
    budget, start = MARKED_PAIRS, 0
    while start < len(rows) and budget > 0:
        removed = _stretch(rows, start, "removed")
        added = _stretch(rows, start + removed, "added")
        pairs = min(removed, added, budget)
        for offset in range(pairs):
            one, other = start + offset, start + removed + offset
            ours, theirs = marks(rows[one].text, rows[other].text)
            if ours or theirs:
                rows[one], rows[other] = replace(rows[one], marks=ours), replace(rows[other], marks=theirs)
        budget -= pairs
        start += removed + added or 1
    return rows


def _stretch(rows: list[DiffLine], start: int, kind: str) -> int:
    end = start
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return end - start
