"""The rows of a subagent: one line with what it is at, or what came of it; opened, all that it did."""

from __future__ import annotations

from typing import Final

from core.protocol.events import Act
from tui.state import Block
from tui.text import clean, one_line, shortened
from tui.widgets.calls import details, head, seconds
from tui.widgets.rows import INDENT, Piece, Row, wrap, wrap_text
from tui.widgets.status import dollars

SIGNS: Final = {
    "running": ("◌", "warn"),
    "completed": ("✓", "ok"),
    "failed": ("✕", "bad"),
    "denied": ("⊘", "warn"),
    "cancelled": ("⊘", "warn"),
    "said": ("·", "muted"),
}
ACTS: Final = 200


def subagent_row(block: Block, width: int, opened: bool) -> list[Row]:
    """One subagent at one todo."""
    name: Piece = (one_line(block.subject, 30), _ROLES.get(block.status, "tool"))
    pieces: list[Piece] = [name, (f" · {_told(block)}", "" if block.running else "muted")]
    came: list[Piece] = []
    if block.running:
        came = details(block.live)
    else:
        came = [(" · ", "muted"), ("conflict", "warn")] if block.level == "conflict" else details(block.summary)
        came += details(seconds(block.duration_ms)) if block.duration_ms and width > _WIDE else []
    rows = [head(_sign(block, opened), pieces, width, came=came)]
    return [*rows, *_more(block, width)] if opened else rows


_ROLES: Final = {"failed": "bad", "cancelled": "warn"}
_WIDE: Final = 70


def _told(block: Block) -> str:
    """What it is doing, why it could not go on, or what it says that it did."""
    if block.running:
        return one_line(block.acts[-1].text if block.acts else block.title, 200)
    if block.status in _ROLES:
        return one_line(block.hint or ("stopped" if block.status == "cancelled" else "failed"), 200)
    return one_line(block.text or block.title, 200)


def _sign(block: Block, opened: bool) -> str:
    if block.running:
        return "◌"
    if block.status in _ROLES:
        return "✕" if block.status == "failed" else "⊘"
    return "▾" if opened else "▸"


def _more(block: Block, width: int) -> list[Row]:
    rows = wrap_text(clean(block.title), width, "strong", first=INDENT, rest=INDENT)
    for act in block.acts[-ACTS:]:
        rows += _act(act, width)
    if block.hint:
        role = "bad" if block.status == "failed" else "warn"
        rows += wrap_text(shortened(clean(block.hint)), width, role, first=INDENT, rest=INDENT)
    for line in shortened(clean(block.output)).splitlines():
        rows += wrap([(line, "muted")], width, first=[*INDENT, ("→ ", "accent")], rest=[*INDENT, ("  ", "")])
    parts = [f"{block.steps} step{'' if block.steps == 1 else 's'}" if block.steps else ""]
    if usage := block.usage:
        parts += [
            f"{usage.prompt_tokens + usage.completion_tokens:,} tokens" if usage.prompt_tokens else "",
            dollars(usage.cost) if usage.cost else "",
        ]
    if any(parts):
        rows.append(Row([*INDENT, (" · ".join(filter(None, parts)), "muted")], lead=4))
    return rows


def _act(act: Act, width: int) -> list[Row]:
    sign, role = SIGNS[act.status]
    text: Piece = (clean(act.text), "muted" if act.status == "said" else "")
    return wrap([text], width, first=[*INDENT, (f"{sign} ", role)], rest=[*INDENT, ("  ", "")])
