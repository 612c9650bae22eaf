"""What a model is told when its text was not found, or found too often: places, line numbers and a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import unified_diff

from msgspec import Struct

from core.edits.haystack import Haystack
from core.edits.lines import Lines
from core.edits.similarity import closest, ratio
from core.errors import ToolInputInvalid

_SHOWN = 3
_EXCERPT = 30
_BEFORE = 2
_WIDTH = 200
_NEAR = 0.45
_COMPARED = 8_000


class Candidate(Struct, frozen=True, kw_only=True):
    """A place that may have been meant; lines are 1-indexed and inclusive."""

    start_line: int
    end_line: int
    similarity: float
    text: str


class EditError(ToolInputInvalid):
    """An edit that was not applied: nothing was changed. `candidates` are ordered, best first."""

    code = "edit_not_applied"

    def __init__(
        self, message: str, *, hint: str = "", candidates: Sequence[Candidate] = (), ambiguous: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)
        self.ambiguous = ambiguous


def ambiguous(hay: Haystack, lines: Sequence[int], rung: str) -> EditError:
    """The text stands at several places: the first of them with what stands around them."""
    shown = ", ".join(map(str, lines[:20])) + (f" and {len(lines) - 20} more" if len(lines) > 20 else "")
    how = "" if rung == "exact" else f" (compared leniently: {rung.replace('_', ' ')})"
    found = [_around(hay.lines, line) for line in lines[:_SHOWN]]
    return EditError(
        f"The text to replace was found {len(lines)} times{how}, at lines {shown}.\n"
        + "\n   ...\n".join(each.text for each in found)
        + "\n",
        hint="Nothing was changed. Add lines before or after it until it is unique, or set replace_all to change all.",
        ambiguous=True,
        candidates=found,
    )


def _around(lines: Lines, line: int) -> Candidate:
    """A place where a text begins, with the lines next to it, numbered."""
    first, last = max(1, line - _BEFORE), min(len(lines), line + 1)
    rows = [f"{number:6}|{lines.bodies[number - 1][:_WIDTH]}" for number in range(first, last + 1)]
    return Candidate(start_line=first, end_line=last, similarity=1.0, text="\n".join(rows))


def unmatched(hay: Haystack, old: str) -> EditError:
    """The text stands nowhere: the nearest places, and how the best one differs."""
    lines = hay.lines
    given = [line.removesuffix("\r") for line in old.split("\n")]
    while len(given) > 1 and not given[-1].strip():
        given.pop()
    near = _nearest(lines, given)
    if not near:
        hint = "Nothing was changed. Read the file again and copy the text exactly."
        return EditError("The text to replace was not found, and nothing in the file is near it.", hint=hint)
    best = near[0]
    places = ", ".join(f"lines {each.start_line}-{each.end_line} ({each.similarity:.0%} alike)" for each in near)
    diff = "\n".join(_difference(given, best))
    return EditError(
        f"The text to replace was not found. Nearest: {places}.\n"
        f"Given text (-) against lines {best.start_line}-{best.end_line} of the file (+):\n{diff}\n",
        hint="Nothing was changed. Call again with the text exactly as it stands in the file.",
        candidates=near,
    )


def _difference(given: list[str], best: Candidate) -> list[str]:
    rows = list(unified_diff(given, best.text.split("\n"), lineterm="", n=2))[2:]
    clipped = [row[:_WIDTH] for row in rows[:_EXCERPT]]
    return clipped + ([f"... {len(rows) - _EXCERPT} more lines"] if len(rows) > _EXCERPT else [])


def _nearest(lines: Lines, given: list[str]) -> list[Candidate]:
    scored = sorted((_scored(lines, given, start) for start in _starts(lines, given)), key=lambda c: -c.similarity)
    chosen: list[Candidate] = []
    for each in scored:
        apart = all(each.start_line > other.end_line or each.end_line < other.start_line for other in chosen)
        if apart and each.similarity >= _NEAR:
            chosen.append(each)
        if len(chosen) == _SHOWN:
            break
    return chosen


def _scored(lines: Lines, given: list[str], start: int) -> Candidate:
    stop = min(len(lines), start + len(given))
    text = "\n".join(lines.bodies[start:stop])
    return Candidate(start_line=start + 1, end_line=stop, similarity=_alike("\n".join(given), text), text=text)


def _alike(given: str, present: str) -> float:
    """Of long texts the two ends are compared: the time for all of them would grow with the product of the lengths."""
    if max(len(given), len(present)) <= _COMPARED:
        return ratio(given, present)
    half = _COMPARED // 2
    return (ratio(given[:half], present[:half]) + ratio(given[-half:], present[-half:])) / 2


def _starts(lines: Lines, given: list[str]) -> list[int]:
    """Where the block may begin: places that most of its lines vote for, else where its longest line has a likeness."""
    places: dict[str, list[int]] = {line.strip(): [] for line in given if len(line.strip()) > 2}
    for index, line in enumerate(lines.bodies):
        found = places.get(line.strip())
        if found is not None and len(found) < 100:
            found.append(index)
    votes = Counter(max(0, place - index) for index, line in enumerate(given) for place in places.get(line.strip(), ()))
    starts = [start for start, _ in votes.most_common(12)]
    longest = max(range(len(given)), key=lambda index: len(given[index].strip()))
    alike = closest(given[longest][:1000], [line[:1000] for line in lines.bodies], limit=8, cutoff=0.5)
    return [*dict.fromkeys([*starts, *(max(0, index - longest) for index, _ in alike)])]
