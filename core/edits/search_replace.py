"""The SEARCH/REPLACE block format: parse it, and apply all of its blocks or none.

    ------- SEARCH
    lines that are there
    =======
    lines that take their place
    +++++++ REPLACE

Markers have seven or more signs and stand alone on their line. An empty SEARCH stands for the whole file, an empty
REPLACE deletes. Text between blocks is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from core.edits.candidates import EditError
from core.edits.haystack import Haystack
from core.edits.line_edit import Splice
from core.edits.matching import apply_replacement, locate, spliced

_START = re.compile(r"-{7,} SEARCH\s*$")
_MIDDLE = re.compile(r"={7,}\s*$")
_END = re.compile(r"\+{7,} REPLACE\s*$")
_CONFLICT_START = re.compile(r"<{7}(?: |$)")
_CONFLICT_END = re.compile(r">{7}(?: |$)")


class SearchReplace(Struct, frozen=True):
    """Both are whole lines with their endings; "" is an empty part."""

    search: str
    replace: str


class BatchResult(Struct, frozen=True, kw_only=True):
    """`rungs` and `lines` (1-indexed start, in the text before the edit or, where blocks build on each other, in the
    running text), one per block."""

    text: str
    rungs: tuple[str, ...]
    lines: tuple[int, ...]


def parse_blocks(content: str) -> tuple[SearchReplace, ...]:
    """All blocks of `content`, in order. Raises `EditError` for a broken sequence of markers, naming the line."""
    reader = _Reader()
    for number, line in enumerate(content.splitlines(keepends=True) if content else (), start=1):
        reader.take(number, line)
    if reader.part != "outside":
        missing = "=======" if reader.part == "search" else "+++++++ REPLACE"
        raise _broken(f"the block that begins in line {reader.begin} has no {missing} line", reader.begin)
    if not reader.blocks:
        raise EditError("There is no SEARCH/REPLACE block in the text.", hint="Begin one with a ------- SEARCH line.")
    return tuple(reader.blocks)


def _broken(what: str, line: int) -> EditError:
    hint = "A block is: ------- SEARCH, the old lines, =======, the new lines, +++++++ REPLACE; each alone on its line."
    return EditError(f"Broken SEARCH/REPLACE markers in line {line}: {what}.", hint=hint)


class _Reader:
    """The state machine over lines: outside, search, replace."""

    def __init__(self) -> None:
        self.part = "outside"
        self.begin = 0
        self.blocks: list[SearchReplace] = []
        self._search: list[str] = []
        self._replace: list[str] = []
        self._conflict = False

    def take(self, number: int, line: str) -> None:
        if _START.match(line):
            self._open(number)
        elif _END.match(line):
            self._close(number)
        elif self.part == "search":
            self._take_search(line)
        elif self.part == "replace":
            self._replace.append(line)
        elif _MIDDLE.match(line):
            raise _broken("======= stands outside of a block", number)

    def _open(self, number: int) -> None:
        if self.part != "outside":
            raise _broken(f"the block that begins in line {self.begin} is not closed before the next one", number)
        self.part, self.begin, self._conflict = "search", number, False
        self._search, self._replace = [], []

    def _close(self, number: int) -> None:
        if self.part != "replace":
            missing = "no block is open" if self.part == "outside" else "======= is missing before it"
            raise _broken(missing, number)
        self.blocks.append(SearchReplace("".join(self._search), "".join(self._replace)))
        self.part = "outside"

    def _take_search(self, line: str) -> None:
        """A ======= between conflict markers is content of the file, not the middle of the block."""
        if _MIDDLE.match(line) and not self._conflict:
            self.part = "replace"
            return
        if _CONFLICT_START.match(line):
            self._conflict = True
        elif _CONFLICT_END.match(line):
            self._conflict = False
        self._search.append(line)


def apply_blocks(text: str, blocks: Sequence[SearchReplace]) -> BatchResult:
    """Apply every block or none. Blocks are looked for in the text as it was; when that fails for one of them, or two
    touch the same lines, they are applied one after the other. Raises `EditError` that names the block."""
    if len(blocks) == 1 and not blocks[0].search:
        return BatchResult(text=blocks[0].replace, rungs=("whole_file",), lines=(1,))
    if any(not block.search for block in blocks):
        raise EditError(
            "A block with an empty SEARCH part stands for the whole file and can't be mixed with other blocks.",
            hint="Send it alone, or give the lines to replace.",
        )
    return _at_once(text, blocks) or _in_turn(text, blocks)


def _at_once(text: str, blocks: Sequence[SearchReplace]) -> BatchResult | None:
    rungs: list[str] = []
    splices: list[Splice] = []
    hay = Haystack(text)
    for block in blocks:
        try:
            found = locate(hay, block.search, block.replace, whole_lines=True)
        except EditError:
            return None
        rungs.append(found.rung)
        splices += found.splices
    ordered = sorted(splices)
    if any(first.end > second.start for first, second in pairwise(ordered)):
        return None
    lines = tuple(text.count("\n", 0, each.start) + 1 for each in splices)
    return BatchResult(text=spliced(text, splices), rungs=tuple(rungs), lines=lines)


def _in_turn(text: str, blocks: Sequence[SearchReplace]) -> BatchResult:
    rungs, lines = [], []
    for number, block in enumerate(blocks, start=1):
        try:
            done = apply_replacement(text, block.search, block.replace, whole_lines=True)
        except EditError as error:
            where = f"Block {number} of {len(blocks)}: " if len(blocks) > 1 else ""
            raise EditError(where + error.message, hint=error.hint, candidates=error.candidates) from error
        text = done.text
        rungs.append(done.rung)
        lines.append(done.start_line)
    return BatchResult(text=text, rungs=tuple(rungs), lines=tuple(lines))
