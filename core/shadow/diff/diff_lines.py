"""A change as lines to look at: context, removed, added and gaps; decoded, clipped, with changed words marked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.review import Change, ChangeDiff, DiffLine, Hunk
from core.secrets import mask_secrets
from core.shadow.diff.cell_diff import build_cell_diff
from core.shadow.diff.text_lines import (
    Encoding,
    decode_line,
    describe_line_ends,
    detect_encoding,
    find_shown_encodings,
    has_bom,
    list_lines_in_no_utf8,
    split_lines,
)
from core.shadow.diff.word_marks import compute_marks
from core.text.counting import count
from core.text.legacy_encodings import name_encoding

MAX_LINES = 200_000
RENAMED_ONLY = "renamed, content unchanged"
CONTEXT = 3  # unchanged lines around a hunk
MAX_WIDTH = 2_000  # characters of one line, unless more are asked for
_MAX_NAMED = 12  # lines in another encoding
MARKED_PAIRS = 1_500  # removed/added pairs of one diff that are compared word by word


class _Side(Struct, frozen=True):
    lines: list[bytes]
    encoding: Encoding
    usual_ending: str
    width: int = MAX_WIDTH

    def read_line(self, number: int) -> tuple[str, str]:
        """Return line `number` (from 1) as shown, and its ending where that is worth showing."""
        text, ending = decode_line(self.lines[number - 1], self.encoding, is_first=number == 1)
        return _clip_text(text, self.width), "" if ending == self.usual_ending else ending


def _clip_text(text: str, width: int) -> str:
    """Return the first characters of a line, and how many more there are. A `width` of 0 means all of it."""
    return text if not 0 < width < len(text) else f"{text[:width]}… [{len(text) - width:,} more characters]"


def build_diff(
    change: Change, old: bytes, new: bytes, *, context: int = CONTEXT, width: int = MAX_WIDTH, note: str = ""
) -> ChangeDiff:
    """Return `change` with its lines; `context` unchanged lines around hunks, -1 = all of them; `width` characters of
    each line, 0 = all of them."""
    notes = [note, *_describe_states(change, old, new)]
    is_moved = bool(change.hunks) and all(hunk.moves for hunk in change.hunks)
    if is_moved or change.binary or "symlink" in {change.base.kind, change.pending.kind}:
        notes.insert(0, RENAMED_ONLY if is_moved else "")
        return ChangeDiff(change=change, lines=(), note="; ".join(filter(None, notes)))
    usual = "crlf" if (old or new).count(b"\r\n") * 2 > (old or new).count(b"\n") else "lf"
    if detect_encoding(old or new) != "utf-8":
        usual = decode_line(split_lines(old or new)[0], detect_encoding(old or new))[1]
    encodings = find_shown_encodings(old, new)
    before, after = (
        _Side(split_lines(old), encodings[0], usual, width),
        _Side(split_lines(new), encodings[1], usual, width),
    )
    cells = build_cell_diff(change.hunks, old, new, context)
    if cells is not None:
        change = replace(change, language=cells.language)
    rows = (
        (replace(row, text=_clip_text(row.text, width)) for row in cells.lines)
        if cells
        else _build_lines(change.hunks, before, after, context)
    )
    visible_rows = list(islice(rows, MAX_LINES + 1))
    is_truncated = len(visible_rows) > MAX_LINES
    if is_truncated:
        notes.append(f"only the first {MAX_LINES:,} lines are shown")
    return ChangeDiff(
        change=change,
        lines=tuple(_mark_words(visible_rows[:MAX_LINES])),
        truncated=is_truncated,
        note="; ".join(filter(None, notes)),
    )


def build_excerpt(change: Change, hunks: tuple[Hunk, ...], old: bytes, new: bytes, *, limit: int = 40) -> str:
    """Return the lines of some hunks as `-` and `+` lines, at most `limit` of them, with keys masked."""
    if change.binary or "symlink" in {change.base.kind, change.pending.kind}:
        return ""
    cells = build_cell_diff(change.hunks, old, new, 0)
    if cells is not None:
        places = {index for index, hunk in enumerate(change.hunks) if hunk in hunks}
        rows = (row for row in cells.lines if row.hunk in places and row.kind in {"removed", "added"})
    else:
        encodings = find_shown_encodings(old, new)
        before, after = _Side(split_lines(old), encodings[0], "lf"), _Side(split_lines(new), encodings[1], "lf")
        rows = (row for index, hunk in enumerate(hunks) for row in _build_hunk_lines(index, hunk, before, after))
    lines = [("-" if row.kind == "removed" else "+") + mask_secrets(row.text)[:200] for row in islice(rows, limit + 1)]
    return "\n".join((*lines[:limit], "…") if len(lines) > limit else lines)


def _describe_states(change: Change, old: bytes, new: bytes) -> Iterator[str]:
    base, pending = change.counted_state, change.pending
    if change.binary:
        yield f"binary file, {base.size:,} → {pending.size:,} bytes"
    if base.kind == "file" == pending.kind and base.mode != pending.mode:
        yield f"mode {base.mode:04o} → {pending.mode:04o}"
    if base.kind == "absent" and pending.kind == "file" and pending.mode & 0o111:
        yield f"mode {pending.mode:04o}"
    for name, state, data in (("from", base, old), ("to", pending, new)):
        if state.kind == "symlink":
            yield f"symbolic link {name} {data.decode('utf-8', 'replace')}"
    yield from _describe_encodings(old, new)
    if not change.binary and "symlink" not in {base.kind, pending.kind}:
        yield from _describe_ways_of_writing(old, new)
    if change.operation in {"create", "delete"} and not (old or new) and not change.binary:
        yield "empty file"


def _describe_encodings(old: bytes, new: bytes) -> Iterator[str]:
    if old and new and has_bom(old) != has_bom(new):
        yield "byte order mark " + ("added" if has_bom(new) else "removed")
    if new and not old and has_bom(new) and detect_encoding(new) == "utf-8":
        yield "begins with a byte order mark"
    if old and new and detect_encoding(old) != detect_encoding(new):
        yield f"encoding {detect_encoding(old)} → {detect_encoding(new)}"


def _describe_ways_of_writing(old: bytes, new: bytes) -> Iterator[str]:
    """Describe what the lines do not show: how they end, and which of them are not in the encoding of the file."""
    before, after = describe_line_ends(old), describe_line_ends(new)
    if before and after and before != after:
        yield f"line ends {before} → {after}"
    elif after and not before and after != "LF":
        yield f"line ends {after}"
    strangers, encoding_names = (
        list_lines_in_no_utf8(new),
        [_name_shown(encoding) for encoding in find_shown_encodings(old, new)],
    )
    if strangers:
        numbers = ", ".join(map(str, strangers[:_MAX_NAMED])) + (", …" if len(strangers) > _MAX_NAMED else "")
        yield f"no UTF-8, shown as {encoding_names[1]}: {count('line', len(strangers))} ({numbers})"
    elif new and (strangers := list_lines_in_no_utf8(old)):
        yield f"encoding no UTF-8 (shown as {encoding_names[0]}) in {count('line', len(strangers))} → UTF-8"


def _name_shown(encoding: Encoding) -> str:
    return name_encoding("latin-1" if encoding.startswith("utf") else encoding)


def _build_lines(hunks: tuple[Hunk, ...], before: _Side, after: _Side, context: int) -> Iterator[DiffLine]:
    old = new = 1
    line_count = context if context >= 0 else MAX_LINES
    for index, hunk in enumerate(hunks):
        if hunk.moves:
            continue
        is_first = all(earlier_hunk.moves for earlier_hunk in hunks[:index])
        yield from _build_context(before, old, new, hunk.old_start - old, (0 if is_first else line_count, line_count))
        yield from _build_hunk_lines(index, hunk, before, after)
        old, new = hunk.old_start + hunk.old_lines, hunk.new_start + hunk.new_lines
    yield from _build_context(before, old, new, len(before.lines) + 1 - old, (line_count, 0))


def _build_context(side: _Side, old: int, new: int, count: int, limits: tuple[int, int]) -> Iterator[DiffLine]:
    """Yield `count` unchanged lines, as many as are `limits` at the start and at the end, with a gap between."""
    head, tail = min(limits[0], count), limits[1]
    tail = max(min(tail, count - head), 0)
    left_out = count - head - tail
    if left_out == 1:
        head, left_out = head + 1, 0  # a gap line would take as much room
    for offset in range(count):
        if head <= offset < head + left_out:
            if offset == head:
                yield DiffLine(kind="gap", old=old + offset, new=new + offset, text=f"{left_out:,} unchanged lines")
            continue
        text, eol = side.read_line(old + offset)
        yield DiffLine(kind="context", old=old + offset, new=new + offset, text=text, eol=eol)


def _build_hunk_lines(index: int, hunk: Hunk, before: _Side, after: _Side) -> Iterator[DiffLine]:
    for number in range(hunk.old_start, hunk.old_start + hunk.old_lines):
        text, eol = before.read_line(number)
        yield DiffLine(kind="removed", old=number, new=0, text=text, hunk=index, eol=eol)
    for number in range(hunk.new_start, hunk.new_start + hunk.new_lines):
        text, eol = after.read_line(number)
        yield DiffLine(kind="added", old=0, new=number, text=text, hunk=index, eol=eol)


def _mark_words(rows: list[DiffLine]) -> list[DiffLine]:
    """Mark the changed words of removed and added lines that stand for each other, in place."""
    budget, start = MARKED_PAIRS, 0
    while start < len(rows) and budget > 0:
        removed_count = _count_run(rows, start, "removed")
        added_count = _count_run(rows, start + removed_count, "added")
        pairs = min(removed_count, added_count, budget)
        for offset in range(pairs):
            one, other = start + offset, start + removed_count + offset
            if max(len(rows[one].text), len(rows[other].text)) > 2 * MAX_WIDTH:
                continue
            old_marks, new_marks = compute_marks(rows[one].text, rows[other].text)
            if old_marks or new_marks:
                rows[one], rows[other] = replace(rows[one], marks=old_marks), replace(rows[other], marks=new_marks)
        budget -= pairs
        start += removed_count + added_count or 1
    return rows


def _count_run(rows: list[DiffLine], start: int, kind: str) -> int:
    end = start
    while end < len(rows) and rows[end].kind == kind:
        end += 1
    return end - start
