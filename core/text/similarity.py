"""Similarity of texts: the one module that opens rapidfuzz, only when something did not match exactly."""

from __future__ import annotations

from collections.abc import Iterable


def measure_similarity(first: str, second: str) -> float:
    """Similarity from 0.0 to 1.0 (normalised indel distance, rapidfuzz `fuzz.ratio`)."""
    from rapidfuzz import fuzz

    return fuzz.ratio(first, second) / 100


def find_closest(word: str, choices: Iterable[str], *, limit: int = 3, cutoff: float = 0.6) -> list[tuple[int, float]]:
    """Find the nearest choices as (index, similarity), best first; those under `cutoff` are left out."""
    from rapidfuzz import fuzz, process

    matches = process.extract(word, list(choices), scorer=fuzz.ratio, limit=limit, score_cutoff=cutoff * 100)
    return [(index, score / 100) for _, score, index in matches]


def find_nearest_names(word: str, names: Iterable[str], *, limit: int = 3) -> list[str]:
    """Find the names that `word` may have been meant to be, ignoring case and counting a shared beginning."""
    from rapidfuzz import fuzz, process

    candidates = list(names)
    matches = process.extract(
        word.lower(), [name.lower() for name in candidates], scorer=fuzz.WRatio, limit=limit, score_cutoff=65
    )
    return [candidates[index] for _, _, index in matches]
