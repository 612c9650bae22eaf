"""The lines of a settings file in which its keys stand. TOML's reader keeps none, so they are looked for in the text:
a heading, a key before `=`, and within a list the entry itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+")
_ASSIGNMENT = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def find_line(text: str, path: Sequence[str]) -> int:
    """Return the 1-indexed line that sets a key, or the nearest table above it; 0 when it is not found."""
    for length in range(len(path), 0, -1):
        for number, keys in _list_lines(text):
            if keys == list(path[:length]):
                return number
    begins = (number for number, keys in _list_lines(text) if keys[: len(path)] == list(path))
    return next(begins, 0)


def find_entry_line(text: str, path: Sequence[str], entry: str) -> int:
    """Return the line of an entry of the list at a key; that of the key where it is not found."""
    first = find_line(text, path)
    for number, line in enumerate(text.splitlines()[max(first - 1, 0) :], max(first, 1)):
        if f'"{entry}"' in line or f"'{entry}'" in line:
            return number
    return first


def _list_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the lines that name keys, each with the whole path."""
    section: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _split_keys(header[1])
            yield number, section
        elif assignment := _ASSIGNMENT.match(line):
            yield number, [*section, *_split_keys(assignment[1])]


def _split_keys(dotted_key: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted_key)]
