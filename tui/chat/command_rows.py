"""Rows of commands: the command, its outcome, and the end of its output if it failed or the user typed it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from rich.cells import cell_len

from core.protocol import documents
from core.state.call_words import describe_call
from core.state.failure_excerpts import fit_failure_line, list_failure_lines, names_test
from core.text.counting import count
from core.text.display_names import cut_middle
from tui.block import TranscriptBlock
from tui.chat.tool_call_rows import (
    LIVE_ROWS,
    MIN_SUBJECT_WIDTH,
    OPEN_ROWS,
    choose_sign,
    format_details,
    format_outcome,
    render_head,
    render_lines,
    render_live_output,
)
from tui.keymap import format_first_key
from tui.quantities import format_duration
from tui.text import expose_line, expose_text, fit_line, render_output, render_prose, shorten_path
from tui.widgets.text_rows import INDENT, Piece, TextRow, measure_pieces

USER_COMMAND_ROWS: Final = 20  # output rows of a user's command, which was typed to be read
FAILED_ROWS: Final = 3  # output rows of a failed command of the agent
EXPAND_HINT: Final = f"{format_first_key('app.chat', {})}, then {format_first_key('transcript.toggle', {})}"
MARGIN: Final = 5  # columns for the gutter and the signs
# The first of these separates changes from notes.
NOTE_STARTS: Final = ("pending review", "kept outside the review", "not for review")


def get_user_command(block: TranscriptBlock) -> documents.TerminalCommandMetadata | None:
    """Return the finished command if the user typed it; None for anything else."""
    document = block.document
    run = document.metadata if isinstance(document, documents.TerminalCommandDocument) else None
    return run if run is not None and run.tool_call_id.startswith("user_") else None


def count_closed_rows(block: TranscriptBlock) -> int:
    """Count the rows that a finished command has below its first one while it is closed, about."""
    run = block.document.metadata if isinstance(block.document, documents.TerminalCommandDocument) else None
    if run is None:
        return 0
    stopped_rows = LIVE_ROWS + 1 if block.status == "cancelled" else 0
    limit = USER_COMMAND_ROWS + 1 if get_user_command(block) else FAILED_ROWS if run.exit_code else stopped_rows
    return min(_count_lines(run), limit) + bool(block.hidden_calls)


def _count_lines(run: documents.TerminalCommandMetadata) -> int:
    output = run.output.strip("\n")
    return output.count("\n") + bool(output)


def render_command(block: TranscriptBlock, width: int, is_open: bool) -> list[TextRow]:
    """Return the rows of a command and its outcome; when open, also the whole command and its output."""
    document = block.document
    run = document.metadata if isinstance(document, documents.TerminalCommandDocument) else None
    pieces = _render_subject(block, run)
    outcome: list[Piece] = []
    if run and run.exit_code is None:
        outcome_text, _ = format_outcome(block, block.summary)
        outcome_text = outcome_text if block.status != "cancelled" else "stopped"
        outcome = [(f" · {outcome_text or 'did not run'}", "warn")]
    elif run:
        outcome = _render_outcome(run)
        room = width - MARGIN - measure_pieces([*pieces, *outcome, *format_details("-")]) + 1
        outcome += format_details(_format_effects(run.effects, room))
    sign = "✕" if run and run.exit_code and not is_open else choose_sign(block, is_open)
    rows = [render_head(sign, _cut_command(pieces, width, outcome), width, outcome=outcome)]
    if is_open and run:
        rows += render_lines(expose_text(run.command), width, "strong", OPEN_ROWS)
        rows += render_lines(render_output(run.output), width, "", OPEN_ROWS)
        rows += render_lines(render_prose(run.effects), width, "muted", OPEN_ROWS)
    elif user_command := get_user_command(block):
        rows += _render_user_output(user_command, width)
    elif run and run.exit_code:
        rows += _render_excerpt(run.output, width)
    elif run and block.status == "cancelled":  # what was in view while it ran
        rows += render_lines(render_output(run.output), width, "muted", -LIVE_ROWS)
    elif block.is_running and block.output:
        rows += render_live_output(block, width)
    if block.hidden_calls:
        text = f"  {count('earlier call', block.hidden_calls)} that changed nothing"
        rows.append(TextRow([*INDENT, (text, "muted")], lead=4))
    return rows


def _render_excerpt(output: str, width: int) -> list[TextRow]:
    """Return what failed: each failing test on as many rows as its name needs, other lines on one."""
    rows: list[TextRow] = []
    for line in list_failure_lines(output, FAILED_ROWS):
        text = fit_failure_line(render_output(line), max(width - 4, 8))
        line_rows = render_lines(text, width, "muted", 1)
        rows += line_rows if names_test(line) else line_rows[:1]
    return rows


def _cut_command(pieces: Sequence[Piece], width: int, outcome: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with the last one, the command, cut in its middle if it does not fit before the outcome."""
    *before, (command, role) = pieces
    room = width - MARGIN + 1 - measure_pieces([*before, *outcome])
    return [*before, (cut_middle(command, room) if room >= MIN_SUBJECT_WIDTH else command, role)]


def _render_subject(block: TranscriptBlock, run: documents.TerminalCommandMetadata | None) -> list[Piece]:
    """Return the command, and who ran it and where if that is not the default."""
    command: Piece = (expose_line(run.command if run else block.subject or block.title, 2_000), "")
    if block.title == "machine_command" or (run and "all" in run.permissions):
        location = f"in {shorten_path(run.working_directory, 32)} " if run and run.working_directory else ""
        return [("on your machine ", "warn"), (location, "muted"), ("$ ", "accent"), command]
    if block.title == "project_command":
        return [("project ", "warn"), ("$ ", "accent"), command]
    if block.title == "user_command" or get_user_command(block):
        return [("shadow ", "muted"), ("$ ", "accent"), command]
    tool = block.title if block.title in {"run_python", "run_code"} else "run_terminal_cmd"
    did_run = block.is_running or run is None or run.exit_code is not None or block.status == "cancelled"
    word = describe_call(tool, is_running=block.is_running) if did_run else "Run"
    return [(word, "tool"), (f" {command[0]}", command[1])]


def _render_outcome(run: documents.TerminalCommandMetadata) -> list[Piece]:
    """Return the test counts, if any, or the exit status; and the duration."""
    tests = run.tests
    if run.is_reported:
        return [(f" · {_describe_report(run)}", "muted"), *format_details(format_duration(run.duration_ms))]
    outcome: list[Piece] = []
    if run.exit_code:
        outcome = [(f" · exit {run.exit_code}", "bad")]
    elif not tests:
        outcome = [(" · ok", "ok")]
    outcome += [(f" · {tests}", "bad" if run.exit_code else "ok")] if tests else []
    return [*outcome, *format_details(format_duration(run.duration_ms))]


def _describe_report(run: documents.TerminalCommandMetadata) -> str:
    """Describe a status that an external agent reported; this program did not observe the command."""
    return f"exit {run.exit_code}, says the agent" if run.exit_code else "ended, says the agent"


def _format_effects(effects: str, room: int) -> str:
    """Return the changed paths that fit `room` cells, and a count of the others."""
    if not effects.startswith("changed: "):
        return ""
    changes = list(takewhile(lambda change: change not in NOTE_STARTS, effects.removeprefix("changed: ").split("; ")))
    for visible_count in range(len(changes), 0, -1):
        suffix = f" and {len(changes) - visible_count} more" if visible_count < len(changes) else ""
        text = "; ".join(fit_line(change, 60) for change in changes[:visible_count]) + suffix
        if cell_len(text) <= room:
            return text
    return ""


def _render_user_output(run: documents.TerminalCommandMetadata, width: int) -> list[TextRow]:
    """Return the end of a user command's output, with a hint at the rest."""
    rows = render_lines(render_output(run.output), width, "", -USER_COMMAND_ROWS)
    if len(rows) <= USER_COMMAND_ROWS:
        return rows
    hidden_count = _count_lines(run) - USER_COMMAND_ROWS
    label = f"… {count('more line', hidden_count)}" if hidden_count > 0 else "… more of these lines"
    return [TextRow([*INDENT, (f"{label} ({EXPAND_HINT})", "muted")], lead=4), *rows[-USER_COMMAND_ROWS:]]
