"""Exact hunks over bytes: applying all of them gives the pending bytes, none the base, any subset a file in between.

Hunks have positions. A verdict removes some of them and shifts the others, which are otherwise unchanged; lines are
compared again only when the content has changed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, count, pairwise

from msgspec.structs import replace

from core.protocol.review import Hunk, Verdict
from core.shadow.diff.alignment import Region, find_regions
from core.shadow.diff.cell_regions import find_cell_regions
from core.shadow.diff.text_lines import Encoding, decode_line, detect_encoding, is_binary, split_lines

_MAX_GAP = 2  # unchanged lines, at most, between two hunks of one region


def compute_hunks(base: bytes, pending: bytes, known_hunks: Iterable[Hunk] = ()) -> tuple[Hunk, ...]:
    """Return the differences, in order. `known_hunks`: hunks of an earlier comparison, whose ids pass to hunks with the
    same content; a region that was split into several of them is split again."""
    old, new = split_lines(base), split_lines(pending)
    earlier = tuple(known_hunks)
    regions = find_text_regions(base, pending, old, new)
    if runs := _find_runs(earlier):
        regions = [part for region in regions for part in _split_as_before(region, runs, old, new)]
    return tuple(_build_hunks(regions, old, new, earlier))


def find_text_regions(base: bytes, pending: bytes, old: Sequence[bytes], new: Sequence[bytes]) -> list[Region]:
    """Return the differing regions, in order: by cells in notebooks, else by lines."""
    cells = find_cell_regions(base, pending, old, new)
    return find_regions(old, new) if cells is None else cells


def compare_texts(base: bytes, pending: bytes) -> tuple[Hunk, ...]:
    """Return the differences of two texts, in order; nothing if they are indivisible."""
    return compute_hunks(base, pending) if is_divisible(base, pending) else ()


def replace_hunk(
    every: Sequence[Hunk], hunk: Hunk, parts: Sequence[Region], old: Sequence[bytes], new: Sequence[bytes]
) -> tuple[Hunk, ...]:
    """Replace one hunk by `parts`; the others preserve their ids and are shifted.

    `old`, `new`: the lines of its two sides, `new` after the edit; `parts` are regions of these.
    """
    index = every.index(hunk)
    line_shift = len(new) - hunk.new_lines
    after = [replace(other, new_start=other.new_start + line_shift) for other in every[index + 1 :]]
    taken_ids = [other.id for other in (*every[:index], *after)]
    differing = [part for part in parts if old[part[0] : part[1]] != new[part[2] : part[3]]]
    inner = _build_hunks(differing, old, new, taken_ids=taken_ids, above=(hunk.old_start - 1, hunk.new_start - 1))
    parts_of_hunk = (replace(inner_hunk, todo=hunk.todo, yours=hunk.yours) for inner_hunk in inner)
    return (*every[:index], *parts_of_hunk, *after)


def join_hunks(every: Sequence[Hunk], parts: Sequence[Hunk], base: bytes, pending: bytes) -> tuple[Hunk, ...]:
    """Make one hunk of consecutive ones, with the unchanged lines between them."""
    first, last, index = parts[0], parts[-1], every.index(parts[0])
    before, after = every[:index], every[index + len(parts) :]
    region = (
        *(first.old_start - 1, last.old_start - 1 + last.old_lines),
        *(first.new_start - 1, last.new_start - 1 + last.new_lines),
    )
    taken_ids = [other.id for other in (*before, *after)]
    (whole,) = _build_hunks([region], split_lines(base), split_lines(pending), taken_ids=taken_ids)
    is_yours, clashes = any(part.yours for part in parts), any(part.clashes for part in parts)
    todo = first.todo if len({part.todo for part in parts}) == 1 else ""
    return (*before, replace(whole, todo=todo, yours=is_yours, clashes=clashes), *after)


def halve_hunk(old: Sequence[bytes], new: Sequence[bytes], index: int, encoding: Encoding) -> list[Region]:
    """Cut the lines of both sides of a hunk before line `index` (0-indexed). A last line without an ending stays in the
    second part, so that no text can follow on the same line."""
    a, b = (
        min(index, len(side) - (1 if side and decode_line(side[-1], encoding)[1] == "none" else 0))
        for side in (old, new)
    )
    return [(0, a, 0, b), (a, len(old), b, len(new))]


def _build_hunks(
    regions: Iterable[Region],
    old: Sequence[bytes],
    new: Sequence[bytes],
    known_hunks: Iterable[Hunk] = (),
    *,
    taken_ids: Iterable[str] = (),
    above: tuple[int, int] = (0, 0),
) -> Iterator[Hunk]:
    """Yield the hunks of regions: a hunk takes the id of the nearest of `known_hunks` with the same content, else a
    free id."""
    groups, used_ids, yielded_ids = defaultdict[str, list[Hunk]](list), set(taken_ids), set[str]()
    for known_hunk in known_hunks:
        groups[known_hunk.id.partition(".")[0]].append(known_hunk)
        used_ids.add(known_hunk.id)
    for a0, a1, b0, b1 in regions:
        content, old_start = _hash_lines(old[a0:a1], new[b0:b1]), above[0] + a0 + 1
        if group := groups[content]:
            nearest = min(group, key=lambda hunk: abs(hunk.old_start - old_start))
            group.remove(nearest)
            name = nearest.id
        else:
            name = _find_free_id(content, used_ids)
            used_ids.add(name)
        # Hunks of two earlier comparisons may have the same id.
        yielded_ids.add(name := _find_free_id(name, yielded_ids))
        yield Hunk(id=name, old_start=old_start, old_lines=a1 - a0, new_start=above[1] + b0 + 1, new_lines=b1 - b0)


def _find_free_id(preferred_id: str, used_ids: Collection[str]) -> str:
    """Return the id of a hunk: `<12 hex of the content>`, with `.n` where the same content occurs again."""
    names = chain([preferred_id], (f"{preferred_id.partition('.')[0]}.{number}" for number in count(1)))
    return next(name for name in names if name not in used_ids)


def _split_as_before(
    region: Region, runs: Sequence[Sequence[Hunk]], old: Sequence[bytes], new: Sequence[bytes]
) -> Iterator[Region]:
    """Yield the region in the parts into which the user had split it, if all of them are unchanged."""
    for run in runs:
        first, last = run[0], run[-1]
        below = region[0] - first.old_start, region[2] - first.new_start
        starts = [(hunk.old_start + below[0], hunk.new_start + below[1], hunk) for hunk in run]
        parts = [(a, a + hunk.old_lines, b, b + hunk.new_lines) for a, b, hunk in starts]
        reaches = (last.old_start + last.old_lines - first.old_start, last.new_start + last.new_lines - first.new_start)
        if reaches == (region[1] - region[0], region[3] - region[2]) and _is_same_run(run, parts, old, new):
            yield from parts
            return
    yield region


def _is_same_run(run: Sequence[Hunk], parts: Sequence[Region], old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """True if the regions have the content of the hunks, with only equal lines between them."""
    between = all(old[one[1] : other[0]] == new[one[3] : other[2]] for one, other in pairwise(parts))
    return between and all(
        _hash_lines(old[a0:a1], new[b0:b1]) == hunk.id.partition(".")[0]
        for hunk, (a0, a1, b0, b1) in zip(run, parts, strict=True)
    )


def _find_runs(hunks: Sequence[Hunk]) -> list[list[Hunk]]:
    """Return groups of consecutive hunks that are so close that a new comparison would join them."""
    runs: list[list[Hunk]] = []
    for one, other in pairwise(hunks):
        gap = other.old_start - one.old_start - one.old_lines
        if not 0 <= gap <= _MAX_GAP or gap != other.new_start - one.new_start - one.new_lines:
            continue
        if runs and runs[-1][-1] is one:
            runs[-1].append(other)
        else:
            runs.append([one, other])
    return runs


def build_whole_hunk(
    identity: Sequence[str], old_lines: int = 0, new_lines: int = 0, *, moves: bool = False
) -> tuple[Hunk, ...]:
    """Build the one hunk of an indivisible change; its id is derived from `identity` (hashes, modes)."""
    name = _hash_lines([part.encode() for part in identity], [])
    return (Hunk(id=name, old_start=1, old_lines=old_lines, new_start=1, new_lines=new_lines, moves=moves),)


def is_divisible(base: bytes, pending: bytes) -> bool:
    """True if any subset of the hunks gives a valid file: text on both sides, in compatible encodings."""
    if is_binary(base) or is_binary(pending):
        return False
    return not base or not pending or detect_encoding(base) == detect_encoding(pending)


def select_hunks(base: bytes, pending: bytes, hunks: Sequence[Hunk]) -> bytes:
    """Return `base` with the selected hunks (in order, by position) taken from `pending`."""
    old, new = split_lines(base), split_lines(pending)
    parts: list[bytes] = []
    position = 0
    for hunk in hunks:
        start = hunk.old_start - 1
        parts += old[position:start]
        parts += new[hunk.new_start - 1 : hunk.new_start - 1 + hunk.new_lines]
        position = start + hunk.old_lines
    return b"".join((*parts, *old[position:]))


def remove_hunks(all_hunks: Sequence[Hunk], decided_ids: Collection[str], verdict: Verdict) -> tuple[Hunk, ...]:
    """Return the hunks that stay pending, shifted: an accepted hunk moves the lines of the base, a rejected one those
    of the pending file."""
    rest: list[Hunk] = []
    shift = 0
    for hunk in all_hunks:
        if hunk.id in decided_ids:
            shift += hunk.new_lines - hunk.old_lines
        else:
            rest.append(_shift_hunk(hunk, shift, verdict))
    return tuple(rest)


def reinsert_hunks(rest: Sequence[Hunk], returned_hunks: Sequence[Hunk], verdict: Verdict) -> tuple[Hunk, ...]:
    """Return the hunks as they were before `verdict` removed `returned_hunks`; the inverse of `remove_hunks`."""
    waiting = list(returned_hunks)
    hunks: list[Hunk] = []
    shift = 0
    for hunk in rest:
        while waiting and _is_before(waiting[0], _shift_hunk(hunk, -shift, verdict), verdict):
            shift += waiting[0].new_lines - waiting[0].old_lines
            hunks.append(waiting.pop(0))
        hunks.append(_shift_hunk(hunk, -shift, verdict))
    hunks_by_id: dict[str, Hunk] = {}
    for hunk in (*hunks, *waiting):
        name = _find_free_id(hunk.id, hunks_by_id)
        hunks_by_id[name] = hunk if name == hunk.id else replace(hunk, id=name)
    return tuple(hunks_by_id.values())


def _is_before(first: Hunk, second: Hunk, verdict: Verdict) -> bool:
    """True if the first hunk comes before the second.

    They are compared on the side that the verdict did not change. Adjacent hunks may begin at the same line there; then
    the other side decides. If that is equal too, the first hunk has shifted the second up.
    """
    if second.moves:
        return False
    one, other = (first.new_start, first.old_start), (second.new_start, second.old_start)
    return one <= other if verdict == "accept" else one[::-1] <= other[::-1]


def _shift_hunk(hunk: Hunk, shift: int, verdict: Verdict) -> Hunk:
    if verdict == "accept":
        return replace(hunk, old_start=hunk.old_start + shift)
    return replace(hunk, new_start=hunk.new_start - shift)


def _hash_lines(removed_lines: Iterable[bytes], added_lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for sign, lines in ((b"-", removed_lines), (b"+", added_lines)):
        for line in lines:
            digest.update(sign + b"%d:" % len(line))
            digest.update(line)
    return digest.hexdigest()[:12]
