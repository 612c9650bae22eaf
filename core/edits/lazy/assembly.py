"""The text that a draft with markers makes of a file: its tokens, aligned with the lines, and what both give."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from core.edits.errors import UndecidedEdit
from core.edits.hunks.costs import compute_replacement_cost
from core.edits.indentation import extract_indent, measure_depth
from core.edits.lazy.alignment import AlignmentStep, AlignmentUndecided, align, assign_scopes
from core.edits.lazy.blank_lines import ResultRow, Spacing
from core.edits.lazy.checks import AlignedDraft, find_doubt
from core.edits.lazy.definitions import MAX_UNMENTIONED
from core.edits.lazy.draft_indentation import fit_indentation
from core.edits.lazy.gaps import MarkedDraft
from core.edits.lazy.line_matches import DraftToken, measure_depths
from core.edits.lazy.marker_law import find_breach
from core.edits.lazy.markers import is_marker, may_be_marker, may_be_remark, parse_removal
from core.text.lines import TextLines

_SEGMENT: Final = 300_000


def check_remarks(new: Sequence[str], file_lines: Collection[str]) -> None:
    """Raise `UndecidedEdit` when what looks like a marker may be a part of a longer comment."""
    for row in new:
        if may_be_remark(row) and row.strip() not in file_lines:
            raise UndecidedEdit(f"{row.strip()[:80]!r} may stand for lines that stay, or be a part of a comment")


def check_marker_words(rows: Sequence[str], lines: TextLines, after: str) -> None:
    """Raise `UndecidedEdit` when words of a draft that say that something stays would be in the text, though the file
    does not have them: at an end of the draft any words, within it those that are no comment."""
    nonblank_rows = [row.strip() for row in rows if row.strip()]
    words = {row for row in nonblank_rows if may_be_marker(row)} | set(
        filter(is_marker, (*nonblank_rows[:1], *nonblank_rows[-1:]))
    )
    for row in words - {line.strip() for line in lines.bodies}:
        if row in {line.strip() for line in after.splitlines()}:
            raise UndecidedEdit(f"{row[:80]!r} may stand for lines that stay, or be one of them")


def tokenise_draft(new: Sequence[str], lines: TextLines) -> list[DraftToken]:
    """Tokenise a draft in which comments also say what is removed."""
    file_lines = {line.strip() for line in lines.bodies}
    tokens = []
    for line in fit_indentation(new, lines):
        depth = measure_depth(line) if line.strip() else 0
        thing = None if line.strip() in file_lines else parse_removal(line)
        if thing and any(compute_replacement_cost(line, body) is not None for body in lines.bodies):
            thing = None  # a version of a line of the file
        if thing:
            tokens.append(DraftToken("removal", line, depth, thing))
        elif line.strip() not in file_lines and (is_marker(line) or may_be_marker(line)):
            tokens.append(DraftToken("marker", line, depth))
        else:
            tokens.append(DraftToken("line", line, depth))
    return assign_scopes(tokens)


def splice_draft(lines: TextLines, tokens: Sequence[DraftToken], *, open_ends: bool, prose: bool = False) -> str:
    """Make the text that the tokens make of the lines. Raises `UndecidedEdit` for several, or unmentioned deletions."""
    try:
        depths = measure_depths(lines.bodies, prose=prose)
        rows = _align_rows(lines, tokens, depths, open_ends)
    except AlignmentUndecided:
        raise UndecidedEdit("the new lines fit in more than one place") from None
    if doubt := find_doubt(AlignedDraft(lines, tokens, rows)) or find_breach(
        MarkedDraft(lines.bodies, tokens, rows, depths)
    ):
        raise UndecidedEdit(doubt)
    spacing, fallback = Spacing(lines, tokens, open_ends=open_ends), lines.find_dominant_ending()
    output: list[tuple[str, str]] = []
    retained_count = last = 0
    for above, row in pairwise([None, *rows, None]):
        output += spacing.find_blanks_between(above, row)
        if row is None:
            break
        end = fallback if row.old is None else lines.ends[row.old] or fallback
        is_retained = row.old is not None and (
            row.token is None or _is_unchanged(tokens[row.token], lines.bodies[row.old])
        )
        retained_count += is_retained
        body = lines.bodies[row.old or 0] if is_retained else tokens[row.token or 0].text
        if row.old is None and above is not None and above.token is None and _wants_comma(lines, above.old or 0, body):
            output[last] = (output[last][0] + ",", output[last][1])
        last = len(output)
        output.append((body, end))
    removed_count = sum(bool(line.strip()) for line in lines.bodies) - retained_count
    if removed_count > MAX_UNMENTIONED and removed_count > 3 * (len(rows) - retained_count):
        raise UndecidedEdit(f"it would delete {removed_count} lines that it does not mention")
    return lines.fit_end("".join(line + end for line, end in output))


def _align_rows(
    lines: TextLines, tokens: Sequence[DraftToken], depths: Sequence[int], open_ends: bool
) -> list[ResultRow]:
    """The filled lines of the result, from the alignment of the filled lines of both sides."""
    token_indexes = [index for index, token in enumerate(tokens) if token.text.strip()]
    line_indexes = [index for index, line in enumerate(lines.bodies) if line.strip()]
    nonblank_lines, filled_depths = (
        [lines.bodies[index] for index in line_indexes],
        [depths[index] for index in line_indexes],
    )
    steps = _align_segments(nonblank_lines, [tokens[index] for index in token_indexes], filled_depths, open_ends)
    rows = [
        ResultRow(None if token is None else token_indexes[token], None if old is None else line_indexes[old])
        for token, old in steps
    ]
    return [row for row in rows if row.token is None or tokens[row.token].kind == "line"]


def _wants_comma(lines: TextLines, old: int, line: str) -> bool:
    """True if a line of the file was the last of a list with commas between its entries, and a new entry follows."""
    around = [body for body in lines.bodies[max(0, old - 1) : old + 2] if body.strip()]
    if len(around) != 3 or not around[0].endswith(",") or not re.match(r"\s*[)\]}]", around[2]):
        return False
    same = measure_depth(around[0]) == measure_depth(around[1]) == measure_depth(line)
    return same and re.search(r"[\w\"')\]]$", around[1]) is not None


def _is_unchanged(token: DraftToken, old: str) -> bool:
    same = token.kind == "line" and token.text.strip() == old.strip()
    return same and (not old.strip() or extract_indent(token.text) == extract_indent(old))


def _align_segments(
    old: Sequence[str], tokens: Sequence[DraftToken], depths: Sequence[int], open_ends: bool
) -> list[AlignmentStep]:
    """Align; long files are cut at lines that both sides have once, and each part is aligned on its own."""
    if (len(tokens) + 1) * (len(old) + 1) <= _SEGMENT:
        return align(tokens, old, depths, open_start=open_ends, open_end=open_ends)
    cuts = [(0, 0), *_find_anchors(tokens, old), (len(tokens), len(old))]
    steps: list[AlignmentStep] = []
    for (i1, j1), (i2, j2) in pairwise(cuts):
        start, end = open_ends and i1 == 0, open_ends and i2 == len(tokens)
        part = align(tokens[i1:i2], old[j1:j2], depths[j1:j2], open_start=start, open_end=end)
        steps += [AlignmentStep(None if t is None else t + i1, None if o is None else o + j1) for t, o in part]
    return steps


def _find_anchors(tokens: Sequence[DraftToken], old: Sequence[str]) -> list[tuple[int, int]]:
    """Lines that both sides have once and at one depth, in the longest rising order."""
    places: dict[str, list[int]] = {}
    for index, line in enumerate(old):
        places.setdefault(line.strip(), []).append(index)
    texts = [token.text.strip() for token in tokens]
    pairs = [
        (index, places[text][0])
        for index, text in enumerate(texts)
        if len(places.get(text, ())) == 1 and texts.count(text) == 1 and any(letter.isalnum() for letter in text)
        if measure_depth(old[places[text][0]]) == tokens[index].depth and tokens[index].kind == "line"
    ]
    return [pair for pair in _find_longest_rising(pairs) if pair[0] > 0 and pair[1] > 0]


def _find_longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    best: list[tuple[int, int]] = []
    lengths = [1] * len(pairs)
    before = [-1] * len(pairs)
    for index, (_, position) in enumerate(pairs):
        for other in range(index):
            if pairs[other][1] < position and lengths[other] >= lengths[index]:
                lengths[index], before[index] = lengths[other] + 1, other
    cursor = max(range(len(pairs)), key=lengths.__getitem__, default=-1)
    while cursor >= 0:
        best.append(pairs[cursor])
        cursor = before[cursor]
    return best[::-1]
