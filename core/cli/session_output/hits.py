"""Hits of a search over transcripts: each session once, below it a line for each place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

import msgspec

from core.cli.session_output.table import format_day, shorten
from core.protocol.queries import TranscriptHit
from core.sessions.store import SessionStore
from core.sessions.transcript_search import TranscriptIndex
from core.text.display_names import to_one_line

_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"


def search_transcripts(store: SessionStore, words: str, *, limit: int) -> tuple[TranscriptHit, ...]:
    """Return where words stand in the transcripts; all that is new in them is read first. Raises `StateError`."""
    with TranscriptIndex(store) as index:
        if (unread := index.refresh(seconds=1)) and sys.stderr.isatty():
            sys.stderr.write(f"Reading {unread} transcripts for the first time…\n")
        index.refresh()
        return index.search(words, limit=limit)


def print_hits(hits: Sequence[TranscriptHit], stream: TextIO) -> None:
    """Print hits for people; found words are bold in a terminal."""
    is_bold = stream.isatty()
    for session, session_hits in groupby(hits, key=lambda hit: hit.session):
        rows = list(session_hits)
        stream.write(f"{session}  {format_day(rows[0].at)}  {shorten(rows[0].title or 'Untitled')}\n")
        stream.writelines(f"  {row.kind:<8} {_format_text(row, is_bold=is_bold)}\n" for row in rows)
    if hits:
        first = next((hit for hit in hits if hit.place), hits[0])
        stream.write(f"Open one at its hit: agent-tui {_format_options(first)}\n")


def _format_text(hit: TranscriptHit, *, is_bold: bool) -> str:
    if not is_bold:
        return to_one_line(hit.text)
    return "".join(f"{_BOLD}{part}{_PLAIN}" if is_match else part for part, is_match in split_marked(hit))


def split_marked(hit: TranscriptHit) -> Iterator[tuple[str, bool]]:
    """Yield the text of a hit in pieces, with whether each is one of the words."""
    offset = 0
    for start, end in hit.marks:
        yield to_one_line(hit.text[offset:start]), False
        yield to_one_line(hit.text[start:end]), True
        offset = end
    yield to_one_line(hit.text[offset:]), False


def list_plain(hits: Sequence[TranscriptHit]) -> list[object]:
    """Return hits as plain data, with the option that opens each."""
    return [msgspec.to_builtins(hit) | {"open": _format_options(hit)} for hit in hits]


def _format_options(hit: TranscriptHit) -> str:
    """Return the options that open a session at a hit."""
    return f"--resume {hit.session}" + (f" --at {hit.place}" if hit.place else "")
