"""The place of quoted lines in a file: where they are said to be, or else where they are found once.

White space at the ends of lines does not count, nor do lines that are left out or marked as left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from core.patterns import compile_lazily
from core.text.counting import count

_ELISION: Final = compile_lazily(r"\W*(?:\.\.\.|…)\W*|\W*(?:\.\.\.|…)[^()\[\]=]*")  # marks for omitted lines


class QuotedPlace(Struct, frozen=True):
    """Lines of a file (1-indexed, inclusive). `doubt`: what is off about them, "" = the quotation is there."""

    start: int
    end: int
    doubt: str = ""


def locate_quotation(
    quote: str, claim: QuotedPlace, lines: Mapping[int, str], *, is_whole: bool = True, has_all: bool = False
) -> QuotedPlace:
    """Return the place `claim` if the quotation is there, else the only other one, else the same with a doubt.
    `lines`: those of the file by number, empty if there is no such file; `is_whole`: they are all of them; `has_all`:
    the quotation has all lines of the place, so that it says how many they are."""
    quoted_lines = [line.strip() for line in quote.split("\n")]
    quoted_lines = [line for line in quoted_lines if line and not _ELISION.fullmatch(line)]
    starts = [number for number, line in lines.items() if quoted_lines and line.strip() == quoted_lines[0]]
    lengths = [claim.end - claim.start, *([len(quote.strip("\n").split("\n")) - 1] if has_all and quoted_lines else [])]
    for length in dict.fromkeys(lengths):
        anchors = [start for start in (claim.start, *starts) if _matches_at(quoted_lines, lines, start, length)]
        if claim.start in anchors or len(anchors) == 1:
            start = claim.start if claim.start in anchors else anchors[0]
            return QuotedPlace(start, start + length)
    return QuotedPlace(claim.start, claim.end, _describe_doubt(claim, lines, is_whole=is_whole))


def _matches_at(quoted_lines: Sequence[str], lines: Mapping[int, str], start: int, length: int) -> bool:
    """True if these lines exist, and contain the quoted lines in order."""
    if start not in lines or start + length not in lines:
        return False
    remaining_lines = iter([lines.get(number, "").strip() for number in range(start, start + length + 1)])
    return all(any(line == quoted_line for line in remaining_lines) for quoted_line in quoted_lines)


def _describe_doubt(claim: QuotedPlace, lines: Mapping[int, str], *, is_whole: bool) -> str:
    if not lines:
        return "there is no such file" if is_whole else "the file is not in the diff"
    if claim.start in lines and claim.end in lines:
        return "these lines have other text"
    return f"the file has {count('line', max(lines))}" if is_whole else "these lines are not in the diff"
