"""The SEARCH/REPLACE block format: apply all blocks of a text or none. The parser is in `blocks.py`.

An empty SEARCH stands for the whole file, an empty REPLACE deletes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from core.edits.blocks import SearchReplace, parse_blocks
from core.edits.candidates import EditError
from core.edits.haystack import Haystack
from core.edits.line_edit import Splice
from core.edits.lines import carry_endings, line_number, to_lf
from core.edits.matching import Found, locate, spliced

_RULE = re.compile(r"^={5,}\s*$", re.MULTILINE)
__all__ = ["BatchResult", "SearchReplace", "apply_blocks", "blocks_for", "edit_search_replace", "parse_blocks"]


class BatchResult(Struct, frozen=True, kw_only=True):
    """`rungs` and `lines` (1-indexed start, in the text before the edit or, where blocks build on each other, in the
    running text), one per block."""

    text: str
    rungs: tuple[str, ...]
    lines: tuple[int, ...]


def edit_search_replace(text: str, content: str, path: str = "") -> BatchResult:
    """Apply the blocks of `content` that are meant for the file at `path`. Raises `EditError`."""
    return apply_blocks(text, blocks_for(parse_blocks(content), path))


def blocks_for(blocks: Sequence[SearchReplace], path: str) -> tuple[SearchReplace, ...]:
    """The blocks that name this file or none; when all name one other file, that is taken for another name of it."""
    mine = tuple(block for block in blocks if not path or block.path is None or same_file(block.path, path))
    if mine and any(block.path is not None for block in mine):
        return mine
    return tuple(blocks) if len({block.path for block in blocks}) == 1 else mine or tuple(blocks)


def same_file(named: str, path: str) -> bool:
    """Whether two paths name one file: one may leave out directories at the start."""
    ours, theirs = (each.replace("\\", "/").removeprefix("./").strip("/") for each in (named, path))
    return ours == theirs or ours.endswith(f"/{theirs}") or theirs.endswith(f"/{ours}")


def apply_blocks(text: str, blocks: Sequence[SearchReplace]) -> BatchResult:
    """Apply every block or none. Blocks are looked for in the text as it was; when one of them is not in it, or two
    touch the same lines, they are applied one after the other. Raises `EditError` that names the block."""
    if len(blocks) == 1 and not blocks[0].search:
        return BatchResult(text=_whole(text, blocks[0].replace), rungs=("whole_file",), lines=(1,))
    if any(not block.search for block in blocks):
        raise EditError(
            "A block with an empty SEARCH part stands for the whole file and can't be mixed with other blocks.",
            hint="Send it alone, or give the lines to replace. Nothing was changed.",
        )
    hay = Haystack(text)
    return _at_once(hay, blocks) or _in_turn(hay, blocks)


def _whole(text: str, replace: str) -> str:
    """A file whose lines all end with "\\r\\n" goes on with them."""
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        return to_lf(replace).replace("\n", "\r\n")
    return carry_endings("", replace, "\n")


def _find(hay: Haystack, block: SearchReplace) -> Found:
    """Where a block belongs. One that can be read in several ways is decided by what stands in the file, and a line of
    equals signs only comes to a file that has such lines."""
    if not block.others:
        return locate(hay, block.search, block.replace, whole_lines=True, near=block.line)
    readings = [(block.search, block.replace), *block.others]
    ruled = _RULE.search(hay.lf) is not None
    exact = [
        reading
        for reading in readings
        if reading[0] and f"\n{reading[0]}" in f"\n{hay.lf}" and (ruled or not _RULE.search(reading[1]))
    ]
    if len(exact) != 1:
        raise EditError(
            "The block has several ======= lines, and the file does not tell which one divides it.",
            hint="Write \\======= for those that are lines of the file. Nothing was changed.",
        )
    return locate(hay, *exact[0], whole_lines=True, near=block.line)


def _at_once(hay: Haystack, blocks: Sequence[SearchReplace]) -> BatchResult | None:
    rungs: list[str] = []
    starts: list[int] = []
    splices: list[Splice] = []
    text = hay.text
    for number, block in enumerate(blocks, start=1):
        try:
            found = _find(hay, block)
        except EditError as error:
            if error.ambiguous or len(blocks) == 1:
                raise _numbered(error, number, len(blocks)) from error
            return None
        rungs.append(found.rung)
        starts.append(min(found.splices).start)
        splices += found.splices
    if any(first.end > second.start for first, second in pairwise(sorted(splices))):
        return None
    lines = tuple(line_number(text, start) for start in starts)
    return BatchResult(text=spliced(text, splices), rungs=tuple(rungs), lines=lines)


def _in_turn(hay: Haystack, blocks: Sequence[SearchReplace]) -> BatchResult:
    rungs, lines = [], []
    text = hay.text
    for number, block in enumerate(blocks, start=1):
        hay = hay.after(text)
        try:
            found = _find(hay, block)
        except EditError as error:
            raise _numbered(error, number, len(blocks)) from error
        lines.append(line_number(text, min(found.splices).start))
        text = spliced(text, found.splices)
        rungs.append(found.rung)
    return BatchResult(text=text, rungs=tuple(rungs), lines=tuple(lines))


def _numbered(error: EditError, number: int, count: int) -> EditError:
    where = f"Block {number} of {count}: " if count > 1 else ""
    return EditError(where + error.message, hint=error.hint, candidates=error.candidates, ambiguous=error.ambiguous)
