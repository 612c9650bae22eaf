"""Evidence in the review: what is known of each hunk, worked out once for each state of the review, and its looks.

Green is for hunks that a test checks, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.review import Change
from core.state.proof import (
    STALE,
    TESTABLE,
    Judgement,
    ProofState,
    ProofSummary,
    Word,
    describe_check_run,
    describe_problem,
    iterate_judgements,
    summarize_judgements,
)
from tui.review.descriptions import MUTED, Part
from tui.text import expose_line, fit_line, format_path
from tui.widgets.text_rows import measure_pieces, measure_text

HunkPlace = tuple[str, str]  # the path and the id of a hunk
_WARNING: Final = ("!", "$text-warning")
_QUIET: Final = ("·", MUTED)
_LOOKS: Final[Mapping[Word, tuple[str, str]]] = {
    "fails": ("✗", "$text-error"),
    "proves_nothing": ("✗", "$text-error"),
    "weakened": _WARNING,
    "steering": _WARNING,
    "changed": _WARNING,
    "never_ran": _WARNING,
    "unnoticed": _WARNING,
    "used": _WARNING,
    "gap": _WARNING,
    "unknown": ("?", "$foreground 75%"),
    "test": _QUIET,
    "checked": ("✓", "$text-success"),
    "folded": _QUIET,
}
MAX_WEAKENED: Final = 3  # weakened tests that are named over the review
MIN_DETAIL: Final = 8  # columns from which a detail is worth its room


class ReviewProof:
    """The evidence of the pending hunks as the review shows it. `judgements` by place, `by_file` by path and id;
    `check`: the evidence of the check, None = there is none; `progress`: hunks looked into by the proof that runs, of
    how many."""

    def __init__(self) -> None:
        self.judgements: Mapping[HunkPlace, Judgement] = {}
        self.by_file: dict[str, dict[str, Judgement]] = {}
        self.summary = ProofSummary()
        self.check: CheckEvidence | None = None
        self.is_check_stale = False
        self.progress: tuple[int, int] | None = None
        self._evidence: Mapping[HunkPlace, HunkEvidence] = {}
        self._version: object = None

    def update(self, proof: ProofState, changes: Sequence[Change], *, version: object) -> None:
        """Take over the evidence. Nothing is worked out again as long as `version` is the same."""
        if version == self._version:
            return
        self._version = version
        self.check, self.is_check_stale, self._evidence = proof.check, proof.is_check_stale, proof.hunks
        places = [] if proof.check is None else [*iterate_judgements(proof, changes)]
        self.judgements = {(change.path, hunk.id): judgement for change, hunk, judgement in places if judgement}
        self.by_file = {}
        for (path, hunk), judgement in self.judgements.items():
            self.by_file.setdefault(path, {})[hunk] = judgement
        self.summary = summarize_judgements(places)

    def needs_test(self, place: HunkPlace) -> bool:
        """True if a test can be asked for that would notice the hunk."""
        return place in self.judgements and self.judgements[place].word in TESTABLE

    def has_gap(self, place: HunkPlace) -> bool:
        """True if a small change of the hunk was not noticed."""
        evidence = self._evidence.get(place)
        return evidence is not None and any(not mutant.is_noticed for mutant in evidence.mutants)

    def describe_progress(self, *, is_brief: bool = False) -> str:
        """Describe the proof that runs now, "" = none."""
        if self.progress is None:
            return ""
        finished, total = self.progress
        if not total:
            return "the check runs"
        return f"{finished:,}/{total:,}" if is_brief else f"looked into {finished:,}/{total:,}"

    def describe_counts(self) -> list[Part]:
        """Describe the review in counts, and the check behind them."""
        counts = self.summary.describe()
        run = describe_check_run(self.check) if self.check is not None else ""
        if run and self.is_check_stale:
            run = f"{run}, {STALE}"
        return [*([(f" {counts}", "bold")] if counts else []), *([(f" · {run}", MUTED)] if run else [])]

    def describe_trouble(self) -> list[Part]:
        """Describe what is wrong with the check itself, over the whole review; nothing if it can be relied on."""
        check = self.check
        if check is None:
            return []
        heading, reason = describe_problem(check)
        style = MUTED if self.is_check_stale or not check.command else "$text-error"
        parts: list[Part] = []
        if heading:
            stale = f", {STALE}" if self.is_check_stale else ""
            parts.append((f"✗ {heading}{stale}: {fit_line(reason, 300)}", f"bold {style}"))
        if check.weakened:
            names = [
                f"{_format_place(place)} ({fit_line(words, 60)})" for place, words in check.weakened[:MAX_WEAKENED]
            ]
            rest = len(check.weakened) - MAX_WEAKENED
            names += [f"{rest:,} more"] if rest > 0 else []
            before = "\n" if parts else ""
            text = (
                f"{before}! {'A test checks' if len(check.weakened) == 1 else 'Tests check'} less: {'; '.join(names)}"
            )
            parts.append((text, "$text-warning"))
        return parts


def _format_place(place: str) -> str:
    path, _, line = place.rpartition(":")
    return f"{format_path(path, 60)}:{fit_line(line, 12)}" if path else format_path(place, 60)


def get_look(judgement: Judgement) -> tuple[str, str]:
    """Return the sign and the style of a verdict; one about an earlier text is dimmed."""
    sign, style = _LOOKS[judgement.word]
    return (sign, "$foreground 45%") if judgement.is_stale else (sign, style)


def describe_judgement(judgement: Judgement, room: int, *, is_current: bool = False, column: int = 0) -> list[Part]:
    """Describe a hunk in `room` cells: the verdict, padded to `column` cells, and its detail as far as it fits. Of the
    current one, what happens if it is rejected."""
    sign, style = get_look(judgement)
    word = f"{judgement.text} {STALE}" if judgement.is_stale else judgement.text
    is_plain = judgement.is_stale or (sign, style) == _QUIET
    head: list[Part] = [(f"{sign} ", style), (f"{word:<{column}}", style if is_plain else f"bold {style}")]
    contract = f"contract: {judgement.contract}" if judgement.contract else ""
    detail = " · ".join(filter(None, ((judgement.loss if is_current else "") or judgement.detail, contract)))
    left = room - measure_pieces(head) - 2
    if not detail or left < MIN_DETAIL:
        return head
    return [
        *head,
        ("  ", ""),
        (_fit_cells(detail, left), "$foreground 45%" if judgement.is_stale else "$foreground 75%"),
    ]


def _fit_cells(text: str, room: int) -> str:
    """Fit a text in so many cells, wide characters included."""
    line = expose_line(text.strip(), room)
    while measure_text(line) > room:
        line = f"{line[:-2]}…"
    return line
