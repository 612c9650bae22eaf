"""Ways to rank the files of a tree for a question, from counting words to the whole search: steps of the ablation."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence

from benchmarks.retrieval.trees import IndexedTree
from core.index.search.index_search import IndexSearch, SearchRequest
from core.index.words import split_identifier, split_words

STEPS = ("grep", "words", "split", "path and symbol words", "stems", "ranker", "vectors")
_WORD = re.compile(r"\w+")
_DEPTH = 300


class Rankings:
    """The files that each step finds in a tree, best first; made once for each commit."""

    def __init__(self, tree: IndexedTree, connection: sqlite3.Connection) -> None:
        self._search = IndexSearch(connection)
        rows = connection.execute(
            "select chunks.id, path, start, end, symbol, defines from chunks join files on files.id = chunks.file"
        ).fetchall()
        self._paths = {row[0]: row[1] for row in rows}
        lines = {path: tree.read_lines(path) for path in set(self._paths.values())}
        bodies = {key: "\n".join(lines[path][start - 1 : end]) for key, path, start, end, *_ in rows}
        self._texts = {path: "\n".join(line).lower() for path, line in lines.items()}
        names = {row[0]: f"{row[4]} {row[5]}" for row in rows}
        self._tables = sqlite3.connect(":memory:")
        self._fill("words", bodies, {}, _list_plain)
        self._fill("split", bodies, {}, _list_parts)
        self._fill("paths", bodies, names, _list_parts)
        self._fill("stems", bodies, names, split_words)

    def _fill(
        self, table: str, bodies: dict[int, str], names: dict[int, str], split: Callable[[str], Iterable[str]]
    ) -> None:
        self._tables.execute(
            f"create virtual table {table} using fts5(body, path, symbol, content='',"
            " tokenize=\"unicode61 remove_diacritics 0 tokenchars '_'\")"
        )
        self._tables.executemany(
            f"insert into {table}(rowid, body, path, symbol) values(?, ?, ?, ?)",
            (
                (
                    key,
                    " ".join(split(body)),
                    " ".join(split(self._paths[key] if names else "")),
                    " ".join(split(names.get(key, ""))),
                )
                for key, body in bodies.items()
            ),
        )

    def rank(self, step: str, question: str) -> list[str]:
        """Return files, best first."""
        match step:
            case "grep":
                return self._count_words(question)
            case "words":
                return self._rank_words("words", set(_list_plain(question)))
            case "split":
                return self._rank_words("split", set(_list_parts(question)))
            case "path and symbol words":
                return self._rank_words("paths", set(_list_parts(question)))
            case "stems":
                return self._rank_words("stems", set(split_words(question)))
            case _:
                model = "" if step == "ranker" else "words256"
                match = self._search.search(SearchRequest(text=question, limit=50, model=model))
                return list(dict.fromkeys(hit.path for hit in match))

    def _count_words(self, question: str) -> list[str]:
        words = {word.lower() for word in _WORD.findall(question) if len(word) > 2}
        counts = {path: sum(word in text for word in words) for path, text in self._texts.items()}
        return sorted(counts, key=lambda path: (-counts[path], path))

    def _rank_words(self, table: str, words: Iterable[str]) -> list[str]:
        expression = " OR ".join(f'"{word}"' for word in sorted(words))
        rows = self._tables.execute(
            f"select rowid from {table} where {table} match ? order by bm25({table}, 1, 3, 2), rowid limit {_DEPTH}",
            (expression,),
        )
        return list(dict.fromkeys(self._paths[key] for (key,) in rows))


def _list_plain(text: str) -> Sequence[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _list_parts(text: str) -> Sequence[str]:
    return [part for word in _WORD.findall(text) for part in split_identifier(word)]
