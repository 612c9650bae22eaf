"""The text that a draft with markers makes of a file.

The tokens of the draft are aligned with the lines of the file (`alignment`), the result is checked (`checks`,
`marker_rules`), and `Spacing` decides on the blank lines between its rows. Lines that were neighbours in the file keep
the blank lines between them, unless the draft writes both and nothing but blank lines between them. Blank lines next to
a marker set the marker off, so they only count where something new stands; code that stays keeps the blank lines before
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final

from core.edits.drafts.alignment import AlignmentStep, AlignmentUndecided, align, assign_scopes
from core.edits.drafts.checks import AlignedDraft, find_objection
from core.edits.drafts.draft_indentation import fit_indentation
from core.edits.drafts.line_costs import compute_replacement_cost
from core.edits.drafts.line_matches import CONTINUED, DraftToken, ResultRow, measure_depths
from core.edits.drafts.marked_draft import MarkedDraft
from core.edits.drafts.marker_rules import find_violation
from core.edits.drafts.markers import is_marker, may_be_marker, may_be_remark, parse_removal
from core.edits.errors import UndecidedEdit
from core.edits.indentation import extract_indent, measure_depth
from core.patterns import compile_lazily
from core.text.lines import TextLines

_OPENS = compile_lazily(r"\s*(?:@\w|#\[|/\*\*).*|.*[{(\[:]\s*$|.*\bdo(?:\s*\|[^|]*\|)?$|\s*(?:def|class|module)\b.*")
MAX_UNMENTIONED: Final = 12  # lines that a draft may drop without mentioning them
_MAX_CELLS: Final = 300_000  # of a score table above which the alignment is split


def check_remarks(new: Sequence[str], file_lines: Collection[str]) -> None:
    """Raise `UndecidedEdit` if a line that looks like a marker may be part of a longer comment."""
    for row in new:
        if may_be_remark(row) and row.strip() not in file_lines:
            raise UndecidedEdit(f"{row.strip()[:80]!r} may stand for unchanged lines, or be part of a comment")


def check_marker_words(rows: Sequence[str], lines: TextLines, after: str) -> None:
    """Raise `UndecidedEdit` if the result contains words of the draft that say that something stays, and the file does
    not. At both ends of the draft any such line counts, within it only lines that are no comment."""
    nonblank_rows = [row.strip() for row in rows if row.strip()]
    words = {row for row in nonblank_rows if may_be_marker(row)} | set(
        filter(is_marker, (*nonblank_rows[:1], *nonblank_rows[-1:]))
    )
    for row in words - {line.strip() for line in lines.bodies}:
        if row in {line.strip() for line in after.splitlines()}:
            raise UndecidedEdit(f"{row[:80]!r} may stand for unchanged lines, or be one of them")


def tokenise_draft(new: Sequence[str], lines: TextLines) -> list[DraftToken]:
    """Tokenise a draft in which comments may also say what is removed."""
    file_lines = {line.strip() for line in lines.bodies}
    tokens = []
    for line in fit_indentation(new, lines):
        depth = measure_depth(line) if line.strip() else 0
        subject = None if line.strip() in file_lines else parse_removal(line)
        if subject and any(compute_replacement_cost(line, body) is not None for body in lines.bodies):
            subject = None  # it is another version of a line of the file
        if subject:
            tokens.append(DraftToken("removal", line, depth, subject))
        elif line.strip() not in file_lines and (is_marker(line) or may_be_marker(line)):
            tokens.append(DraftToken("marker", line, depth))
        else:
            tokens.append(DraftToken("line", line, depth))
    return assign_scopes(tokens)


def splice_draft(lines: TextLines, tokens: Sequence[DraftToken], *, open_ends: bool, prose: bool = False) -> str:
    """Apply the tokens to the lines. Raises `UndecidedEdit` for several results, or for unmentioned deletions."""
    try:
        depths = measure_depths(lines.bodies, prose=prose)
        rows = _align_rows(lines, tokens, depths, open_ends)
    except AlignmentUndecided:
        raise UndecidedEdit("the new lines fit in more than one place") from None
    if objection := find_objection(AlignedDraft(lines, tokens, rows)) or find_violation(
        MarkedDraft(lines.bodies, tokens, rows, depths)
    ):
        raise UndecidedEdit(objection)
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
    """Return the filled rows of the result, from the alignment of the filled lines of both sides."""
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
    """True if a line of the file was the last entry of a list with commas, and a new entry follows it."""
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
    """Align both sides; long files are cut at lines that both have once, and the parts are aligned one by one."""
    if (len(tokens) + 1) * (len(old) + 1) <= _MAX_CELLS:
        return align(tokens, old, depths, open_start=open_ends, open_end=open_ends)
    cuts = [(0, 0), *_find_anchors(tokens, old), (len(tokens), len(old))]
    steps: list[AlignmentStep] = []
    for (i1, j1), (i2, j2) in pairwise(cuts):
        start, end = open_ends and i1 == 0, open_ends and i2 == len(tokens)
        part = align(tokens[i1:i2], old[j1:j2], depths[j1:j2], open_start=start, open_end=end)
        steps += [AlignmentStep(None if t is None else t + i1, None if o is None else o + j1) for t, o in part]
    return steps


def _find_anchors(tokens: Sequence[DraftToken], old: Sequence[str]) -> list[tuple[int, int]]:
    """Find lines that both sides have once and at one depth, in the longest rising order."""
    positions: dict[str, list[int]] = {}
    for index, line in enumerate(old):
        positions.setdefault(line.strip(), []).append(index)
    texts = [token.text.strip() for token in tokens]
    pairs = [
        (index, positions[text][0])
        for index, text in enumerate(texts)
        if len(positions.get(text, ())) == 1 and texts.count(text) == 1 and any(letter.isalnum() for letter in text)
        if measure_depth(old[positions[text][0]]) == tokens[index].depth and tokens[index].kind == "line"
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


class Spacing:
    """The blank lines between two rows of the result, as (body, ending) pairs."""

    def __init__(self, lines: TextLines, tokens: Sequence[DraftToken], *, open_ends: bool) -> None:
        self.lines, self.tokens, self.open_ends = lines, tokens, open_ends
        self.fallback = lines.find_dominant_ending()

    def find_blanks_between(self, above: ResultRow | None, below: ResultRow | None) -> list[tuple[str, str]]:
        """Return the blank lines between two rows; None stands for the start or the end of the edited range."""
        if above is None or below is None:
            return self._find_outside(above, below)
        draft_count = self._count_drafted(above.token, below.token)
        if above.old is not None and below.old is not None and self._is_blank(above.old + 1, below.old):
            blanks = self._take_blanks(above.old + 1, below.old)
            return blanks if draft_count is None or draft_count == len(blanks) else self._make_blanks(draft_count)
        if draft_count is not None:
            return self._make_blanks(draft_count)
        before = [] if below.old is None else self._take_blanks(self._find_first_blank(below.old), below.old)
        if below.token is None:
            blank_count = 0 if above.token is None else self._count_run(above.token, 1)
            return before if len(before) >= blank_count else self._make_blanks(blank_count)
        blank_count = max(
            self._count_run(below.token, -1), 0 if above.token is None else self._count_run(above.token, 1)
        )
        if above.old is not None and below.old is None and opens_block(self.tokens[below.token].text):
            blank_count = max(blank_count, self._count_usual(above.old, self.tokens[below.token].depth))
        return self._make_blanks(blank_count) if blank_count else before

    def _count_usual(self, old: int, depth: int) -> int:
        """Count the blank lines before the nearest block of this depth, at or above the line that follows `old`."""
        position = next((index for index in range(old + 1, len(self.lines)) if self.lines.bodies[index].strip()), old)
        while position > 0:
            first = self._find_first_blank(position)
            line, above = self.lines.bodies[position], self.lines.bodies[first - 1] if first else ""
            line_depth = measure_depth(line)
            if line_depth < depth and position <= old:
                break
            ends = measure_depth(above) > depth or CONTINUED.match(above.strip())
            if line_depth == depth and first and ends and opens_block(line):
                return position - first
            position = first - 1
        return 0

    def _find_outside(self, above: ResultRow | None, below: ResultRow | None) -> list[tuple[str, str]]:
        row, step = (below, -1) if above is None else (above, 1)
        if row is None:
            return []
        if row.token is not None and not self.open_ends:
            index = row.token + step * (self._count_run(row.token, step) + 1)
            if not 0 <= index < len(self.tokens):
                return self._make_blanks(self._count_run(row.token, step))
        if row.old is None:
            return []
        first, stop = (0, row.old) if above is None else (row.old + 1, len(self.lines))
        return self._take_blanks(first, stop) if self._is_blank(first, stop) else []

    def _count_drafted(self, above: int | None, below: int | None) -> int | None:
        """Count the blank lines that the draft writes between two of its lines; None if a marker is between them."""
        if above is None or below is None:
            return None
        between = self.tokens[above + 1 : below]
        if any(token.kind == "marker" for token in between):
            return None
        return sum(not token.text.strip() for token in between)

    def _count_run(self, token: int, step: int) -> int:
        """Count the blank lines after (`step` 1) or before (-1) a line of the draft."""
        count, index = 0, token + step
        while 0 <= index < len(self.tokens) and not self.tokens[index].text.strip():
            count, index = count + 1, index + step
        return count

    def _find_first_blank(self, old: int) -> int:
        while old > 0 and not self.lines.bodies[old - 1].strip():
            old -= 1
        return old

    def _is_blank(self, first: int, stop: int) -> bool:
        return not any(self.lines.bodies[index].strip() for index in range(first, stop))

    def _take_blanks(self, first: int, stop: int) -> list[tuple[str, str]]:
        return [(self.lines.bodies[index], self.lines.ends[index] or self.fallback) for index in range(first, stop)]

    def _make_blanks(self, count: int) -> list[tuple[str, str]]:
        return [("", self.fallback)] * count


def opens_block(line: str) -> bool:
    """True if a line begins a block of several lines."""
    return _OPENS.match(line) is not None
