"""Rows of a turn that has ended: how, and what it took; its receipt, if it changed or checked anything."""

from __future__ import annotations

from typing import Final

from core.state.receipt import Receipt, ReceiptFile
from core.state.session import CheckRun
from core.text.counting import count
from core.text.display_names import shorten_model
from tui.block import TranscriptBlock
from tui.chat.tool_call_rows import format_details, format_usage, render_head
from tui.quantities import format_duration
from tui.text import expose_line, fit_line, format_path
from tui.widgets.text_rows import INDENT, Piece, TextRow, wrap_pieces

SHOWN_FILES: Final = 6
SHOWN_CHECKS: Final = 4
_ENDS: Final = {"done": "done", "interrupted": "interrupted", "limit": "stopped at a limit", "failed": "failed"}


def render_turn_end(block: TranscriptBlock, width: int, _: bool) -> list[TextRow]:
    """Return a line of how the turn ended, and one for each file that it changed and each check that it ran."""
    receipt = block.receipt if block.receipt and (block.receipt.files or block.receipt.checks) else None
    role = {"done": "muted", "failed": "bad"}.get(block.status, "warn")
    pieces: list[Piece] = [(_ENDS.get(block.status, block.status), role)]
    pieces += format_details(
        fit_line(block.text),
        count("step", block.steps) if block.steps else "",
        format_duration(block.duration_ms) if block.duration_ms else "",
        *format_usage(block.usage),
        fit_line(shorten_model(receipt.model).removeprefix("scripted/"), 40) if receipt else "",
    )
    rows = wrap_pieces(pieces, width, first=[("  ─ ", "muted")], rest=INDENT)
    return [*rows, *_render_receipt(receipt, width)] if receipt else rows


def _render_receipt(receipt: Receipt, width: int) -> list[TextRow]:
    files, checks = receipt.files, receipt.checks
    rows = [_render_file(file, width) for file in files[:SHOWN_FILES]]
    if len(files) > SHOWN_FILES:
        rows.append(TextRow([*INDENT, (f"… {count('more file', len(files) - SHOWN_FILES)}", "muted")], lead=4))
    return [*rows, *(_render_check(command, run, width) for command, run in checks[-SHOWN_CHECKS:])]


def _render_file(file: ReceiptFile, width: int) -> TextRow:
    role = {"accepted": "ok", "rejected": "bad"}.get(file.verdict, "warn" if file.waiting else "muted")
    outcome: list[Piece] = [(f"  +{file.added}", "ok"), (f" −{file.removed}", "bad")]
    names = " → ".join(format_path(path, 300) for path in (file.renamed_from, file.path) if path)
    return _fit([(names, "")], [*outcome, (" · ", "muted"), (file.verdict, role)], width)


def _render_check(command: str, run: CheckRun, width: int) -> TextRow:
    sign: Piece = ("✓ ", "ok") if run.exit_code == 0 else ("✕ ", "bad")
    outcome = run.told or ("passed" if run.exit_code == 0 else f"exit {run.exit_code}")
    return _fit([sign, (expose_line(command, 200), "")], [(" · ", "muted"), (outcome, sign[1])], width)


def _fit(pieces: list[Piece], outcome: list[Piece], width: int) -> TextRow:
    """Return one row below the line of the turn: its start may be cut, what came of it not."""
    row = render_head(" ", pieces, width, outcome=outcome)
    row.lead = 4
    return row
