"""The parts into which a hunk falls: at blank lines and between statements, never within one or within a string.

Parts are found one level at a time: the outermost statements first, and of these those with a blank line between them.
A doc string stays with the head of what it describes, a comment with the statement below it. Where the language has no
grammar, blank lines and indentation take the place of statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from core.shadow.diff.alignment import Region
from core.shadow.diff.text_lines import Encoding, decode_line
from core.syntax.grammars import parse_syntax

if TYPE_CHECKING:
    from tree_sitter import Node

Level = tuple[int, int]  # the nesting of a statement, and 0 after a blank line, else 1

_MAX_PARSED: Final = 300_000  # characters; a parse of more would hold up everything else
_MAX_PARTS: Final = 100
_BLOCK_NAMES: Final = """
annotation_type_body block block_body body_statement class_body compilation_unit compound_statement constructor_body
declaration_list do_group document enum_body enum_body_declarations enum_variant_list enumerator_list
field_declaration_list interface_body match_block module object_type program source_file statement_block statement_list
stylesheet switch_block switch_body translation_unit"""
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())  # nodes whose named children are statements, members or the like
_VALUES: Final = frozenset({"array", "object"})  # blocks of a file that is nothing but one value
_LEADS: Final = ("comment", "attribute_item")  # in the names of nodes that belong to the statement below them
_CLOSERS: Final = ("}", ")", "]", "end", "else", "elif", "except", "finally", "fi", "done", "esac", "</")


class HunkSide(NamedTuple):
    """One side of a hunk: all `lines` of the file, and those of the hunk, `size` of them from `start` (0-indexed)."""

    path: str
    lines: Sequence[bytes]
    start: int
    size: int
    encoding: Encoding

    @property
    def own_lines(self) -> Sequence[bytes]:
        return self.lines[self.start : self.start + self.size]

    @property
    def last_cut(self) -> int:
        """The last line before which the hunk can be cut: no text can follow a line without an ending."""
        own_lines = self.own_lines
        return self.size - (1 if own_lines and decode_line(own_lines[-1], self.encoding)[1] == "none" else 0)

    def read_texts(self) -> list[str]:
        """Return the text of every line of the file, without its ending."""
        return [decode_line(line, self.encoding, is_first=not index)[0] for index, line in enumerate(self.lines)]


def find_parts(old: HunkSide, new: HunkSide) -> list[Region]:
    """Return the parts of a hunk at its coarsest level, relative to its first lines; nothing if it has no levels."""
    old_starts, new_starts = _find_starts(old), _find_starts(new)
    if cuts := _choose_cuts(new_starts):
        pairs = [(a, b) for b, a in _pair_cuts((new, cuts), (old, sorted(old_starts)))]
    else:
        pairs = [*_pair_cuts((old, _choose_cuts(old_starts)), (new, sorted(new_starts)))]
    edges = [(0, 0), *((min(a, old.last_cut), min(b, new.last_cut)) for a, b in pairs), (old.size, new.size)]
    parts = [(a0, a1, b0, b1) for (a0, b0), (a1, b1) in pairwise(edges) if (a0, b0) != (a1, b1)]
    return parts if len(parts) > 1 else []


def _choose_cuts(starts: Mapping[int, Level]) -> list[int]:
    """Return the lines at which the statements of the outermost level begin, evenly fewer if they are very many."""
    coarsest = min(starts.values(), default=None)
    cuts = sorted(line for line, level in starts.items() if level == coarsest)
    return cuts[:: len(cuts) // _MAX_PARTS + 1]


def _pair_cuts(side: tuple[HunkSide, list[int]], other: tuple[HunkSide, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield each cut of a side with the line of the other side before which that is cut: where a statement that begins
    alike begins, else where the next such one does."""
    texts, other_texts = ([*map(_read_beginning, each_side.own_lines)] for each_side in (side[0], other[0]))
    matches: list[int | None] = []
    last = 0
    for cut in side[1]:
        matching = (line for line in other[1] if line > last and texts[cut] and other_texts[line] == texts[cut])
        matches.append(match := next(matching, None))
        last = last if match is None else match
    following = other[0].size
    lines: list[int] = []
    for match in reversed(matches):
        following = following if match is None else match
        lines.append(following)
    yield from zip(side[1], reversed(lines), strict=True)


def _read_beginning(line: bytes) -> tuple[bytes, ...]:
    return tuple(line.split(None, 2)[:2])


def _find_starts(side: HunkSide) -> dict[int, Level]:
    """Return the lines of a side, from its first, at which a statement begins, and the level of each."""
    if side.size < 2:
        return {}
    texts = side.read_texts()
    is_short = sum(map(len, texts)) <= _MAX_PARSED
    root = parse_syntax(side.path, "\n".join(texts)) if is_short else None
    lines = range(side.start + 1, side.start + side.size)
    starts = _find_indented_starts(texts, lines) if root is None else _find_statement_starts(root, side.path, lines)
    return {line - side.start: (depth, 0 if not texts[line - 1].strip() else 1) for line, depth in starts}


def _find_statement_starts(root: Node, path: str, lines: range) -> Iterator[tuple[int, int]]:
    """Yield the lines at which a statement begins that is not the first of its block, and its nesting."""
    blocks = _BLOCKS | _VALUES if PurePath(path).suffix.lower() == ".json" else _BLOCKS
    todo = [(root, 0)]
    while todo:
        node, depth = todo.pop()
        children = [child for child in node.children if child.end_point.row >= lines.start - 1]
        if node.type in blocks:
            yield from ((line, depth) for line in _list_starts(children) if line in lines)
            depth += 1
        todo += [(child, depth) for child in children if child.start_point.row < lines.stop and child.child_count]


def _list_starts(children: Sequence[Node]) -> Iterator[int]:
    """Yield the first lines of the statements of a block, without its first and those below a comment of their own."""
    previous: Node | None = None
    end = -1  # the last line of the previous token
    for child in children:
        line = child.start_point.row
        if child.is_named and line > end:
            is_led = previous is not None and line == end + 1 and any(lead in previous.type for lead in _LEADS)
            if previous is not None and not is_led:
                yield line
        previous = child if child.is_named else previous
        end = max(child.end_point.row - (child.end_point.column == 0), line)


def _find_indented_starts(texts: Sequence[str], lines: range) -> Iterator[tuple[int, int]]:
    """Yield the lines after blank ones and, where lines differ in indentation, those with the least of it."""
    own_texts = [text for text in texts[lines.start - 1 : lines.stop] if text.strip()]
    indents = {_measure_indent(text) for text in own_texts}
    for line in lines:
        text, is_after_blank = texts[line], not texts[line - 1].strip()
        if not text.strip() or text.lstrip().startswith(_CLOSERS):
            continue
        is_outermost = _measure_indent(text) == min(indents)
        if is_after_blank or (is_outermost and len(indents) > 1):
            yield line, 0 if is_outermost else 1


def _measure_indent(text: str) -> int:
    return len(text.expandtabs(4)) - len(text.expandtabs(4).lstrip())
