"""Three-way merge by lines (the stretches of diff3): what two sides made of one base, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from core.shadow.align import regions
from core.shadow.hunks import divisible
from core.shadow.lines import split_lines


class Edit(Struct, frozen=True):
    """base[start:end] becomes `lines` on one side."""

    start: int
    end: int
    lines: list[bytes]


class Stretch(Struct, frozen=True):
    """base[start:end], or what one side made of it, or, where `clashes`, what each of the two did."""

    start: int
    end: int
    mine: list[bytes]
    theirs: list[bytes]
    clashes: bool = False


def merge3(base: bytes, ours: bytes, theirs: bytes, *, prefer_ours: bool = False) -> bytes | None:
    """The merge, or None where both sides changed the same or touching lines differently.

    `prefer_ours`: take our side there instead (and of files that can't be merged by lines).
    """
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    if not mergeable(base, ours, theirs):
        return ours if prefer_ours else None
    found = stretches(split_lines(base), split_lines(ours), split_lines(theirs))
    if not prefer_ours and any(each.clashes for each in found):
        return None
    return b"".join(line for each in found for line in each.mine)


def mergeable(base: bytes, ours: bytes, theirs: bytes) -> bool:
    """Whether all three are text in encodings that can stand in one file."""
    return divisible(base, ours) and divisible(base, theirs) and divisible(ours, theirs)


def stretches(base: Sequence[bytes], mine: list[bytes], theirs: list[bytes]) -> list[Stretch]:
    """The whole base in order. A side's edits that touch none of the other's stand in both `mine` and `theirs`."""
    found: list[Stretch] = []
    at = 0
    for own, others in _touching(_edits(base, mine), _edits(base, theirs)):
        start = min(each.start for each in (*own, *others))
        end = max(each.end for each in (*own, *others))
        if start > at:
            found.append(_same(at, start, list(base[at:start])))
        found.append(_stretch(base, start, end, own, others))
        at = end
    if at < len(base):
        found.append(_same(at, len(base), list(base[at:])))
    return found


def _same(start: int, end: int, lines: list[bytes]) -> Stretch:
    return Stretch(start, end, lines, lines)


def _stretch(base: Sequence[bytes], start: int, end: int, own: list[Edit], others: list[Edit]) -> Stretch:
    mine, theirs = _applied(base, start, end, own), _applied(base, start, end, others)
    if not own or not others or mine == theirs:
        return _same(start, end, mine if own else theirs)
    return Stretch(start, end, mine, theirs, clashes=True)


def _applied(base: Sequence[bytes], start: int, end: int, edits: list[Edit]) -> list[bytes]:
    lines: list[bytes] = []
    at = start
    for each in edits:
        lines += base[at : each.start]
        lines += each.lines
        at = each.end
    return [*lines, *base[at:end]]


def _edits(base: Sequence[bytes], side: list[bytes]) -> list[Edit]:
    return [Edit(a0, a1, side[b0:b1]) for a0, a1, b0, b1 in regions(base, side)]


def _touching(ours: list[Edit], theirs: list[Edit]) -> Iterator[tuple[list[Edit], list[Edit]]]:
    """The edits of both sides in groups that touch; edits of one side never touch each other."""
    group: tuple[list[Edit], list[Edit]] = ([], [])
    reach = -1
    both = [*((each, 0) for each in ours), *((each, 1) for each in theirs)]
    for each, side in sorted(both, key=_place):
        if each.start > reach and (group[0] or group[1]):
            yield group
            group = ([], [])
        group[side].append(each)
        reach = max(reach, each.end)
    if group[0] or group[1]:
        yield group


def _place(edit: tuple[Edit, int]) -> tuple[int, int, int]:
    return edit[0].start, edit[0].end, edit[1]
