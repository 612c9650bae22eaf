"""The search of a session: the index overlaid with pending texts, ripgrep for what is not indexed yet, and their
fusion.

Every hit passes the reader of the session that asks, so that a search returns only what that session may read.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import islice
from typing import Final, Literal

from msgspec.structs import replace

from core.config.settings import Settings
from core.engine.shared.project_index import ProjectIndex
from core.engine.shared.remote_embeddings import EmbedRoute
from core.errors import AgentTuiError
from core.index.database import IndexFailed, describe_failed_read
from core.index.path_kinds import weigh_path
from core.index.reader import IndexReader
from core.index.search.index_search import IndexSearch, SearchRequest
from core.index.search.query import parse_query
from core.index.search.symbol_search import SymbolSearch, is_named
from core.notebooks.rendering import choose_limit, find_notebook_text
from core.protocol.events import IndexStatus
from core.protocol.queries.files import SearchAnswer, SearchHit, SearchKind, SearchQuery
from core.tools.base import Reader

MAX_HITS: Final = 200
"""Hits of an answer at most."""

MAX_PENDING: Final = 500
"""Pending texts that are searched; of further pending files the text on disk is searched."""

_TEXT_LIMIT: Final = 1_000_000
_SHOWN_LINES: Final = 8
_SHOWN_CHARACTERS: Final = 1_000  # of a line
_WEIGHTS: Final = {"symbols": 1.2, "meaning": 1.0, "text": 0.6}
_RANK_OFFSET: Final = 20
_MAX_WORDS: Final = 12
_RELATED_SHARE: Final = 4  # a quarter of an answer is reserved for related hits

Part = Literal["symbols", "meaning", "text"]


class ProjectSearch:
    """The searches over the index of a project; their caches are dropped when the index is rebuilt."""

    def __init__(self, index: ProjectIndex, route: EmbedRoute) -> None:
        self._index = index
        self._route = route
        self._connection: sqlite3.Connection | None = None

    async def close(self) -> None:
        await self._route.close()

    async def search(self, query: SearchQuery, reader: Reader, settings: Settings) -> SearchAnswer:
        """Return hits in the files that `reader` may read. Does not raise, even without an index."""
        limit = max(0, min(query.limit, MAX_HITS))
        text = query.text.strip()
        if not text or not limit:
            return SearchAnswer(status=self._index.status())
        query = replace(query, text=text, limit=limit)
        view = _ReadView(reader, settings)
        if query.kind != "text":
            await self._index.catch_up()
        parts: tuple[Part, ...] = ("symbols", "meaning", "text") if query.kind == "all" else (query.kind,)
        first_status = self._index.status()  # An index that becomes ready meanwhile wasn't when it was searched.
        lists = [(part, await self._find(part, query, view)) for part in parts]
        status = self.describe(first_status if first_status.state == "building" else self._index.status())
        if len(lists) == 1:
            visible_hits = (view.show(hit) for hit in lists[0][1] if view.can_read(hit.path))
            return SearchAnswer(hits=tuple(islice(visible_hits, limit)), status=status)
        literal_hits, related_hits = _split_literal_hits(_fuse(lists, text), dict(lists)["text"])
        literal_hits, related_hits = (
            [hit for hit in hits if view.can_read(hit.path)] for hits in (literal_hits, related_hits)
        )
        literal_hits = literal_hits[: limit - min(len(related_hits), limit // _RELATED_SHARE)]
        merged_hits = [*literal_hits, *related_hits][:limit]
        return SearchAnswer(hits=tuple(map(view.show, merged_hits)), related_from=len(literal_hits), status=status)

    def describe(self, status: IndexStatus) -> IndexStatus:
        """Return the index status with the state of the model of the `embed` route."""
        return self._route.add_model_status(status)

    async def _find(self, part: Part, query: SearchQuery, view: _ReadView) -> list[SearchHit]:
        if part == "text":
            return [hit async for hit in _grep(view.reader, re.escape(query.text), query.directories)]
        pending = await asyncio.to_thread(view.load_pending)
        request = SearchRequest(text=query.text, limit=query.limit * 2, directories=query.directories, pending=pending)
        if part == "meaning":
            model, vectors = await self._route.embed_question(view.settings, parse_query(query.text))
            request = replace(request, model=model, vectors=vectors)
        try:
            hits = await self._index.read(
                lambda reader: self._ask(reader, query.kind if part == "symbols" else part, request)
            )
        except IndexFailed:
            return await self._find_unindexed(query, view.reader, None) if part == "meaning" else []
        if part == "meaning" and self._index.status().state != "ready":
            hits += await self._find_unindexed(query, view.reader, hits)
        return hits

    def _ask(self, reader: IndexReader, kind: SearchKind, request: SearchRequest) -> list[SearchHit]:
        """Search the index by meaning or by name, or the names for a query of all kinds; runs in the index's thread."""
        try:
            connection = reader.connect()
            if connection is not self._connection:
                self._connection = connection
                self._by_meaning, self._by_name = IndexSearch(connection), SymbolSearch(connection)
            if kind == "symbols":
                return self._by_name.search_words(request)
            return (self._by_meaning if kind == "meaning" else self._by_name).search(request)
        except sqlite3.Error as problem:
            raise describe_failed_read(problem) from problem

    async def _find_unindexed(
        self, query: SearchQuery, reader: Reader, indexed_hits: Sequence[SearchHit] | None
    ) -> list[SearchHit]:
        """Find the files with most of the words among those that are not indexed yet, or among all files if the index
        can't be read (`indexed_hits` None)."""
        question = parse_query(query.text)
        names = [name for name in question.names if name.isidentifier()]
        words = sorted({*names, *(word for word in question.first_words if len(word) > 3)}, key=lambda word: -len(word))
        if not words:
            return []
        pattern = "|".join(re.escape(word) for word in words[:_MAX_WORDS])
        by_file: dict[str, list[SearchHit]] = {}
        async for hit in _grep(reader, pattern, query.directories):
            by_file.setdefault(hit.path, []).append(hit)
        indexed_paths = await self._list_indexed(by_file) if indexed_hits is not None else set[str]()
        lowest = min((hit.score for hit in indexed_hits or ()), default=1.0)
        unindexed_hits = list[SearchHit]()
        for path, hits in by_file.items():
            text = "\n".join(hit.text for hit in hits).lower()
            share = sum(word.lower() in text for word in words) / len(words)
            if path not in indexed_paths:
                unindexed_hits.append(replace(hits[0], score=round(lowest * share * 0.99, 6)))
        return sorted(unindexed_hits, key=lambda hit: (-hit.score, hit.path))[: query.limit]

    async def _list_indexed(self, paths: Iterable[str]) -> set[str]:
        candidate_paths = list(paths)

        def look_up(reader: IndexReader) -> set[str]:
            connection = reader.connect()
            row = "select 1 from files where path = ?"
            return {path for path in candidate_paths if connection.execute(row, (path,)).fetchone()}

        try:
            return await self._index.read(look_up)
        except (IndexFailed, sqlite3.Error):
            return set()


class _ReadView:
    """The files as one reader sees them, read at most once for an answer, and the settings at that time."""

    def __init__(self, reader: Reader, settings: Settings) -> None:
        self.reader = reader
        self.settings = settings
        self._operations = reader.pending_paths()
        self._pending: dict[str, str | None] = {}
        self._lines: dict[str, list[str] | None] = {}

    def load_pending(self) -> dict[str, str | None]:
        """Return the pending texts by path; None: the file is deleted, is not text, or may not be read."""
        if not self._pending:
            for path, operation in islice(self._operations.items(), MAX_PENDING):
                lines = None if operation == "delete" else self._read_lines(path)
                self._pending[path] = None if lines is None else "\n".join(lines)
        return self._pending

    def can_read(self, path: str) -> bool:
        return self._read_lines(path) is not None

    def show(self, hit: SearchHit) -> SearchHit:
        """Return a hit with its first lines."""
        lines = self._read_lines(hit.path) or []
        visible_lines = lines[hit.start - 1 : min(hit.end, hit.start - 1 + _SHOWN_LINES)]
        text = "\n".join(line[:_SHOWN_CHARACTERS] for line in visible_lines)
        return replace(hit, text=text, is_changed=hit.is_changed or hit.path in self._operations)

    def _read_lines(self, path: str) -> list[str] | None:
        if path not in self._lines:
            try:
                data = self.reader.read_bytes(path, choose_limit(path, _TEXT_LIMIT))
            except (AgentTuiError, OSError, ValueError):
                self._lines[path] = None
            else:
                text = find_notebook_text(path, data, has_outputs=False)
                text = data.decode("utf-8", "replace").removeprefix("\ufeff") if text is None else text
                self._lines[path] = None if "\0" in text else [line.removesuffix("\r") for line in text.split("\n")]
        return self._lines[path]


async def _grep(reader: Reader, pattern: str, directories: Sequence[str]) -> AsyncIterator[SearchHit]:
    """Iterate over the matching lines, those of the project's own code first."""
    from core.tools.builtin.reading.grep import Grep

    exact = any(character.isupper() for character in pattern)
    for directory in directories or (".",):
        try:
            matches = await Grep(pattern=pattern[:2000], path=directory, case_sensitive=exact).find_matches(reader)
        except AgentTuiError:
            continue
        for path, rows in sorted(
            matches.files.items(), key=lambda entry: (-weigh_path(entry[0], frozenset()), entry[0])
        ):
            for row in rows:
                if row.hit:
                    yield SearchHit(path=path, start=row.line, end=row.line, kind="text", score=1.0, text=row.text)


def _fuse(lists: Sequence[tuple[Part, list[SearchHit]]], text: str) -> list[SearchHit]:
    """Merge the lists by reciprocal rank fusion. Overlapping hits become one, whose score grows once per list. Hits
    whose symbol has the name in the text come first."""
    hits_by_key: dict[tuple[str, int], SearchHit] = {}
    by_path: dict[str, list[tuple[str, int]]] = {}
    for part, hits in lists:
        scored_keys = set[tuple[str, int]]()
        for rank, hit in enumerate(hits):
            inside = next((key for key in by_path.get(hit.path, ()) if _overlaps(hits_by_key[key], hit)), None)
            key = inside or (hit.path, hit.start)
            if key not in hits_by_key:
                hits_by_key[key] = replace(hit, score=0.0)
                by_path.setdefault(hit.path, []).append(key)
            if key not in scored_keys:
                scored_keys.add(key)
                hits_by_key[key] = replace(
                    hits_by_key[key], score=hits_by_key[key].score + _WEIGHTS[part] / (_RANK_OFFSET + rank)
                )
    scored_hits = (replace(hit, score=round(hit.score + is_named(text, hit.symbol), 6)) for hit in hits_by_key.values())
    return sorted(scored_hits, key=lambda hit: (-hit.score, hit.path, hit.start))


def _split_literal_hits(
    places: Sequence[SearchHit], lines: Sequence[SearchHit]
) -> tuple[list[SearchHit], list[SearchHit]]:
    """Split into literal and related hits: the `lines` that contain the text, ordered and named like the `places`
    around them, and the places that do not contain it."""
    by_path: dict[str, list[tuple[int, SearchHit]]] = {}
    for rank, hit in enumerate(places):
        by_path.setdefault(hit.path, []).append((rank, hit))
    holding, ranked_lines = set[int](), list[tuple[int, SearchHit]]()
    for line in lines:
        around = [
            candidate
            for candidate in by_path.get(line.path, ())
            if candidate[1].start <= line.start <= candidate[1].end
        ]
        holding.update(rank for rank, _ in around)
        rank, hit = around[0] if around else (len(places), line)
        ranked_lines.append((rank, replace(line, symbol=hit.symbol, kind=hit.kind, score=hit.score)))
    literal_hits = [line for _, line in sorted(ranked_lines, key=lambda entry: entry[0])]  # stable within a place
    return literal_hits, [hit for rank, hit in enumerate(places) if rank not in holding]


def _overlaps(one: SearchHit, other: SearchHit) -> bool:
    return one.start <= other.start <= one.end or other.start <= one.start <= other.end
