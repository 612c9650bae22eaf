"""Similarity of texts: the only importer of rapidfuzz, which is loaded only if nothing matches exactly."""

from __future__ import annotations

from collections.abc import Iterable


def measure_similarity(first: str, second: str) -> float:
    """Return the similarity from 0.0 to 1.0 (normalised indel distance, rapidfuzz `fuzz.ratio`)."""
    from rapidfuzz import fuzz

    return fuzz.ratio(first, second) / 100


def find_closest(word: str, choices: Iterable[str], *, limit: int = 3, cutoff: float = 0.6) -> list[tuple[int, float]]:
    """Find the nearest choices as (index, similarity), best first; those below `cutoff` are omitted."""
    from rapidfuzz import fuzz, process

    matches = process.extract(word, list(choices), scorer=fuzz.ratio, limit=limit, score_cutoff=cutoff * 100)
    return [(index, score / 100) for _, score, index in matches]


def find_nearest_names(word: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Find the names that `word` may be a misspelling of, ignoring case and favouring a shared prefix."""
    from rapidfuzz import fuzz, process

    candidates = list(names)
    matches = process.extract(
        word.lower(), [name.lower() for name in candidates], scorer=fuzz.WRatio, limit=limit, score_cutoff=65
    )
    return [candidates[index] for _, _, index in matches]
