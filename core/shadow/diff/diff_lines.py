"""A change as lines for display: context, removed, added and gaps; decoded, clipped, with changed words marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from core.patterns import compile_lazily
from core.protocol.review import Change, ChangeDiff, DiffLine, Hunk
from core.secrets import mask_secrets
from core.shadow.diff.cell_regions import build_cell_diff
from core.shadow.diff.text_lines import (
    Encoding,
    decode_line,
    describe_line_ends,
    detect_encoding,
    find_display_encodings,
    has_bom,
    list_non_utf8_lines,
    split_lines,
)
from core.text.counting import count
from core.text.legacy_encodings import name_encoding

Marks = tuple[tuple[int, int], ...]
_WORD = compile_lazily(r"\w+|\s+|.", re.DOTALL)
_MAX_WORDS = 120  # in the changed middle of a line
_MIN_SHARED = 0.4  # share of a line's characters that must be common for marks to be useful
MAX_LINES = 200_000
RENAMED_ONLY = "renamed, content unchanged"
CONTEXT = 3  # unchanged lines around a hunk
MAX_WIDTH = 2_000  # characters of one line, by default
LEAD_IN = 200  # characters, at most, before the first change of a very long line that is displayed from there on
_MAX_NAMED = 12  # numbers of lines in another encoding
MARKED_PAIRS = 1_500  # removed/added pairs of one diff that are compared word by word


def compute_marks(removed_line: str, added_line: str) -> tuple[Marks, Marks]:
    """Return the [start, end) ranges that differ, for both lines; nothing if the lines have too little in common."""
    head = _measure_common_head(removed_line, added_line)
    tail = _measure_common_head(removed_line[head:][::-1], added_line[head:][::-1])
    while head and (_is_in_word(removed_line, head) or _is_in_word(added_line, head)):
        head -= 1
    while tail and (
        _is_in_word(removed_line, len(removed_line) - tail) or _is_in_word(added_line, len(added_line) - tail)
    ):
        tail -= 1
    old, new = removed_line[head : len(removed_line) - tail], added_line[head : len(added_line) - tail]
    old_words, new_words = _split_words(old, head), _split_words(new, head)
    if max(len(old_words), len(new_words)) > _MAX_WORDS:
        spans = [((head, head + len(text)),) if text else () for text in (old, new)]
        return _drop_if_dissimilar(spans[0], spans[1], removed_line, added_line)
    matcher = SequenceMatcher(None, [w for _, w in old_words], [w for _, w in new_words], autojunk=False)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return _drop_if_dissimilar(
        _merge_ranges(old_words, [(i0, i1) for _, i0, i1, _, _ in codes]),
        _merge_ranges(new_words, [(j0, j1) for _, _, _, j0, j1 in codes]),
        removed_line,
        added_line,
    )


def _measure_common_head(one: str, other: str) -> int:
    limit = min(len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low


def _is_in_word(line: str, index: int) -> bool:
    """True if a cut before character `index` splits a word."""
    return 0 < index < len(line) and all(
        character.isalnum() or character == "_" for character in line[index - 1 : index + 1]
    )


def _split_words(text: str, start: int) -> list[tuple[int, str]]:
    return [(start + match.start(), match.group()) for match in _WORD.finditer(text)]


def _merge_ranges(words: Sequence[tuple[int, str]], spans: Sequence[tuple[int, int]]) -> Marks:
    ranges: list[tuple[int, int]] = []
    for first, last in spans:
        if first == last:
            continue
        start, end = words[first][0], words[last - 1][0] + len(words[last - 1][1])
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        ranges.append((start, end))
    return tuple(ranges)


def _drop_if_dissimilar(old: Marks, new: Marks, removed_line: str, added_line: str) -> tuple[Marks, Marks]:
    shared_ratio = max(_measure_shared(old, removed_line), _measure_shared(new, added_line))
    return (old, new) if shared_ratio >= _MIN_SHARED else ((), ())


def _measure_shared(ranges: Marks, text: str) -> float:
    """Return the share of a line's visible characters outside of the ranges, 0 … 1."""
    visible = len(text.strip()) or 1
    return 1 - sum(len(text[start:end].strip()) for start, end in ranges) / visible


class _Window(NamedTuple):
    """The part of a line that is displayed: `width` characters from `start` on."""

    start: int
    width: int


class _Side(Struct, frozen=True):
    lines: list[bytes]
    encoding: Encoding
    usual_ending: str
    width: int = MAX_WIDTH

    def read_line(self, number: int, window: _Window | None = None) -> tuple[str, str]:
        """Return the displayed text of line `number` (from 1), and its ending where the diff shows endings."""
        text, ending = self._decode(number)
        start, width = window or (0, self.width)
        return _clip_text(text, width, start), "" if ending == self.usual_ending else ending

    def is_clipped(self, number: int) -> bool:
        return 0 < self.width < len(self.lines[number - 1])

    def read_whole(self, number: int) -> str:
        return self._decode(number)[0]

    def _decode(self, number: int) -> tuple[str, str]:
        return decode_line(self.lines[number - 1], self.encoding, is_first=number == 1)


def _clip_text(text: str, width: int, start: int = 0) -> str:
    """Return the first `width` characters of a line (0 = all) from `start` on, and the number of the others."""
    head = f"[{start:,} characters] …" if start else ""
    rest = text[start:]
    return head + (rest if not 0 < width < len(rest) else f"{rest[:width]}… [{len(rest) - width:,} more characters]")


def build_diff(
    change: Change, old: bytes, new: bytes, *, context: int = CONTEXT, width: int = MAX_WIDTH, note: str = ""
) -> ChangeDiff:
    """Return the diff of `change`, with `context` unchanged lines around hunks (-1 = all) and `width` characters of
    every line (0 = all)."""
    notes = [note, *_describe_states(change, old, new)]
    is_moved = bool(change.hunks) and all(hunk.moves for hunk in change.hunks)
    if is_moved or change.binary or "symlink" in {change.base.kind, change.pending.kind}:
        notes.insert(0, RENAMED_ONLY if is_moved else "")
        return ChangeDiff(change=change, lines=(), note="; ".join(filter(None, notes)))
    usual = "crlf" if (old or new).count(b"\r\n") * 2 > (old or new).count(b"\n") else "lf"
    if detect_encoding(old or new) != "utf-8":
        usual = decode_line(split_lines(old or new)[0], detect_encoding(old or new))[1]
    encodings = find_display_encodings(old, new)
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
    """Return hunks as at most `limit` lines with `-` and `+`, with keys masked."""
    if change.binary or "symlink" in {change.base.kind, change.pending.kind}:
        return ""
    cells = build_cell_diff(change.hunks, old, new, 0)
    if cells is not None:
        indexes = {index for index, hunk in enumerate(change.hunks) if hunk in hunks}
        rows = (row for row in cells.lines if row.hunk in indexes and row.kind in {"removed", "added"})
    else:
        encodings = find_display_encodings(old, new)
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
        yield from _describe_encodings_and_newlines(old, new)
    if change.operation in {"create", "delete"} and not (old or new) and not change.binary:
        yield "empty file"


def _describe_encodings(old: bytes, new: bytes) -> Iterator[str]:
    if old and new and has_bom(old) != has_bom(new):
        yield "byte order mark " + ("added" if has_bom(new) else "removed")
    if new and not old and has_bom(new) and detect_encoding(new) == "utf-8":
        yield "starts with a byte order mark"
    if old and new and detect_encoding(old) != detect_encoding(new):
        yield f"encoding {detect_encoding(old)} → {detect_encoding(new)}"


def _describe_encodings_and_newlines(old: bytes, new: bytes) -> Iterator[str]:
    """Describe what the lines do not show: their endings, and which of them are not in the encoding of the file."""
    before, after = describe_line_ends(old), describe_line_ends(new)
    if before and after and before != after:
        yield f"line ends {before} → {after}"
    elif after and not before and after != "LF":
        yield f"line ends {after}"
    strangers, encoding_names = (
        list_non_utf8_lines(new),
        [_name_display_encoding(encoding) for encoding in find_display_encodings(old, new)],
    )
    if strangers:
        numbers = ", ".join(map(str, strangers[:_MAX_NAMED])) + (", …" if len(strangers) > _MAX_NAMED else "")
        yield f"not UTF-8, shown as {encoding_names[1]}: {count('line', len(strangers))} ({numbers})"
    elif new and (strangers := list_non_utf8_lines(old)):
        yield f"encoding: not UTF-8 (shown as {encoding_names[0]}) in {count('line', len(strangers))} → UTF-8"


def _name_display_encoding(encoding: Encoding) -> str:
    return name_encoding("latin-1" if encoding.startswith("utf") else encoding)


def _build_lines(hunks: tuple[Hunk, ...], before: _Side, after: _Side, context: int) -> Iterator[DiffLine]:
    old = new = 1
    line_count = context if context >= 0 else MAX_LINES
    for index, hunk in enumerate(hunks):
        if hunk.moves:
            continue
        is_first = all(earlier_hunk.moves for earlier_hunk in hunks[:index])
        yield from _build_context(before, old, new, hunk.old_start - old, (0 if is_first else line_count, line_count))
        yield from _build_hunk_lines(index, hunk, before, after, _place_windows(hunk, before, after))
        old, new = hunk.old_start + hunk.old_lines, hunk.new_start + hunk.new_lines
    yield from _build_context(before, old, new, len(before.lines) + 1 - old, (line_count, 0))


def _build_context(side: _Side, old: int, new: int, count: int, limits: tuple[int, int]) -> Iterator[DiffLine]:
    """Yield `count` unchanged lines; if there are more than both `limits` (at the start and at the end), with a gap
    between."""
    head, tail = min(limits[0], count), limits[1]
    tail = max(min(tail, count - head), 0)
    left_out = count - head - tail
    if left_out == 1:
        head, left_out = head + 1, 0  # a gap line would need as much space
    for offset in range(count):
        if head <= offset < head + left_out:
            if offset == head:
                yield DiffLine(kind="gap", old=old + offset, new=new + offset, text=f"{left_out:,} unchanged lines")
            continue
        text, eol = side.read_line(old + offset)
        yield DiffLine(kind="context", old=old + offset, new=new + offset, text=text, eol=eol)


def _build_hunk_lines(
    index: int, hunk: Hunk, before: _Side, after: _Side, windows: Mapping[int, tuple[_Window, _Window]] | None = None
) -> Iterator[DiffLine]:
    """Yield the lines of a hunk. `windows`: the displayed parts of very long lines and of those that correspond to
    them, by their position in the hunk."""
    pairs = windows or {}
    for offset in range(hunk.old_lines):
        number = hunk.old_start + offset
        text, eol = before.read_line(number, pairs[offset][0] if offset in pairs else None)
        yield DiffLine(kind="removed", old=number, new=0, text=text, hunk=index, eol=eol)
    for offset in range(hunk.new_lines):
        number = hunk.new_start + offset
        text, eol = after.read_line(number, pairs[offset][1] if offset in pairs else None)
        yield DiffLine(kind="added", old=0, new=number, text=text, hunk=index, eol=eol)


def _place_windows(hunk: Hunk, before: _Side, after: _Side) -> dict[int, tuple[_Window, _Window]]:
    """Return which part of a very long line is displayed, and of the one that corresponds to it: from shortly before
    the first change if that would not be seen otherwise, and to the same place after it."""
    windows: dict[int, tuple[_Window, _Window]] = {}
    for offset in range(min(hunk.old_lines, hunk.new_lines)):
        numbers = hunk.old_start + offset, hunk.new_start + offset
        if before.is_clipped(numbers[0]) or after.is_clipped(numbers[1]):
            windows[offset] = _place_pair(before.read_whole(numbers[0]), after.read_whole(numbers[1]), before.width)
    return windows


def _place_pair(old: str, new: str, width: int) -> tuple[_Window, _Window]:
    lead_in, difference = min(LEAD_IN, width // 2), abs(len(new) - len(old))
    shorter = width - difference if difference < width // 2 else width
    head = _measure_common_head(old, new)
    start = head - lead_in if head >= shorter - lead_in else 0
    widths = (shorter, width) if len(old) < len(new) else (width, shorter)
    return _Window(start, widths[0]), _Window(start, widths[1])


def _mark_words(rows: list[DiffLine]) -> list[DiffLine]:
    """Mark the changed words of corresponding removed and added lines, in place."""
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
