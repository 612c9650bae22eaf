"""The draft format: `<file_edit path=… start=… end=…>` around new code, in which comments mark unchanged code.

`start` and `end` are 1-indexed and inclusive; they default to 1 and -1, the whole file; both -1 append. A missing file
is created. A file of more than 300 lines needs a range. Comments that say that something is removed are dropped.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from msgspec import Struct

from core.edits.drafts.alignment import assign_scopes
from core.edits.drafts.assembly import check_marker_words, check_remarks, splice_draft, tokenise_draft
from core.edits.drafts.checks import check_parses
from core.edits.drafts.line_costs import is_informative
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import DraftToken, compile_subject
from core.edits.drafts.marker_rules import check_target
from core.edits.drafts.markers import is_marker
from core.edits.drafts.placed_draft import PlacedDraft, place_draft, replace_all_lines
from core.edits.errors import EditError, UndecidedEdit
from core.edits.formats.target_file import select_for_file
from core.patterns import compile_lazily
from core.text.lines import TextLines, split_closed, split_lines
from core.text.markup import parse_attributes

LONGEST: Final = 300  # lines of a file that needs no range
_HINT: Final = (
    'Write <file_edit path="…" start=1 end=-1>, the new code, </file_edit>; lines are 1-indexed and inclusive, '
    "start=-1 end=-1 appends. Nothing was changed."
)
_OPENED = compile_lazily(r"<file_edit\b([^>]*)>[ \t]*\r?\n?")
_CLOSING = compile_lazily(r"</file_edit>")
_CLOSING_LINE = compile_lazily(r"^[ \t]*</file_edit>", re.MULTILINE)
_NUMBER = compile_lazily(r"[+-]?\d+$")


class FileDraft(Struct, frozen=True, kw_only=True):
    """New code for a range of a file. `start` or `end` None: the attribute is missing."""

    path: str
    body: str
    start: int | None = None
    end: int | None = None


def parse_drafts(content: str) -> tuple[FileDraft, ...]:
    """Parse every draft of a text, in order. Raises `EditError`."""
    drafts, position = [], 0
    while match := _OPENED.search(content, position):
        stop = _find_closing_tag(content, match.end())
        if stop is None:
            line = content.count("\n", 0, match.start()) + 1
            raise EditError(f"The <file_edit> in line {line} is not closed.", hint=_HINT)
        drafts.append(_build_draft(parse_attributes(match[1]), content[match.end() : stop.start()]))
        position = stop.end()
    if not drafts:
        raise EditError("There is no <file_edit> in the text.", hint=_HINT)
    return tuple(drafts)


def _find_closing_tag(content: str, start: int) -> re.Match[str] | None:
    """Find the end of a draft: a closing tag that begins a line, as content may mention the tag; or one within a line,
    if there is no other before the next draft."""
    inline, line_match = _CLOSING.search(content, start), _CLOSING_LINE.search(content, start)
    if inline is None or line_match is None:
        return inline
    return inline if _OPENED.search(content, inline.end(), line_match.start()) else line_match


def _build_draft(attributes: dict[str, str], body: str) -> FileDraft:
    path = attributes.get("path", attributes.get("filepath", attributes.get("file_path", "")))
    if not path:
        raise EditError("The <file_edit> has no path.", hint=_HINT)
    return FileDraft(path=path, body=body, start=_parse_line(attributes, "start"), end=_parse_line(attributes, "end"))


def _parse_line(attributes: dict[str, str], name: str) -> int | None:
    value = attributes.get(name)
    if value is None:
        return None
    if not _NUMBER.match(value.strip()):
        raise EditError(f"{name} is {value!r}, not a whole number.", hint=_HINT)
    return int(value)


def apply_drafts(text: str | None, content: str, path: str = "") -> str:
    """Return the file at `path` (`text` None: it does not exist) after its drafts. Raises `EditError`."""
    drafts = parse_drafts(content)
    file_drafts = select_for_file(drafts, path)
    if not file_drafts:
        raise EditError(f"No <file_edit> is meant for {path}.", hint=_HINT)
    if text is None:
        first, *rest = file_drafts
        text, file_drafts = first.body, rest
    before = text
    ranges = sorted(
        (draft for draft in file_drafts if (draft.start, draft.end) != (-1, -1)), key=lambda draft: draft.start or 1
    )
    _check_overlap(ranges)
    for draft in reversed(ranges):
        text = apply_draft(text, draft)
    for draft in file_drafts:
        text = text if draft in ranges else append_lines(text, draft.body)
    return check_parses(path or file_drafts[0].path, before, text) if any(map(_has_marker, file_drafts)) else text


def _has_marker(draft: FileDraft) -> bool:
    return any(map(is_marker, draft.body.splitlines()))


def _check_overlap(ranges: list[FileDraft]) -> None:
    for before, after in pairwise(ranges):
        if before.end in (None, -1) or (before.end or 0) >= (after.start or 1):
            raise EditError(f"Two drafts of {after.path} are meant for line {after.start or 1}.", hint=_HINT)


def append_lines(text: str, body: str) -> str:
    """Append the lines of `body`; a file without a final newline stays without one."""
    lines = split_lines(text)
    rows = split_closed(body)[0] if body else []
    if not rows:
        return text
    if not lines.bodies:
        return body
    end = lines.find_dominant_ending()
    has_final_newline = bool(lines.ends[-1])
    return text + ("" if has_final_newline else end) + end.join(rows) + (end if has_final_newline else "")


def apply_draft(text: str, draft: FileDraft) -> str:
    """Replace the lines of the draft's range by the result of the draft. Raises `EditError`."""
    lines = split_lines(text)
    first, last = _resolve_range(draft, len(lines))
    if not lines.bodies:
        return draft.body
    rows = split_closed(draft.body)[0] if draft.body else []
    part = TextLines(lines.bodies[first:last], lines.ends[first:last], lines.starts[first:last])
    tokens = tokenise_draft(rows, part)
    before, after = text[: lines.starts[first]], text[lines.find_end(last - 1) :]
    _check_range_ends(part, tokens, (first == 0, last == len(lines)))
    placed = _place_pieces(part, rows, tokens)
    placed = placed if placed is not None and placed.has_markers else None
    if placed is not None and placed.is_accepted:
        check_marker_words(rows, part, placed.text)
        return before + placed.text + after
    if placed is not None and not placed.is_outline:
        raise UndecidedEdit("its parts fit in more than one place")
    check_remarks(rows, {body.strip() for body in part.bodies})
    if all(token.kind == "line" for token in tokens):
        if len(part) == len(lines) and (draft.start is None or draft.end in (None, -1)):
            _check_whole(part, rows)
        return before + replace_all_lines(part, rows) + after
    if all(token.kind != "marker" for token in tokens):
        remaining_rows = [row for row, token in zip(rows, tokens, strict=True) if token.kind == "line"]
        return (
            before
            + replace_all_lines(part, remaining_rows if _are_removed(tokens, part, "\n".join(remaining_rows)) else rows)
            + after
        )
    check_target(rows, [token.kind != "line" for token in tokens], lines.bodies)
    if len(part) == len(lines):
        _check_start(part, rows)
    new_text = splice_draft(part, assign_scopes(tokens), open_ends=False)
    check_marker_words(rows, part, new_text)
    _check_removals(part, rows, new_text)
    if placed is not None and not placed.allows("".join(map(str.__add__, part.bodies, part.ends)), new_text):
        raise UndecidedEdit("its parts fit in more than one place")
    return before + new_text + after


def _place_pieces(part: TextLines, rows: list[str], tokens: list[DraftToken]) -> PlacedDraft | None:
    """Place the draft as pieces of its range. Comments about removals are dropped if they turn out to be true."""
    if any(token.kind == "removal" for token in tokens):
        remaining_rows = [row for row, token in zip(rows, tokens, strict=True) if not token.removed]
        placed = place_draft(part, remaining_rows, open_ends=False)
        if placed is not None and _are_removed(tokens, part, placed.text):
            return placed
    return place_draft(part, rows, open_ends=False)


def _are_removed(tokens: list[DraftToken], part: TextLines, after: str) -> bool:
    """True if every subject of a removal occurs less often than before."""
    before = "\n".join(part.bodies)
    patterns = [compile_subject(token.removed) for token in tokens if token.kind == "removal"]
    return all(len(pattern.findall(after)) < len(pattern.findall(before)) for pattern in patterns)


def _check_start(part: TextLines, rows: list[str]) -> None:
    """Raise `UndecidedEdit` if a draft of the whole file does not mention the lines above its first one."""
    draft_lines = [row.strip() for row in rows if row.strip()]
    file_lines = [body.strip() for body in part.bodies if body.strip()]
    index = file_lines.index(draft_lines[0]) if file_lines.count(draft_lines[0]) == 1 else 0
    if index and set(file_lines[:index]).isdisjoint(draft_lines):
        raise UndecidedEdit(f"it begins with {draft_lines[0][:80]!r} and does not say what happens to the lines before")


def _check_range_ends(part: TextLines, tokens: list[DraftToken], ends: tuple[bool, bool]) -> None:
    """Raise `UndecidedEdit` if a draft with markers begins or ends with a line that is neither a marker nor the line at
    that end of its range. `ends`: whether the range begins or ends with the file, where this is allowed."""
    nonblank_tokens = [token for token in tokens if token.text.strip()]
    bodies = [body for body in part.bodies if body.strip()]
    if not bodies or all(token.kind != "marker" for token in nonblank_tokens):
        return
    for token, body, is_end in zip(
        (nonblank_tokens[0], nonblank_tokens[-1]), (bodies[0], bodies[-1]), ends, strict=True
    ):
        key = parse_line_key(body) or ""
        is_known = token.text.strip() == body.strip() or (
            key.startswith("definition ") and parse_line_key(token.text) == key
        )
        if token.kind == "line" and not is_end and not is_known:
            raise UndecidedEdit(f"it begins or ends with {token.text.strip()[:80]!r}, unlike its range")


def _check_whole(part: TextLines, rows: list[str]) -> None:
    """Raise `UndecidedEdit` if a draft without a range and without a marker is only a piece of the file."""
    draft_lines = [row.strip() for row in rows if is_informative(row)]
    file_lines = [body.strip() for body in part.bodies if is_informative(body)]
    shared_count = sum(row in file_lines for row in draft_lines)
    same = [bool(draft_lines and file_lines) and draft_lines[end] == file_lines[end] for end in (0, -1)]
    if any(is_marker(row) for row in rows) and len(draft_lines) < len(file_lines):
        raise UndecidedEdit("its marker may be a line of the file")
    if len(draft_lines) * 2 < len(file_lines) and shared_count * 2 >= len(draft_lines) > 0 and not all(same):
        raise UndecidedEdit("it is a part of the file, and nothing says what happens to the rest")


def _check_removals(part: TextLines, rows: list[str], new_text: str) -> None:
    """Raise `UndecidedEdit` if the result contains a removed subject in a line that the draft does not have."""
    draft_lines = {row.strip() for row in rows}
    for token in tokenise_draft(rows, part):
        if token.kind != "removal" or not re.search(r"\W", token.removed):
            continue
        pattern = compile_subject(token.removed)
        remaining_rows = [
            row for row in split_lines(new_text).bodies if pattern.search(row) and row.strip() not in draft_lines
        ]
        if remaining_rows:
            raise UndecidedEdit(
                f"{token.removed!r} is said to be removed, but {remaining_rows[0].strip()[:80]!r} stays"
            )


def _resolve_range(draft: FileDraft, count: int) -> tuple[int, int]:
    """Return the range of a draft as 0-indexed lines, the end exclusive. Raises `EditError`."""
    start = 1 if draft.start is None else draft.start
    end = -1 if draft.end is None else draft.end
    if count > LONGEST and start == 1 and end == -1:
        raise EditError(
            f"{draft.path} has {count} lines. For a file of more than {LONGEST} lines, give the range to edit: "
            'start and end, as in <file_edit path="…" start=100 end=200>.',
            hint="Read the part to edit with its line numbers, then send only that part. Nothing was changed.",
        )
    last, problem = count if end == -1 else end, ""
    if start < 1:
        problem = "begins before line 1"
    elif max(start, last) > max(count, 1):
        problem = f"is outside the file, which has {count} lines"
    elif last < start and count:
        problem = "ends before it begins"
    if problem:
        raise EditError(f"The range {start}-{end} of {draft.path} {problem}.", hint=_HINT)
    return start - 1, last
