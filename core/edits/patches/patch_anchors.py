"""The lines that an `@@` names, and how far what they open reaches.

An anchor tells where a hunk belongs. A hunk that stands nowhere in what its anchor opens is not meant for another place
that merely looks like it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.edits.errors import EditError
from core.edits.indentation import measure_depth
from core.edits.matching.block_merge import MatchedBlock

_MOST: Final = 100
_GOES_ON = re.compile(r"[)\]}{#]|(?:else|elif|except|finally|catch|case|default|end)\b|\w+\s*:$")


class Scope(NamedTuple):
    """Lines from an anchor (`line`, 0-indexed) up to `stop`, the first line that what it opens does not reach.
    `is_open` False: it opens nothing, so that the scope reaches to the end of the file."""

    line: int
    stop: int
    is_open: bool

    def holds(self, block: MatchedBlock) -> bool:
        """True if a block stands in the scope, touches its anchor or begins where it ends."""
        return block.last >= self.line and block.first <= self.stop


def find_scopes(bodies: Sequence[str], anchors: Sequence[str], first: int) -> list[Scope]:
    """Find every scope that anchors name, each within that of the one before it, else behind it. Those before line
    `first` only count where there is none behind it. Raises `EditError` for an anchor that the file does not have."""
    scopes = [Scope(first - 1, len(bodies), is_open=False)]
    for number, anchor in enumerate(anchors):
        within = [
            scope
            for outer_scope in scopes
            for scope in _find_named(bodies, anchor, outer_scope.line + 1, outer_scope.stop)
        ]
        behind = within or list(
            _find_named(bodies, anchor, min(outer_scope.line for outer_scope in scopes) + 1, len(bodies))
        )
        scopes = behind or (list(_find_named(bodies, anchor, 0, len(bodies))) if number == 0 else [])
        if not scopes:
            raise EditError(
                f"The line that @@ names was not found: {anchor.strip()[:120]!r}.",
                hint="Copy a line of the file after @@, or leave it out. Nothing was changed.",
            )
    return scopes if anchors else []


def _find_named(bodies: Sequence[str], anchor: str, start: int, stop: int) -> Iterator[Scope]:
    """Yield the scope of each line that an anchor names: that is it, else begins with it, else holds it."""
    needle = anchor.strip()
    rows = [(number, bodies[number].strip()) for number in range(max(0, start), min(stop, len(bodies)))]
    for same in (str.__eq__, str.startswith, str.__contains__):
        lines = [number for number, row in rows if same(row, needle)]
        if lines:
            yield from (_build_scope(bodies, line) for line in lines[:_MOST])
            return


def _build_scope(bodies: Sequence[str], line: int) -> Scope:
    depth = measure_depth(bodies[line])
    below = (number for number in range(line + 1, len(bodies)) if bodies[number].strip())
    first = next(below, None)
    if first is None or (measure_depth(bodies[first]) <= depth and bodies[first].strip() != "{"):
        return Scope(line, len(bodies), is_open=False)
    for number in below:
        line_depth = measure_depth(bodies[number])
        if line_depth < depth or (line_depth == depth and not _GOES_ON.match(bodies[number].strip())):
            return Scope(line, number, is_open=True)
    return Scope(line, len(bodies), is_open=True)
