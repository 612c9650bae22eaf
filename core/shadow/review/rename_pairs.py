"""Detects renames among the pending changes: pairs of a creation and a deletion of similar files.

A pair is emitted as the same change, revised: its hunks are counted against the old file, and the first of them is the
rename itself. The pair lasts while both paths stay pending and at least half of the longer file is the same. While one
of its paths is in conflict, it is two changes.

The similarity follows git's diffcore-delta.c and diffcore-rename.c: the share of the longer file that the other also
has, counted in lines (of at most 64 bytes, in any order). Identical files are matched first, then files whose paths end
alike, then the most similar. The work is bounded: beyond the bounds only identical files, or files of the same name,
are matched.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import product

from msgspec.structs import replace

from core.errors import ContentLost
from core.protocol.events import AnyEvent, ChangeRevised
from core.protocol.paths import are_apart
from core.protocol.renames import find_renames
from core.protocol.review import Change, FileState
from core.shadow.content.contents import ChangeSides, Contents
from core.shadow.diff.hunks import is_divisible
from core.state.review import ReviewState

MIN_SIMILARITY = 0.5  # share of the longer file
MIN_SIMILARITY_BY_NAME = 0.75
MAX_COMPARED_BYTES = 1 << 20  # bytes of a file whose content is compared with different content
MAX_PAIRS = 2_500
MAX_TOTAL_BYTES = 16 << 20  # bytes of all these comparisons
_TAIL = 4  # names at the end of a path
_PIECE_BYTES = 64  # bytes of a line that are counted together
_MAX_SCORES = 16_384  # cached scores of two contents


def count_pieces(data: bytes) -> Counter[bytes]:
    """Count the bytes of a text by lines of at most `_PIECE_BYTES` bytes; a CR before a LF does not count."""
    piece_sizes: Counter[bytes] = Counter()
    for line in data.replace(b"\r\n", b"\n").splitlines(keepends=True):
        for start in range(0, len(line), _PIECE_BYTES):
            piece = line[start : start + _PIECE_BYTES]
            piece_sizes[piece] += len(piece)
    return piece_sizes


def compute_similarity(one: Mapping[bytes, int], other: Mapping[bytes, int]) -> float:
    """Return the share of the longer of two texts that is in both, 0 … 1."""
    longer = max(sum(one.values()), sum(other.values()))
    few, many = sorted((one, other), key=len)
    return sum(min(count, many[piece]) for piece, count in few.items() if piece in many) / longer if longer else 0.0


def match_identical(removed_digests: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Map new paths to the old ones with the same content. Both arguments map paths to digests of their contents.

    Of several copies, those with the same last names are matched, the others are not.
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
    """Map new paths to their best old ones, the best pairs first, every path once; a score of 0 is no match."""
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
    """Map new paths to old ones with similar content. Both arguments map paths to sizes in bytes.

    `score` is called with an old and a new path when their sizes allow a match.
    """
    renames: dict[str, str] = {}
    budget = MAX_TOTAL_BYTES
    for path, old in _pair_by_name(removed_sizes, new):
        cost = min(removed_sizes[old], new[path])
        if cost <= budget and _can_be_similar(removed_sizes[old], new[path], MIN_SIMILARITY_BY_NAME):
            budget -= cost
            if score(old, path) >= MIN_SIMILARITY_BY_NAME:
                renames[path] = old
    olds = sorted(removed_sizes.keys() - set(renames.values()))
    news = sorted(new.keys() - renames.keys())
    if len(olds) * len(news) > MAX_PAIRS:
        return renames
    pairs = [(a, b) for a, b in product(news, olds) if _can_be_similar(removed_sizes[b], new[a], MIN_SIMILARITY)]
    if sum(min(removed_sizes[old], new[path]) for path, old in pairs) > budget:
        return renames
    scored_pairs = ((score(old, path), path, old) for path, old in pairs)
    return renames | _pick_best(pair for pair in scored_pairs if pair[0] >= MIN_SIMILARITY)


def _can_be_similar(one: int, other: int, threshold: float) -> bool:
    return max(one, other) <= MAX_COMPARED_BYTES and min(one, other) >= threshold * max(one, other)


def _pair_by_name(removed_paths: Iterable[str], new: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield new and old paths whose last names are equal and unique on both sides: by several names first, so that the
    files of a moved directory are matched even if some were renamed."""
    news, olds = set(new), set(removed_paths)
    for count in range(_TAIL, 0, -1):
        ends = _index_unique_ends(news, count), _index_unique_ends(olds, count)
        for end in sorted(ends[0].keys() & ends[1].keys()):
            yield ends[0][end], ends[1][end]
            news.discard(ends[0][end])
            olds.discard(ends[1][end])


def _index_unique_ends(paths: Iterable[str], count: int) -> dict[str, str]:
    """Index the paths whose last `count` names are unique by these."""
    paths_by_end: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        if len(parts) >= count:
            paths_by_end.setdefault("/".join(parts[-count:]), []).append(path)
    return {end: those[0] for end, those in paths_by_end.items() if len(those) == 1}


class RenamePairs:
    """The renames of one session. `emit` logs the events."""

    def __init__(self, contents: Contents, state: ReviewState, emit: Callable[[AnyEvent], None]) -> None:
        self.contents, self.state, self.emit = contents, state, emit
        self._score = lru_cache(maxsize=_MAX_SCORES)(self._compare)
        self._pieces = lru_cache(maxsize=64)(lambda state: count_pieces(self.contents.read(state)))
        self._version = -1

    def refresh(self) -> None:
        """Emit the changes that have become renames or are no longer renames."""
        changes = self.state.changes
        if self.state.version == self._version:
            return
        self._version = self.state.version
        if not any(change.pending.kind == "absent" or change.source for change in changes.values()):
            return
        known_renames = {
            new: old for new, old in find_renames(changes).items() if self._is_still_rename(changes[new], changes[old])
        }
        renames = known_renames | self._find_new(known_renames)
        revised_changes = (self._revise(changes[path], old) for path, old in renames.items())
        separated_changes = (self._separate(change) for path, change in changes.items() if path not in renames)
        for change in [change for change in (*revised_changes, *separated_changes) if change is not None]:
            self.emit(ChangeRevised(change=change))

    def is_involved(self, path: str) -> bool:
        """True if a path is, or was, part of a rename."""
        change = self.state.changes.get(path)
        if change is None or change.pending.kind == "absent":
            return any(path == other.renamed_from for other in self.state.changes.values())
        return bool(change.renamed_from)

    def _is_still_rename(self, new: Change, old: Change) -> bool:
        if new.apart or new.conflict or old.conflict or new.competing_versions or old.competing_versions:
            return False
        return old.base.blob == new.pending.blob or self._score(old.base, new.pending) >= MIN_SIMILARITY

    def _find_new(self, known_renames: dict[str, str]) -> dict[str, str]:
        taken_paths = {*known_renames, *known_renames.values()}
        free = [
            change
            for change in self.state.changes.values()
            if change.path not in taken_paths and not (change.apart or change.conflict or change.competing_versions)
        ]
        removed_states = {
            change.path: change.base
            for change in free
            if change.pending.kind == "absent" and _is_candidate(change.base)
        }
        new = {
            change.path: change.pending
            for change in free
            if change.base.kind == "absent" and _is_candidate(change.pending)
        }
        if not removed_states or not new:
            return {}
        blobs = ({path: state.blob for path, state in states.items()} for states in (removed_states, new))
        renames = match_identical(*blobs)
        renames = {path: old for path, old in renames.items() if are_apart(path, old)}
        olds = {path: state.size for path, state in removed_states.items() if path not in renames.values()}
        news = {path: state.size for path, state in new.items() if path not in renames}
        if olds and news:
            renames |= match_similar(
                olds,
                news,
                lambda old, path: self._score(removed_states[old], new[path]) if are_apart(old, path) else 0.0,
            )
        return renames

    def _compare(self, old: FileState, new: FileState) -> float:
        """Return the share of two contents that is the same; 0 unless they are texts of one encoding."""
        try:
            sides = self.contents.read(old), self.contents.read(new)
            if max(map(len, sides)) > MAX_COMPARED_BYTES or not is_divisible(*sides):
                return 0.0
            return compute_similarity(self._pieces(old), self._pieces(new))
        except ContentLost:
            return 0.0

    def _revise(self, change: Change, old: str) -> Change | None:
        """Return a new file as a rename; None if it is one already, or its content is lost."""
        source = self.state.changes[old].base
        if (change.renamed_from, change.source) == (old, source):
            return None
        with suppress(ContentLost):
            return recount_hunks(self.contents, change, (old, source))
        return None

    def _separate(self, change: Change) -> Change | None:
        """Return a former rename as a new file, which preserves its old name while that is pending; None as
        `_revise`."""
        if change.source is None:
            return None
        old = self.state.changes.get(change.renamed_from)
        is_tied = old is not None and old.pending.kind == "absent" and bool(old.conflict or change.conflict)
        with suppress(ContentLost):
            new_change = recount_hunks(self.contents, change, None)
            return replace(new_change, renamed_from=change.renamed_from) if is_tied else new_change
        return None


def recount_hunks(contents: Contents, change: Change, rename_source: tuple[str, FileState] | None) -> Change:
    """Return the change with the hunks of a rename, or (None) of a new file. Raises `ContentLost`."""
    sides = ChangeSides(base=change.base, pending=change.pending)
    new_change = contents.build_change(change.path, sides, change.hunks, rename_source, change.origin)
    todos = {hunk.todo for hunk in change.hunks}
    hunks = (
        tuple(replace(hunk, todo=next(iter(todos))) for hunk in new_change.hunks)
        if len(todos) == 1
        else new_change.hunks
    )
    return replace(
        new_change,
        hunks=hunks,
        conflict=change.conflict,
        competing_versions=change.competing_versions,
        check=change.check,
        broken=change.broken,
        protected=new_change.protected or change.protected,
        risk=new_change.risk or change.risk,
    )


def _is_candidate(state: FileState) -> bool:
    return state.kind == "file" and state.size > 0
