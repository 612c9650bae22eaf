"""Reasons to refuse the result of a draft: an edit is refused rather than guessed.

`find_objection` judges an alignment. `find_unmentioned_change` judges the edit that a model worked out from a draft:
nothing may change that the draft does not mention. Added lines are lines of the draft or of the file, and no markers;
removed lines, and lines of the file that are repeated, are next to lines that both have; a line that the draft repeats
stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import Final

from core.edits.drafts.alignment import opens_marker_scope
from core.edits.drafts.line_costs import is_informative
from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.line_matches import CONTINUED, SPECIAL, DraftToken, ResultRow, find_owners, is_possible_version
from core.edits.drafts.markers import is_marker
from core.edits.drafts.placed_draft import MOST_OPEN
from core.edits.drafts.placements import is_single
from core.edits.errors import UndecidedEdit
from core.edits.indentation import measure_depth
from core.patterns import compile_lazily
from core.syntax.flaws import find_flaws
from core.text.lines import TextLines, find_changed_span, split_lines

_MANY_COPIES: Final = 3  # lines that are only context if they are repeated
_LONG_LINE: Final = 16  # characters of a line that is compared with new ones
_WORDS = compile_lazily(r"[A-Za-z_]\w.*")
REACH: Final = 3  # lines between a removed line and the nearest line that the draft has
_MAX_COMPARED: Final = 4_000  # lines of a region that is compared line by line


@dataclass(frozen=True)
class AlignedDraft:
    """A file, a draft, and the filled rows of their alignment."""

    lines: TextLines
    tokens: Sequence[DraftToken]
    rows: Sequence[ResultRow]

    @cached_property
    def counts(self) -> Counter[str]:
        """The number of times that the file has every line."""
        return Counter(line.strip() for line in self.lines.bodies)


def find_objection(aligned: AlignedDraft) -> str | None:
    """Return why the result may be wrong; None: no check objects."""
    if _is_marker_emptied(aligned):
        return "it puts code where it says that code is unchanged"
    return next(filter(None, (find(aligned) for find in _OBJECTIONS)), None)


def _is_marker_emptied(aligned: AlignedDraft) -> bool:
    """True if a marker would not cover the line of the file next to it: the line right below the matched line before
    the marker, or right above the matched line after it. The start and the end of a draft count as markers."""
    nonblank_indexes = [position for position, body in enumerate(aligned.lines.bodies) if body.strip()]
    retained_indexes = {row.old for row in aligned.rows if row.old is not None}
    line_by_token = {row.token: row.old for row in aligned.rows if row.token is not None}
    tokens = [index for index, token in enumerate(aligned.tokens) if token.text.strip()]
    for above, below in pairwise([None, *tokens, None]):
        marker_flags = [neighbour is None or aligned.tokens[neighbour].kind == "marker" for neighbour in (above, below)]
        line = below if marker_flags[0] else above
        exact_line = (
            _find_exact_line(aligned, line, line_by_token.get(line)) if line is not None and any(marker_flags) else None
        )
        if exact_line is None or all(marker_flags):
            continue
        offset = nonblank_indexes.index(exact_line) + (1 if line == above else -1)
        if 0 <= offset < len(nonblank_indexes) and nonblank_indexes[offset] not in retained_indexes:
            return True
    return any(row.old is None and opens_marker_scope(aligned.tokens, row.token or 0) for row in aligned.rows)


def _find_exact_line(aligned: AlignedDraft, token: int, old: int | None) -> int | None:
    """Return the line of the file that equals a line of the draft; None = there is none."""
    if old is None or aligned.tokens[token].kind != "line":
        return None
    return old if aligned.tokens[token].text.strip() == aligned.lines.bodies[old].strip() else None


def _find_possible_version(aligned: AlignedDraft) -> str | None:
    """Object to a new line next to a retained one that it may be meant to replace."""
    for above, below in pairwise(aligned.rows):
        fresh, old_row = (above, below) if below.token is None else (below, above)
        if fresh.token is None or fresh.old is not None or old_row.token is not None or old_row.old is None:
            continue
        old, token = aligned.lines.bodies[old_row.old], aligned.tokens[fresh.token]
        is_neighbour = token.is_exposed and measure_depth(old) == token.depth
        if is_neighbour and is_possible_version(token.text.strip(), old.strip()):
            return f"{token.text.strip()[:80]!r} may be new, or take the place of line {old_row.old + 1}"
    return None


def _find_ambiguous_container(aligned: AlignedDraft) -> str | None:
    """Object to a draft that begins inside of a block and only has lines that several such blocks have."""
    texts = ["" if token.kind != "line" else token.text.strip() for token in aligned.tokens]
    above = find_owners(texts, [token.depth for token in aligned.tokens])
    counts = aligned.counts
    pairs = ((row.token, row.old) for row in aligned.rows)
    matches = [
        (token, aligned.lines.bodies[old].strip()) for token, old in pairs if token is not None and old is not None
    ]
    tops = [(token, old) for token, old in matches if above[token] < 0 and not CONTINUED.match(texts[token])]
    is_placed = any(counts[old] == 1 and (texts[token] == old or (token, old) in tops) for token, old in matches)
    if not is_placed and any(aligned.tokens[token].depth for token, _ in tops):
        return f"there is more than one {tops[0][1][:80]!r}, and it does not say which one it is in"
    return None


def _find_double_definition(aligned: AlignedDraft) -> str | None:
    """Object to a definition whose name is already defined in its scope, or to a line that its scope already has."""
    raw_lines = [
        aligned.lines.bodies[row.old or 0] if row.token is None else aligned.tokens[row.token].text
        for row in aligned.rows
    ]
    texts = [line.strip() for line in raw_lines]
    above = find_owners(texts, [measure_depth(line) for line in raw_lines])
    sole = any(token.is_sole for token in aligned.tokens)
    fresh_by_name: dict[tuple[int, str], bool] = {}
    for index, (text, row) in enumerate(zip(texts, aligned.rows, strict=True)):
        key = parse_line_key(text) or ""
        defines = key.startswith(("definition ", "block "))
        once = aligned.counts[text] == 1 and _WORDS.match(text) is not None
        if not (defines or once) or (index and SPECIAL.match(texts[index - 1])):
            continue
        name = (above[index], key if sole and defines else re.sub(r"\s", "", text))
        fresh = row.old is None
        if (
            name in fresh_by_name
            and (fresh or fresh_by_name[name])
            and (defines or row.token is None or not fresh_by_name[name])
        ):
            return f"{text[:80]!r} would be there twice"
        fresh_by_name[name] = fresh or fresh_by_name.get(name, False)
    return None


def _find_copied_context(aligned: AlignedDraft) -> str | None:
    """Object to duplicates of lines that the file has once: they only say where the draft belongs."""
    counts = aligned.counts
    retained_lines = {aligned.lines.bodies[row.old].strip() for row in aligned.rows if row.old is not None}
    fresh = [
        aligned.tokens[row.token].text.strip() for row in aligned.rows if row.token is not None and row.old is None
    ]
    twice = [line for line in fresh if counts[line] == 1 and line in retained_lines and is_informative(line)]
    if len(twice) >= _MANY_COPIES:
        return f"{twice[0][:80]!r} and more lines would be there twice"
    long_lines = [line for line in retained_lines if len(line) >= _LONG_LINE and counts[line] == 1]
    container = next(
        (line for line in fresh if line not in counts and any(long_line in line for long_line in long_lines)), ""
    )
    return f"{container[:80]!r} may be new, or take the place of a line that it holds" if container else None


def _find_repeated_line(aligned: AlignedDraft) -> str | None:
    """Object to a new line next to a retained line that equals it, and to a marker that covers nothing."""
    for above, below in pairwise(aligned.rows):
        for fresh, old_row in ((above, below), (below, above)):
            if fresh.token is not None and fresh.old is None and old_row.token is None and old_row.old is not None:
                text = aligned.tokens[fresh.token].text.strip()
                if text == aligned.lines.bodies[old_row.old].strip():
                    return f"{text[:80]!r} would be there twice"
        if above.token is not None and below.token is not None:
            between = aligned.tokens[above.token + 1 : below.token]
            if any(token.kind == "marker" for token in between):
                return "one of its markers stands for nothing"
    return None


def _find_replaced_overload(aligned: AlignedDraft) -> str | None:
    """Object to another signature for one of several overloads, if a marker covers the overloads before it."""
    keys = Counter((parse_line_key(line), measure_depth(line)) for line in aligned.lines.bodies)
    for above, row in pairwise(aligned.rows):
        if row.token is None or row.old is None or above.token is not None or aligned.tokens[row.token].is_sole:
            continue
        old, new = aligned.lines.bodies[row.old].strip(), aligned.tokens[row.token].text.strip()
        key = parse_line_key(old) or ""
        if old != new and key.startswith("definition ") and keys[key, measure_depth(aligned.lines.bodies[row.old])] > 1:
            return f"{new[:80]!r} may be new, or take the place of line {row.old + 1}"
    return None


def _find_deleted_definition(aligned: AlignedDraft) -> str | None:
    """Object to deleting a definition at the start or the end of its scope, where a marker may have been forgotten."""
    retained_indexes = [row.old for row in aligned.rows if row.old is not None]
    draft_keys = {parse_line_key(token.text) for token in aligned.tokens}
    bodies = aligned.lines.bodies
    for above, below in pairwise([-1, *retained_indexes, len(bodies)]):
        for index in range(above + 1, below):
            key, depth = parse_line_key(bodies[index]) or "", measure_depth(bodies[index])
            if not key.startswith("definition ") or key in draft_keys:
                continue
            outer = [measure_depth(bodies[edge]) < depth for edge in (above, below) if 0 <= edge < len(bodies)]
            if len(outer) < 2 or any(outer):
                return f"{bodies[index].strip()[:80]!r} would be deleted, and the edit does not mention it"
    return None


def _find_unmarked_end(aligned: AlignedDraft) -> str | None:
    """Object to lines before or after the draft without a marker: they may be meant to stay or to be removed. A draft
    of a single block needs no marker around it if a marker right below its head shows that the head only locates it."""
    nonblank_tokens = [token for token in aligned.tokens if token.text.strip()]
    row_indexes = [index for index, row in enumerate(aligned.rows) if row.token is not None]
    if not nonblank_tokens or not row_indexes:
        return None
    kinds = [token.kind for token in nonblank_tokens]
    has_head = kinds[0] != "marker" and "marker" in kinds[1:3]
    if has_head and is_single([token.text for token in nonblank_tokens if token.kind == "line"]):
        return None
    ends = [aligned.rows[: row_indexes[0]]] if kinds[0] != "marker" else []
    ends += [aligned.rows[row_indexes[-1] + 1 :]] if kinds[-1] != "marker" else []
    for rows in ends:
        retained_indexes = [
            row.old for row in rows if row.old is not None and is_informative(aligned.lines.bodies[row.old])
        ]
        if 0 < len(retained_indexes) <= MOST_OPEN:
            return f"line {retained_indexes[0] + 1} may stay or go, as no marker says so"
    return None


_OBJECTIONS: Final = (
    _find_possible_version,
    _find_ambiguous_container,
    _find_double_definition,
    _find_copied_context,
    _find_repeated_line,
    _find_replaced_overload,
    _find_deleted_definition,
    _find_unmarked_end,
)


def check_parses(path: str, before: str, after: str) -> str:
    """Return `after`; raise `UndecidedEdit` if the file parsed before and does not parse any more."""
    if find_flaws(path, before) == () and (flaws := find_flaws(path, after)):
        raise UndecidedEdit(f"the result does not parse (line {flaws[0].line})")
    return after


def find_unmentioned_change(before: str, after: str, draft: str) -> str | None:
    """Describe a change that the draft does not mention; None: there is none."""
    first, old_last, last = find_changed_span(before, after)
    if max(old_last, last) - first > _MAX_COMPARED:
        return f"lines {first}-{old_last} would change, which is more than can be checked"
    old, new = split_lines(before).bodies, split_lines(after).bodies
    if dropped_line := _find_dropped(old, new, split_lines(draft).bodies):
        return f"the line {dropped_line[:120]!r} would be deleted, although the draft has it"
    mentions, start = _Mentioned(old, split_lines(draft).bodies), first - 1
    matcher = SequenceMatcher(None, old[start:old_last], new[start:last], autojunk=False)
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    objections = (
        mentions.find_objection((start + i1, start + i2), new[start + j1 : start + j2]) for _, i1, i2, j1, j2 in changes
    )
    return next(filter(None, objections), None)


def _find_dropped(old: Sequence[str], new: Sequence[str], draft: Sequence[str]) -> str:
    """Find a line that the file and the draft have, and that the result has less often than both; "" = none."""
    draft_counts = Counter(
        line.strip() for line in draft if any(letter.isalnum() for letter in line) and not is_marker(line)
    )
    old_counts, new_counts = (Counter(line.strip() for line in lines) for lines in (old, new))
    return next((line for line, count in draft_counts.items() if new_counts[line] < min(count, old_counts[line])), "")


class _Mentioned:
    """The lines and names of a file that a draft mentions."""

    def __init__(self, old: Sequence[str], draft: Sequence[str]) -> None:
        self._old = old
        self._file_lines = {line.strip() for line in old}
        self._lines = {line.strip() for line in draft}
        informative_lines = {line for line in self._lines if any(letter.isalnum() for letter in line)}
        names = {key for line in informative_lines if (key := parse_line_key(line)) is not None}
        self._near_flags = [line.strip() in informative_lines or parse_line_key(line) in names for line in old]

    def find_objection(self, removed_span: tuple[int, int], new: Sequence[str]) -> str | None:
        """Return why the lines `removed_span` (0-indexed, the end excluded) may not become `new`; None: they may."""
        for line in map(str.strip, new):
            if line not in self._file_lines and (line not in self._lines or is_marker(line)):
                return f"the line {line[:120]!r} is neither in the file nor a line of code in the draft"
        start, stop = removed_span
        moves = any(line.strip() for line in self._old[start:stop]) or all(
            line.strip() in self._file_lines for line in new
        )
        if moves and not any(self._near_flags[max(0, start - REACH) : stop + REACH]):
            return f"lines {start + 1}-{max(stop, start + 1)} would change, and the draft speaks of nothing near them"
        return None
