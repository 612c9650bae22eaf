"""The search over an index: words by BM25, meaning by vectors, and the pending texts of a session over both.

BM25 is FTS5's own over body, path and symbol; the same score is computed for pending texts, which replace the indexed
version of their files. The cost of a query grows with the number of chunks that hold its words, so on a large tree only
its rarest words are searched: as many as occur in `MAX_MATCHES` chunks together, and at least three. Word frequencies
and the matrix of vectors are cached between queries.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from core.index.chunks import split_source
from core.index.file_rows import build_rows
from core.index.search.query import ParsedQuery, parse_query
from core.index.search.ranker import Candidate, RankerInput, rank
from core.index.search.vectors import STATIC_MODEL, VectorMatrix, compare_vectors, embed_texts, load_static_model
from core.protocol.queries.files import SearchHit

MAX_MATCHES: Final = 15_000
MIN_WORDS: Final = 3
WEIGHTS: Final = {"body": 1.0, "path": 3.0, "symbol": 2.0}
_BM25_K1: Final = 1.2  # fixed in FTS5
_BM25_B: Final = 0.75
DEPTH: Final = 200
"""Chunks per ranked list."""
WORD_SHARE: Final = {"name": 0.7, "short": 0.75, "long": 0.85}
"""Weight of words; the remainder is the weight of meaning."""
_BOUND: Final = 500  # parameters per statement
_NOTHING_PENDING: Final[Mapping[str, str | None]] = MappingProxyType({})


class SearchRequest(Struct, frozen=True, kw_only=True):
    """A query. `pending`: texts that replace those in the index, None = deleted. `vectors`: of the whole text and its
    first line by `model`, None = do not use that model."""

    text: str
    limit: int = 50
    directories: tuple[str, ...] = ()
    pending: Mapping[str, str | None] = _NOTHING_PENDING
    model: str = STATIC_MODEL
    vectors: tuple[bytes, bytes] | None = None


class IndexSearch:
    """A search through a reading connection; for one thread at a time. All methods raise `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lexicon = Lexicon(connection)
        self._matrix = VectorMatrix(STATIC_MODEL)
        self._late_chunks: set[int] = set()
        self._version = -1
        self._chunks = self._counted_chunks = 0
        self._paths = 1

    def search(self, request: SearchRequest) -> list[SearchHit]:
        """Return the chunks that match a query, without their text, best first; deterministic for one index and
        query."""
        query = parse_query(request.text)
        if not query.words or request.limit < 1:
            return []
        self._refresh(request.model)
        pending = Overlay(request.pending)
        lists = self._rank_by_words(query, request, pending) + self._rank_by_meaning(query, request, pending)
        definitions = self._find_definitions(query, pending)
        keys = {key for key_list, _ in lists for key in key_list}.union(*definitions.values())
        candidates = self._load_candidates(keys, request, pending)
        ranked_keys = rank(
            query, RankerInput(lists=lists, candidates=candidates, definitions=definitions, rarity=self._rate_rarity)
        )
        return [_build_hit(candidates[key], score) for key, score in ranked_keys[: request.limit]]

    def _refresh(self, model: str) -> None:
        """Update the caches after a commit of the builder."""
        if model != self._matrix.model:
            self._matrix, self._late_chunks, self._version = VectorMatrix(model), set(), -1
        version = self._connection.execute("pragma data_version").fetchone()[0]
        if version == self._version:
            return
        self._version = version
        self._chunks = self._connection.execute("select count(*) from chunks").fetchone()[0]
        if abs(self._chunks - self._counted_chunks) > self._counted_chunks // 10:
            self._lexicon.forget()
            self._counted_chunks = self._chunks
        self._load_vectors(model)

    def _load_vectors(self, model: str) -> None:
        """Drop vectors of removed chunks, and load those of new ones, which arrive roughly in the order of chunks."""
        self._matrix.retain(self._list_chunks())
        rows = self._connection.execute(
            "select chunks.id, vec from chunks left join vectors on model = ? and vectors.text_hash = chunks.text_hash"
            " where chunks.id > ? order by chunks.id",
            (model, self._matrix.last),
        ).fetchall()
        self._matrix.add((chunk, vec) for chunk, vec in rows if vec is not None and chunk not in self._late_chunks)
        first_without = next((chunk for chunk, vec in rows if vec is None), None)
        if rows:
            self._matrix.last = rows[-1][0] if first_without is None else first_without - 1
        self._late_chunks = {chunk for chunk, vec in rows if vec is not None and chunk > self._matrix.last}

    def _rank_by_words(
        self, query: ParsedQuery, request: SearchRequest, pending: Overlay
    ) -> list[tuple[list[int], float]]:
        share = WORD_SHARE[query.shape]
        if query.shape != "long":
            return [(self._find_by_words(query.words, request, pending), share)]
        return [
            (self._find_by_words(query.words, request, pending), share / 2),
            (self._find_by_words(query.first_words, request, pending), share / 2),
        ]

    def _find_by_words(self, words: Sequence[str], request: SearchRequest, pending: Overlay) -> list[int]:
        scored_keys = self._lexicon.find(words, DEPTH, _choose_directories(request.directories))
        scored_keys += pending.find_by_words(words, self._lexicon)
        return [key for key, _ in sorted(scored_keys, key=lambda pair: (-pair[1], pair[0]))]

    def _rank_by_meaning(
        self, query: ParsedQuery, request: SearchRequest, pending: Overlay
    ) -> list[tuple[list[int], float]]:
        share = 1 - WORD_SHARE[query.shape]
        vectors = request.vectors
        if vectors is None:
            if request.model != STATIC_MODEL:
                return []
            embed = load_static_model().embed
            vectors = embed(query.text), embed(query.first)
        full_vector, first = vectors
        if query.shape != "long" or not first:
            return [(self._find_nearest(full_vector, request, pending), share)]
        return [
            (self._find_nearest(full_vector, request, pending), share / 2),
            (self._find_nearest(first, request, pending), share / 2),
        ]

    def _list_chunks(self, directories: Sequence[str] = ()) -> list[int]:
        """Return the ids of all chunks below some directories; () = of all."""
        below, parameters = build_directory_filter(directories)
        rows = self._connection.execute(
            f"select chunks.id from files join chunks on chunks.file = files.id where {below}", parameters
        )
        return [chunk for (chunk,) in rows]

    def _find_nearest(self, vector: bytes, request: SearchRequest, pending: Overlay) -> list[int]:
        directories = _choose_directories(request.directories)
        among = self._list_chunks(directories) if directories else None
        nearest = self._matrix.find_nearest(vector, DEPTH, among)
        if pending and request.model == STATIC_MODEL:
            nearest += pending.compare(vector)
            nearest.sort(key=lambda pair: (-pair[1], pair[0]))
        return [key for key, _ in nearest]

    def _find_definitions(self, query: ParsedQuery, pending: Overlay) -> dict[str, list[int]]:
        """Find the chunks that define the names of the query: in its spelling, else in any."""
        names = list(query.names)[:_BOUND]
        lasts = {name: name.rpartition(".")[2] for name in names}
        marks = ", ".join(["lower(?)"] * len(names))
        rows = self._connection.execute(
            "select symbols.name, symbols.qualified, chunks.id from symbols join chunks on chunks.file = symbols.file"
            f" and symbols.start between chunks.start and chunks.end where lower(symbols.name) in ({marks})"
            " order by chunks.id",
            list(lasts.values()),
        ).fetchall()
        rows += pending.list_definitions()
        by_name: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for row in rows:
            by_name[row[0].lower()].append(row)
        return {name: _choose_definitions(name, by_name[lasts[name].lower()]) for name in names}

    def _load_candidates(self, keys: Iterable[int], request: SearchRequest, pending: Overlay) -> dict[int, Candidate]:
        """Load the candidates of keys, without those that are removed, hidden by pending texts, or outside of the
        directories."""
        sorted_keys = sorted(keys)
        candidates = {key: pending.get_candidate(key) for key in sorted_keys if key < 0}
        stored_keys = [key for key in sorted_keys if key > 0]
        for begin in range(0, len(stored_keys), _BOUND):
            part = stored_keys[begin : begin + _BOUND]
            rows = self._connection.execute(
                "select chunks.id, path, start, end, symbol, kind, defines, part from chunks join files"
                f" on files.id = chunks.file where chunks.id in ({', '.join('?' * len(part))})",
                part,
            )
            for key, path, start, end, symbol, kind, defines, piece in rows:
                if not pending.hides(path):
                    candidates[key] = Candidate(path, start, end, symbol, kind, tuple(defines.split()), piece)
        below = tuple(directory.strip("/") + "/" for directory in request.directories if directory.strip("/"))
        return {
            key: candidate for key, candidate in candidates.items() if not below or candidate.path.startswith(below)
        }

    def _rate_rarity(self, word: str) -> float:
        """Return the rarity of a word in paths, from 0 (in all) to 1 (in none)."""
        count = self._lexicon.count(word, "path")
        return math.log(1 + self._chunks / (1 + count)) / math.log(2 + self._chunks)


def _choose_definitions(name: str, rows: Sequence[tuple[str, str, int]]) -> list[int]:
    """Return the chunks that define a name: with the same qualified name, else the same case, else all."""
    last = name.rpartition(".")[2]
    for fits in (
        lambda row: "." in name and f".{row[1]}".endswith(f".{name}"),
        lambda row: row[0] == last,
        lambda row: True,
    ):
        if chunks := [row[2] for row in rows if fits(row)]:
            return list(dict.fromkeys(chunks))
    return []


def _choose_directories(directories: Sequence[str]) -> tuple[str, ...]:
    """Return the directories that limit a search; () if one of them is the whole project."""
    names = tuple(directory.strip("/") for directory in directories)
    return names if all(names) else ()


def _build_hit(candidate: Candidate, score: float) -> SearchHit:
    return SearchHit(
        path=candidate.path,
        start=candidate.start,
        end=candidate.end,
        symbol=candidate.symbol,
        kind=candidate.kind,
        score=round(score, 6),
        is_changed=candidate.is_changed,
    )


class Lexicon:
    """The words of an index. It caches frequencies, so `forget` has to be called after large changes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("create virtual table if not exists temp.words using fts5vocab(main, fts, col)")
        self.forget()

    def forget(self) -> None:
        self._columns = lru_cache(maxsize=1 << 15)(self._count_columns)
        self._averages: tuple[int, float] | None = None

    def _count_columns(self, word: str) -> dict[str, int]:
        rows = self._connection.execute("select col, doc from temp.words where term = ?", (word,))
        return {column: count for column, count in rows if isinstance(count, int)}

    def count(self, word: str, column: str = "") -> int:
        """Return the approximate number of chunks with a word; in one column if given."""
        columns = self._columns(word)
        return columns.get(column, 0) if column else max(columns.values(), default=0)

    def choose_rarest(self, words: Sequence[str]) -> list[str]:
        """Return the rarest known words, within the limit of matches."""
        word_counts = sorted((count, word) for word in words if (count := self.count(word)))
        rare_words: list[str] = []
        total = 0
        for count, word in word_counts:
            total += count
            if len(rare_words) >= MIN_WORDS and total > MAX_MATCHES:
                break
            rare_words.append(word)
        return rare_words

    def find(self, words: Sequence[str], limit: int, directories: Sequence[str] = ()) -> list[tuple[int, float]]:
        """Return the chunks with the best scores, best first, ties by id. `directories`: those that contain them, () =
        any."""
        rare_words = self.choose_rarest(words)
        if not rare_words:
            return []
        weights = ", ".join(map(str, WEIGHTS.values()))
        below, parameters = build_directory_filter(directories)
        # The cross joins force the lookup of words first; the join drops words of removed chunks.
        rows = self._connection.execute(
            f"select fts.rowid, -bm25(fts, {weights}) as score from fts cross join chunks on chunks.id = fts.rowid"
            f" cross join files on files.id = chunks.file where fts match ? and {below}"
            " order by score desc, fts.rowid limit ?",
            (" OR ".join(f'"{word}"' for word in rare_words), *parameters, limit),
        )
        return [(rowid, score) for rowid, score in rows]

    def score(self, words: Sequence[str], text: WordedText) -> float:
        """Return the score that a text would have in the index."""
        places, average = self._averages = self._averages or self._read_averages()
        damping = _BM25_K1 * (1 - _BM25_B + _BM25_B * text.length / average)
        score = 0.0
        for word in words:
            if count := text.counts.get(word):
                hits = min(self.count(word) + 1, places)
                rarity = max(math.log((places - hits + 0.5) / (hits + 0.5)), 1e-6)
                score += rarity * count * (_BM25_K1 + 1) / (count + damping)
        return score

    def _read_averages(self) -> tuple[int, float]:
        """Return the number of chunks and their average length as FTS5 stores them: a row of varints."""
        row = self._connection.execute("select block from fts_data where id = 1").fetchone()
        places, *lengths = _read_varints(row[0]) if row and row[0] else [0]
        return max(places, 1), max(sum(lengths) / max(places, 1), 1.0)


class WordedText(Struct, frozen=True):
    """The words of a text by column."""

    counts: dict[str, float]
    """The frequency of every word, times the weight of its column."""
    length: int


def count_words(columns: dict[str, Iterable[str]]) -> WordedText:
    """Count the words of a text by column."""
    counts: Counter[str] = Counter()
    length = 0
    for column, words in columns.items():
        plain = Counter(words)
        length += plain.total()
        for word, count in plain.items():
            counts[word] += count * WEIGHTS[column]  # type: ignore[assignment]  # a Counter adds up floats, too
    return WordedText(dict(counts), length)


def build_directory_filter(directories: Sequence[str]) -> tuple[str, list[str]]:
    """Return SQL with parameters that selects the files below some directories; () = all."""
    below = " or ".join("files.path > ? and files.path < ?" for _ in directories) or "true"
    return f"({below})", [end for name in directories for end in (f"{name}/", f"{name}0")]


def _read_varints(block: bytes) -> list[int]:
    """Return numbers in SQLite's encoding: seven bits per byte, the high bit marks continuation."""
    numbers, value = list[int](), 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    return numbers


class Overlay:
    """The pending texts of a session by path; None is a deleted file. Their chunks have negative keys."""

    def __init__(self, texts: Mapping[str, str | None]) -> None:
        self._paths = texts.keys()
        chunks = (
            chunk for path, text in sorted(texts.items()) if text is not None for chunk in cut_pending(path, text)
        )
        self._chunks = {-number: chunk for number, chunk in enumerate(chunks, 1)}

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def hides(self, path: str) -> bool:
        """True if the indexed version of a file does not count."""
        return path in self._paths

    def get_candidate(self, key: int) -> Candidate:
        return self._chunks[key].place

    def find_by_words(self, words: Sequence[str], lexicon: Lexicon) -> list[tuple[int, float]]:
        """Return the keys and scores of all chunks with one of the words."""
        scores = ((key, lexicon.score(words, chunk.words)) for key, chunk in self._chunks.items())
        return [(key, score) for key, score in scores if score > 0]

    def compare(self, vector: bytes) -> list[tuple[int, float]]:
        """Return the keys of all chunks with their similarity to a vector of the built-in model."""
        return [(key, compare_vectors(vector, chunk.vector)) for key, chunk in self._chunks.items()]

    def list_definitions(self) -> list[tuple[str, str, int]]:
        """Return every defined name with the symbol and key of its chunk."""
        return [(name, chunk.place.symbol, key) for key, chunk in self._chunks.items() for name in chunk.place.defines]


class PendingChunk(Struct, frozen=True, eq=False):
    """A chunk of a pending text. `vector` is of the built-in model, whatever the index uses."""

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
