"""Places by their words: FTS5's bm25 over body, path and symbol, and the same for texts that are in no index.

What a question costs grows with the places that its words stand in. So on a large tree it is asked with its rarest
words: as many as stand in `BUDGET` places together, three at least.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

BUDGET: Final = 15_000
FEWEST: Final = 3
WEIGHTS: Final = {"body": 1.0, "path": 3.0, "symbol": 2.0}
_K1: Final = 1.2  # FTS5's own, and not to be set
_B: Final = 0.75


class WordedText(Struct, frozen=True):
    """The words of a text by the column that they would stand in."""

    counts: dict[str, float]
    """Each word with how often it stands there, times the weight of the column."""
    length: int


class Lexicon:
    """The words of an index. `forget` has to be called when it has changed by much: how common words are is kept."""

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
        """Return in how many places a word stands, about; in a column if one is named."""
        columns = self._columns(word)
        return columns.get(column, 0) if column else max(columns.values(), default=0)

    def choose(self, words: Sequence[str]) -> list[str]:
        """Return the words that are looked for: the rarest that are known at all, within the budget."""
        word_counts = sorted((count, word) for word in words if (count := self.count(word)))
        rare_words: list[str] = []
        total = 0
        for count, word in word_counts:
            total += count
            if len(rare_words) >= FEWEST and total > BUDGET:
                break
            rare_words.append(word)
        return rare_words

    def find(self, words: Sequence[str], limit: int, directories: Sequence[str] = ()) -> list[tuple[int, float]]:
        """Return the places with the best sums, best first, equals by id. `directories`: those that they are below,
        () = anywhere."""
        rare_words = self.choose(words)
        if not rare_words:
            return []
        weights = ", ".join(map(str, WEIGHTS.values()))
        below, parameters = choose_below(directories)
        # Crossed in this order: words are looked up first. Of a chunk that is gone they are still there.
        rows = self._connection.execute(
            f"select fts.rowid, -bm25(fts, {weights}) as score from fts cross join chunks on chunks.id = fts.rowid"
            f" cross join files on files.id = chunks.file where fts match ? and {below}"
            " order by score desc, fts.rowid limit ?",
            (" OR ".join(f'"{word}"' for word in rare_words), *parameters, limit),
        )
        return [(rowid, score) for rowid, score in rows]

    def score(self, words: Sequence[str], text: WordedText) -> float:
        """Return the sum that a text would have if it stood in the index."""
        places, average = self._averages = self._averages or self._read_averages()
        damping = _K1 * (1 - _B + _B * text.length / average)
        score = 0.0
        for word in words:
            if count := text.counts.get(word):
                hits = min(self.count(word) + 1, places)
                rarity = max(math.log((places - hits + 0.5) / (hits + 0.5)), 1e-6)
                score += rarity * count * (_K1 + 1) / (count + damping)
        return score

    def _read_averages(self) -> tuple[int, float]:
        """Return the number of places and their average length, as FTS5 keeps them: a row of varints."""
        row = self._connection.execute("select block from fts_data where id = 1").fetchone()
        places, *lengths = _read_varints(row[0]) if row and row[0] else [0]
        return max(places, 1), max(sum(lengths) / max(places, 1), 1.0)


def choose_below(directories: Sequence[str]) -> tuple[str, list[str]]:
    """Return the SQL that chooses the files below one of some directories, () = all, with its parameters."""
    below = " or ".join("files.path > ? and files.path < ?" for _ in directories) or "true"
    return f"({below})", [end for name in directories for end in (f"{name}/", f"{name}0")]


def count_words(columns: dict[str, Iterable[str]]) -> WordedText:
    """Return the words of a text by the names of their columns as they are compared with a question."""
    counts: Counter[str] = Counter()
    length = 0
    for column, words in columns.items():
        plain = Counter(words)
        length += plain.total()
        for word, count in plain.items():
            counts[word] += count * WEIGHTS[column]  # type: ignore[assignment]  # a Counter adds up floats, too
    return WordedText(dict(counts), length)


def _read_varints(block: bytes) -> list[int]:
    """Return numbers as SQLite packs them: seven bits a byte, the highest bit says that more follow."""
    numbers, value = list[int](), 0
    for byte in block:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    return numbers
