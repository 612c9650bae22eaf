"""Hits of a search over transcripts: each session once, below it a line for each place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

import msgspec

from core.cli.session_output.table import format_day, shorten
from core.protocol.queries import TranscriptHit
from core.sessions.search.transcripts import TranscriptIndex
from core.sessions.store import SessionStore
from core.text.display_names import to_one_line

_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"


def search_transcripts(store: SessionStore, words: str, *, limit: int) -> tuple[TranscriptHit, ...]:
    """Return where words stand in the transcripts; all that is new in them is read first. Raises `StateError`."""
    with TranscriptIndex(store) as index:
        if (unread := index.refresh(seconds=1)) and sys.stderr.isatty():
            sys.stderr.write(f"Reading {unread} transcripts for the first time…\n")
        index.refresh()
        return index.search(words, limit=limit)


def print_hits(hits: Sequence[TranscriptHit], out: TextIO) -> None:
    """Print hits for people; found words are bold in a terminal."""
    is_bold = out.isatty()
    for session, found in groupby(hits, key=lambda each: each.session):
        rows = list(found)
        out.write(f"{session}  {format_day(rows[0].at)}  {shorten(rows[0].title or 'Untitled')}\n")
        out.writelines(f"  {each.kind:<8} {_format_text(each, is_bold=is_bold)}\n" for each in rows)
    if hits:
        first = next((each for each in hits if each.place), hits[0])
        out.write(f"Open one at its hit: agent-tui {_format_options(first)}\n")


def _format_text(hit: TranscriptHit, *, is_bold: bool) -> str:
    if not is_bold:
        return to_one_line(hit.text)
    return "".join(f"{_BOLD}{part}{_PLAIN}" if found else part for part, found in split_marked(hit))


def split_marked(hit: TranscriptHit) -> Iterator[tuple[str, bool]]:
    """Yield the text of a hit in pieces, with whether each is one of the words."""
    at = 0
    for start, end in hit.marks:
        yield to_one_line(hit.text[at:start]), False
        yield to_one_line(hit.text[start:end]), True
        at = end
    yield to_one_line(hit.text[at:]), False


def list_plain(hits: Sequence[TranscriptHit]) -> list[object]:
    """Return hits as plain data, with the option that opens each."""
    return [msgspec.to_builtins(each) | {"open": _format_options(each)} for each in hits]


def _format_options(hit: TranscriptHit) -> str:
    """Return the options that open a session at a hit."""
    return f"--resume {hit.session}" + (f" --at {hit.place}" if hit.place else "")
