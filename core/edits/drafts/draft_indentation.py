"""The indentation of a draft, fitted to the file: shifted as a whole, at another width, or with tabs for spaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from math import gcd
from typing import Final

from core.edits.drafts.line_keys import parse_line_key
from core.edits.drafts.marked_draft import is_distinctive
from core.edits.drafts.markers import is_marker, may_be_marker
from core.edits.indentation import Shift, deduce_shift, extract_indent, measure_depth
from core.text.lines import TextLines

_SURE: Final = 3  # lines that are enough to deduce a shift; the head of one definition is enough, too


def fit_indentation(new: Sequence[str], lines: TextLines) -> list[str]:
    """Return the draft in the indentation of the file, if the lines that both have once agree on one rule."""
    file_counts = Counter(line.strip() for line in lines.bodies)
    draft_counts = Counter(line.strip() for line in new)
    positions = {line.strip(): line for line in lines.bodies}
    pairs = [
        (line, positions[line.strip()])
        for line in new
        if file_counts[line.strip()] == 1 == draft_counts[line.strip()] and is_distinctive(line)
    ]
    sure = len(pairs) >= _SURE or any(
        (parse_line_key(draft_line) or "").startswith("definition ") for draft_line, _ in pairs
    )
    is_indented = any(extract_indent(draft_line) or extract_indent(old) for draft_line, old in pairs)
    shift = deduce_shift(pairs, new) if sure and is_indented and not _begins_new(new, file_counts) else None
    shifted_lines = [shift(line) for line in new] if shift else list(new)
    steps = [_measure_indent_step(rows) for rows in (new, shifted_lines, lines.bodies)]
    if shift is None or steps[1] % (steps[2] or 1) or steps[0] == steps[2] < steps[1]:
        restyle = _deduce_restyle(new, lines.bodies)
        return [restyle(line) for line in new] if restyle else list(new)
    return shifted_lines


def _begins_new(new: Sequence[str], file_lines: Container[str]) -> bool:
    """True if a piece begins with a line that the file does not have: its depth is its own, and the lines below it may
    be meant to leave the block that they are in."""
    nonblank_lines = [line for line in new if line.strip()]
    marker_flags = [is_marker(line) or may_be_marker(line) for line in nonblank_lines]
    firsts = (
        line
        for line, mark, above in zip(nonblank_lines, marker_flags, [True, *marker_flags], strict=False)
        if above and not mark
    )
    return any(line.strip() not in file_lines for line in firsts)


def reindent_at(new: Sequence[str], head: str) -> list[str]:
    """Return the draft, shifted so that its first line has the depth of `head`, a line of the file."""
    shift = deduce_shift([(new[0], head)], new)
    return [shift(line) for line in new] if shift else list(new)


def _measure_indent_step(lines: Sequence[str]) -> int:
    """Return the greatest width in columns that divides every indentation; 0 = nothing is indented."""
    return gcd(*(measure_depth(line) for line in lines if line.strip()))


def detect_indent_unit(lines: Sequence[str]) -> str:
    """Return one level of indentation as text, as far as the lines show it."""
    return "\t" if any(extract_indent(line)[:1] == "\t" for line in lines) else " " * (_measure_indent_step(lines) or 4)


def _deduce_restyle(new: Sequence[str], old: Sequence[str]) -> Shift | None:
    """Return a rule that writes tabs for spaces, or spaces for tabs, if the file has only those; None = none is
    needed."""
    draft_indent = "".join(extract_indent(line) for line in new if line.strip())
    file_indent = "".join(extract_indent(line) for line in old if line.strip())
    if set(draft_indent) == {" "} and set(file_indent) == {"\t"}:
        width, unit = _measure_indent_step(new), "\t"
    elif set(draft_indent) == {"\t"} and set(file_indent) == {" "}:
        width, unit = 4, " " * _measure_indent_step(old)
    else:
        return None

    def restyle(line: str) -> str:
        levels, extra = divmod(measure_depth(line), width)
        return unit * levels + " " * extra + line.lstrip() if line.strip() else line

    return restyle if width > 1 and unit else None
