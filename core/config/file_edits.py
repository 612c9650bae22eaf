"""One key of a settings file is set or taken out; every other line stays as the user wrote it, to the comment.

The text is looked through line by line, since TOML's reader keeps no places. So what came out is read again, and where
it says anything but the old file with that one change nothing is returned: a key in a table that is written in one line
is the user's to change. A list keeps its form: what it has in lines of their own stays in them, with their comments.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from core.config.places import ASSIGNMENT, HEADER, split_keys
from core.errors import ConfigError
from core.records import parse_toml

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_INDENT: Final = re.compile(r"[ \t]*")
_BY_HAND: Final = "Change it in the file: agent-tui config edit."


class _Entry(NamedTuple):
    """A heading, or a key with its value. `section`: the table that it stands in; lines from 0, `end` is behind it."""

    path: tuple[str, ...]
    section: tuple[str, ...]
    start: int
    end: int
    is_heading: bool


def set_value(text: str, path: Sequence[str], value: object) -> str:
    """Return a settings file with a key set; a missing table is added. Raises `ConfigError`."""
    lines, ending = _split_lines(text)
    keys = tuple(path)
    entries = list(_list_entries(lines))
    if (entry := _find_entry(entries, keys)) is not None:
        written = _rewrite(lines[entry.start : entry.end], value, ending)
        after = [*lines[: entry.start], *written, *lines[entry.end :]]
    else:
        after = _add(lines, entries, keys, format_value(value), ending)
    return _check(text, "".join(after), keys, value)


def remove_value(text: str, path: Sequence[str]) -> str:
    """Return a settings file without a key. Raises `ConfigError`."""
    lines, _ = _split_lines(text)
    entry = _find_entry(_list_entries(lines), tuple(path))
    after = text if entry is None else "".join([*lines[: entry.start], *lines[entry.end :]])
    return _check(text, after, tuple(path), None)


def format_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence):
        return f"[{', '.join(format_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_format_key((key,))} = {format_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return repr(value)


def _split_lines(text: str) -> tuple[list[str], str]:
    """Return the lines with their ends, each with one, and the end that lines have here."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    return ([*lines, last + ending] if last else lines), ending


def _list_entries(lines: Sequence[str]) -> Iterator[_Entry]:
    section: tuple[str, ...] = ()
    at = 0
    while at < len(lines):
        if header := HEADER.match(lines[at]):
            section = tuple(split_keys(header[1]))
            yield _Entry(section, section, at, at + 1, is_heading=True)
        elif assignment := ASSIGNMENT.match(lines[at]):
            end = _find_end(lines, at)
            yield _Entry((*section, *split_keys(assignment[1])), section, at, end, is_heading=False)
            at = end - 1
        at += 1


def _find_end(lines: Sequence[str], start: int) -> int:
    """Return the line behind a value that may take several."""
    for end in range(start + 1, len(lines) + 1):
        if _parses("".join(lines[start:end])):
            return end
    return start + 1


def _parses(text: str) -> bool:
    try:
        parse_toml(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _find_entry(entries: Iterator[_Entry] | Sequence[_Entry], path: tuple[str, ...]) -> _Entry | None:
    return next((entry for entry in entries if entry.path == path and not entry.is_heading), None)


def _rewrite(lines: Sequence[str], value: object, ending: str) -> list[str]:
    """Return the lines of an entry with another value, in the form of the old one. Raises `ConfigError`."""
    body = "".join(lines).rstrip()
    head = _cut_head(body)
    comment = _find_comment(body)
    one_line = [f"{head}{format_value(value)}{comment}{ending}"]
    if len(lines) == 1 or not isinstance(value, Sequence) or isinstance(value, str):
        return one_line
    if (inner := _rewrite_items(lines[1:-1], value, ending)) is not None:
        after = [lines[0], *inner, lines[-1]]
        if _reads_as("".join(after), value):
            return after
    if any("#" in line for line in lines[:-1]):
        key = body[: len(head)].rstrip("= \t")
        raise ConfigError(f"`{key}` has comments between its values, which would be lost.", hint=_BY_HAND)
    return one_line


def _rewrite_items(lines: Sequence[str], items: Sequence[object], ending: str) -> list[str] | None:
    """Return the lines between a list's brackets: those of items that stay, then new ones. None: they can't be told."""
    after: list[str] = []
    place = 0
    indent = "  "
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            after.append(line)
        elif not _parses(f"x = [\n{line}\n]"):
            return None
        else:
            indent = _cut_indent(line)
            values = parse_toml(f"x = [\n{line}\n]")["x"]
            if values == list(items[place : place + len(values)]):
                place += len(values)
                after.append(_end_with_comma(line))
    return [*after, *(f"{indent}{format_value(item)},{ending}" for item in items[place:])]


def _end_with_comma(line: str) -> str:
    """Return a line of a list with a comma behind its last item, before its comment."""
    ends = (mark.start() for mark in re.finditer(r"\s*#|\s*$", line))
    end = next((end for end in ends if _parses(f"x = [{line[:end]}]")), 0)
    return line if line[:end].endswith(",") else f"{line[:end]},{line[end:]}"


def _reads_as(text: str, value: object) -> bool:
    """True if an entry is valid and has this value."""
    if not _parses(text):
        return False
    table: Any = parse_toml(text)
    while isinstance(table, Mapping):
        table = next(iter(table.values()))
    return bool(table == list(value) if isinstance(value, tuple) else table == value)


def _cut_head(body: str) -> str:
    """Return an entry up to its value, with the spaces as they are."""
    key = ASSIGNMENT.match(body)
    end = key.end() if key is not None else 0
    space = _INDENT.match(body, end)
    return body[: space.end() if space is not None else end]


def _cut_indent(line: str) -> str:
    space = _INDENT.match(line)
    return space[0] if space is not None else ""


def _find_comment(body: str) -> str:
    """Return the comment at the end of an entry, with the spaces before it; "" = there is none."""
    value = parse_toml(body)
    for mark in re.finditer(r"[ \t]*#", body):
        rest = body[mark.start() :]
        if "\n" not in rest and _parses(body[: mark.start()]) and parse_toml(body[: mark.start()]) == value:
            return rest
    return ""


def _add(lines: Sequence[str], entries: Sequence[_Entry], path: tuple[str, ...], value: str, ending: str) -> list[str]:
    """Return the lines with a new key: behind its neighbours, below its heading, before all, or in a new table."""
    beside = [entry for entry in entries if entry.path[:-1] == path[:-1] and not entry.is_heading]
    below = [entry for entry in entries if entry.path == path[:-1] and entry.is_heading]
    if place := next(reversed(beside or below), None):
        indent = _cut_indent(lines[place.start])
        added = f"{indent}{_format_key(path[len(place.section) :])} = {value}{ending}"
        return [*lines[: place.end], added, *lines[place.end :]]
    added = f"{_format_key(path[-1:])} = {value}{ending}"
    if len(path) == 1:
        top = _count_opening(lines)
        return [*lines[:top], added, *([ending] if lines[top:] else []), *lines[top:]]
    return [*lines, *([ending] if lines else []), f"[{_format_key(path[:-1])}]{ending}", added]


def _count_opening(lines: Sequence[str]) -> int:
    """Return the number of lines of the comment that a file opens with, and the empty one that ends it; 0 = none."""
    size = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return size + 1 if 0 < size < len(lines) and not lines[size].strip() else 0


def _format_key(path: Sequence[str]) -> str:
    return ".".join(key if _BARE_KEY.fullmatch(key) else format_value(key) for key in path)


def _check(before: str, after: str, path: tuple[str, ...], value: object) -> str:
    """Return the new text if it says what it should. `value` None: the key is not there. Raises `ConfigError`."""
    wanted = _change(parse_toml(before), path, value)
    try:
        after.encode()
        is_right = _drop_empty(parse_toml(after)) == _drop_empty(wanted)
    except (tomllib.TOMLDecodeError, UnicodeEncodeError):
        is_right = False
    if not is_right:
        raise ConfigError(f"`{'.'.join(path)}` stands in your file in a way that can't be changed here.", hint=_BY_HAND)
    return after


def _change(table: Mapping[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    key, *rest = path
    others = {name: item for name, item in table.items() if name != key}
    if not rest:
        return others if value is None else others | {key: list(value) if isinstance(value, tuple) else value}
    inner = table.get(key)
    return others | {key: _change(inner if isinstance(inner, Mapping) else {}, tuple(rest), value)}


def _drop_empty(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without those in it that hold nothing: a heading may be left over."""
    inner = {key: _drop_empty(item) if isinstance(item, Mapping) else item for key, item in table.items()}
    return {key: item for key, item in inner.items() if item != {}}
