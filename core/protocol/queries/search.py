"""Queries of the project's index, and its records of passages."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.base import Answer, Query
from core.protocol.events.session import IndexStatus

SearchKind = Literal["all", "symbols", "text", "meaning"]


class SearchHit(Struct, frozen=True, kw_only=True):
    """A place that was found: lines `start` to `end` (1-indexed, inclusive) of `path`, relative to the workspace.

    `symbol` is what stands there ("Class.method", "" = nothing that has a name), `text` its first lines. Hits are
    compared by `score` within one answer only. `is_changed`: the text is the shadow's, not the workspace's.
    """

    path: str
    start: int
    end: int
    symbol: str = ""
    kind: str = ""
    score: float = 0.0
    text: str = ""
    is_changed: bool = False


class SearchQuery(Query, frozen=True, kw_only=True, tag="search"):
    """The places of the project that answer `text` best, shadow over workspace, best first.

    "symbols" compares names, fuzzily; "text" finds exact text; "meaning" ranks by words and meaning; "all" has
    the lines in which the text stands first, then what the three fused find besides.
    `directories` limits it to what lies below them.
    """

    text: str
    kind: SearchKind = "all"
    directories: tuple[str, ...] = ()
    limit: int = 50


class SearchAnswer(Answer, frozen=True, kw_only=True, tag="search"):
    """`hits`, best first, and how far the index was when it was asked. `related_from`: the place of the first that is
    only related, where all kinds were asked for; None: they are not told apart."""

    hits: tuple[SearchHit, ...] = ()
    related_from: int | None = None
    status: IndexStatus = IndexStatus()


class IndexQuery(Query, frozen=True, kw_only=True, tag="index"):
    """Progress of the index of the workspace."""


class IndexAnswer(Answer, frozen=True, kw_only=True, tag="index"):
    status: IndexStatus = IndexStatus()
