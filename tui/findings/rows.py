"""The words and rows of findings: their severity as a sign and a word, where they are about, and how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.protocol.review import Finding, Severity
from core.state.findings import SEVERITIES, CodeReview
from core.state.receipt import build_receipt
from core.text.counting import count
from tui.state import ViewState
from tui.text import expose_text, fit_line, format_path, render_prose, shorten_path
from tui.widgets.text_rows import Piece, measure_text

SIGNS: Final[dict[Severity, tuple[str, str]]] = {
    "high": ("!", "bold $text-error"),
    "medium": ("▪", "$text-warning"),
    "low": ("·", "$foreground 60%"),
}
MUTED: Final = "$foreground 60%"
_WORD: Final = max(len(each) for each in SEVERITIES)
_STANDINGS: Final = {"dismissed": ("dismissed", MUTED), "fixing": ("being fixed", "$text-accent")}


def describe_standing(finding: Finding, review: CodeReview, state: ViewState) -> Piece:
    """Return how a finding stands, in a few words; of one that was given to the agent, what came of that."""
    record = review.get_standing(finding.id)
    turn = (
        next((turn_state for turn_state in state.turns if turn_state.id == record.turn), None) if record.turn else None
    )
    if record.standing != "fixing" or (turn is not None and not turn.reason):
        return _STANDINGS.get(record.standing, ("", ""))
    files = build_receipt(state, turn).files if turn is not None else ()
    file = next(
        (receipt_file for receipt_file in files if receipt_file.path == finding.path), files[0] if files else None
    )
    if file is None:
        return "nothing was changed for it", "$text-warning"
    return f"fix {file.verdict}", "$text-success" if file.accepted and not file.waiting else "$text-warning"


def render_finding(finding: Finding, standing: Piece, line: int, width: int) -> list[Piece]:
    """Render one of the two rows of a finding: severity and title, or place and standing."""
    sign, style = SIGNS[finding.severity]
    is_settled = standing[0] == "dismissed"
    if line == 0:
        title = fit_line(finding.title, max(width - _WORD - 5, 4))
        return [
            (f" {sign} ", style),
            (f"{finding.severity:<{_WORD}} ", style),
            (title, MUTED if is_settled else "bold"),
        ]
    status = fit_line(standing[0] or finding.doubt, max(width - _WORD - 6, 4))
    told_style = standing[1] if standing[0] else "$text-warning"
    room = max(width - _WORD - 8 - measure_text(status), 8)
    number = f":{finding.start}"
    location = shorten_path(finding.path, max(room - len(number), 4)) + number if finding.path else "no place"
    return [(" " * (_WORD + 4), ""), (location, MUTED), (f" · {status}" if status else "", told_style)]


def describe_review(review: CodeReview) -> str:
    """Return what was reviewed, and how many findings of each severity there are."""
    counts = [(sum(finding.severity == word for finding in review.findings), word) for word in SEVERITIES]
    count_texts = [f"{number} {word}" for number, word in counts if number]
    open_count = len(review.list_open())
    parts = [
        count("finding", len(review.findings)),
        *count_texts,
        f"{open_count} open" if open_count != len(review.findings) else "",
    ]
    return f"{' · '.join(filter(None, parts))} · {fit_line(review.subject, 200)}"


def format_finding(finding: Finding) -> str:
    """Return a finding as Markdown, as it is copied into a comment."""
    location = f" (`{finding.place}`)" if finding.path else ""
    parts = [f"**{finding.severity}: {finding.title}**{location}", finding.text]
    if finding.suggestion is not None:
        fence = "````" if "```" in finding.suggestion else "```"
        parts.append(f"{fence}suggestion\n{finding.suggestion}\n{fence}")
    return "\n\n".join(filter(None, parts)) + "\n"


def describe_finding(finding: Finding, standing: str, width: int) -> Sequence[Piece]:
    """Return all that is known of a finding in `width` columns, for the part of the pane that shows the marked one."""
    from tui.widgets.markdown_rows import render_styled_markdown

    location = f"{format_path(finding.path)}:{finding.start}" if finding.path else "It names no place."
    if finding.end > finding.start:
        location += f"-{finding.end}"
    parts: list[Piece] = [(f"{location}\n", "$text-primary")]
    if finding.doubt:
        parts.append((f"! {finding.doubt}\n", "$text-warning"))
    if standing:
        parts.append((f"{standing}\n", MUTED))
    if finding.text:
        parts += [("\n", ""), *render_styled_markdown(render_prose(finding.text), width)]
    if finding.suggestion is not None:
        parts.append(("\nsuggested in place of these lines:\n", MUTED))
        parts += [(f"- {expose_text(line)}\n", "$text-error") for line in finding.quote.split("\n") if finding.quote]
        parts += [(f"+ {expose_text(line)}\n", "$text-success") for line in finding.suggestion.split("\n")]
    return parts
