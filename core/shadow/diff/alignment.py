"""Line alignment of two files: patience first, then the rarest line, then Myers for small remainders.

Lines that occur once on both sides are paired along the longest increasing run (patience diff, B. Cohen). Between them,
lines are paired around the rarest common line (histogram diff of JGit), and in small remainders by the greedy algorithm
of Myers ("An O(ND) Difference Algorithm", 1986). Regions where all of these would match only noise are replaced as a
whole. Finally, regions that can slide are moved to where they read best.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

# old[a0:a1] becomes new[b0:b1]; between two regions there is at least one common line.
Region = tuple[int, int, int, int]
_Item = TypeVar("_Item", bound=Hashable)

_MAX_RARE_PAIRS = 64  # pairs of occurrences that are still compared
_MAX_MYERS_LINES = 2_000  # lines of both sides together, at most, for Myers' algorithm
_MAX_MYERS_EDITS = 100  # edits at which Myers' algorithm gives up
_WINDOW_SIZES = (16, 8, 4)  # lines; the widest window is the most reliable and comes first
_NOISE_LINES, _NOISE_EDITS = 2, 8
_MAX_SLIDE = 100


def find_regions(old: Sequence[bytes], new: Sequence[bytes]) -> list[Region]:
    """Return the maximal differing regions, in order."""
    return _slide_regions(_join_across_noise(find_pieces(old, new), old), old, new)


def find_pieces(old: Sequence[bytes], new: Sequence[bytes]) -> list[Region]:
    """Return every differing region, in order, however few lines separate two of them."""
    numbers: dict[bytes, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    regions, i, j = list[Region](), 0, 0
    for x, y, length in (*sorted(_find_matches(a, b)), (len(a), len(b), 0)):
        if x > i or y > j:
            regions.append((i, x, j, y))
        i, j = x + length, y + length
    return regions


def _find_matches(a: list[int], b: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield blocks (i, j, length) with a[i:i+length] == b[j:j+length], in no particular order; they do not cross."""
    todo = [(0, len(a), 0, len(b))]
    while todo:
        a0, a1, b0, b1 = todo.pop()
        start = a0
        while a0 < a1 and b0 < b1 and a[a0] == b[b0]:
            a0, b0 = a0 + 1, b0 + 1
        if a0 > start:
            yield start, b0 - (a0 - start), a0 - start
        end = a1
        while a0 < a1 and b0 < b1 and a[a1 - 1] == b[b1 - 1]:
            a1, b1 = a1 - 1, b1 - 1
        if a1 < end:
            yield a1, b1, end - a1
        if a0 == a1 or b0 == b1:
            continue
        i, j = a0, b0
        anchors = _find_anchors(a, b, (a0, a1, b0, b1))
        for x, y in anchors:
            yield x, y, 1
            if x > i or y > j:
                todo.append((i, x, j, y))
            i, j = x + 1, y + 1
        if anchors:
            todo.append((i, a1, j, b1))


def _find_anchors(a: list[int], b: list[int], box: Region) -> list[tuple[int, int]]:
    """Return pairs of equal lines, increasing on both sides, at which to divide the box; nothing if it differs
    completely."""
    a0, a1, b0, b1 = box
    of_a, of_b = _index_positions(a[a0:a1], a0), _index_positions(b[b0:b1], b0)
    common = of_a.keys() & of_b.keys()
    if not common:
        return []
    if unique := _find_unique_pairs(of_a, of_b):
        return unique
    count, rarest = min((len(of_a[line]) * len(of_b[line]), line) for line in common)
    if count <= _MAX_RARE_PAIRS:
        pairs = [(x, y) for x in of_a[rarest] for y in of_b[rarest]]
        return [max(pairs, key=lambda pair: _measure_run(a, b, box, pair))]
    if a1 - a0 + b1 - b0 <= _MAX_MYERS_LINES and (anchors := _diff_myers(a[a0:a1], b[b0:b1], a0, b0)):
        return anchors
    return _find_window_anchors(a, b, box)


def _find_window_anchors(a: list[int], b: list[int], box: Region) -> list[tuple[int, int]]:
    """Return anchors from windows of several lines that occur once on both sides, for text without rare lines."""
    a0, a1, b0, b1 = box
    for size in _WINDOW_SIZES:
        of_a = _index_positions([*zip(*(a[a0 + offset : a1] for offset in range(size)), strict=False)], a0)
        of_b = _index_positions([*zip(*(b[b0 + offset : b1] for offset in range(size)), strict=False)], b0)
        if unique := _find_unique_pairs(of_a, of_b):
            return unique
    return []


def _find_unique_pairs(of_a: dict[_Item, list[int]], of_b: dict[_Item, list[int]]) -> list[tuple[int, int]]:
    """Return the longest increasing run of pairs of items that occur once on both sides."""
    once = [(b[0], of_a[key][0]) for key, b in of_b.items() if len(b) == 1 == len(of_a.get(key, ()))]
    return _find_longest_increasing(sorted(once)) if once else []


def _index_positions(lines: Sequence[_Item], first: int = 0) -> dict[_Item, list[int]]:
    """Map the items to their positions, counted from `first`."""
    positions: dict[_Item, list[int]] = {}
    for index, line in enumerate(lines, first):
        positions.setdefault(line, []).append(index)
    return positions


def _find_longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of (b, a) pairs, sorted by b, whose a increases too, as (a, b)."""
    tops: list[int] = []
    piles: list[int] = []
    previous: list[int] = []
    for index, (_, x) in enumerate(pairs):
        pile = bisect_left(tops, x)
        previous.append(piles[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(x)
            piles.append(index)
        else:
            tops[pile], piles[pile] = x, index
    run, index = [], piles[-1]
    while index >= 0:
        run.append((pairs[index][1], pairs[index][0]))
        index = previous[index]
    return run[::-1]


def _measure_run(a: list[int], b: list[int], box: Region, pair: tuple[int, int]) -> int:
    """Return the number of consecutive equal lines around a pair."""
    a0, a1, b0, b1 = box
    x, y = pair
    while x > a0 and y > b0 and a[x - 1] == b[y - 1]:
        x, y = x - 1, y - 1
    length = 0
    while x + length < a1 and y + length < b1 and a[x + length] == b[y + length]:
        length += 1
    return length


def _diff_myers(a: list[int], b: list[int], a0: int, b0: int) -> list[tuple[int, int]]:
    """Return the pairs of a shortest edit script; empty if it is longer than `_MAX_MYERS_EDITS`."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for distance in range(_MAX_MYERS_EDITS + 1):
        trace.append(dict(furthest))
        for k in range(-distance, distance + 1, 2):
            down = k == -distance or (k != distance and furthest.get(k - 1, -1) < furthest.get(k + 1, -1))
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            y = x - k
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[k] = x
            if x >= len(a) and y >= len(b):
                return [(a0 + i, b0 + j) for i, j in _trace_back(trace, len(a), len(b))]
    return []


def _trace_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for distance in range(len(trace) - 1, -1, -1):
        furthest, k = trace[distance], x - y
        down = k == -distance or (k != distance and furthest.get(k - 1, -1) < furthest.get(k + 1, -1))
        back_k = k + 1 if down else k - 1
        back_x = furthest[back_k] if distance else 0
        back_y = back_x - back_k if distance else 0
        while x > back_x and y > back_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = back_x, back_y
    return pairs[::-1]


def _join_across_noise(regions: list[Region], old: Sequence[bytes]) -> list[Region]:
    """Join two rewritten regions that are separated only by a line or two without letters (blank lines, brackets)."""
    joined_regions = regions[:1]
    for region in regions[1:]:
        last = joined_regions[-1]
        if _is_rewrite(last) and _is_rewrite(region) and _is_noise(old[last[1] : region[0]]):
            joined_regions[-1] = (last[0], region[1], last[2], region[3])
        else:
            joined_regions.append(region)
    return joined_regions


def _is_rewrite(region: Region) -> bool:
    a0, a1, b0, b1 = region
    return min(a1 - a0, b1 - b0) >= _NOISE_EDITS


def _is_noise(lines: Sequence[bytes]) -> bool:
    return len(lines) <= _NOISE_LINES and not any(byte > 127 or chr(byte).isalnum() for byte in b"".join(lines))


def _slide_regions(regions: list[Region], old: Sequence[bytes], new: Sequence[bytes]) -> list[Region]:
    """Move pure insertions and removals among equal lines to where they read best."""
    placed_regions: list[Region] = []
    for index, (a0, a1, b0, b1) in enumerate(regions):
        if a0 != a1 and b0 != b1:
            placed_regions.append((a0, a1, b0, b1))
            continue
        lines, start, end = (new, b0, b1) if a0 == a1 else (old, a0, a1)
        above = a0 - (placed_regions[-1][1] if placed_regions else -1)
        following = regions[index + 1][0] if index + 1 < len(regions) else len(old) + 1
        shift = _find_best_shift(lines, start, end, (min(above - 1, _MAX_SLIDE), min(following - a1 - 1, _MAX_SLIDE)))
        placed_regions.append((a0 + shift, a1 + shift, b0 + shift, b1 + shift))
    return placed_regions


def _find_best_shift(lines: Sequence[bytes], start: int, end: int, limits: tuple[int, int]) -> int:
    up = down = 0
    while up < limits[0] and lines[start - up - 1] == lines[end - up - 1]:
        up += 1
    while down < limits[1] and end + down < len(lines) and lines[start + down] == lines[end + down]:
        down += 1
    if not up and not down:
        return 0
    return min(
        range(-up, down + 1),
        key=lambda offset: (_rate_cut(lines, start + offset) + _rate_cut(lines, end + offset), -offset),
    )


def _rate_cut(lines: Sequence[bytes], index: int) -> int:
    """Rate a cut before line `index`: low (good) after a blank line and before little indentation."""
    if index in {0, len(lines)}:
        return -1
    after_blank = not lines[index - 1].strip()
    line = lines[index]
    content = line.lstrip()
    if not content:
        return 3 + 2 * after_blank
    indent = len(line[: len(line) - len(content)].expandtabs(4))
    closes = content[:1] in {b"}", b")", b"]"} or content.startswith((b"end", b"else"))
    return 2 * indent - after_blank + 2 * closes
