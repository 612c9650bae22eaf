"""Rows of matches: matching letters are emphasized, and a long path keeps its distinguishing part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from textual.content import Content

from core.text.display_names import ELLIPSIS
from tui.text import format_path, shorten_path

MATCH_STYLE: Final = "bold $primary"
_MIN_DIRECTORY_WIDTH: Final = 3  # columns of a directory below which it is left out


def format_match(path: str, paths: Sequence[str], words: str, width: int) -> Content:
    """Format a match in one row: its name with the matching letters, and as much of its directory as fits,
    preferring the part that distinguishes it from files of the same name."""
    directory, name, others = _split(path, paths)
    label = format_path(name, width - 2)
    room = width - len(label) - 4
    end = shorten_directory(directory, others, room) if directory and room > _MIN_DIRECTORY_WIDTH else ""
    line = mark_letters(f" {label}", words.rpartition("/")[2], start=1)
    return Content.assemble(line, (f"  {end}", "$foreground 50%"))


def format_whole_path(path: str, paths: Sequence[str], words: str, width: int) -> Content:
    """Format a whole path with the matching letters; shortened like `format_match`."""
    if len(label := format_path(path)) > width:
        directory, name, others = _split(path, paths)
        room = width - len(name) - 1
        end = shorten_directory(directory, others, room) if directory and room > _MIN_DIRECTORY_WIDTH else ELLIPSIS
        label = f"{end}/{format_path(name)}"
        label = label if len(label) <= width else ELLIPSIS + label[-max(width - 1, 1) :]
    name_at = label.rstrip("/").rpartition("/")[0]
    pattern = words.strip('"')
    start = len(name_at) + 1 if name_at and "/" not in pattern else 0
    line = mark_letters(label, pattern, start=start)
    return line if line.spans else mark_letters(label, pattern)


def _split(path: str, paths: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return directory and name of a path, and the directories of the others that are called so."""
    bare = path.rstrip("/")
    directory, _, name = bare.rpartition("/")
    split = (other_path.rstrip("/").rpartition("/") for other_path in paths if other_path != path)
    return directory, path[len(bare) - len(name) :], [above for above, _, other in split if other == name]


def shorten_directory(directory: str, others: Sequence[str], width: int) -> str:
    """Shorten a directory to a width: parts that it shares with all `others` are left out first."""
    if len(full_path := format_path(directory)) <= width:
        return full_path
    parts, rest = directory.split("/"), [other.split("/") for other in others if other != directory]
    first, last = 0, len(parts)
    if rest:
        first = min(_count_shared(parts, other_parts) for other_parts in rest)
        last = len(parts) - min(_count_shared(parts[::-1], other_parts[::-1]) for other_parts in rest)
        first, last = min(first, len(parts) - 1), max(last, min(first, len(parts) - 1) + 1)
    for begin, end in ((first, len(parts)), (first, last)):
        text = f"{'…/' * bool(begin)}{format_path('/'.join(parts[begin:end]))}{'/…' * (end < len(parts))}"
        if len(text) <= width:
            return text
    return shorten_path(directory, width)


def _count_shared(parts: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of common leading parts."""
    return sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(parts, others, strict=False)))


def mark_letters(text: str, letters: str, *, start: int = 0) -> Content:
    """Return a text with a query's letters emphasized: contiguous if possible, else as a subsequence."""
    line = Content(text)
    for offset in _find_letters(text[start:].lower(), letters.lower()):
        line = line.stylize(MATCH_STYLE, start + offset, start + offset + 1)
    return line


def mark_words(text: str, words: str) -> Content:
    """Return a text with all occurrences of some words emphasized."""
    line, lower_text = Content(text), text.lower()
    for word in words.lower().split():
        offset = lower_text.find(word)
        while offset >= 0:
            line = line.stylize(MATCH_STYLE, offset, offset + len(word))
            offset = lower_text.find(word, offset + len(word))
    return line


def _find_letters(text: str, letters: str) -> list[int]:
    """Return the indices of letters in a text: contiguous if possible, else as a subsequence; [] = no match."""
    if (together := text.find(letters)) >= 0:
        return [*range(together, together + len(letters))]
    places: list[int] = []
    for letter in letters:
        offset = text.find(letter, places[-1] + 1 if places else 0)
        if offset < 0:
            return []
        places.append(offset)
    return places
