"""Queries about the transcripts of the sessions of a workspace."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from core.ids import Id
from core.protocol.base import Answer, Query

PieceKind = Literal["title", "prompt", "answer", "edit", "command", "tool", "plan", "question", "review", "subagent"]
ExportFormat = Literal["md", "html", "json"]


class TranscriptSearchQuery(Query, frozen=True, kw_only=True, tag="transcripts"):
    """Search the transcripts of the workspace for all of `words`; "several words in quotes" stand together, and a word
    that ends in * stands for all that begin so. `typed`: the last word may not be whole yet."""

    words: str
    limit: int = 50
    typed: bool = False


class TranscriptHit(Struct, frozen=True, kw_only=True):
    """A piece of a transcript that has the words. `place`: the id of the turn or document that shows it, `seq` that of
    its record, `at` in ms. `text`: a line around the words; `marks`: their [start, end) in it, in characters."""

    session: Id
    title: str
    kind: PieceKind
    place: str
    seq: int
    at: int
    text: str
    marks: tuple[tuple[int, int], ...] = ()


class TranscriptSearchAnswer(Answer, frozen=True, kw_only=True, tag="transcripts"):
    """The best hits of each session together, the best session first. `unread`: sessions that were not read yet; asked
    again, more of them are."""

    hits: tuple[TranscriptHit, ...]
    unread: int = 0


def build_export_name(title: str, extension: str) -> str:
    """Return a file name for the export of a session."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:48].rstrip("-")
    return f"{words or 'session'}.{extension}"


class ExportQuery(Query, frozen=True, kw_only=True, tag="export"):
    """The session as a document to give away: Markdown, one HTML file that needs nothing else, or JSON."""

    format: ExportFormat = "md"


class ExportAnswer(Answer, frozen=True, kw_only=True, tag="export"):
    """`name`: a file name for it."""

    name: str
    text: str
