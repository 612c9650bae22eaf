"""A draft that leaves nothing out and is one definition of the file: it takes the place of that definition.

The definition is found by syntax tree where there is a grammar that names it, else by the key of its first line and
what lies below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.edits.indentation import measure_depth
from core.edits.lazy.draft_indentation import reindent_at
from core.edits.lazy.line_keys import parse_line_key
from core.edits.lazy.line_matches import CONTINUED
from core.syntax.symbols import Definition, find_definitions
from core.text.lines import TextLines

MAX_UNMENTIONED = 12  # lines that a draft may drop without a word


def replace_definition(lines: TextLines, new: Sequence[str], path: str, text: str) -> str | None:
    """Put the draft in the place of the one definition that it is a version of; None when there is none."""
    span = _find_by_tree(lines, new, path, text) or _find_by_key(lines, new)
    if span is None:
        return None
    first, last = span
    old = lines.bodies[first : last + 1]
    draft_lines, file_lines = ([line.strip() for line in rows if line.strip()] for rows in (new, old))
    if len(old) == len(lines) or len(file_lines) > 3 * len(draft_lines) + MAX_UNMENTIONED:
        return None
    if draft_lines[-1] != file_lines[-1] and draft_lines[-1] in file_lines:
        return None  # the draft ends before the definition does, and may have left out the rest
    rows = reindent_at(new, lines.bodies[first])
    replacement = lines.find_dominant_ending().join(rows) + lines.ends[last]
    return text[: lines.starts[first]] + replacement + text[lines.find_end(last) :]


def _find_by_tree(lines: TextLines, new: Sequence[str], path: str, text: str) -> tuple[int, int] | None:
    file_definitions = find_definitions(path, text)
    draft_definitions = find_definitions(path, "\n".join(new)) or _find_wrapped_definitions(path, new)
    if not file_definitions or not draft_definitions:
        return None
    outer = [
        definition for definition in draft_definitions if not any(line.strip() for line in new[: definition.first])
    ]
    if not outer or any(line.strip() for line in new[outer[0].last + 1 :]):
        return None
    namesakes = [definition for definition in file_definitions if definition.name == outer[0].name]
    if len(namesakes) > 1:
        namesakes = [
            definition for definition in namesakes if lines.bodies[definition.own].strip() == new[outer[0].own].strip()
        ]
    if len(namesakes) != 1 or _has_shrunk(file_definitions, draft_definitions, namesakes[0]):
        return None
    return namesakes[0].own if outer[0].own == outer[0].first else namesakes[0].first, namesakes[0].last


def _has_shrunk(
    file_definitions: Sequence[Definition], draft_definitions: Sequence[Definition], target: Definition
) -> bool:
    """True if most of what the file defines inside of the definition is missing in the draft."""
    inside = [
        definition.name
        for definition in file_definitions
        if target.own < definition.own and definition.last <= target.last
    ]
    draft_names = {definition.name for definition in draft_definitions}
    return sum(name not in draft_names for name in inside) * 2 > len(inside)


def _find_wrapped_definitions(path: str, new: Sequence[str]) -> tuple[Definition, ...]:
    """The definitions of lines that are only valid inside of a class."""
    definitions = find_definitions(path, "class _ {\n" + "\n".join(new) + "\n}")
    inner = [definition for definition in definitions or () if definition.name != "_"]
    return tuple(
        Definition(definition.name, definition.first - 1, definition.own - 1, definition.last - 1)
        for definition in inner
    )


def _find_by_key(lines: TextLines, new: Sequence[str]) -> tuple[int, int] | None:
    """Find the span of a draft of blocks (lines with what lies below them) that the file has once, side by side."""
    spans: list[tuple[int, int]] = []
    for first, last in _split_blocks(new):
        span = _find_block(lines, new[first : last + 1])
        if span is None or (spans and any(line.strip() for line in lines.bodies[spans[-1][1] + 1 : span[0]])):
            return None
        if spans and span[0] <= spans[-1][1]:
            return None
        spans.append(span)
    return (spans[0][0], spans[-1][1]) if spans else None


def _split_blocks(new: Sequence[str]) -> list[tuple[int, int]]:
    blocks: list[tuple[int, int]] = []
    index = 0
    while index < len(new):
        if new[index].strip():
            blocks.append((index, _find_block_end(new, index)))
            index = blocks[-1][1]
        index += 1
    return blocks


def _find_block(lines: TextLines, block: Sequence[str]) -> tuple[int, int] | None:
    key = parse_line_key(block[0])
    if key is None or len(block) < 2:
        return None
    places = [index for index, line in enumerate(lines.bodies) if parse_line_key(line) == key]
    if len(places) > 1:
        places = [index for index in places if lines.bodies[index].strip() == block[0].strip()]
    if len(places) != 1:
        return None
    last = _find_block_end(lines.bodies, places[0])
    closing_flags = [bool(CONTINUED.match(row.strip())) for row in (block[-1], lines.bodies[last])]
    return None if last == places[0] or closing_flags[0] != closing_flags[1] else (places[0], last)


def _find_block_end(rows: Sequence[str], first: int) -> int:
    """The last line of the block that begins at a line: what lies deeper, and what closes or goes on at its depth."""
    depth, last, is_closed = measure_depth(rows[first]), first, False
    for index in range(first + 1, len(rows)):
        row = rows[index].strip()
        if not row:
            continue
        inner = measure_depth(rows[index]) > depth
        if not inner and (is_closed or measure_depth(rows[index]) < depth or not CONTINUED.match(row)):
            break
        is_closed = not inner and not row.endswith(("{", "(", "[", ":"))
        last = index
    return last
