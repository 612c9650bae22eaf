"""The rows of the list of changes by hunk, in the order in which they are worth reading.

Groups by intent stay outer, what needs no test is folded at their end. The order is made when the list is opened, or
when the user asks again: later evidence changes words in place, hunks that go leave no gap, and new ones come last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from core.protocol.review import Bulk, Change, Hunk
from core.state.proof import ORDER, count_kinds
from tui.review.descriptions import MUTED, Part
from tui.review.list_rows import ChangeRow, has_words, search_text
from tui.review.proof_view import HunkPlace, ReviewProof, describe_judgement
from tui.text import fit_line, shorten_path

_UNKNOWN_ORDER: Final = (ORDER.index("unknown"), True)
MAX_VERDICT: Final = 24  # columns that verdicts are aligned in
MIN_PLACE, PLACE_SHARE = 14, 5  # columns of a place at least; the part of the width that places get is 2 / PLACE_SHARE


class HunkSection(NamedTuple):
    """The hunks of one intent, in their order; `folded` is what needs no test."""

    intent: str
    listed: tuple[HunkPlace, ...]
    folded: tuple[HunkPlace, ...]


class HunkOrder:
    """The order of the hunks, which stays until it is made again."""

    def __init__(self) -> None:
        self.sections: tuple[HunkSection, ...] = ()

    def arrange(self, changes: Sequence[Change], intents: Mapping[str, str], proof: ReviewProof) -> None:
        """Order all hunks anew, by what is known of them now."""
        by_intent: dict[str, list[HunkPlace]] = {}
        for change in changes:
            places = by_intent.setdefault(intents.get(change.path, ""), [])
            places += [(change.path, hunk.id) for hunk in change.hunks]
        self.sections = tuple(_build_section(intent, places, proof) for intent, places in by_intent.items())

    def follow(self, changes: Sequence[Change], intents: Mapping[str, str], proof: ReviewProof) -> None:
        """Drop the hunks that are gone, and add new ones at the end of their group."""
        present = {(change.path, hunk.id): None for change in changes for hunk in change.hunks}
        known = {place for section in self.sections for place in (*section.listed, *section.folded)}
        added: dict[str, list[HunkPlace]] = {}
        for place in present:
            if place not in known:
                added.setdefault(intents.get(place[0], ""), []).append(place)
        if not added and len(known) == len(present):
            return
        sections = []
        for section in self.sections:
            new = _build_section(section.intent, added.pop(section.intent, []), proof)
            listed = (*(place for place in section.listed if place in present), *new.listed)
            folded = (*(place for place in section.folded if place in present), *new.folded)
            sections.append(HunkSection(section.intent, listed, folded))
        sections += [_build_section(intent, places, proof) for intent, places in added.items()]
        self.sections = tuple(section for section in sections if section.listed or section.folded)


def _build_section(intent: str, places: Sequence[HunkPlace], proof: ReviewProof) -> HunkSection:
    judgements = proof.judgements
    folded = [place for place in places if place in judgements and judgements[place].word == "folded"]
    listed = [place for place in places if place not in judgements or judgements[place].word != "folded"]
    listed.sort(key=lambda place: judgements[place].reading_order if place in judgements else _UNKNOWN_ORDER)
    return HunkSection(intent, tuple(listed), tuple(folded))


def build_hunk_rows(
    order: HunkOrder,
    changes: Sequence[Change],
    bulks: Sequence[Bulk],
    *,
    pattern: str = "",
    toggled_names: Collection[str] = (),
    only: Collection[HunkPlace] | None = None,
) -> list[ChangeRow]:
    """Return the rows in an order: a heading for each intent, its hunks, and one row for what is folded.

    `pattern`: words of the path, or of the command behind the change. `toggled_names`: the folds that are open.
    `only`: these hunks alone, None = all.
    """
    words = pattern.lower().split()
    indices = {
        change.path: index for index, change in enumerate(changes) if not words or has_words(search_text(change), words)
    }
    rows: list[ChangeRow] = []
    for section in order.sections:
        listed = [place for place in section.listed if place[0] in indices and (only is None or place in only)]
        folded = [place for place in section.folded if place[0] in indices and (only is None or place in only)]
        if section.intent and (listed or folded):
            rows.append(ChangeRow("group", section.intent))
        rows += [_build_row(place, indices) for place in listed]
        rows += _fold(section.intent, folded, indices, is_open=bool(words) or section.intent in toggled_names)
    if only is None:
        rows += [ChangeRow("bulk", bulk.root) for bulk in bulks if not words or has_words(bulk.root.lower(), words)]
    return rows


def _build_row(place: HunkPlace, indices: Mapping[str, int], depth: int = 0) -> ChangeRow:
    return ChangeRow("hunk", place[0], (indices[place[0]],), hunks=(place,), depth=depth)


def _fold(
    intent: str, places: Sequence[HunkPlace], indices: Mapping[str, int], *, is_open: bool
) -> Iterator[ChangeRow]:
    if places:
        members = tuple(dict.fromkeys(indices[path] for path, _ in places))
        yield ChangeRow("fold", intent, members, is_open=is_open, hunks=tuple(places))
    if is_open:
        yield from (_build_row(place, indices, 1) for place in places)


class HunkPainter:
    """Describes rows of hunks for one width. `hunks` are the pending ones by place."""

    def __init__(self, rows: Sequence[ChangeRow], hunks: Mapping[HunkPlace, Hunk], proof: ReviewProof) -> None:
        self._hunks, self._proof = hunks, proof
        own_rows = [row for row in rows if row.kind == "hunk"]
        self._longest = max((len(self._name(row)) + 2 * row.depth for row in own_rows), default=0)
        judgements = [proof.judgements[row.hunks[0]] for row in own_rows if row.hunks[0] in proof.judgements]
        self._column = min(max((len(judgement.text) for judgement in judgements), default=0), MAX_VERDICT)

    def _name(self, row: ChangeRow) -> str:
        hunk = self._hunks.get(row.hunks[0])
        return f"{row.name}:{max(hunk.new_start, 1)}" if hunk is not None else row.name

    def describe_hunk(self, row: ChangeRow, width: int, *, is_current: bool) -> list[Part]:
        """Describe a hunk: its place, and what is known of it, else its size."""
        place = row.hunks[0]
        column = max(min(self._longest, 2 * width // PLACE_SHARE), MIN_PLACE)
        name = shorten_path(self._name(row), column - 2 * row.depth)
        parts: list[Part] = [("  " * row.depth, ""), (f"{name:<{column - 2 * row.depth}}  ", "")]
        judgement, hunk = self._proof.judgements.get(place), self._hunks.get(place)
        if judgement is not None:
            room = width - column - 3
            return [*parts, *describe_judgement(judgement, room, is_current=is_current, column=self._column)]
        if hunk is None:
            return parts
        sizes = ((f"+{hunk.new_lines} ", "$text-success"), (f"−{hunk.old_lines}", "$text-error"))
        return [*parts, *(size for size, number in zip(sizes, (hunk.new_lines, hunk.old_lines), strict=True) if number)]

    def describe_fold(self, row: ChangeRow) -> list[Part]:
        """Describe what is folded: its size by kinds."""
        judgements = [self._proof.judgements[place] for place in row.hunks if place in self._proof.judgements]
        kinds = " · ".join(count_kinds(judgements)) or f"{len(row.hunks):,} hunks"
        return [("▾ " if row.is_open else "▸ ", MUTED), ("folded ", MUTED), (fit_line(kinds, 300), "$foreground 75%")]
