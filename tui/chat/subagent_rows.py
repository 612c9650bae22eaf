"""Rows of a subagent: one row with what it does or what came of it; opened, all of its activity."""

from __future__ import annotations

from typing import Final

from core.protocol.events import SubagentAction
from core.text.counting import count
from tui.block import TranscriptBlock
from tui.chat.tool_call_rows import choose_sign, format_details, format_usage, render_head
from tui.quantities import format_duration
from tui.text import fit_line, render_prose, shorten_lines
from tui.widgets.text_rows import INDENT, Piece, TextRow, wrap_pieces, wrap_text

ACT_SIGNS: Final = {
    "running": ("◌", "warn"),
    "completed": ("✓", "ok"),
    "failed": ("✕", "bad"),
    "denied": ("⊘", "warn"),
    "cancelled": ("⊘", "warn"),
    "said": ("·", "muted"),
}
MAX_ACTS: Final = 200


def render_subagent(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    """Return the rows of one subagent at its todo or task."""
    name: Piece = (fit_line(block.subject, min(max(width * 2 // 5, 16), 40)), _ROLES.get(block.status, "tool"))
    pieces: list[Piece] = [name, (f" · {_format_activity(block)}", "" if block.is_running else "muted")]
    outcome: list[Piece] = []
    if block.is_running:
        outcome = format_details(block.live)
    else:
        outcome = (
            [(" · ", "muted"), ("conflict", "warn")] if block.level == "conflict" else format_details(block.summary)
        )
        outcome += (
            format_details(format_duration(block.duration_ms)) if block.duration_ms and width > _WIDE_FROM else []
        )
    rows = [render_head(choose_sign(block, is_open), pieces, width, outcome=outcome)]
    return [*rows, *_render_details(block, width)] if is_open else rows


_ROLES: Final = {"failed": "bad", "cancelled": "warn"}
_WIDE_FROM: Final = 70


def _format_activity(block: TranscriptBlock) -> str:
    """Return what it does, why it could not go on, or its own summary."""
    if block.is_running:
        return fit_line(block.acts[-1].text if block.acts else block.title, 200)
    if block.status in _ROLES:
        return fit_line(block.hint or ("stopped" if block.status == "cancelled" else "failed"), 200)
    return fit_line(block.text or block.title, 200)


def _render_details(block: TranscriptBlock, width: int) -> list[TextRow]:
    rows = wrap_text(render_prose(block.title), width, "strong", first=INDENT, rest=INDENT)
    for act in block.acts[-MAX_ACTS:]:
        rows += _render_act(act, width)
    if block.hint:
        role = "bad" if block.status == "failed" else "warn"
        rows += wrap_text(shorten_lines(render_prose(block.hint)), width, role, first=INDENT, rest=INDENT)
    for line in shorten_lines(render_prose(block.output)).splitlines():
        rows += wrap_pieces([(line, "muted")], width, first=[*INDENT, ("→ ", "accent")], rest=[*INDENT, ("  ", "")])
    parts = [count("step", block.steps) if block.steps else "", *format_usage(block.usage)]
    if any(parts):
        rows.append(TextRow([*INDENT, (" · ".join(filter(None, parts)), "muted")], lead=4))
    return rows


def _render_act(act: SubagentAction, width: int) -> list[TextRow]:
    sign, role = ACT_SIGNS[act.status]
    text: Piece = (render_prose(act.text), "muted" if act.status == "said" else "")
    return wrap_pieces([text], width, first=[*INDENT, (f"{sign} ", role)], rest=[*INDENT, ("  ", "")])
