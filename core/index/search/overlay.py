"""Pending texts over an index: they are cut and compared as the index does it, and hide what it has of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from core.index.chunks import split_source
from core.index.file_rows import build_rows
from core.index.search.lexical import Lexicon, WordedText, count_words
from core.index.search.ranker import Candidate
from core.index.search.static_model import embed_texts
from core.index.search.vectors import compare_vectors


class PendingChunk(Struct, frozen=True, eq=False):
    """A chunk of a pending text. `vector` is of the static model, whatever the index has."""

    place: Candidate
    words: WordedText
    vector: bytes


@lru_cache(maxsize=512)
def cut_pending(path: str, text: str) -> tuple[PendingChunk, ...]:
    """Return the chunks of a pending text."""
    rows = build_rows(path, 0, b"", text)
    lines = split_source(text)
    vectors = embed_texts(["\n".join(lines[row.start - 1 : row.end]) for row in rows.chunks])
    return tuple(
        PendingChunk(
            Candidate(
                path, row.start, row.end, row.symbol, row.kind, tuple(row.defines.split()), row.part, is_changed=True
            ),
            count_words(
                {
                    "body": row.body_words.split(),
                    "path": rows.path_words.split(),
                    "symbol": row.symbol_words.split(),
                }
            ),
            vector,
        )
        for row, vector in zip(rows.chunks, vectors, strict=True)
    )


class Overlay:
    """The pending texts of a session, by path; None is a file that is deleted. Their chunks have keys below 0."""

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self._paths = texts.keys()
        chunks = (
            chunk for path, text in sorted(texts.items()) if text is not None for chunk in cut_pending(path, text)
        )
        self._chunks = {-number: chunk for number, chunk in enumerate(chunks, 1)}

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def has_hidden(self, path: str) -> bool:
        """True if what the index holds of a file does not count."""
        return path in self._paths

    def get_place(self, key: int) -> Candidate:
        return self._chunks[key].place

    def find_by_words(self, words: Sequence[str], lexicon: Lexicon) -> list[tuple[int, float]]:
        """Return the keys of all chunks with one of the words, and what they score."""
        scores = ((key, lexicon.score(words, chunk.words)) for key, chunk in self._chunks.items())
        return [(key, score) for key, score in scores if score > 0]

    def compare(self, vector: bytes) -> list[tuple[int, float]]:
        """Return the keys of all chunks, and how near they are to a vector of the static model."""
        return [(key, compare_vectors(vector, chunk.vector)) for key, chunk in self._chunks.items()]

    def list_definitions(self) -> list[tuple[str, str, int]]:
        """Return each name that is defined, the symbol of its chunk, and the key of that."""
        return [(name, chunk.place.symbol, key) for key, chunk in self._chunks.items() for name in chunk.place.defines]
