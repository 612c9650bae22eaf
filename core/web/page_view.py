"""A part of a page as a model is shown it: its beginning and outline, a part from a place on, or where words stand."""

from __future__ import annotations

import re
from typing import Final

PREVIEW_CHARS: Final = 6_000  # characters of a page's beginning
PART_CHARS: Final = 16_000  # characters of a part that was asked for
MAX_HEADINGS: Final = 60
MAX_FOUND: Final = 12
_AROUND: Final = 240  # characters around words that were found
_HEADING: Final = re.compile(r"^```[\s\S]*?^```|^(#{1,4}) +(\S.{0,110})", re.MULTILINE)  # or a block of code


def show_beginning(text: str) -> str:
    """Return a short text whole; of a long one its beginning, and where each of its sections is."""
    if len(text) <= PART_CHARS:
        return text
    end = _find_end(text, PREVIEW_CHARS)
    headings = list_headings(text)
    outline = "\n".join(f"{offset:>8,}  {title}" for offset, title in headings)
    sections = f"\nIts sections, by offset:\n{outline}" if headings else ""
    return (
        f"{text[:end].rstrip()}\n\n[{end:,} of {len(text):,} characters. Go on with offset={end}, or find.]{sections}"
    )


def show_part(text: str, offset: int) -> str:
    """Return a part of a text from `offset` on, and how it goes on."""
    if offset >= len(text):
        return f"[The page has {len(text):,} characters: nothing is at {offset:,}.]"
    end = _find_end(text, offset + PART_CHARS)
    rest = f"\n\n[Until {end:,} of {len(text):,} characters. Go on with offset={end}.]" if end < len(text) else ""
    return text[offset:end] + rest


def show_found(text: str, words: str) -> str:
    """Return the places where words stand, with what is around them; upper and lower case are the same."""
    places = [match.start() for match in re.finditer(re.escape(words), text, re.IGNORECASE)]
    if not places:
        return f"[{words!r} does not stand in this page of {len(text):,} characters.]"
    parts, end = list[str](), 0
    for offset in places:
        if offset < end:
            continue
        if len(parts) == MAX_FOUND:
            break
        start, end = max(end, offset - _AROUND), min(len(text), offset + len(words) + _AROUND)
        parts.append(f"[at {offset:,}]\n{text[start:end].strip()}")
    return "\n\n".join((f"[{len(places)} times; offset shows a place with more around it.]", *parts))


def list_headings(text: str) -> list[tuple[int, str]]:
    """List the headings of a Markdown text by place; more than can be shown are thinned out by their level."""
    matches = [match for match in _HEADING.finditer(text) if match[1]]
    for level in (4, 3, 2, 1):
        headings = [match for match in matches if len(match[1]) <= level]
        if len(headings) <= MAX_HEADINGS:
            break
    return [(match.start(), f"{match[1]} {match[2]}") for match in headings[:MAX_HEADINGS]]


def _find_end(text: str, limit: int) -> int:
    """Find the end of a line shortly before `limit`, so that no word is cut."""
    if limit >= len(text):
        return len(text)
    line = text.rfind("\n", limit - 500, limit)
    return line + 1 if line > 0 else limit
