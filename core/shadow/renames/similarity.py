"""Similarity of files, and the matching of old with new names, by git's rules.

After git's diffcore-delta.c and diffcore-rename.c: the share of the longer file that is found in the other, counted in
lines (of at most 64 bytes, in any order); first identical files, then files whose paths end alike, then the most
similar, from one half on. The work is bounded: beyond the bounds only identical files, or those of one name, are found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

MIN_SIMILARITY = 0.5  # of the longer file
MIN_SIMILARITY_BY_NAME = 0.75
MAX_COMPARED_BYTES = 1 << 20  # bytes of a file that is compared with others than the same
MAX_PAIRS = 2_500
MAX_TOTAL_BYTES = 16 << 20  # of all these comparisons
_TAIL = 4  # names at the end of a path
_PIECE_BYTES = 64  # bytes of a line that count as one


def count_pieces(data: bytes) -> Counter[bytes]:
    """Count the bytes of a text by the pieces that they stand in; a CR before a LF does not count."""
    piece_sizes: Counter[bytes] = Counter()
    for line in data.replace(b"\r\n", b"\n").splitlines(keepends=True):
        for start in range(0, len(line), _PIECE_BYTES):
            piece = line[start : start + _PIECE_BYTES]
            piece_sizes[piece] += len(piece)
    return piece_sizes


def compute_similarity(one: Mapping[bytes, int], other: Mapping[bytes, int]) -> float:
    """Return the part of the longer of two texts that is in both, 0 … 1."""
    longer = max(sum(one.values()), sum(other.values()))
    few, many = sorted((one, other), key=len)
    return sum(min(count, many[piece]) for piece, count in few.items() if piece in many) / longer if longer else 0.0


def match_identical(removed_digests: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Map each new path to the old one with the same content; both are given with their contents' digests.

    Of several copies those that end in the same names belong together, the others to none.
    """
    olds, news = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for path in sorted(removed_digests):
        olds[removed_digests[path]].append(path)
    for path in sorted(new):
        news[new[path]].append(path)
    renames: dict[str, str] = {}
    for blob in news.keys() & olds.keys():
        if len(news[blob]) == len(olds[blob]) == 1:
            renames[news[blob][0]] = olds[blob][0]
        elif len(news[blob]) * len(olds[blob]) <= MAX_PAIRS:
            renames |= _pick_best((_count_common_names(a, b), a, b) for a, b in product(news[blob], olds[blob]))
    return renames


def _count_common_names(one: str, other: str) -> int:
    count = 0
    for part, other_part in zip(reversed(one.split("/")), reversed(other.split("/")), strict=False):
        if part != other_part:
            break
        count += 1
    return count


def _pick_best(scored_pairs: Iterable[tuple[float, str, str]]) -> dict[str, str]:
    """Map each new path to its best old one, the best pairs first, each path once; a score of 0 is no pair."""
    renames: dict[str, str] = {}
    taken_paths: set[str] = set()
    for score, new, old in sorted(
        scored_pairs, key=lambda pair: (-pair[0], -_count_common_names(pair[1], pair[2]), pair[1], pair[2])
    ):
        if score > 0 and new not in renames and old not in taken_paths:
            renames[new] = old
            taken_paths.add(old)
    return renames


def match_similar(
    removed_sizes: Mapping[str, int], new: Mapping[str, int], score: Callable[[str, str], float]
) -> dict[str, str]:
    """Map each new path to an old one with similar content; both are given with their sizes in bytes.

    `score` is called with an old and a new path when their sizes allow it.
    """
    renames: dict[str, str] = {}
    room = MAX_TOTAL_BYTES
    for path, old in _pair_by_name(removed_sizes, new):
        cost = min(removed_sizes[old], new[path])
        if cost <= room and _can_be_similar(removed_sizes[old], new[path], MIN_SIMILARITY_BY_NAME):
            room -= cost
            if score(old, path) >= MIN_SIMILARITY_BY_NAME:
                renames[path] = old
    olds = sorted(removed_sizes.keys() - set(renames.values()))
    news = sorted(new.keys() - renames.keys())
    if len(olds) * len(news) > MAX_PAIRS:
        return renames
    pairs = [(a, b) for a, b in product(news, olds) if _can_be_similar(removed_sizes[b], new[a], MIN_SIMILARITY)]
    if sum(min(removed_sizes[old], new[path]) for path, old in pairs) > room:
        return renames
    scored_pairs = ((score(old, path), path, old) for path, old in pairs)
    return renames | _pick_best(pair for pair in scored_pairs if pair[0] >= MIN_SIMILARITY)


def _can_be_similar(one: int, other: int, threshold: float) -> bool:
    return max(one, other) <= MAX_COMPARED_BYTES and min(one, other) >= threshold * max(one, other)


def _pair_by_name(removed_paths: Iterable[str], new: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield new and old paths that alone on their side end in the same names: by several names first, so that the files
    of a directory that moved belong together whatever they are called."""
    news, olds = set(new), set(removed_paths)
    for count in range(_TAIL, 0, -1):
        ends = _index_unique_ends(news, count), _index_unique_ends(olds, count)
        for end in sorted(ends[0].keys() & ends[1].keys()):
            yield ends[0][end], ends[1][end]
            news.discard(ends[0][end])
            olds.discard(ends[1][end])


def _index_unique_ends(paths: Iterable[str], count: int) -> dict[str, str]:
    """Index the paths that alone have their last `count` names, by these."""
    paths_by_end: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        if len(parts) >= count:
            paths_by_end.setdefault("/".join(parts[-count:]), []).append(path)
    return {end: those[0] for end, those in paths_by_end.items() if len(those) == 1}
