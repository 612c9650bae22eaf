"""Candidates side by side: a card for each, and the hunks of the one that is looked at, of which some are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from core.protocol.queries import TriedCandidate
from core.text.counting import count
from tui.quantities import format_cost, format_duration
from tui.text import expose_text, fit_line, format_path
from tui.widgets.text_rows import Piece

CARD_ROWS: Final = 5
NARROWEST: Final = 18  # columns of a card
WIDEST: Final = 44
HunkKey = tuple[str, str, str]  # of a candidate, a path, and the hunk's id
_LINES: Final = {
    "added": ("+", "on $added-line"),
    "removed": ("-", "on $removed-line"),
    "context": (" ", "$foreground 60%"),
    "gap": ("⋯", "$foreground 45%"),
}


class ComparedRow(NamedTuple):
    """One row of what a candidate changed. `hunk`: the hunk that it belongs to; None = a file's head, or context."""

    text: str
    style: str
    hunk: HunkKey | None = None
    is_head: bool = False


def list_hunks(candidate: TriedCandidate) -> list[HunkKey]:
    """List the hunks of a candidate, from its first file to its last."""
    return [(candidate.id, diff.change.path, hunk.id) for diff in candidate.changes for hunk in diff.change.hunks]


def list_rows(candidate: TriedCandidate) -> list[ComparedRow]:
    """List the rows of a candidate's changes: for each hunk a head, and its lines."""
    rows: list[ComparedRow] = []
    for diff in candidate.changes:
        change = diff.change
        facts = f"{change.operation} · +{change.added} −{change.removed}"
        rows.append(ComparedRow(f"{format_path(change.path)} · {facts}", "bold"))
        hunk_index = -1
        keys = [(candidate.id, change.path, hunk.id) for hunk in change.hunks]
        diff_lines = [*diff.lines] if not change.binary else []
        for line in diff_lines:
            if line.hunk not in {-1, hunk_index}:
                hunk_index = line.hunk
                hunk = change.hunks[hunk_index]
                head = f"hunk {hunk_index + 1}/{len(change.hunks)} · +{hunk.new_lines} −{hunk.old_lines}"
                rows.append(ComparedRow(head, "", keys[hunk_index], is_head=True))
            sign, style = _LINES[line.kind]
            key = keys[line.hunk] if 0 <= line.hunk < len(keys) else None
            rows.append(ComparedRow(f"{sign} {expose_text(line.text)}", style, key))
        for key in [] if diff_lines else keys:  # nothing of it can be shown as text
            rows.append(ComparedRow("the whole file", "", key, is_head=True))
    return rows


def render_cards(
    candidates: Sequence[TriedCandidate], current: int, choice_counts: Mapping[str, int], width: int
) -> Content:
    """Render a card for each candidate side by side, or a row each where there is no room. `choice_counts`: how many
    hunks of each were chosen."""
    room = min(width // max(len(candidates), 1), WIDEST)
    cards = [
        list(_describe(candidate, choice_counts.get(candidate.id, 0), number))
        for number, candidate in enumerate(candidates, 1)
    ]
    if room < NARROWEST:
        rows = [_join_card(card, number == current, width) for number, card in enumerate(cards)]
        return Content("\n").join(rows)
    lines = []
    for line in range(CARD_ROWS):
        parts: list[Content] = []
        for number, card in enumerate(cards):
            text, style = card[line]
            highlight = "on $marked-row" if number == current else ""
            cell = fit_line(text, room - 3).ljust(room - 3)
            parts.append(Content.assemble((f" {cell} ", f"{style} {highlight}".strip()), " "))
        lines.append(Content("").join(parts))
    return Content("\n").join(lines)


def _join_card(card: Sequence[Piece], is_current: bool, width: int) -> Content:
    text = " · ".join(text for text, _ in card if text)
    return Content.styled(f" {fit_line(text, width - 2)} ", f"{card[1][1]} {'on $marked-row' if is_current else ''}")


def _describe(candidate: TriedCandidate, choice_count: int, number: int) -> Iterator[Piece]:
    is_numbered = candidate.title.startswith(str(number)) or candidate.title.endswith(f" {number}")
    title = candidate.title if is_numbered else f"{number} · {candidate.title}"
    yield title, "bold"
    yield _describe_check(candidate)
    changes = [diff.change for diff in candidate.changes]
    size = f"+{sum(change.added for change in changes)} −{sum(change.removed for change in changes)}"
    yield (f"{count('file', len(changes))} {size}" if changes else "nothing changed"), ""
    usage_parts = (format_cost(candidate.usage.cost) if candidate.usage.cost else "", _format_time(candidate))
    yield " · ".join(filter(None, usage_parts)), "$foreground 60%"
    hunks = sum(len(change.hunks) for change in changes)
    note = "taken before" if candidate.state == "taken" else ""
    yield (f"{choice_count} of {count('hunk', hunks)} chosen" if choice_count else note), "bold"


def _format_time(candidate: TriedCandidate) -> str:
    return format_duration(candidate.duration_ms) if candidate.duration_ms else ""


def _describe_check(candidate: TriedCandidate) -> Piece:
    if candidate.state == "working":
        return "at work", "$accent"
    if candidate.state == "gone":
        return "gone: try it again", "$foreground 60%"
    if candidate.check is None:
        return (f"! {candidate.message}", "$text-warning") if candidate.message else ("not checked", "$foreground 60%")
    sign, style = ("✓", "$text-success") if candidate.check.has_passed else ("✕", "$text-error")
    return f"{sign} {candidate.check.command}", style
