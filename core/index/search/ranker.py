"""The ranker merges several lists into one; its weights were measured on issues (docs/dev/measurements.md).

Reciprocal-rank fusion comes first. A chunk gains if it defines a name of the query, if its path contains words of the
query, if its file is mentioned, or if its file has several good chunks. Tests, examples and documents lose unless the
query asks for them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from core.index.path_kinds import weigh_path
from core.index.search.query import STOP_WORDS, ParsedQuery
from core.index.words import split_words

FUSION: Final = 45
"""The rank at which the weight in a list halves."""

DEFINITION_WEIGHT: Final = {"name": 3.0, "short": 0.7, "long": 0.7}
MENTION_WEIGHT: Final = 0.3
PATH_WORDS: Final = 0.6
FOLDER_WORDS: Final = 0.3
OTHER_LINES: Final = 0.3
"""Weight of a path's word that is in the query, but not in its first line."""

SIBLING_WEIGHT: Final = 0.3
_SIBLING_DECAY: Final = 0.7
_MAX_SIBLINGS: Final = 5
REPEAT_WEIGHT: Final = {"name": 0.8, "short": 0.5, "long": 0.1}
"""The factor on the score of a file's further chunks: many files are more useful than many chunks of one."""

MAX_DEFINITIONS: Final = 10
"""A name with more definitions is ambiguous."""


class Candidate(Struct, frozen=True):
    """A chunk that may be a result; `defines` are the names that it defines."""

    path: str
    start: int
    end: int
    symbol: str
    kind: str
    defines: tuple[str, ...]
    part: int = 0
    is_changed: bool = False


class RankerInput(Struct, eq=False, kw_only=True):
    """The input for a query: lists of keys with weights, and candidates by key.

    `definitions`: for every name the keys of the chunks that define it. `rarity`: of a word in paths, 0 to 1.
    """

    lists: Sequence[tuple[Sequence[int], float]]
    candidates: Mapping[int, Candidate]
    definitions: Mapping[str, Sequence[int]]
    rarity: Callable[[str], float]


def rank(query: ParsedQuery, ranker_input: RankerInput) -> list[tuple[int, float]]:
    """Return the keys of all candidates with their scores, best first; ties by path and line."""
    scores = _fuse(ranker_input)
    _add_definitions(scores, query, ranker_input)
    _add_paths(scores, query, ranker_input.candidates, ranker_input.rarity)
    for key in scores:
        weight = weigh_path(ranker_input.candidates[key].path, query.wanted)
        scores[key] *= max(weight, 0.6) if query.shape == "name" else weight
    _spread_files(scores, ranker_input.candidates, REPEAT_WEIGHT[query.shape])
    places = ranker_input.candidates
    return sorted(scores.items(), key=lambda pair: (-pair[1], places[pair[0]].path, places[pair[0]].start, pair[0]))


def _fuse(ranker_input: RankerInput) -> dict[int, float]:
    """Return the sums of reciprocal ranks over all lists; the best is 1."""
    scores: defaultdict[int, float] = defaultdict(float)
    for keys, weight in ranker_input.lists:
        position = 0
        for key in keys:
            if key in ranker_input.candidates:
                position += 1
                scores[key] += weight / (FUSION + position)
    best = max(scores.values(), default=1.0) or 1.0
    return {key: score / best for key, score in scores.items()}


def _add_definitions(scores: dict[int, float], query: ParsedQuery, ranker_input: RankerInput) -> None:
    for name, weight in query.names.items():
        keys = [key for key in ranker_input.definitions.get(name, ()) if key in ranker_input.candidates]
        if not 0 < len(keys) <= MAX_DEFINITIONS:
            continue
        for key in keys:
            gain = DEFINITION_WEIGHT[query.shape] * weight / math.sqrt(len(keys))
            scores[key] = scores.get(key, 0.0) + gain


def _add_paths(
    scores: dict[int, float],
    query: ParsedQuery,
    candidates: Mapping[int, Candidate],
    rarity: Callable[[str], float],
) -> None:
    """Add the gain of matching path words, proportional to the score, and the gain of mentioned files."""
    words = {word: OTHER_LINES * rarity(word) for word in query.words if len(word) > 2 and word not in STOP_WORDS}
    words |= {word: rarity(word) for word in query.first_words if word in words}
    gains: dict[str, tuple[float, float]] = {}
    for key, score in scores.items():
        path = candidates[key].path
        if path not in gains:
            gains[path] = min(_weigh_words(path, words), 1.0), MENTION_WEIGHT * _is_mentioned(path, query.paths)
        times, plus = gains[path]
        scores[key] = score * (1 + times) + plus


def _weigh_words(path: str, words: Mapping[str, float]) -> float:
    name, folders = _split_path(path)
    name_score = sum(words.get(word, 0.0) for word in name) / math.sqrt(max(len(name), 1))
    return PATH_WORDS * (name_score + FOLDER_WORDS * sum(words.get(word, 0.0) for word in folders))


@lru_cache(maxsize=1 << 15)
def _split_path(path: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a file's stem, and those of its folders."""
    folders, _, name = path.rpartition("/")
    return frozenset(split_words(name.rpartition(".")[0] or name)), frozenset(split_words(folders))


def _is_mentioned(path: str, mentions: Iterable[str]) -> bool:
    """True if the end of a path, with or without its suffix, is mentioned, or the reverse."""
    full_path, bare = f"/{path}", f"/{path.rpartition('.')[0]}"
    return any(
        full_path.endswith(f"/{mention}") or bare.endswith(f"/{mention}") or f"/{mention}".endswith(full_path)
        for mention in mentions
    )


def _spread_files(scores: dict[int, float], candidates: Mapping[int, Candidate], decay: float) -> None:
    """Raise the best chunk of a file for its others, and lower these."""
    by_file: defaultdict[str, list[int]] = defaultdict(list)
    for key in sorted(scores, key=lambda key: (-scores[key], candidates[key].start, key)):
        by_file[candidates[key].path].append(key)
    for first, *others in by_file.values():
        few = enumerate(others[:_MAX_SIBLINGS])
        scores[first] += SIBLING_WEIGHT * sum(scores[key] * _SIBLING_DECAY**number for number, key in few)
        for number, key in enumerate(others, 1):
            scores[key] *= decay**number
