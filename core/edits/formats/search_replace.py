"""The SEARCH/REPLACE block format: apply all blocks of a text or none.

An empty SEARCH stands for the whole file, an empty REPLACE deletes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from core.edits.errors import EditError, format_part
from core.edits.formats.search_replace_blocks import SearchReplaceBlock, parse_blocks
from core.edits.formats.target_file import is_same_file
from core.edits.matching.ladder import LadderMatch, locate
from core.edits.matching.search_text import SearchText
from core.text.lines import apply_splices, carry_endings, find_line_number, normalise_endings

_RULE = re.compile(r"^={5,}\s*$", re.MULTILINE)


class SearchReplaceResult(Struct, frozen=True, kw_only=True):
    """`rungs` and `lines` (1-indexed starts, in the running text where blocks build on each other), one per block that
    was applied. `slips`: the kinds of slip that were put right, among them a block that was given twice."""

    text: str
    rungs: tuple[str, ...]
    lines: tuple[int, ...]
    slips: tuple[str, ...] = ()


def apply_search_replace(text: str, content: str, path: str = "") -> SearchReplaceResult:
    """Apply the blocks of `content` that are meant for the file at `path`. Raises `EditError`."""
    return apply_blocks(text, select_blocks(parse_blocks(content), path))


def select_blocks(blocks: Sequence[SearchReplaceBlock], path: str) -> tuple[SearchReplaceBlock, ...]:
    """Select the blocks that name this file or none; when all name one other, that is another name of it."""
    file_blocks = tuple(block for block in blocks if not path or block.path is None or is_same_file(block.path, path))
    if file_blocks and any(block.path is not None for block in file_blocks):
        return file_blocks
    return tuple(blocks) if len({block.path for block in blocks}) == 1 else file_blocks or tuple(blocks)


def apply_blocks(text: str, blocks: Sequence[SearchReplaceBlock]) -> SearchReplaceResult:
    """Apply every block or none: to the text as it was, or one after the other where one is not in it, or two touch the
    same lines. A block that is there twice is applied once. Raises `EditError` that names the block."""
    original_blocks, blocks = blocks, tuple(dict.fromkeys(blocks))
    if len(blocks) == 1 and not blocks[0].search:
        return SearchReplaceResult(text=_fit_endings(text, blocks[0].replace), rungs=("whole_file",), lines=(1,))
    if any(not block.search for block in blocks):
        raise EditError(
            "A block with an empty SEARCH part stands for the whole file and can't be mixed with other blocks.",
            hint="Send it alone, or give the lines to replace. Nothing was changed.",
        )
    search_text = SearchText(text)
    result = _apply_at_once(search_text, blocks) or _apply_in_turn(search_text, blocks)
    return replace(result, slips=(*result.slips, "repeated")) if len(blocks) < len(original_blocks) else result


def _fit_endings(text: str, replace: str) -> str:
    """Give a whole new text the endings of a file whose lines all end with CRLF."""
    if "\r\n" in text and text.count("\n") == text.count("\r\n"):
        return normalise_endings(replace).replace("\n", "\r\n")
    return carry_endings("", replace, "\n")


def _find_block(search_text: SearchText, block: SearchReplaceBlock) -> LadderMatch:
    """Find where a block belongs. One that can be read in several ways is decided by what stands in the file, and a
    line of equals signs only comes to a file that has such lines."""
    if not block.alternatives:
        return locate(search_text, block.search, block.replace, whole_lines=True, line_hint=block.line)
    readings = [(block.search, block.replace), *block.alternatives]
    has_rule = _RULE.search(search_text.lf_text) is not None
    present_readings = [
        reading for reading in readings if reading[0] and f"\n{reading[0]}" in f"\n{search_text.lf_text}"
    ]
    exact = [reading for reading in present_readings if has_rule or not _RULE.search(reading[1])]
    if len(exact) != 1:
        raise EditError(
            "The block has several ======= lines, and the file does not tell which one divides it.",
            hint="Write \\======= for those that are lines of the file. Nothing was changed.",
        )
    return locate(search_text, *exact[0], whole_lines=True, line_hint=block.line)


def _apply_at_once(search_text: SearchText, blocks: Sequence[SearchReplaceBlock]) -> SearchReplaceResult | None:
    matches: list[LadderMatch] = []
    for number in range(len(blocks)):
        try:
            matches.append(_find_numbered(search_text, blocks, number))
        except EditError as error:
            if error.is_ambiguous or len(blocks) == 1:
                raise
            return None
    splices = [splice for match in matches for splice in match.splices]
    if any(first.end > second.start for first, second in pairwise(sorted(splices))):
        return None
    lines = tuple(_find_first_line(search_text.text, match) for match in matches)
    text = apply_splices(search_text.text, splices)
    return SearchReplaceResult(
        text=text, rungs=tuple(match.rung for match in matches), lines=lines, slips=_join_slips(matches)
    )


def _apply_in_turn(search_text: SearchText, blocks: Sequence[SearchReplaceBlock]) -> SearchReplaceResult:
    matches: list[LadderMatch] = []
    lines = []
    for number in range(len(blocks)):
        matches.append(_find_numbered(search_text, blocks, number))
        lines.append(_find_first_line(search_text.text, matches[-1]))
        search_text = search_text.with_text(apply_splices(search_text.text, matches[-1].splices))
    rungs = tuple(match.rung for match in matches)
    return SearchReplaceResult(text=search_text.text, rungs=rungs, lines=tuple(lines), slips=_join_slips(matches))


def _join_slips(matches: Sequence[LadderMatch]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(slip for match in matches for slip in match.slips))


def _find_numbered(search_text: SearchText, blocks: Sequence[SearchReplaceBlock], number: int) -> LadderMatch:
    try:
        return _find_block(search_text, blocks[number])
    except EditError as error:
        raise error.name_part(format_part("Block", number + 1, len(blocks))) from error


def _find_first_line(text: str, match: LadderMatch) -> int:
    return find_line_number(text, min(match.splices).start)
