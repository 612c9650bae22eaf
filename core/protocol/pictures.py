"""A preview of a picture for a client that has no decoder: its colours, as many as there is room for."""

from __future__ import annotations

from core.protocol.asked import Answer, Query


class PictureQuery(Query, frozen=True, kw_only=True, tag="picture"):
    """The attachment `digest` of a session, drawn in at most so many cells."""

    digest: str
    columns: int = 80
    rows: int = 24


class PictureAnswer(Answer, frozen=True, kw_only=True, tag="picture"):
    """Rows of cells of two pixels each, one above the other: 12 hex digits a cell, the upper pixel's six first."""

    rows: tuple[str, ...]
