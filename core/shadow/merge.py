"""Three-way merge by lines: what two sides made of one base, if they did not touch the same place."""

from __future__ import annotations

from collections.abc import Sequence

from core.shadow.align import Region, regions
from core.shadow.hunks import divisible
from core.shadow.lines import split_lines

_Edit = tuple[int, int, list[bytes]]


def merge3(base: bytes, ours: bytes, theirs: bytes, *, prefer_ours: bool = False) -> bytes | None:
    """The merge, or None where both sides changed the same or touching lines differently.

    `prefer_ours`: take our side there instead (and of files that can't be merged by lines).
    """
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    if not (divisible(base, ours) and divisible(base, theirs) and divisible(ours, theirs)):
        return ours if prefer_ours else None
    lines = split_lines(base)
    edits = _joined(_edits(lines, split_lines(ours)), _edits(lines, split_lines(theirs)), prefer_ours)
    if edits is None:
        return None
    parts: list[bytes] = []
    at = 0
    for start, end, replacement in edits:
        parts += lines[at:start]
        parts += replacement
        at = end
    return b"".join((*parts, *lines[at:]))


def _edits(base: Sequence[bytes], side: list[bytes]) -> list[_Edit]:
    def as_edit(region: Region) -> _Edit:
        a0, a1, b0, b1 = region
        return a0, a1, side[b0:b1]

    return [as_edit(region) for region in regions(base, side)]


def _joined(ours: list[_Edit], theirs: list[_Edit], prefer_ours: bool) -> list[_Edit] | None:
    """Both sides' edits in order; None when two of them touch and differ."""
    own = {(start, end): replacement for start, end, replacement in ours}
    kept: list[_Edit] = []
    mine = 0
    for start, end, replacement in theirs:
        while mine < len(ours) and ours[mine][1] < start:
            mine += 1
        touches = mine < len(ours) and ours[mine][0] <= end
        if touches and own.get((start, end)) != replacement and not prefer_ours:
            return None
        if not touches:
            kept.append((start, end, replacement))
    return sorted((*ours, *kept), key=lambda edit: (edit[0], edit[1]))
