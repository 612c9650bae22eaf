"""Errors for a model whose text was not found, or found too often: positions, line numbers and a difference."""

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
_LINES_BEFORE = 2  # of context in an excerpt
_MAX_WIDTH = 200  # characters of a line in a message
_MIN_SIMILARITY = 0.45  # of a block that a message offers
_MAX_COMPARED = 8_000  # characters of a text that are compared


def build_ambiguity_error(search_text: SearchText, lines: Sequence[int], rung: str) -> EditError:
    """Build the `EditError` for a text with several matches: the first of them with the lines around."""
    line_list = ", ".join(map(str, lines[:20])) + (f" and {len(lines) - 20} more" if len(lines) > 20 else "")
    rung_note = "" if rung == "exact" else f" (compared leniently: {rung.replace('_', ' ')})"
    match_candidates = [_take_excerpt(search_text.lines, line) for line in lines[:_MAX_CANDIDATES]]
    return EditError(
        f"The text to replace was found {len(lines)} times{rung_note}, at lines {line_list}.\n"
        + "\n   ...\n".join(match_candidate.text for match_candidate in match_candidates)
        + "\n",
        hint="Nothing was changed. Add lines before or after it until it is unique, or set replace_all to change all.",
        ambiguous=True,
        candidates=match_candidates,
    )


def _take_excerpt(lines: TextLines, line: int) -> MatchCandidate:
    """Return the lines around the start of a match, numbered."""
    first, last = max(1, line - _LINES_BEFORE), min(len(lines), line + 1)
    rows = [f"{number:6}|{lines.bodies[number - 1][:_MAX_WIDTH]}" for number in range(first, last + 1)]
    return MatchCandidate(start_line=first, end_line=last, similarity=1.0, text="\n".join(rows))


def build_not_found_error(search_text: SearchText, old: str) -> EditError:
    """Build the `EditError` for a text without a match: the nearest blocks, and the difference from the best one."""
    lines = search_text.lines
    old_lines = [line.removesuffix("\r") for line in old.split("\n")]
    while len(old_lines) > 1 and not old_lines[-1].strip():
        old_lines.pop()
    nearest = _find_nearest(lines, old_lines)
    if not nearest:
        hint = "Nothing was changed. Read the file again and copy the text exactly."
        return EditError("The text to replace was not found, and nothing in the file resembles it.", hint=hint)
    best = nearest[0]
    positions = ", ".join(
        f"lines {match_candidate.start_line}-{match_candidate.end_line} ({match_candidate.similarity:.0%} alike)"
        for match_candidate in nearest
    )
    rows = list(unified_diff(old_lines, best.text.split("\n"), lineterm="", n=2))[2:]
    diff_rows = [row[:_MAX_WIDTH] for row in rows[:_MAX_DIFF_ROWS]]
    trailer = [f"... {len(rows) - _MAX_DIFF_ROWS} more lines"] if len(rows) > _MAX_DIFF_ROWS else []
    diff = "\n".join([*diff_rows, *trailer])
    return EditError(
        f"The text to replace was not found. Nearest: {positions}.\n"
        f"Given text (-) against lines {best.start_line}-{best.end_line} of the file (+):\n{diff}\n",
        hint="Nothing was changed. Call again with the text exactly as it is in the file.",
        candidates=nearest,
    )


def _find_nearest(lines: TextLines, old_lines: list[str]) -> list[MatchCandidate]:
    ranking = sorted(
        (_score(lines, old_lines, start) for start in _find_starts(lines, old_lines)), key=lambda c: -c.similarity
    )
    candidates: list[MatchCandidate] = []
    for candidate in ranking:
        is_apart = all(
            candidate.start_line > other.end_line or candidate.end_line < other.start_line for other in candidates
        )
        if is_apart and candidate.similarity >= _MIN_SIMILARITY:
            candidates.append(candidate)
        if len(candidates) == _MAX_CANDIDATES:
            break
    return candidates


def _score(lines: TextLines, old_lines: list[str], start: int) -> MatchCandidate:
    stop = min(len(lines), start + len(old_lines))
    text = "\n".join(lines.bodies[start:stop])
    similarity = _measure_similarity("\n".join(old_lines), text)
    return MatchCandidate(start_line=start + 1, end_line=stop, similarity=similarity, text=text)


def _measure_similarity(old_text: str, present: str) -> float:
    """Return the similarity from 0.0 to 1.0; of long texts only both ends are compared, as the time grows with the
    product of the lengths."""
    if max(len(old_text), len(present)) <= _MAX_COMPARED:
        return measure_similarity(old_text, present)
    half = _MAX_COMPARED // 2
    return (
        measure_similarity(old_text[:half], present[:half]) + measure_similarity(old_text[-half:], present[-half:])
    ) / 2


def _find_starts(lines: TextLines, old_lines: list[str]) -> list[int]:
    """Return lines where the block may begin: those that most of its lines vote for, and those with a line similar to
    its longest."""
    positions: dict[str, list[int]] = {line.strip(): [] for line in old_lines if len(line.strip()) > 2}
    for index, line in enumerate(lines.bodies):
        indexes = positions.get(line.strip())
        if indexes is not None and len(indexes) < 100:
            indexes.append(index)
    votes = Counter(
        max(0, position - index) for index, line in enumerate(old_lines) for position in positions.get(line.strip(), ())
    )
    starts = [start for start, _ in votes.most_common(12)]
    longest = max(range(len(old_lines)), key=lambda index: len(old_lines[index].strip()))
    closest = find_closest(old_lines[longest][:1000], [line[:1000] for line in lines.bodies], limit=8, cutoff=0.5)
    return [*dict.fromkeys([*starts, *(max(0, index - longest) for index, _ in closest)])]
