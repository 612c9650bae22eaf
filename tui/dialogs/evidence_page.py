"""The page with all that a proof has found out: about one hunk, and about the check itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.content import Content

from core.protocol.evidence import HunkEvidence
from core.protocol.review import Change
from core.state.proof import (
    STALE,
    Judgement,
    ProofState,
    describe_problem,
    explain_check,
    explain_hunk,
    summarize_proof,
)
from tui.dialogs.pages import MUTED, PageDialog
from tui.review.proof_view import get_look
from tui.text import expose_line, format_path
from tui.widgets.text_rows import find_line_breaks

NAME_COLUMNS = 12
Part = tuple[str, str]
Row = tuple[str, str]  # a name, and a text of one or more lines


def build_evidence_page(
    proof: ProofState, changes: Sequence[Change], place: tuple[str, str], output: Content | None = None
) -> PageDialog:
    """Build the page about the hunk at a place (path and id; empty: about none), the check and all hunks. `output`:
    that of the check that the session ran."""
    evidence = proof.hunks.get(place)
    judgement = next(
        (proof.judge(change, hunk) for change in changes for hunk in change.hunks if (change.path, hunk.id) == place),
        None,
    )

    def draw(width: int) -> Content:
        parts: list[Part] = []
        if evidence is not None and judgement is not None:
            parts += _draw_hunk(evidence, judgement, width)
        parts += _draw_check(proof, changes, width)
        content = Content.assemble(*parts)
        return Content.assemble(content, ("\n", ""), output) if output is not None else content

    return PageDialog("Proof", draw)


def _draw_hunk(evidence: HunkEvidence, judgement: Judgement, width: int) -> list[Part]:
    sign, style = get_look(judgement)
    stale = f", {STALE}" if judgement.is_stale else ""
    parts: list[Part] = [(f"{sign} {judgement.text}{stale}", f"bold {style}")]
    parts.append((f"  {format_path(evidence.path, max(width - 30, 20))}\n", MUTED))
    return [*parts, *_draw_rows(explain_hunk(evidence), width), ("\n", "")]


def _draw_check(proof: ProofState, changes: Sequence[Change], width: int) -> list[Part]:
    check = proof.check
    if check is None:
        return [("No proof has run over these changes.\n", MUTED)]
    parts: list[Part] = []
    heading, reason = describe_problem(check)
    if heading:
        parts += [(f"{line}\n", "bold $text-error") for line in _wrap(f"✗ {heading}: {reason}", width)]
    if proof.is_check_stale:
        parts.append((f"! All of this is about the text {STALE}.\n", "$text-warning"))
    summary = summarize_proof(proof, changes)
    evidence = [one for one in proof.hunks.values() if not one.is_stale]
    rows = [*explain_check(check, evidence), ("hunks", summary.describe()), ("folded", " · ".join(summary.kinds))]
    reason = proof.finished.reason if proof.finished is not None else ""
    return [*parts, *_draw_rows([*rows, ("left out", reason)], width)]


def _draw_rows(rows: Iterable[Row], width: int) -> Iterable[Part]:
    for name, text in rows:
        lines = [line for part in text.split("\n") if part for line in _wrap(part, max(width - NAME_COLUMNS, 10))]
        for number, line in enumerate(lines):
            yield f"{'' if number else name:<{NAME_COLUMNS}}", "$foreground 60%"
            yield f"{line}\n", ""


def _wrap(text: str, width: int) -> list[str]:
    line = expose_line(text, 2_000)
    return [line[start:end].strip() for start, end in find_line_breaks(line, width)]
