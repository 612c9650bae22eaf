"""Messages to a model whose text was not found, or found too often: places, line numbers and a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import unified_diff

from core.edits.errors import EditError, MatchCandidate
from core.edits.matching.search_text import SearchText
from core.text.lines import TextLines
from core.text.similarity import find_closest, measure_similarity

_MAX_CANDIDATES = 3
_MAX_DIFF_ROWS = 30
_BEFORE = 2
_WIDTH = 200
_NEAR = 0.45
_COMPARED = 8_000


def build_ambiguity_error(search_text: SearchText, lines: Sequence[int], rung: str) -> EditError:
    """An `EditError` for a text that stands at several places: the first of them with what stands around them."""
    shown = ", ".join(map(str, lines[:20])) + (f" and {len(lines) - 20} more" if len(lines) > 20 else "")
    how = "" if rung == "exact" else f" (compared leniently: {rung.replace('_', ' ')})"
    found = [_take_excerpt(search_text.lines, line) for line in lines[:_MAX_CANDIDATES]]
    return EditError(
        f"The text to replace was found {len(lines)} times{how}, at lines {shown}.\n"
        + "\n   ...\n".join(each.text for each in found)
        + "\n",
        hint="Nothing was changed. Add lines before or after it until it is unique, or set replace_all to change all.",
        ambiguous=True,
        candidates=found,
    )


def _take_excerpt(lines: TextLines, line: int) -> MatchCandidate:
    """The place where a text begins, with the lines next to it, numbered."""
    first, last = max(1, line - _BEFORE), min(len(lines), line + 1)
    rows = [f"{number:6}|{lines.bodies[number - 1][:_WIDTH]}" for number in range(first, last + 1)]
    return MatchCandidate(start_line=first, end_line=last, similarity=1.0, text="\n".join(rows))


def build_not_found_error(search_text: SearchText, old: str) -> EditError:
    """An `EditError` for a text that stands nowhere: the nearest places, and how the best one differs."""
    lines = search_text.lines
    given = [line.removesuffix("\r") for line in old.split("\n")]
    while len(given) > 1 and not given[-1].strip():
        given.pop()
    near = _find_nearest(lines, given)
    if not near:
        hint = "Nothing was changed. Read the file again and copy the text exactly."
        return EditError("The text to replace was not found, and nothing in the file is near it.", hint=hint)
    best = near[0]
    places = ", ".join(f"lines {each.start_line}-{each.end_line} ({each.similarity:.0%} alike)" for each in near)
    rows = list(unified_diff(given, best.text.split("\n"), lineterm="", n=2))[2:]
    clipped = [row[:_WIDTH] for row in rows[:_MAX_DIFF_ROWS]]
    more = [f"... {len(rows) - _MAX_DIFF_ROWS} more lines"] if len(rows) > _MAX_DIFF_ROWS else []
    diff = "\n".join([*clipped, *more])
    return EditError(
        f"The text to replace was not found. Nearest: {places}.\n"
        f"Given text (-) against lines {best.start_line}-{best.end_line} of the file (+):\n{diff}\n",
        hint="Nothing was changed. Call again with the text exactly as it stands in the file.",
        candidates=near,
    )


def _find_nearest(lines: TextLines, given: list[str]) -> list[MatchCandidate]:
    scored = sorted((_score(lines, given, start) for start in _find_starts(lines, given)), key=lambda c: -c.similarity)
    chosen: list[MatchCandidate] = []
    for each in scored:
        apart = all(each.start_line > other.end_line or each.end_line < other.start_line for other in chosen)
        if apart and each.similarity >= _NEAR:
            chosen.append(each)
        if len(chosen) == _MAX_CANDIDATES:
            break
    return chosen


def _score(lines: TextLines, given: list[str], start: int) -> MatchCandidate:
    stop = min(len(lines), start + len(given))
    text = "\n".join(lines.bodies[start:stop])
    alike = _measure_similarity("\n".join(given), text)
    return MatchCandidate(start_line=start + 1, end_line=stop, similarity=alike, text=text)


def _measure_similarity(given: str, present: str) -> float:
    """Similarity from 0.0 to 1.0; of long texts that of both ends: the time for all would grow with the product."""
    if max(len(given), len(present)) <= _COMPARED:
        return measure_similarity(given, present)
    half = _COMPARED // 2
    return (measure_similarity(given[:half], present[:half]) + measure_similarity(given[-half:], present[-half:])) / 2


def _find_starts(lines: TextLines, given: list[str]) -> list[int]:
    """Lines where the block may begin: where most of its lines vote for, and where its longest has a likeness."""
    places: dict[str, list[int]] = {line.strip(): [] for line in given if len(line.strip()) > 2}
    for index, line in enumerate(lines.bodies):
        found = places.get(line.strip())
        if found is not None and len(found) < 100:
            found.append(index)
    votes = Counter(max(0, place - index) for index, line in enumerate(given) for place in places.get(line.strip(), ()))
    starts = [start for start, _ in votes.most_common(12)]
    longest = max(range(len(given)), key=lambda index: len(given[index].strip()))
    alike = find_closest(given[longest][:1000], [line[:1000] for line in lines.bodies], limit=8, cutoff=0.5)
    return [*dict.fromkeys([*starts, *(max(0, index - longest) for index, _ in alike)])]
